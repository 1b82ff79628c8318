"""`fanfold dlq`: list the dead letters of a stack, and move them back to their queues."""

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fanfold import names, times
from fanfold.aws import dead_letters
from fanfold.aws.dead_letters import DeadLetter, DeadLetterQueue
from fanfold_cli import event_sources, redriving
from fanfold_cli.console import columns, counted, failing_with, print_json, print_result, say
from fanfold_cli.options import HomeOption, JsonOption, StackOption
from fanfold_cli.stack import Deployment

# The longest that a listing takes; if it is killed, the messages reappear after this time.
HIDDEN_SECONDS = 30
LIMIT = 100
BODY_CHARS = 80
# The columns of the terminal that the table of messages needs.
WIDE = 130

app = typer.Typer(help="List the dead letters, and move them back.", no_args_is_help=True)

QUEUES = {queue.name.lower(): queue for queue in names.QUEUES}


class QueueName(StrEnum):
    """The keys of `QUEUES`: typer takes choices as an enumeration."""

    PUBLISH = "publish"
    EXPRESS = "express"
    BULK = "bulk"
    RELATION = "relation"


QueueOption = Annotated[
    QueueName | None, typer.Option("--queue", help=r"One queue. \[default: all of them]")
]


@app.command("list")
def show(
    queue: QueueOption = None,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, help="List at most this many of each queue.")
    ] = LIMIT,
    bodies: Annotated[
        bool, typer.Option("--bodies", help=f"Show the first {BODY_CHARS} characters of each.")
    ] = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List dead letters. They all stay; SQS counts one more receive for each of them."""
    deployment = Deployment.choose(stack, home)
    rows: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    notes: list[str] = []
    for name, each in _chosen(queue).items():
        with failing_with(f"The dead-letter queue of {name} cannot be read"):
            messages, counts[name] = _read(deployment, each, limit)
        rows += [_row(name, message, bodies) for message in messages]
        if counts[name] > len(messages):
            notes.append(
                f"{name} holds about {counted(counts[name], 'message')}, of which "
                f"{len(messages):,} are listed; --limit lists more."
            )
    if as_json:
        print_json({"messages": rows, "counts": counts})
        return
    _print(rows)
    for note in notes if rows else [*notes, "No dead letters were found."]:
        say(note)


@app.command()
def redrive(
    queue: QueueOption = None,
    rate: Annotated[
        int | None,
        typer.Option(min=1, max=redriving.MAX_RATE, help="Messages a second, at most."),
    ] = None,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move dead letters back to their queues, except posts that have expired."""
    deployment = Deployment.choose(stack, home)
    with failing_with(
        "The redrive stopped; run it again. Messages that were not moved are still in the "
        "dead-letter queue. The error"
    ):
        days = event_sources.run_time_settings(deployment).retention_days
        done = [
            redriving.redrive(deployment, each, rate=rate, retention_days=days)
            for each in _chosen(queue).values()
        ]
    moved, skipped = sum(each.moved for each in done), sum(each.skipped for each in done)
    if as_json:
        print_json({"moved": moved, "skipped": skipped, "queues": [asdict(each) for each in done]})
        return
    print_result(f"Moved {counted(moved, 'message')} back.")
    if skipped:
        say(f"Left {counted(skipped, 'expired post')} in the dead-letter queue.")


def _chosen(name: QueueName | None) -> dict[str, names.Queue]:
    return QUEUES if name is None else {name.value: QUEUES[name]}


def _read(deployment: Deployment, queue: names.Queue, limit: int) -> tuple[list[DeadLetter], int]:
    """Return the oldest of the messages read, `limit` at most, and about how many there are.

    Messages are hidden while the listing reads on, so that each is received once.
    """
    dead = DeadLetterQueue(deployment.client("sqs"), deployment.output(queue.dlq_url_output))
    count = dead.count()
    found: dict[str, DeadLetter] = {}
    try:
        while len(found) < min(limit, count):
            page = dead.receive(
                hidden_seconds=HIDDEN_SECONDS, wait_seconds=dead_letters.WAIT_SECONDS
            )
            if not page:
                break
            found |= {message.message_id: message for message in page}
    finally:
        dead.release(found.values())
    messages = sorted(found.values(), key=lambda message: message.sent_at)
    return messages[:limit], max(count, len(found))


def _row(queue: str, message: DeadLetter, bodies: bool) -> dict[str, Any]:
    row = {
        "queue": queue,
        "message_id": message.message_id,
        "sent_at": times.to_text(message.sent_at),
        "receives": message.receives,
        "size": message.size,
        "reason": message.reason,
    }
    return row | ({"body": message.body[:BODY_CHARS]} if bodies else {})


def _print(rows: list[dict[str, Any]]) -> None:
    shown = [{name: _printable(value) for name, value in row.items()} for row in rows]
    if columns() < WIDE:
        for row in shown:
            print_result("".join(f"{name:>10}: {value}\n" for name, value in row.items()))
    elif shown:
        table = Table()
        for name in shown[0]:
            is_whole = name in ("queue", "message_id", "sent_at")
            table.add_column(name, overflow="fold", no_wrap=is_whole)
        for row in shown:
            # `Text` shows brackets of a message as they are; a string would be read as markup.
            table.add_row(*map(Text, row.values()))
        print_result(table)


def _printable(value: object) -> str:
    """Replace control characters, which could steer the terminal."""
    text = str(value)
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
