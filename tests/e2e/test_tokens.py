"""The API accepts only valid tokens of the stack's own issuer, for its own client."""

import base64
import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from fanfold import names
from fanfold_cli.local.home import Home
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User

Sign = Callable[[dict[str, Any]], str]


def status(stack: Deployment, token: str) -> int:
    """The status of reading a timeline with this token."""
    return User(stack, "somebody", token).call("GET", "/v1/timeline").status


def part(token: str, number: int) -> dict[str, Any]:
    """The header (0) or the claims (1) of a token."""
    text = token.split(".")[number]
    content: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return content


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def signed(header: dict[str, Any], claims: dict[str, Any], key: rsa.RSAPrivateKey) -> str:
    """A token of these claims, signed by this key."""
    text = ".".join(encoded(json.dumps(each).encode()) for each in (header, claims))
    signature = key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{encoded(signature)}"


@pytest.fixture(scope="module")
def token(stack: Deployment) -> str:
    return stack.token(f"user-{uuid.uuid4().hex[:8]}")


@pytest.fixture(scope="module")
def resign(engine: Home, stack: Deployment, token: str) -> Sign:
    """Sign changed claims with the pool's own key, which the engine keeps in its home."""
    pool = stack.output(names.USER_POOL_ID_OUTPUT)
    pem = next(engine.path.rglob(f"{pool}-access.pem")).read_bytes()
    key = serialization.load_pem_private_key(pem, password=None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return lambda changes: signed(part(token, 0), {**part(token, 1), **changes}, key)


def test_a_valid_token_is_accepted(stack: Deployment, token: str, resign: Sign) -> None:
    assert status(stack, token) == 200
    assert status(stack, resign({})) == 200  # so the other tokens are refused for their claims


def test_an_expired_token_is_refused(stack: Deployment, resign: Sign) -> None:
    now = int(time.time())
    assert status(stack, resign({"exp": now - 60, "iat": now - 3660})) == 401


def test_a_token_of_another_issuer_is_refused(stack: Deployment, resign: Sign) -> None:
    assert status(stack, resign({"iss": "https://cognito-idp.us-east-1.amazonaws.com/x"})) == 401


def test_a_token_signed_by_another_key_is_refused(stack: Deployment, token: str) -> None:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert status(stack, signed(part(token, 0), part(token, 1), stranger)) == 401


def test_a_token_without_a_signature_is_refused(stack: Deployment, token: str) -> None:
    header = {**part(token, 0), "alg": "none"}
    text = ".".join(encoded(json.dumps(each).encode()) for each in (header, part(token, 1)))
    assert status(stack, f"{text}.") == 401


def other_token(stack: Deployment, pool: str) -> str:
    """A token of this pool for a client that is not the stack's."""
    cognito = stack.client("cognito-idp")
    client = cognito.create_user_pool_client(
        UserPoolId=pool, ClientName="other", ExplicitAuthFlows=["ALLOW_ADMIN_USER_PASSWORD_AUTH"]
    )["UserPoolClient"]["ClientId"]
    outputs = {
        **stack.outputs,
        names.USER_POOL_ID_OUTPUT: pool,
        names.USER_POOL_CLIENT_ID_OUTPUT: client,
    }
    return Deployment(stack.region, stack.endpoint, outputs).token("mallory")


def test_a_token_of_another_pool_is_refused(stack: Deployment) -> None:
    pool = stack.client("cognito-idp").create_user_pool(PoolName="other")["UserPool"]["Id"]
    assert status(stack, other_token(stack, pool)) == 401


def test_a_token_for_another_client_of_the_same_pool_is_refused(stack: Deployment) -> None:
    assert status(stack, other_token(stack, stack.output(names.USER_POOL_ID_OUTPUT))) == 401


def test_an_id_token_gets_a_problem_document(stack: Deployment, resign: Sign) -> None:
    client = stack.output(names.USER_POOL_CLIENT_ID_OUTPUT)
    id_token = resign({"token_use": "id", "aud": client})
    answer = User(stack, "x", id_token).call("GET", "/v1/timeline")
    assert (answer.status, answer.kind) == (401, "application/problem+json")
    assert "send the access token" in answer.content["detail"]


def test_a_token_whose_user_is_not_a_valid_id_gets_a_problem_document(
    stack: Deployment, resign: Sign
) -> None:
    answer = User(stack, "x", resign({"username": "a#b"})).call("GET", "/v1/timeline")
    assert answer.status == 401
    assert answer.kind == "application/problem+json"
    assert "'username'" in answer.content["detail"]
