"""The API accepts only valid tokens of the stack's own issuer, for its own client."""

import time

from cryptography.hazmat.primitives.asymmetric import rsa

from fanfold import names
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User
from tests.e2e.tokens import Sign, part, signed, unsigned


def status(stack: Deployment, token: str) -> int:
    """The status of reading a timeline with this token."""
    return User(stack, "somebody", token).call("GET", "/v1/timeline").status


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
    assert status(stack, f"{unsigned(header, part(token, 1))}.") == 401


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
