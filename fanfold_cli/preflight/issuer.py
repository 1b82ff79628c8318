"""Whether API Gateway can verify the tokens of an issuer: its discovery document and its keys."""

import http
import json
import ssl
import threading
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from botocore.httpsession import get_cert_path

from fanfold_cli.preflight.checks import Check, Status

DISCOVERY: Final = "/.well-known/openid-configuration"
# Of one document, from the name to the last byte.
SECONDS: Final = 10.0
# A set of keys has a few KB; a larger answer is something else.
MAX_BYTES: Final = 1_000_000

Fetch = Callable[[str], bytes]


class Unreadable(Exception):
    """A document cannot be had, or is not what it should be; the text goes on from its address."""


def check_issuer(issuer: str, fetch: Fetch) -> Check:
    """Read what API Gateway reads, from here: it must be reachable from the internet too."""
    discovery = issuer.rstrip("/") + DISCOVERY
    try:
        document = _json(discovery, fetch)
        stated, keys_at = document.get("issuer"), document.get("jwks_uri")
        if stated != issuer:
            raise Unreadable(
                f"{discovery} says that the issuer is {stated!r}, and jwt_issuer is {issuer!r}. "
                "They must be the same, to the slash at the end: tokens carry the issuer's own."
            )
        if not isinstance(keys_at, str) or not keys_at.startswith("https://"):
            raise Unreadable(f"{discovery} names no https address of keys (jwks_uri).")
        keys = _json(keys_at, fetch).get("keys")
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
            f"{keys_at} holds no RSA key for signatures ({', '.join(kinds) or 'no key at all'}), "
            "and API Gateway verifies no others: have the issuer sign by RS256.",
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
        and key.get("use", "sig") == "sig"
        and str(key.get("alg", "RS256")).startswith("RS")
    )


def _json(address: str, fetch: Fetch) -> dict[str, Any]:
    try:
        found = json.loads(fetch(address))
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
        _connections(address) as connections,
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


def _connections(address: str) -> urllib3.PoolManager:
    """Connections by the proxy that the environment names, if it does for this address."""
    # The system's certificates, with those of a company's proxy, and botocore's: a Python for macOS
    # may have none of its own.
    context = ssl.create_default_context()
    context.load_verify_locations(get_cert_path(True))
    proxy = getproxies().get("https")
    if proxy is None or proxy_bypass(urlsplit(address).hostname or ""):
        return urllib3.PoolManager(ssl_context=context)
    user = urllib3.util.parse_url(proxy).auth
    headers = urllib3.make_headers(proxy_basic_auth=user) if user else None
    return urllib3.ProxyManager(proxy, ssl_context=context, proxy_headers=headers)
