"""JSON from outside: numbers keep their text, and what Python would read with a loss is refused."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from fanfold import contract
from fanfold.errors import BadInput

# Characters of a member's name in an error sentence.
_NAME_CHARS = 40


class Verbatim:
    """JSON text that `write` writes as it is: a number, or a stored body.

    No subclass of `str` or `float`: it never passes for a string, and is never formatted again.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class _Lossy(Exception):
    """JSON, or nearly so, of which Python would silently drop a part."""

    def __init__(self, sentence: str, quoted: str = "") -> None:
        super().__init__(sentence)
        self.quoted = quoted


def read(raw: str, *, what: str, hint: str = "") -> dict[str, Any]:
    """Read a JSON object. A number that Python would spell differently becomes `Verbatim`.

    Raises `BadInput` with a sentence that begins with `what`, such as "The message".
    """
    try:
        content = _DECODER.decode(raw)
    except _Lossy as lossy:
        raise BadInput(f"{what} {lossy}", quoted=lossy.quoted) from None
    except ValueError:
        raise BadInput(f"{what} is not JSON{hint}.") from None
    except RecursionError:
        raise BadInput(
            f"{what} is nested more than {contract.MAX_BODY_LEVELS} levels deep; flatten it."
        ) from None
    if not isinstance(content, dict):
        raise BadInput(f"{what} is not a JSON object{hint}.")
    return content


def write(value: Any, *, sort_keys: bool = False) -> str:
    """Compact JSON text, in Unicode, of a value that may contain `Verbatim`.

    With `sort_keys`, two texts are equal if only the order of members differs.
    """
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Verbatim):
        return value.text
    if isinstance(value, dict):
        members = sorted(value.items()) if sort_keys else value.items()
        pairs = [f"{_string(name)}:{write(each, sort_keys=sort_keys)}" for name, each in members]
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join([write(each, sort_keys=sort_keys) for each in value]) + "]"
    return _encode(value)


def digest(value: Any) -> str:
    """64 bits in hex digits, the same for values that differ only in the order of members."""
    return hashlib.blake2b(write(value, sort_keys=True).encode(), digest_size=8).hexdigest()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        seen = set[str]()
        for name, _ in pairs:
            if name in seen:
                quoted = ascii(name[:_NAME_CHARS])
                raise _Lossy(
                    f"has two members named {quoted} in one object; send one of them.", quoted
                )
            seen.add(name)
    return content


def _whole(text: str) -> int | Verbatim:
    # Python writes -0 as 0, and refuses to read more than 4,300 digits.
    return int(text) if len(text) < 20 and text != "-0" else Verbatim(text)


def _decimal(text: str) -> float | Verbatim:
    value = float(text)
    return value if repr(value) == text else Verbatim(text)


def _constant(text: str) -> Any:
    raise _Lossy(f"holds {text}, which JSON does not know; send null, or leave it out.")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_float=_decimal, parse_constant=_constant
)
_encode = json.JSONEncoder(allow_nan=False).encode
_string = json.encoder.encode_basestring


class Body(NamedTuple):
    """A post's body, written and hashed once."""

    text: str
    digest: str


NO_BODY = Body("", digest(None))
