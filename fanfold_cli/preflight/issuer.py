"""Whether API Gateway can verify the tokens of an issuer: its discovery document and its keys."""

import http
import json
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import urllib3

from fanfold_cli.preflight.checks import Check, Status
from fanfold_client import pool_for

DISCOVERY: Final = "/.well-known/openid-configuration"
# Of one document, from the name to the last byte.
SECONDS: Final = 10.0
# API Gateway's quotas, which cannot be raised: it waits so long for each of the two documents, and
# reads so much of a set of keys. A discovery document has a few KB.
GATEWAY_SECONDS: Final = 1.5
MAX_BYTES: Final = 150_000

Fetch = Callable[[str], bytes]


class Unreadable(Exception):
    """A document cannot be had, or is not what it should be; the text goes on from its address."""


def check_issuer(issuer: str, fetch: Fetch) -> Check:
    """Read what API Gateway reads, from here: it must be reachable from the internet too."""
    discovery = issuer.rstrip("/") + DISCOVERY
    slow: list[str] = []
    try:
        document = _json(discovery, fetch, slow)
        stated, keys_at = document.get("issuer"), document.get("jwks_uri")
        if stated != issuer:
            raise Unreadable(
                f"{discovery} says that the issuer is {stated!r}, and jwt_issuer is {issuer!r}. "
                "They must be the same, to the slash at the end: tokens carry the issuer's own."
            )
        if not isinstance(keys_at, str) or not keys_at.startswith("https://"):
            raise Unreadable(f"{discovery} names no https address of keys (jwks_uri).")
        keys = _json(keys_at, fetch, slow).get("keys")
    except Unreadable as error:
        return Check(
            "issuer",
            Status.FAILS,
            f"{error} API Gateway reads it when the authorizer is made, and no token would pass.",
        )
    found = keys if isinstance(keys, list) else []
    signing = [key for key in found if _signs_by_rsa(key)]
    if not signing:
        kinds = sorted({str(key.get("kty")) for key in found if isinstance(key, dict)})
        return Check(
            "issuer",
            Status.FAILS,
            f"{keys_at} holds no RSA key for signatures that has an id, `kid` "
            f"({', '.join(kinds) or 'no key at all'}), and API Gateway verifies by no others: have "
            "the issuer sign by RS256.",
        )
    if slow:
        return Check(
            "issuer",
            Status.WARNING,
            f"{' and '.join(slow)}, and API Gateway waits for {GATEWAY_SECONDS} s only. If it is "
            "as slow from there, the authorizer cannot be made, or tokens do not pass.",
        )
    return Check(
        "issuer",
        Status.OK,
        f"{issuer} can be read from here, and signs by RSA ({len(signing)} of {len(found)} keys).",
    )


def _signs_by_rsa(key: Any) -> bool:
    return (
        isinstance(key, dict)
        and key.get("kty") == "RSA"
        and bool(key.get("kid"))
        and key.get("use", "sig") == "sig"
        and str(key.get("alg", "RS256")).startswith("RS")
    )


def _json(address: str, fetch: Fetch, slow: list[str]) -> dict[str, Any]:
    """The document, and a note in `slow` if API Gateway would not have waited for it."""
    began = time.monotonic()
    content = fetch(address)
    if (seconds := time.monotonic() - began) > GATEWAY_SECONDS:
        slow.append(f"{address} took {seconds:.1f} s")
    try:
        found = json.loads(content)
    except ValueError:
        raise Unreadable(f"{address} is not JSON.") from None
    if not isinstance(found, dict):
        raise Unreadable(f"{address} is not a JSON object.")
    return found


def fetch(address: str) -> bytes:
    """Get a document by https, within `SECONDS`; raises `Unreadable`."""
    results: list[bytes | Unreadable] = []

    def get() -> None:
        try:
            results.append(_get(address))
        except Unreadable as error:
            results.append(error)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            results.append(Unreadable(f"{address} cannot be read: {error}."))

    # Nothing else bounds the whole: a time limit of urllib3 holds for one piece of the answer, and
    # none holds for the look-up of a name.
    thread = threading.Thread(target=get, daemon=True)
    thread.start()
    thread.join(SECONDS)
    result = results[0] if results else Unreadable(f"{address} did not answer in {SECONDS:.0f} s.")
    if isinstance(result, Unreadable):
        raise result
    return result


def _get(address: str) -> bytes:
    with (
        pool_for(address) as connections,
        connections.request(
            "GET",
            address,
            headers={"accept": "application/json"},
            timeout=SECONDS,
            retries=False,
            preload_content=False,
        ) as answer,
    ):
        if answer.status != http.HTTPStatus.OK:
            raise Unreadable(f"{address} answers {answer.status} instead of 200.")
        content = answer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise Unreadable(f"{address} has more than {MAX_BYTES:,} bytes.")
    return bytes(content)
