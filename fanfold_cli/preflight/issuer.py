"""Whether API Gateway can verify the tokens of an issuer: its discovery document and its keys."""

import http
import json
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import urllib3

from fanfold_cli.preflight.checks import Result, fails, ok, warns
from fanfold_client import pool_for

DISCOVERY: Final = "/.well-known/openid-configuration"
# For one document, from the DNS query to the last byte.
SECONDS: Final = 10.0
# API Gateway's quotas, which cannot be raised: its timeout for each of the two documents, and the
# largest set of keys. A discovery document has a few KB.
GATEWAY_SECONDS: Final = 1.5
MAX_BYTES: Final = 150_000

Fetch = Callable[[str], bytes]


class Unreadable(Exception):
    """A document cannot be read or is wrong; the text is a sentence."""


def check_issuer(issuer: str, fetch: Fetch) -> Result:
    """Read what API Gateway will read; unlike here, it must be reachable from the internet."""
    discovery = issuer.rstrip("/") + DISCOVERY
    slow: list[str] = []
    try:
        document = _json(discovery, fetch, slow)
        stated, keys_at = document.get("issuer"), document.get("jwks_uri")
        if stated != issuer:
            raise Unreadable(
                f"{discovery} says that the issuer is {stated!r}, and jwt_issuer is {issuer!r}. "
                "They must be equal, even in the slash at the end: tokens name the issuer so."
            )
        if not isinstance(keys_at, str) or not keys_at.startswith("https://"):
            raise Unreadable(f"{discovery} names no https address of keys (jwks_uri).")
        keys = _json(keys_at, fetch, slow).get("keys")
    except Unreadable as error:
        return fails(
            f"{error} API Gateway reads it when the authorizer is created: no token passes."
        )
    found = keys if isinstance(keys, list) else []
    signing = [key for key in found if _signs_by_rsa(key)]
    if not signing:
        kinds = sorted({str(key.get("kty")) for key in found if isinstance(key, dict)})
        return fails(
            f"{keys_at} holds no RSA key for signatures that has an id, `kid` "
            f"({', '.join(kinds) or 'no key at all'}), and API Gateway uses no others: have the "
            "issuer sign with RS256."
        )
    if slow:
        return warns(
            f"{' and '.join(slow)}, and API Gateway waits for only {GATEWAY_SECONDS} s. If it is "
            "as slow from there, the authorizer cannot be created, or tokens do not pass."
        )
    return ok(
        f"{issuer} can be read from here, and uses RSA ({len(signing)} of {len(found)} keys)."
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
    """The document; adds to `slow` if API Gateway would have timed out."""
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

    # A thread bounds the total time: a timeout of urllib3 is for each part of the answer, and not
    # for the DNS query.
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
