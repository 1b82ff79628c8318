"""Tokens of real pools and clients: the API takes those of its own pool's own client alone."""

from fanfold import names
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User
from tests.e2e.tokens import Sign


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


def test_a_token_of_another_pool_or_for_another_client_is_refused(stack: Deployment) -> None:
    other = stack.client("cognito-idp").create_user_pool(PoolName="other")["UserPool"]["Id"]
    for pool in (other, stack.output(names.USER_POOL_ID_OUTPUT)):
        user = User(stack, "mallory", other_token(stack, pool))
        assert user.call("GET", "/v1/timeline").status == 401


def test_an_id_token_gets_a_problem_document(stack: Deployment, resign: Sign) -> None:
    client = stack.output(names.USER_POOL_CLIENT_ID_OUTPUT)
    id_token = resign({"token_use": "id", "aud": client})
    answer = User(stack, "x", id_token).call("GET", "/v1/timeline")
    assert (answer.status, answer.kind) == (401, "application/problem+json")
    assert "send the access token" in answer.content["detail"]
