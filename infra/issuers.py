"""Which issuers of tokens API Gateway can work with: not any that OpenID Connect allows."""

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

DISCOVERY: Final = "/.well-known/openid-configuration"
# API Gateway's JWT authorizer offers nothing else.
REQUIRED: Final = (
    f"API Gateway must be able to read ISSUER{DISCOVERY} from the internet, and verifies RSA "
    "signatures (such as RS256) only"
)
# Ends of names that are no names on the internet.
PRIVATE: Final = (".internal", ".local", ".localhost")


def fault(issuer: str) -> str | None:
    """Why API Gateway would never accept a token of this issuer, as far as its address tells."""
    if re.match(r"\w+://[^/?#]*@", issuer):
        return (  # The address is not repeated, because of the password.
            "'jwt_issuer' must be the https address that the tokens carry as `iss`, without a "
            "user's name or password."
        )
    if not re.fullmatch(r"https://[^\s/?#]+[^\s?#]*", issuer):
        return (
            "'jwt_issuer' must be the https address that the tokens carry as `iss`, not "
            f"{issuer!r}."
        )
    if issuer.rstrip("/").endswith(DISCOVERY):
        return (
            "'jwt_issuer' must be the address that the tokens carry as `iss`, without "
            f"{DISCOVERY!r}: API Gateway appends it."
        )
    if not _is_public(_host(issuer)):
        return f"'jwt_issuer' must be an address on the internet, not {issuer!r}: {REQUIRED}."
    return None


def _host(issuer: str) -> str:
    try:
        parts = urlsplit(issuer)
        _ = parts.port
        return parts.hostname or ""
    except ValueError:  # an IPv6 address without its end, or no number of a port
        return ""


def _is_public(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return "." in host and not host.endswith(PRIVATE)
