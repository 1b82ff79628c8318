"""Cursors: opaque, versioned, holding a position and nothing else.

Whose page it is comes from the token, so a forged cursor moves a reader about inside their own
rows and nowhere else (DESIGN: the query).
"""

import base64
import binascii
from collections.abc import Callable

from fanfold.contract import MAX_CURSOR_CHARS
from fanfold.errors import BadInput

_VERSION = "1"


def encode(position: str) -> str:
    """Write a position (a key of the range being read) as a cursor."""
    return _VERSION + base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


def decode(cursor: str, *, is_position: Callable[[str], bool]) -> str:
    """Read a cursor back; one that we did not write, as far as can be told, is `BadInput`."""
    try:
        if len(cursor) > MAX_CURSOR_CHARS or not cursor.startswith(_VERSION):
            raise ValueError(cursor)
        packed = cursor[1:].encode("ascii")
        padded = packed + b"=" * (-len(packed) % 4)
        position = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        # Base64 has several spellings of one text; only ours is taken.
        if not is_position(position) or encode(position) != cursor:
            raise ValueError(cursor)
    except (ValueError, binascii.Error):
        raise BadInput(
            "The cursor is not one that this service wrote; "
            "take 'next' from the last answer unchanged, or leave it out to begin anew."
        ) from None
    return position
