"""Tokens at the deployed API: it takes those of its own pool's own client alone, on every route.

What else a token needs is API Gateway's to check. What the functions check of its claims, and of
cursors, `tests/doors/test_forgeries.py` has.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from fanfold import contract, names
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User

Make = Callable[[str], User]


def sign_in(stack: Deployment, pool: str, client: str) -> dict[str, str]:
    """The tokens of a new user of this pool by this client."""
    cognito, name, password = stack.client("cognito-idp"), uuid.uuid4().hex, f"A-{uuid.uuid4()}"
    cognito.admin_create_user(UserPoolId=pool, Username=name)
    cognito.admin_set_user_password(
        UserPoolId=pool, Username=name, Password=password, Permanent=True
    )
    answer: dict[str, Any] = cognito.admin_initiate_auth(
        UserPoolId=pool,
        ClientId=client,
        AuthFlow="ADMIN_USER_PASSWORD_AUTH",
        AuthParameters={"USERNAME": name, "PASSWORD": password},
    )
    tokens: dict[str, str] = answer["AuthenticationResult"]
    return tokens


def token_of_another_client(stack: Deployment, pool: str) -> str:
    client = stack.client("cognito-idp").create_user_pool_client(
        UserPoolId=pool, ClientName="other", ExplicitAuthFlows=["ALLOW_ADMIN_USER_PASSWORD_AUTH"]
    )["UserPoolClient"]
    return sign_in(stack, pool, client["ClientId"])["AccessToken"]


def test_without_a_token_of_the_stacks_pool_and_client_no_route_runs_a_function(
    stack: Deployment, make: Make
) -> None:
    victim, other = make("victim"), make("other")
    head, claims, _ = victim.token.split(".")
    pool = stack.client("cognito-idp").create_user_pool(PoolName="other")["UserPool"]["Id"]
    forged = {
        "none": "",
        "unsigned": f"{head}.{claims}.",
        "with another token's signature": f"{head}.{claims}.{other.token.split('.')[2]}",
        "of another pool": token_of_another_client(stack, pool),
        "of another client": token_of_another_client(
            stack, stack.output(names.USER_POOL_ID_OUTPUT)
        ),
    }
    headers: Any = {"x_authorization": f"Bearer {victim.token}", "cookie": f"token={victim.token}"}
    assert victim.call("GET", "/v1/timeline").status == 200
    for route in contract.ROUTES:
        path = route.path.format(publisher_id=other.name, user_id=other.name, ref_id="post-1")
        for kind, token in forged.items():
            thief = User(stack, "thief", token)
            answer = thief.call(route.method, f"{path}?token={victim.token}", **headers)
            # API Gateway's own words: those of the functions are problem documents.
            refused = (answer.status, answer.content)
            assert refused == (401, {"message": "Unauthorized"}), (route.key, kind)


def test_an_id_token_gets_a_problem_document(stack: Deployment) -> None:
    """An authorizer takes it, since its audience is the client."""
    pool, client = map(stack.output, (names.USER_POOL_ID_OUTPUT, names.USER_POOL_CLIENT_ID_OUTPUT))
    user = User(stack, "x", sign_in(stack, pool, client)["IdToken"])
    answer = user.call("GET", "/v1/timeline")
    assert (answer.status, answer.kind) == (401, "application/problem+json")
    assert "send the access token" in answer.content["detail"]
