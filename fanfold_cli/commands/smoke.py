"""`fanfold smoke`: prove a deployed stage with users made for it, and take them away again."""

import secrets
from dataclasses import asdict
from typing import Annotated

import typer

from fanfold import names
from fanfold.aws.queues import WorkQueue
from fanfold_cli.options import HomeOption, JsonOption, StackOption
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError, WrongValue, print_json, print_result, say
from fanfold_cli.users.smoke import Smoke, Step
from fanfold_client import Fanfold, pool_for

# Far longer than a delivery to one follower takes, cold starts included.
PATIENCE_SECONDS = 120.0
ROLES = ("publisher", "follower")
VARIABLE = "FANFOLD_{}_TOKEN"


def smoke(
    stack: StackOption = None,
    home: HomeOption = None,
    patience: Annotated[
        float, typer.Option(min=1, help="Seconds that any one step may take.")
    ] = PATIENCE_SECONDS,
    publisher_token: Annotated[
        str | None,
        typer.Option(
            envvar=VARIABLE.format("PUBLISHER"),
            help="Access token of a test user, where the stack has no pool.",
        ),
    ] = None,
    follower_token: Annotated[
        str | None,
        typer.Option(envvar=VARIABLE.format("FOLLOWER"), help="Access token of another one."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Try a deployed stage as two users made for it: publish, follow, read, edit, retract.

    Posts and follow are taken back, and the users deleted, whatever fails.
    """
    deployment = Deployment.to_change(stack, home)
    given = {"publisher": publisher_token, "follower": follower_token}
    if any(given.values()) != all(given.values()):
        raise WrongValue("Give the tokens of both users, or of neither.")
    tokens = [token for token in given.values() if token]
    made = [] if tokens else _new_users(deployment)
    steps: list[Step] = []
    left: list[str] = []
    current: Smoke | None = None
    try:
        tokens = tokens or [deployment.token(user) for user in made]
        current = _smoke(deployment, *tokens, patience=patience)
        for step in current.run():
            steps.append(step)
            if not as_json:
                print_result(_line(step))
    finally:
        left += current.clean() if current is not None else []
        left += _delete(deployment, made)
        for what in left:
            say(f"Left behind: {what}")
    is_right = not left and all(not step.failure for step in steps)
    if as_json:
        print_json({"is_right": is_right, "steps": [asdict(step) for step in steps], "left": left})
    elif is_right:
        print_result("The stage works. What was made for this is taken back.")
    if not is_right:
        raise typer.Exit(1)


def _smoke(deployment: Deployment, publisher: str, follower: str, *, patience: float) -> Smoke:
    pool = pool_for(deployment.api_url)
    publishing, following, nobody = (
        Fanfold(deployment.api_url, token, seconds=patience, pool=pool)
        for token in (publisher, follower, "not-a-token")
    )
    queue = WorkQueue(deployment.client("sqs"), deployment.settings().publish_queue_url)
    tag = f"smoke-{secrets.token_hex(6)}"
    return Smoke(publishing, following, nobody, queue, tag, patience)


def _new_users(deployment: Deployment) -> list[str]:
    if names.USER_POOL_ID_OUTPUT not in deployment.outputs:
        raise WrongValue(
            "The users of this stack come from an issuer, where none can be made: set "
            f"{' and '.join(VARIABLE.format(role.upper()) for role in ROLES)} to access tokens of "
            "two test users."
        )
    run = secrets.token_hex(6)
    return [f"fanfold-smoke-{run}-{role}" for role in ROLES]


def _delete(deployment: Deployment, users: list[str]) -> list[str]:
    """Delete those of the users that were made; return what could not be."""
    left = []
    for user in users:
        try:
            deployment.delete_user(user)
        except ExpectedError as error:
            left.append(f"the user {user}: {error}")
    return left


def _line(step: Step) -> str:
    outcome = f"FAILED: {step.failure}" if step.failure else "ok"
    return f"{step.seconds:6.1f} s  {step.name}: {outcome}"
