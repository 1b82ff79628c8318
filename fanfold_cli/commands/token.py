"""`fanfold token`: an access token of a user of the stack's pool."""

from dataclasses import asdict
from typing import Annotated

import typer

from fanfold_cli.options import HomeOption, JsonOption, StackOption
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import print_json, print_result, say
from fanfold_cli.users.acting import check_user
from fanfold_cli.users.sign_in import Signed, sign_in


def token(
    user: Annotated[str, typer.Option("--user", help="Name of the user, who is created if new.")],
    reset_password: Annotated[
        bool,
        typer.Option(
            "--reset-password",
            help="Also for a user of AWS whom somebody else has made, whose password is lost.",
        ),
    ] = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print an access token of a user, and nothing else on stdout; not of a stage like prod."""
    check_user(user)
    deployment = Deployment.to_change(stack, home)
    signed = sign_in(deployment, user, reset_password=reset_password)
    known_as = _known_as(deployment, signed)
    if as_json:
        print_json(asdict(signed) | {"id": known_as})
        return
    print_result(signed.token)
    if known_as != user:
        say(f"On this stack, {user} is known as {known_as}: others follow this id.")


def _known_as(deployment: Deployment, signed: Signed) -> str:
    """The id of the user, by the claim that the stage has chosen."""
    if deployment.is_local:
        return signed.user
    return signed.sub if deployment.run_time_settings().user_claim == "sub" else signed.user
