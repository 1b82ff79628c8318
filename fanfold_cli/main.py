"""The `fanfold` command: its sub-commands, and one place where expected failures are answered."""

import sys

import typer

from fanfold_cli import console, local

app = typer.Typer(
    name="fanfold",
    help="Operate a Fanfold stack, on AWS or on the local engine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(local.app, name="local")


@app.callback()
def fanfold() -> None:
    """Operate a Fanfold stack, on AWS or on the local engine."""


def main() -> None:
    """Run the command line; an expected failure is a sentence and exit code 1, not a traceback."""
    try:
        app()
    except console.ExpectedError as error:
        console.say(str(error))
        sys.exit(1)
