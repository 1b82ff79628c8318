"""What the commands say: results on stdout, everything else as sentences on stderr."""

import json
from typing import Any

import typer
from rich.console import Console
from rich.text import Text


class ExpectedError(Exception):
    """A failure that a user can act on; its text says what happened and what to do."""


def say(sentence: str) -> None:
    """Tell the user something that is not the result; stdout stays clean for pipes."""
    typer.echo(sentence, err=True)


def print_json(value: Any) -> None:
    """Print one JSON document, the whole result of a command with `--json`."""
    typer.echo(json.dumps(value, indent=2, sort_keys=True))


def print_result(renderable: Any) -> None:
    """Print a table for people; a long value is folded, because a cut URL is of no use."""
    Console().print(Text(renderable) if isinstance(renderable, str) else renderable)
