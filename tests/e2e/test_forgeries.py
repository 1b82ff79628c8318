"""Forged tokens and cursors against the deployed API: nobody reads or writes what is another's.

The engine verifies what API Gateway does: an RS256 signature by a key of the issuer that the token
names (`kid`), `iss`, `aud` or `client_id`, `exp`, `nbf` and `iat`. It does not insist on `exp`.
What the functions check of a token, as which user it is, they check on AWS too;
`tests/doors/test_forgeries.py` has more of that, and of cursors.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fanfold import cursor, names
from fanfold.cursor import Cursor
from fanfold.follows import ring
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User, eventually
from tests.e2e.tokens import Sign, encoded, part, signed, signed_by_secret, unsigned

# What belongs to one reader alone.
READS = ("/v1/timeline", "/v1/timeline/marker", "/v1/timeline/unread", "/v1/following", "/v1/muted")
NOW = {"published_at": "2099-01-01T00:00:00.000Z", "ref_id": "everything"}


@pytest.fixture(scope="module")
def victim(stack: Deployment) -> User:
    """A user whom two publishers' posts have reached."""
    user = User(stack, "forgery-victim", stack.token("forgery-victim"))
    for number in range(2):
        name = f"forgery-secret-{number}"
        publisher = User(stack, name, stack.token(name))
        user.follow(publisher)
        user.follow(User(stack, f"{name}-quiet", ""))
        publisher.publish(body={"title": "private"})
        assert user.call("PUT", f"/v1/muted/{name}-muted").status == 204
    eventually(lambda: len(user.ref_ids()) == 2)
    return user


def rows_of(user: User) -> list[str]:
    """Every item of every table that names the user."""
    client = user.stack.client("dynamodb")
    found = []
    for table in names.TABLES:
        pages = client.get_paginator("scan").paginate(
            TableName=user.stack.output(table.output), ConsistentRead=True
        )
        items = (
            json.dumps(item, sort_keys=True, default=repr) for p in pages for item in p["Items"]
        )
        found += [item for item in items if user.name in item]
    return sorted(found)


# What somebody may want to do as somebody else: method, path and body.
ACTS: tuple[tuple[str, str, Any], ...] = (
    *(("GET", path, None) for path in READS),
    ("POST", "/v1/posts", {"body": {"title": "forged"}}),
    ("PUT", "/v1/following/forgery-thief", None),
    ("DELETE", "/v1/following/forgery-secret-0", None),
    ("PUT", "/v1/muted/forgery-secret-0", None),
    ("PUT", "/v1/timeline/marker", NOW),
)


def do_nothing(victim: User, *tokens: str, **headers: Any) -> None:
    """Check that with these tokens nothing is read and nothing is written."""
    before = rows_of(victim)
    for token in tokens:
        thief = User(victim.stack, "thief", token)
        answers = [thief.call(*act, **headers) for act in ACTS]
        assert {answer.status for answer in answers} == {401}, token
        assert "forgery-secret" not in str(answers)
    assert rows_of(victim) == before


def public_key(key: rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


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
        *(f"{unsigned({**header, 'alg': none}, claims)}." for none in ("none", "None", "NONE")),
        f"{unsigned({**header, 'alg': 'none'}, claims)}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}",
        f"{head}.{other}.{signature}",  # other claims beside a good signature
        f"{head}.{body}.{signature[:-8]}AAAAAAAA",
        signed(header, claims, stranger),
        signed({**header, "kid": "own"}, claims, stranger),
        # Its own key in the header, by value or by address.
        signed({**header, "jwk": jwk}, claims, stranger),
        signed({**header, "jku": "https://example.org/keys", "kid": "own"}, claims, stranger),
        # The public key taken for a shared secret.
        signed_by_secret(header, claims, public_key(stranger)),
        signed_by_secret(header, claims, b""),
        signed({name: each for name, each in header.items() if name != "kid"}, claims, stranger),
    ]
    for token in forged:
        assert User(victim.stack, "thief", token).call("GET", "/v1/timeline").status == 401, token
    do_nothing(victim, forged[0], signed(header, claims, stranger))


def test_a_pools_public_key_is_no_secret_to_sign_with(victim: User, pool_key: Any) -> None:
    header, claims = part(victim.token, 0), part(victim.token, 1)
    do_nothing(victim, signed_by_secret(header, claims, public_key(pool_key)))


HOUR = 3600


def test_a_token_that_is_not_for_this_api_or_not_for_now_does_nothing(
    victim: User, resign: Sign
) -> None:
    now = int(time.time())
    changes: list[dict[str, Any]] = [
        {"iss": "https://cognito-idp.us-east-1.amazonaws.com/us-east-1_other"},
        {"iss": ""},
        {"iss": None},
        {"client_id": "another"},
        {"client_id": None, "aud": None},
        {"client_id": None, "aud": ["another", "third"]},
        {"exp": now - 1},
        {"nbf": now + HOUR},
        {"iat": now + HOUR},
        {"token_use": "id"},
        {"token_use": "refresh"},
    ]
    do_nothing(victim, *(resign({"username": victim.name, **each}) for each in changes))


def test_a_signed_token_of_what_only_looks_like_a_user_does_nothing(
    victim: User, resign: Sign
) -> None:
    """The pool itself would not sign most of these."""
    users: list[Any] = [
        *(None, "", "#", "forgery-victim#muted", "forgery-victim ", "forgery-victim\n"),
        *("f\u043ergery-victim", "forgery-victi\uff4d", "forgery\u200b-victim"),
        *(["forgery-victim"], ["forgery-victim", "thief"], {"S": "forgery-victim"}),
    ]
    # Only the configured claim counts.
    others = {"sub": victim.name, "user": victim.name}
    do_nothing(victim, *(resign({**others, "username": each}) for each in users))


PRETENCES: dict[str, Callable[[User], str]] = {
    "x_forwarded_user": lambda user: user.name,
    "x_user_id": lambda user: user.name,
    "x_amzn_oidc_identity": lambda user: user.name,
    "x_amzn_oidc_data": lambda user: user.token,
    "x_authorization": lambda user: f"Bearer {user.token}",
    "cookie": lambda user: f"token={user.token}; sub={user.name}",
}


def test_headers_and_parameters_that_pretend_name_nobody(
    victim: User, make: Callable[[str], User]
) -> None:
    headers: dict[str, Any] = {name: value(victim) for name, value in PRETENCES.items()}
    do_nothing(victim, "", **headers)
    nobody = User(victim.stack, "thief", "")
    for name in ("token", "access_token", "authorization", "Authorization"):
        assert nobody.call("GET", f"/v1/timeline?{name}={victim.token}").status == 401
    mallory = make("mallory")
    for path in READS:
        answer = mallory.call("GET", path, **headers)
        assert answer.status == 200
        assert "forgery-" not in str(answer.content)
        assert mallory.call("GET", f"{path}?user_id={victim.name}").status == 400


def test_cursors_of_another_reader_and_made_up_ones_show_ones_own_rows(
    victim: User, make: Callable[[str], User]
) -> None:
    mallory = make("mallory")
    pages = {"/v1/timeline": ("before", "after"), "/v1/following": ("cursor",)}
    pages |= {"/v1/muted": ("cursor",)}
    stolen = []
    for path in pages:
        page = victim.call("GET", f"{path}?limit=1").content
        stolen += [each for each in (page["next"], page.get("previous")) if each]
    assert len(stolen) == 4
    positions = (victim.name, f"{victim.name}#muted", ring.edge(victim.name), "#sweep")
    made = [cursor.encode(Cursor.at(position)) for position in positions]
    half = [one[:20] + other[20:] for one in stolen for other in stolen if one != other]
    before = rows_of(victim)
    statuses = set()
    for each in (*stolen, *made, *half, *(text[:-1] for text in stolen)):
        for path, directions in pages.items():
            for direction in directions:
                answer = mallory.call("GET", f"{path}?{direction}={each}")
                statuses.add(answer.status)
                assert "forgery-" not in str(answer.content), (path, each)
    assert statuses == {200, 400}
    assert rows_of(victim) == before
