"""Tokens taken apart and put together again, with the pool's own key or another one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

Sign = Callable[[dict[str, Any]], str]


def part(token: str, number: int) -> dict[str, Any]:
    """The header (0) or the claims (1) of a token."""
    text = token.split(".")[number]
    content: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return content


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def unsigned(header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    """What a signature is made of."""
    return ".".join(encoded(json.dumps(each).encode()) for each in (header, claims))


def signed(header: Mapping[str, Any], claims: Mapping[str, Any], key: rsa.RSAPrivateKey) -> str:
    """A token of these claims, signed by this key."""
    text = unsigned(header, claims)
    signature = key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{encoded(signature)}"


def signed_by_secret(header: Mapping[str, Any], claims: Mapping[str, Any], secret: bytes) -> str:
    """A token signed with HS256, whose key is this secret."""
    text = unsigned({**header, "alg": "HS256"}, claims)
    return f"{text}.{encoded(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"
