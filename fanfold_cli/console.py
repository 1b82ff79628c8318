"""What the commands say: results on stdout, everything else as sentences on stderr."""

import json
from typing import Any

import typer
from rich.console import Console

# Wide enough for the longest output of a stack, a queue's URL.
PIPE_COLUMNS = 200


class ExpectedError(Exception):
    """A failure that a user can act on; its text says what happened and what to do."""


def say(sentence: str) -> None:
    """Tell the user something that is not the result; stdout stays clean for pipes."""
    typer.echo(sentence, err=True)


def print_json(value: Any) -> None:
    """Print one JSON document, the whole result of a command with `--json`."""
    typer.echo(json.dumps(value, indent=2, sort_keys=True))


def print_result(renderable: Any) -> None:
    """Print text or a table for people; what is read by a pipe is not cut into short lines."""
    if isinstance(renderable, str):
        typer.echo(renderable)
        return
    Console(width=columns()).print(renderable)


def columns() -> int:
    """How many characters fit into a line of stdout."""
    console = Console()
    return console.width if console.is_terminal else PIPE_COLUMNS
