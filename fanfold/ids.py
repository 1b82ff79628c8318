"""Ids, and the keys that contain them."""

import hashlib
import re

from fanfold import times
from fanfold.contract import (
    ID_PATTERN,
    IDEMPOTENCY_KEY_PATTERN,
    MAX_ID_CHARS,
    MAX_IDEMPOTENCY_KEY_CHARS,
)
from fanfold.errors import BadInput

# Segments that cannot stand in a URL's path: servers and proxies resolve them. So no id is one, not
# even where a message brings it.
NO_PATH_IDS = ("", ".", "..")
_ID = re.compile(ID_PATTERN, re.ASCII)
# The ids that the HTTP door makes: from keys by `ref_id_for`, or at random.
_DOORS_OWN = re.compile("[0-9a-f]{32}")
_SORT_KEY = re.compile(rf"(\d{{4}}-[0-9T:.-]{{18}}Z)#({ID_PATTERN})", re.ASCII)


def is_id(text: str) -> bool:
    """Whether `text` is a valid id of a user or a post."""
    return _ID.fullmatch(text) is not None and text not in NO_PATH_IDS


def check_id(text: str, *, field: str) -> str:
    """Return `text` if it is an id; otherwise raise `BadInput` naming `field`."""
    if not is_id(text):
        raise BadInput(
            f"'{field}' is not a valid id; use 1 to {MAX_ID_CHARS} characters out of letters, "
            "digits and _ . : | @ + = - alone, but neither . nor .. itself."
        )
    return text


def is_of_users_door(ref_id: str) -> bool:
    """Whether the HTTP door may make this `ref_id`, or has made it."""
    return _DOORS_OWN.fullmatch(ref_id) is not None


def sort_key(published_at: str, ref_id: str) -> str:
    """The sort key of timelines and of the outbox: `2026-11-20T18:00:00.123Z#ref`."""
    return f"{published_at}#{ref_id}"


def split_sort_key(key: str) -> tuple[str, str]:
    published_at, _, ref_id = key.partition("#")
    return published_at, ref_id


def is_sort_key(text: str) -> bool:
    """Whether `text` is a well-formed sort key with a real date."""
    match = _SORT_KEY.fullmatch(text)
    return match is not None and times.is_text(match[1])


def ref_id_for(publisher_id: str, idempotency_key: str) -> str:
    """The `ref_id` for an Idempotency-Key of a publisher: always the same one.

    The hash includes the publisher, so that equal keys of two publishers do not collide.
    """
    if not re.fullmatch(IDEMPOTENCY_KEY_PATTERN, idempotency_key):
        raise BadInput(
            f"The Idempotency-Key header must have 1 to {MAX_IDEMPOTENCY_KEY_CHARS} characters of "
            "printable ASCII."
        )
    text = f"{publisher_id}#{idempotency_key}"  # no id contains '#', so this is unambiguous
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
