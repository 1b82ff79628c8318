"""The `fanfold` command: its sub-commands, and the one place that reports expected failures."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from fanfold_cli import console
from fanfold_cli.commands import (
    cost,
    demo,
    dlq,
    doctor,
    fanout,
    local,
    pause,
    preflight,
    seed,
    shards,
    warm,
)

app = typer.Typer(
    name="fanfold",
    help="Operate a Fanfold stack, on AWS or on the local engine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(local.app, name="local")
app.add_typer(fanout.app, name="fanout")
app.add_typer(dlq.app, name="dlq")
app.add_typer(shards.app, name="shards")
for command in (
    pause.pause,
    pause.resume,
    doctor.doctor,
    cost.cost,
    preflight.preflight,
    warm.warm,
    demo.demo,
    seed.seed,
):
    app.command()(command)


def _version(is_asked: bool) -> None:
    if is_asked:
        console.print_result(f"fanfold {version('fanfold')}")
        raise typer.Exit


@app.callback()
def fanfold(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Operate a Fanfold stack, on AWS or on the local engine."""


def main() -> None:
    """Run the command line; an expected failure is a sentence and exit code 1, not a traceback."""
    try:
        app()
    except console.ExpectedError as error:
        console.say(str(error))
        sys.exit(1)
