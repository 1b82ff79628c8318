"""Cursors of pages: opaque, versioned, and with a position alone.

The token says whose rows are read, so a forged cursor only reaches the reader's own rows.
"""

import base64
import binascii
from collections.abc import Callable

from fanfold.contract import MAX_CURSOR_CHARS
from fanfold.errors import BadInput

_VERSION = "1"


def encode(position: str) -> str:
    """Write a position, which is a key of the range that is read."""
    return _VERSION + base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


def decode(cursor: str, *, is_position: Callable[[str], bool]) -> str:
    """Read a cursor; raises `BadInput` for a text that `encode` did not write."""
    try:
        if len(cursor) > MAX_CURSOR_CHARS or not cursor.startswith(_VERSION):
            raise ValueError(cursor)
        packed = cursor[1:].encode("ascii")
        padded = packed + b"=" * (-len(packed) % 4)
        position = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        # Base64 can spell one text in several ways; only ours is accepted.
        if not is_position(position) or encode(position) != cursor:
            raise ValueError(cursor)
    except (ValueError, binascii.Error):
        raise BadInput(
            "The cursor is not one that this service wrote; "
            "take 'next' from the last answer unchanged, or leave it out to begin anew."
        ) from None
    return position
