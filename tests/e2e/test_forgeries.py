"""Forged tokens against the deployed API: nobody reads or writes what is another's.

The engine verifies what API Gateway does: an RS256 signature by a key of the issuer that the token
names (`kid`), `iss`, `aud` or `client_id`, `exp`, `nbf` and `iat`. It does not insist on `exp`.
What the functions check of a token, and of cursors, `tests/doors/test_forgeries.py` has.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fanfold import names
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User, eventually
from tests.e2e.tokens import Sign, encoded, part, signed, signed_by_secret, unsigned

HOUR = 3600
# What somebody may want to do as somebody else: method, path and body.
ACTS: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/v1/timeline", None),
    ("GET", "/v1/following", None),
    ("POST", "/v1/posts", {"body": {"title": "forged"}}),
    ("DELETE", "/v1/following/forgery-secret", None),
    ("PUT", "/v1/timeline/marker", {"published_at": "2099-01-01T00:00:00.000Z", "ref_id": "all"}),
)


@pytest.fixture(scope="module")
def victim(stack: Deployment) -> User:
    """A user whom a publisher's post has reached."""
    user, publisher = (
        User(stack, name, stack.token(name)) for name in ("forgery-victim", "forgery-secret")
    )
    user.follow(publisher)
    publisher.publish(body={"title": "private"})
    eventually(lambda: len(user.ref_ids()) == 1)
    return user


def rows_of(user: User) -> list[str]:
    """Every item of every table that names the user."""
    client, found = user.stack.client("dynamodb"), []
    for table in names.TABLES:
        pages = client.get_paginator("scan").paginate(
            TableName=user.stack.output(table.output), ConsistentRead=True
        )
        found += [
            json.dumps(item, sort_keys=True, default=repr) for p in pages for item in p["Items"]
        ]
    return sorted(item for item in found if user.name in item)


def do_nothing(victim: User, *tokens: str, **headers: Any) -> None:
    """Check that with these tokens nothing is read and nothing is written."""
    before = rows_of(victim)
    for token in tokens:
        thief = User(victim.stack, "thief", token)
        answers = [thief.call(*act, **headers) for act in ACTS]
        assert {answer.status for answer in answers} == {401}, token
        assert "forgery-secret" not in str(answers)
    assert rows_of(victim) == before


def test_a_token_with_a_signature_that_is_not_the_issuers_does_nothing(victim: User) -> None:
    header, claims = part(victim.token, 0), part(victim.token, 1)
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    numbers = stranger.public_key().public_numbers()
    jwk = {
        "kty": "RSA",
        "kid": header["kid"],
        "n": encoded(numbers.n.to_bytes(256, "big")),
        "e": encoded(numbers.e.to_bytes(3, "big")),
    }
    head, body, signature = victim.token.split(".")
    other = unsigned(header, {**claims, "scope": "admin"}).split(".")[1]
    forged = [
        *(f"{unsigned({**header, 'alg': none}, claims)}." for none in ("none", "NONE")),
        f"{unsigned({**header, 'alg': 'none'}, claims)}.{signature}",
        f"{head}.{body}.",
        f"{head}.{other}.{signature}",  # other claims beside a good signature
        signed(header, claims, stranger),
        # Its own key in the header, by value or by address.
        signed({**header, "jwk": jwk}, claims, stranger),
        signed({**header, "jku": "https://example.org/keys", "kid": "own"}, claims, stranger),
        signed_by_secret(header, claims, b""),
        signed({name: each for name, each in header.items() if name != "kid"}, claims, stranger),
    ]
    for token in ("", "garbage", *forged):
        assert User(victim.stack, "thief", token).call("GET", "/v1/timeline").status == 401, token
    do_nothing(victim, forged[0], signed(header, claims, stranger))


def test_a_pools_public_key_is_no_secret_to_sign_with(
    victim: User, pool_key: rsa.RSAPrivateKey
) -> None:
    public = pool_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    forged = signed_by_secret(part(victim.token, 0), part(victim.token, 1), public)
    do_nothing(victim, forged)


def test_a_token_that_is_not_for_this_api_or_not_for_now_does_nothing(
    victim: User, resign: Sign
) -> None:
    assert User(victim.stack, "x", resign({})).call("GET", "/v1/timeline").status == 200
    now = int(time.time())
    changes: list[dict[str, Any]] = [
        {"iss": "https://cognito-idp.us-east-1.amazonaws.com/us-east-1_other"},
        {"iss": None},
        {"client_id": "another"},
        {"client_id": None, "aud": None},
        {"client_id": None, "aud": ["another", "third"]},
        {"exp": now - 1},
        {"exp": now - 60, "iat": now - 60 - HOUR},
        {"nbf": now + HOUR},
        {"iat": now + HOUR},
        {"token_use": "refresh"},
    ]
    do_nothing(victim, *(resign({"username": victim.name, **each}) for each in changes))


def test_headers_and_parameters_that_pretend_name_nobody(victim: User) -> None:
    do_nothing(
        victim,
        "",
        x_forwarded_user=victim.name,
        x_amzn_oidc_data=victim.token,
        x_authorization=f"Bearer {victim.token}",
        cookie=f"token={victim.token}; sub={victim.name}",
    )
    nobody = User(victim.stack, "thief", "")
    for name in ("token", "access_token", "Authorization"):
        assert nobody.call("GET", f"/v1/timeline?{name}={victim.token}").status == 401
