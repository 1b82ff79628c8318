"""What commands print: results on stdout, everything else as sentences on stderr."""

import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

import typer

from fanfold.invariants import INVARIANTS

# rich is imported where a table is drawn, and botocore where AWS is called: `--help` and refusals
# wait for neither.
if TYPE_CHECKING:
    from rich.table import Table

# Some languages and emoji need them.
_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
_SPACES = str.maketrans("\t\n", "  ")
# Wide enough for the longest output of a stack, a queue URL.
PIPE_COLUMNS = 200
# Longer words, such as URLs and ids, are folded, so that no column fills the terminal.
LONGEST_WORD = 20
# Smaller amounts are shown as less than this one.
LEAST_DOLLARS = 0.00001
# The exit code after Ctrl-C, as shells have it.
INTERRUPTED = 130
_said_broken: set[str] = set()


class ExpectedError(Exception):
    """A failure that a user can act on; its text says what happened and what to do."""

    exit_code = 1


class WrongValue(ExpectedError):
    """A value that is wrong in any state of the stack."""

    exit_code = 2  # as for options that do not exist


@contextmanager
def failing_with(sentence: str | Callable[[], str], *also: type[Exception]) -> Iterator[None]:
    """Raise errors of AWS, and of the types `also`, as `ExpectedError`: `sentence: error`."""
    from botocore.exceptions import BotoCoreError, ClientError

    expected: tuple[type[Exception], ...] = (ClientError, BotoCoreError, *also)
    try:
        yield
    except expected as error:
        said = sentence if isinstance(sentence, str) else sentence()
        raise ExpectedError(f"{said}: {error}") from error


@contextmanager
def interrupted_with(sentence: str | Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C, say what happened and what to do, and exit."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"Interrupted: {sentence if isinstance(sentence, str) else sentence()}")
        raise typer.Exit(INTERRUPTED) from None


def say(sentence: str) -> None:
    """Print to stderr what is not the result, so that stdout can be piped."""
    typer.echo(sentence, err=True)


def say_broken(name: str, ids: Mapping[str, object]) -> None:
    """Say that an invariant is broken: each one once, with the ids of the first row."""
    if name not in _said_broken:
        _said_broken.add(name)
        of = "".join(f", {key} '{printable(each)}'" for key, each in ids.items())
        say(
            f"An invariant is broken ({name}{of}): {INVARIANTS[name]} "
            "'A broken invariant' in docs/operations.md says what to do."
        )


def printable(value: object) -> str:
    """The text without characters that could steer the terminal: controls, changes of direction."""
    text = str(value).translate(_SPACES)
    return "".join(
        char if char.isprintable() or char in _JOINERS else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )


def escaped_json(text: str) -> str:
    """The same JSON, with characters that could steer the terminal escaped."""
    return "".join(
        char if char.isprintable() or char in "\r\n\t" else json.dumps(char)[1:-1] for char in text
    )


def print_json(value: Any) -> None:
    """Print one JSON document, the whole result of a command with `--json`."""
    typer.echo(json.dumps(value, indent=2, sort_keys=True))


def print_result(renderable: Any) -> None:
    """Print text or a table for people; in a pipe, lines are long and not wrapped.

    If a table is too wide for the terminal, each row becomes lines of names and values.
    """
    if isinstance(renderable, str):
        typer.echo(renderable)
        return
    from rich.console import Console
    from rich.table import Table

    if isinstance(renderable, Table) and renderable.box:
        is_whole = _keep_words_whole(renderable, columns())
        if not is_whole:
            _print_rows(renderable)
            return
    Console(width=columns()).print(renderable)


def _print_rows(table: "Table") -> None:
    if table.title is not None:
        print_result(f"{table.title}\n")
    names = [str(column.header) for column in table.columns]
    for number, cells in enumerate(zip(*(column.cells for column in table.columns), strict=True)):
        if number:
            print_result("")
        print_values(dict(zip(names, cells, strict=True)))


def _keep_words_whole(table: "Table", width: int) -> bool:
    """Let a narrow terminal wrap cells between words, and columns that fold, such as ids, anywhere.

    False if not even the longest words fit side by side.
    """
    least, missing = [], []
    for column in table.columns:
        is_folded = column.overflow == "fold"
        texts = [str(cell) for cell in (column.header, *column.cells)]
        words = (texts[0] if is_folded else " ".join(texts)).split()
        longest = max(map(len, words), default=0)
        if longest > LONGEST_WORD:
            column.overflow = "fold"
        least.append(min(longest, LONGEST_WORD))
        missing.append(max(map(len, texts)) - least[-1])
    # A border and a space on both sides of each column, and the last border.
    spare = width - sum(least) - 3 * len(least) - 1
    if spare < 0 or spare >= sum(missing):
        return spare >= 0
    for _ in range(spare):
        neediest = missing.index(max(missing))
        least[neediest] += 1
        missing[neediest] -= 1
    for column, given in zip(table.columns, least, strict=True):
        column.width = given
    return True


def number_table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> "Table":
    """A table that never cuts numbers."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="left" if column == "lane" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def text_table(
    columns: Sequence[str],
    rows: Iterable[Iterable[object]],
    *,
    folded: Collection[str] = (),
    title: str = "",
) -> "Table":
    """A table whose `folded` columns, such as ids, may be broken anywhere."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title) if title else None, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold" if column in folded else "ellipsis")
    for row in rows:
        # `Text`, because brackets in a string would be markup.
        table.add_row(*(Text(str(each)) for each in row))
    return table


def print_examples(columns: Sequence[str], rows: Collection[Iterable[object]], found: int) -> None:
    """Print a table of examples, if there are any, and of how many `found` they are the first."""
    if rows:
        print_result(text_table(columns, rows, folded=columns))
        if found > len(rows):
            say(f"The first {len(rows):,} of {found:,} are listed.")


def print_values(values: Mapping[str, object]) -> None:
    """Print one line for each name and its value."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
        # `Text`, because brackets in a string would be markup.
        table.add_row(name, Text(str(value)))
    print_result(table)


def columns() -> int:
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else PIPE_COLUMNS


def counted(count: int, noun: str, plural: str = "") -> str:
    """The count with its noun: `1 message`, `2,000 messages`."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def duration(seconds: float) -> str:
    """The largest unit and the next: `3 d 4 h`, `5 min 0 s`; below 10 s, tenths of a float."""
    if isinstance(seconds, float) and round(seconds, 1) < 10:
        return f"{seconds:.1f} s"
    rest, parts = round(seconds), list[str]()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count or parts or unit == "s":
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def dollars(amount: float) -> str:
    """Cents, or the first two digits that are not zero: `$6.28`, `$0.000068`."""
    if amount < LEAST_DOLLARS:
        return f"<${LEAST_DOLLARS:.5f}"
    digits = max(2, 1 - math.floor(math.log10(amount)))
    return f"${amount:,.{digits}f}"


def refuse_without_terminal(*, yes: bool, answer: str = "--yes") -> None:
    """Raise `ExpectedError` if there is no terminal to ask on, and no `yes`.

    `ask` does the same. Call it before work that is useless without an answer.
    """
    if not yes and not has_terminal():
        raise ExpectedError(
            f"Nothing was changed: there is no terminal to ask on. {answer} answers the question."
        )


def has_terminal() -> bool:
    try:
        return sys.stdin.isatty()
    except (AttributeError, ValueError):  # stdin is missing or closed
        return False


def ask(question: str, *, place: str, yes: bool, answer: str = "--yes") -> None:
    """Raise `ExpectedError` unless the user agrees, or has agreed by `--yes`; Ctrl-C exits.

    The question begins with the `place`, a stack. Only a terminal may answer, because a piped "y"
    may be meant for another question.
    """
    if yes:
        return
    refuse_without_terminal(yes=yes, answer=answer)
    try:
        # `confirm` writes its last space to stdout, even with `err`.
        with redirect_stdout(sys.stderr):
            agreed = typer.confirm(f"{place}: {question}", err=True)
    except typer.Abort as end:  # Ctrl-C, or Ctrl-D
        if isinstance(end.__context__, KeyboardInterrupt):
            say("\nInterrupted: nothing was changed.")
            raise typer.Exit(INTERRUPTED) from None
        raise ExpectedError(f"Nothing was changed; {answer} answers the question.") from None
    if not agreed:
        raise ExpectedError("Nothing was changed.")
