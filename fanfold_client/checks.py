"""Checks what a caller gives before it is sent; raises `ValueError`."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import quote, urlencode

from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from fanfold.contract import IDEMPOTENCY_KEY_PATTERN, MAX_IDEMPOTENCY_KEY_CHARS, Route
from fanfold.ids import NO_PATH_IDS
from fanfold.json_text import Verbatim
from fanfold_client.connections import LOOPBACK

_KEY = re.compile(IDEMPOTENCY_KEY_PATTERN)
_TOKEN = re.compile("[!-~]+")


def checked_url(url: str) -> str:
    """The address without a final slash; http only to this machine, so that no token leaks."""
    try:
        parts = parse_url(url)
    except LocationParseError:
        parts = parse_url("")
    host = (parts.host or "").strip("[]")
    is_private = parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)
    if host and is_private and parts.query is parts.fragment is None:
        return url.rstrip("/")
    raise ValueError(
        f"{url!r} is no address of the API: give the stack's output ApiUrl, which begins with "
        "https://. On http a token can be read on its way; only this machine may be called so."
    )


def path_of(route: Route, ids: Mapping[str, str], query: Mapping[str, Any]) -> str:
    """The path of a request with its query."""
    for name, value in ids.items():
        if not isinstance(value, str) or value in NO_PATH_IDS:
            raise ValueError(f"{name} cannot be {value!r}, which an address cannot hold.")
    for name, value in {**ids, **query}.items():
        encoded(name, str(value))
    path = route.path.format(**{name: quote(value, safe="") for name, value in ids.items()})
    return path + (f"?{urlencode(query)}" if query else "")


def check_seconds(seconds: float) -> None:
    if not seconds > 0:
        raise ValueError("seconds must be more than 0: how long a call may take with its repeats.")


def checked_key(key: str) -> str:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ValueError(
            f"key must have 1 to {MAX_IDEMPOTENCY_KEY_CHARS} characters of printable ASCII."
        )
    return key


def checked_token(token: str) -> str:
    """The token. No error quotes it, since errors are logged."""
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise ValueError("The token must be printable ASCII without spaces and line breaks.")
    return token


def exact(value: Any) -> Any:
    """The same JSON, in which a `Decimal` is written digit for digit."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"JSON knows no number {value}; send null, or leave it out.")
        return Verbatim(str(value))
    if isinstance(value, dict):
        return {name: exact(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [exact(each) for each in value]
    return value


def encoded(name: str, text: str) -> bytes:
    """The text in UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{name} holds half of a surrogate pair, which UTF-8 cannot spell."
        ) from None
