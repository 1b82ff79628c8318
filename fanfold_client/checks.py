"""What a caller gives, before it is sent: `ValueError` says what cannot be."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from fanfold.contract import IDEMPOTENCY_KEY_PATTERN, MAX_IDEMPOTENCY_KEY_CHARS, Route
from fanfold.ids import NO_PATH_IDS

_KEY = re.compile(IDEMPOTENCY_KEY_PATTERN)
_TOKEN = re.compile("[!-~]+")


def path_of(route: Route, ids: Mapping[str, str], query: Mapping[str, Any]) -> str:
    """The path of a request with its query."""
    for name, value in ids.items():
        if value in NO_PATH_IDS:
            raise ValueError(f"{name} cannot be {value!r}, which an address cannot hold.")
    for name, value in {**ids, **query}.items():
        encoded(name, str(value))
    path = route.path.format(**{name: quote(value, safe="") for name, value in ids.items()})
    return path + (f"?{urlencode(query)}" if query else "")


def checked_key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(
            f"key must have 1 to {MAX_IDEMPOTENCY_KEY_CHARS} characters of printable ASCII."
        )
    return key


def checked_token(token: str) -> str:
    """The token; it is not quoted, since errors are logged."""
    if not _TOKEN.fullmatch(token):
        raise ValueError("The token must be printable ASCII without spaces and line breaks.")
    return token


def encoded(name: str, text: str) -> bytes:
    """The text in UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{name} holds half of a surrogate pair, which UTF-8 cannot spell."
        ) from None
