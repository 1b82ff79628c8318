"""`fanfold status`: what a stage owes now, and whether everything is well."""

import typer

from fanfold_cli.health import reading, screen
from fanfold_cli.health.verdict import NOT_KNOWN, verdict_on
from fanfold_cli.options import HomeOption, JsonOption, StackOption
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError, print_json


class NoStack(ExpectedError):
    """The stack was not found, so nothing is known of it."""

    exit_code = NOT_KNOWN


def status(stack: StackOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Say whether everything is well, and show what is owed now.

    Exit code 0: everything is well; 1: it is not; 2: that is not known, as something could not be
    read.
    """
    try:
        deployment = Deployment.choose(stack, home)
    except ExpectedError as error:
        raise NoStack(str(error)) from error
    with waiting_for("the stack"):
        health = reading.read(deployment)
    verdict = verdict_on(health)
    if as_json:
        print_json(screen.content(health, verdict))
    else:
        screen.draw(health, verdict)
    if verdict.exit_code:
        raise typer.Exit(verdict.exit_code)
