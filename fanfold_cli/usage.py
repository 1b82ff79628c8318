"""Help and usage errors in plain words; Typer's own quote its libraries."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer
from typer.core import TyperOption

# What a library sets before the text of an error.
PREFIX = "Value error, "
# Typer's usage errors, and our sentences for them. Typer adds the hint about --help.
OURS: Final = (
    (r"No such command ('.*?')\.", r"There is no command \1."),
    (r"No such option: (\S+) \(Possible options: (.*)\)", r"There is no option \1; there is \2."),
    (r"No such option: (\S+)", r"There is no option \1."),
    (r"Missing (?:option|argument) '(.*?)'\.", r"\1 is missing: give it too."),
    (r"Got unexpected extra argument\(s\) \((.*)\)", r"Too many words: leave out \1."),
    (r"Option '(.*)' requires an argument\.", r"\1 needs a value after it."),
    (r"Option '(.*)' does not take a value\.", r"\1 takes no value: leave it out."),
)
# The base class of Typer's usage errors.
UsageError: Any = typer.BadParameter.__base__


class WrongUsage(typer.BadParameter):
    """A usage error whose message is a whole sentence; exit code 2."""

    def format_message(self) -> str:
        return self.message


@contextmanager
def plain_words() -> Iterator[None]:
    """Raise Typer's usage errors as `WrongUsage`."""
    try:
        yield
    except UsageError as error:
        plain = in_plain_words(error)
        if plain is error:
            raise
        raise plain from error


def in_plain_words(error: Any) -> Any:
    """The same error as one sentence."""
    parameter: Any = getattr(error, "param", None)
    if type(error) is not typer.BadParameter or parameter is None:
        return _about_words(error)
    name = error.param_hint or parameter.get_error_hint()
    name = (name if isinstance(name, str) else " / ".join(name)).replace("'", "")
    problems: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    sentence = _about_a_number(parameter, problems[0]) if problems else ""
    if sentence:
        return WrongUsage(f"{name} must be {sentence}.", ctx=error.ctx)
    return WrongUsage(f"{name}: {error.message.removeprefix(PREFIX)}", ctx=error.ctx)


def _about_words(error: Any) -> Any:
    """An error about unknown or missing words; other errors are our own sentences already."""
    said = error.format_message()
    for theirs, ours in OURS:
        if re.match(theirs, said):
            return WrongUsage(re.sub(theirs, ours, said, count=1), ctx=error.ctx)
    return error


def _about_a_number(parameter: Any, problem: dict[str, Any]) -> str:
    """What the value must be, and what it is; empty if the problem is not about a number."""
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
