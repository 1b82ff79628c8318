"""Cursors of pages: opaque, versioned, and with positions alone.

The token says whose rows are read, so a forged cursor only reaches the reader's own rows.
"""

import base64
import binascii
from collections.abc import Callable
from typing import NamedTuple

from fanfold.contract import MAX_CURSOR_CHARS
from fanfold.errors import BadInput

# Of what a cursor holds, so that a later version can tell the cursors of this one.
_VERSION = "3"
# No id and no time contains it.
_SEPARATOR = b"\n"
# How many entries a cursor remembers, and in how many bytes each: with two keys of 153 characters
# it has 612 characters, and polling a timeline reads no more entries than fill a page.
MAX_SEEN = 50
HASH_BYTES = 3


class Cursor(NamedTuple):
    """A place in a range of keys, and what was seen just below it.

    `seen` has a hash (`hashed`) of each key that was looked at above `low`, up to `position`. What
    is found there without its hash has come since.
    """

    position: str
    low: str
    seen: tuple[bytes, ...] = ()

    @classmethod
    def at(cls, position: str) -> "Cursor":
        """A place below which nothing is remembered."""
        return cls(position, position)


def hashed(key: str) -> bytes:
    """Three bytes that stand for a key; one in 16.8 million pairs of keys has the same ones."""
    return binascii.crc32(key.encode()).to_bytes(4, "big")[-HASH_BYTES:]


def encode(cursor: Cursor) -> str:
    """Write a cursor, whose position is a key of the range that is read."""
    low = "" if cursor.low == cursor.position else cursor.low
    parts = (cursor.position.encode(), low.encode(), b"".join(cursor.seen))
    content = base64.urlsafe_b64encode(_SEPARATOR.join(parts))
    return _VERSION + content.decode().rstrip("=")


def decode(text: str, *, is_position: Callable[[str], bool]) -> Cursor:
    """Read a cursor; raises `BadInput` for a text that `encode` did not write."""
    try:
        if len(text) > MAX_CURSOR_CHARS:
            raise ValueError(text)
        packed = text[1:].encode("ascii")
        padded = packed + b"=" * (-len(packed) % 4)
        content = base64.b64decode(padded, altchars=b"-_", validate=True)
        cursor = _parsed(content)
        # Base64 can spell one text in several ways; only ours is accepted.
        if encode(cursor) != text or not _is_sound(cursor, is_position):
            raise ValueError(text)
    except (ValueError, binascii.Error):
        raise BadInput(
            "The cursor is not one that this service wrote; "
            "take 'next' or 'previous' from the last answer unchanged, or leave it out to begin "
            "anew."
        ) from None
    return cursor


def _parsed(content: bytes) -> Cursor:
    # The hashes come last: they may contain the separator.
    position, low, hashes = content.split(_SEPARATOR, 2)
    seen = tuple(hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES))
    return Cursor(position.decode("ascii"), (low or position).decode("ascii"), seen)


def _is_sound(cursor: Cursor, is_position: Callable[[str], bool]) -> bool:
    return (
        is_position(cursor.position)
        and is_position(cursor.low)
        and cursor.low <= cursor.position
        and len(cursor.seen) <= MAX_SEEN
        and all(len(each) == HASH_BYTES for each in cursor.seen)
    )
