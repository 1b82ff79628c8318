"""Help and refusals of options in plain words; Typer's own quote the library that reads values."""

from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperOption

# What a library sets before the text of an error.
PREFIX = "Value error, "


class WrongUsage(typer.BadParameter):
    """What the user typed cannot be meant; the message is a whole sentence, the exit code 2."""

    def format_message(self) -> str:
        return self.message


def in_plain_words(error: typer.BadParameter) -> typer.BadParameter:
    """The same refusal as one sentence; what is missing is said plainly already."""
    parameter: Any = error.param
    if type(error) is not typer.BadParameter or parameter is None:
        return error
    name = error.param_hint or parameter.get_error_hint()
    name = (name if isinstance(name, str) else " / ".join(name)).replace("'", "")
    problems: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    sentence = _about_a_number(parameter, problems[0]) if problems else ""
    if sentence:
        return WrongUsage(f"{name} must be {sentence}.", ctx=error.ctx)
    return WrongUsage(f"{name}: {error.message.removeprefix(PREFIX)}", ctx=error.ctx)


def _about_a_number(parameter: Any, problem: dict[str, Any]) -> str:
    """What it must be, and what it is; empty if the problem is not about a number."""
    kind, given, low, high = problem["type"], problem["input"], parameter.min, parameter.max
    is_number = kind.startswith(("int", "float"))
    if not is_number and kind not in ("greater_than_equal", "less_than_equal"):
        return ""
    words = ["a whole number" if kind.startswith("int") else "a number"] if is_number else []
    if low is not None and high is not None:
        words.append(f"from {low} to {high}")
    elif low is not None:
        words.append(f"{low} or more")
    elif high is not None:
        words.append(f"{high} or less")
    wanted = " ".join(words) if high is not None else ", ".join(words)
    return f"{wanted}, not {repr(given) if is_number else given}"


def hide_flag_types(parameters: Iterable[Any]) -> None:
    """A flag takes no value, so its help must not ask for a `<bool>`."""
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
