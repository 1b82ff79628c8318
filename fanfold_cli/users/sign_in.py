"""Creates and signs in users of a stack's pool, and protects the accounts of real people."""

import secrets
import string
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanfold import clock, names
from fanfold_cli.progress import waiting_for
from fanfold_cli.terminal import ExpectedError, failing_with

if TYPE_CHECKING:
    from fanfold_cli.stack import Deployment

# Longer than any password policy requires; nobody types it.
PASSWORD_CHARS = 32
# Concurrent commands for one user replace each other's password; their pauses are random.
SIGN_INS = 8
SPREAD_SECONDS = 0.2
# Marks users that this command line created. Users cannot write it: `infra/identity.py`.
MARK = {"Name": "profile", "Value": "urn:fanfold:made-by-the-command-line"}


@dataclass(frozen=True)
class Signed:
    """A user of the pool with an access token."""

    user: str
    sub: str
    token: str


def sign_in(deployment: "Deployment", user: str, *, reset_password: bool = False) -> Signed:
    """Return a fresh access token of the user, who is created if there is none.

    This sets a new password. On AWS, it replaces the password of a user whom somebody else created
    only with `reset_password`, and never on a stage that keeps its data.

    JWT authorizers, on AWS and on the engine, accept the `client_id` of an access token in place of
    an audience.
    """
    if names.USER_POOL_ID_OUTPUT not in deployment.outputs:
        raise ExpectedError(
            "The users of this stack come from an issuer of its own choice, where this command "
            "line cannot sign in: take an access token from there, and call the API with it."
        )
    cognito = deployment.client("cognito-idp")
    pool = deployment.output(names.USER_POOL_ID_OUTPUT)
    with failing_with(f"The user {user} cannot sign in"), waiting_for(f"the token of {user}"):
        if not deployment.is_local:
            _check_stage(cognito, pool)
        is_new = _create(cognito, pool, user)
        known = cognito.admin_get_user(UserPoolId=pool, Username=user)
        attributes = {each["Name"]: each["Value"] for each in known["UserAttributes"]}
        is_ours = is_new or attributes.get(MARK["Name"]) == MARK["Value"]
        if not (deployment.is_local or is_ours or reset_password):
            raise ExpectedError(
                f"The user {user} was not made by this command line, and would lose the password: "
                "choose another name, or `fanfold token --reset-password` if it is yours."
            )
        answer = _authenticated(deployment, cognito, pool, user)
    if "AuthenticationResult" not in answer:
        raise ExpectedError(
            f"The user {user} must answer the challenge {answer.get('ChallengeName')}, which "
            "this command line cannot do: choose another user."
        )
    return Signed(user, attributes["sub"], answer["AuthenticationResult"]["AccessToken"])


def _authenticated(deployment: "Deployment", cognito: Any, pool: str, user: str) -> Any:
    """Set a new password and sign in with it; retry if another command sets one in between.

    Raises `ExpectedError`, and errors of AWS.
    """
    for _ in clock.tries(SIGN_INS, SPREAD_SECONDS):
        password = _password()
        cognito.admin_set_user_password(
            UserPoolId=pool, Username=user, Password=password, Permanent=True
        )
        with suppress(cognito.exceptions.NotAuthorizedException):
            return cognito.admin_initiate_auth(
                UserPoolId=pool,
                ClientId=deployment.output(names.USER_POOL_CLIENT_ID_OUTPUT),
                AuthFlow="ADMIN_USER_PASSWORD_AUTH",
                AuthParameters={"USERNAME": user, "PASSWORD": password},
            )
    raise ExpectedError(
        f"The user {user} cannot sign in, because other commands keep replacing the password of "
        f"{user}. Run it again, or fewer at once."
    )


def _check_stage(cognito: Any, pool: str) -> None:
    described = cognito.describe_user_pool(UserPoolId=pool)["UserPool"]
    if described.get("DeletionProtection") == "ACTIVE":
        raise ExpectedError(
            "This stage keeps its data, so its users are real: this command line makes none there, "
            "and sets nobody's password. Use a dev stage, or sign in as your app does."
        )


def _create(cognito: Any, pool: str, user: str) -> bool:
    """Create the user; False if there is one already."""
    try:
        cognito.admin_create_user(
            UserPoolId=pool, Username=user, UserAttributes=[MARK], MessageAction="SUPPRESS"
        )
    except cognito.exceptions.UsernameExistsException:
        return False
    return True


def _password() -> str:
    kinds = (string.ascii_lowercase, string.ascii_uppercase, string.digits, "-_.!")
    required = [secrets.choice(kind) for kind in kinds]
    rest = [secrets.choice("".join(kinds)) for _ in range(PASSWORD_CHARS - len(required))]
    return "".join(required + rest)
