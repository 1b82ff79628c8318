"""Ids and the keys made of them."""

import hashlib
import re

from fanfold import times
from fanfold.contract import ID_PATTERN, MAX_ID_CHARS, MAX_IDEMPOTENCY_KEY_CHARS
from fanfold.errors import BadInput

_ID = re.compile(ID_PATTERN, re.ASCII)
_SORT_KEY = re.compile(rf"(\d{{4}}-[0-9T:.-]{{18}}Z)#({ID_PATTERN})", re.ASCII)


def is_id(text: str) -> bool:
    """Whether `text` may stand as a publisher, follower or post id."""
    return _ID.fullmatch(text) is not None


def check_id(text: str, *, field: str) -> str:
    """Return `text` if it is an id; otherwise raise `BadInput` naming `field`."""
    if not is_id(text):
        raise BadInput(
            f"'{field}' is not a valid id; use 1 to {MAX_ID_CHARS} characters "
            "out of letters, digits and _ . : | @ + = -"
        )
    return text


def sort_key(published_at: str, ref_id: str) -> str:
    """A timeline's and the outbox's sort key: `2026-11-20T18:00:00.123Z#ref`."""
    return f"{published_at}#{ref_id}"


def split_sort_key(key: str) -> tuple[str, str]:
    """Take a sort key apart into `published_at` and `ref_id`."""
    published_at, _, ref_id = key.partition("#")
    return published_at, ref_id


def is_sort_key(text: str) -> bool:
    """Whether `text` is a well-formed sort key with a real date in it."""
    match = _SORT_KEY.fullmatch(text)
    if not match:
        return False
    try:
        times.to_ms(match[1])
    except BadInput:
        return False
    return True


def ref_id_for(publisher_id: str, idempotency_key: str) -> str:
    """The `ref_id` of a post whose publisher sent only an Idempotency-Key, always the same one.

    Hashed with the publisher, so that two publishers who pick the same key do not collide.
    """
    if not 1 <= len(idempotency_key) <= MAX_IDEMPOTENCY_KEY_CHARS:
        raise BadInput(
            f"The Idempotency-Key header must have 1 to {MAX_IDEMPOTENCY_KEY_CHARS} characters."
        )
    text = f"{publisher_id}#{idempotency_key}"  # an id holds no '#', so no two pairs read alike
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
