"""`fanfold dlq`: what is in the dead-letter queues, and back with it."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.table import Table
from rich.text import Text

from fanfold import names, times
from fanfold.aws import dead_letters
from fanfold.aws.dead_letters import DeadLetter, DeadLetterQueue
from fanfold_cli import event_sources, redriving
from fanfold_cli.console import ExpectedError, columns, print_json, print_result, say
from fanfold_cli.options import HomeOption, JsonOption, StackOption
from fanfold_cli.stack import Deployment

# As long as a listing takes at most; one that is killed leaves the letters hidden for so long.
HIDDEN_SECONDS = 30
LIMIT = 100
BODY_CHARS = 80
# A table of letters needs as many columns.
WIDE = 130

app = typer.Typer(help="The dead-letter queues.", no_args_is_help=True)

QUEUES = {queue.name.lower(): queue for queue in names.QUEUES}


class QueueName(StrEnum):
    """The keys of `QUEUES`, as typer wants to have them."""

    PUBLISH = "publish"
    EXPRESS = "express"
    BULK = "bulk"
    RELATION = "relation"


QueueOption = Annotated[
    QueueName | None, typer.Option("--queue", help="One queue. [default: all of them]")
]


@dataclass(frozen=True)
class Listed:
    """The letters of one queue that were looked at, and about how many there are."""

    queue: names.Queue
    letters: list[DeadLetter]
    count: int


@app.command("list")
def show(
    queue: QueueOption = None,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, help="Look at so many messages of each queue.")
    ] = LIMIT,
    bodies: Annotated[
        bool, typer.Option("--bodies", help=f"Show the first {BODY_CHARS} characters of each.")
    ] = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List dead letters; all of them stay where they are, and each counts one more receive."""
    deployment = Deployment.choose(stack, home)
    try:
        found = [_look(deployment, each, limit) for each in _chosen(queue)]
    except (ClientError, BotoCoreError) as error:
        raise ExpectedError(f"A dead-letter queue cannot be read: {error}") from error
    rows = [_row(each.queue, letter, bodies) for each in found for letter in each.letters]
    if as_json:
        print_json({"messages": rows, "counts": {e.queue.name.lower(): e.count for e in found}})
        return
    if rows and columns() >= WIDE:
        print_result(_table(rows))
    else:
        for row in rows:
            print_result(_lines(row))
    for each in found:
        if each.count > len(each.letters):
            say(
                f"{each.queue.name.lower()} holds about {each.count:,} messages, and "
                f"{len(each.letters):,} were looked at; --limit looks at more."
            )
    if not rows:
        say("No dead letters were found.")


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
    """Move dead letters back to their queue, but for posts that are past their time to live."""
    deployment = Deployment.choose(stack, home)
    try:
        days = event_sources.run_time_settings(deployment).retention_days
        done = [
            redriving.redrive(deployment, each, rate=rate, retention_days=days)
            for each in _chosen(queue)
        ]
    except (ClientError, BotoCoreError) as error:
        raise ExpectedError(
            f"The redrive stopped: {error} What was not moved is where it was; run it again."
        ) from error
    moved, skipped = sum(each.moved for each in done), sum(each.skipped for each in done)
    if as_json:
        print_json({"moved": moved, "skipped": skipped, "queues": [asdict(each) for each in done]})
        return
    print_result(f"{moved:,} messages were moved back.")
    if skipped:
        say(f"{skipped:,} posts are past their time to live and were left.")


def _chosen(name: QueueName | None) -> tuple[names.Queue, ...]:
    return names.QUEUES if name is None else (QUEUES[name],)


def _look(deployment: Deployment, queue: names.Queue, limit: int) -> Listed:
    """Receive up to so many letters, hidden only until all are looked at."""
    dead = DeadLetterQueue(deployment.client("sqs"), deployment.output(queue.dlq_url_output))
    count = dead.count()
    found: dict[str, DeadLetter] = {}
    try:
        while len(found) < min(limit, count):
            page = dead.take(hidden_seconds=HIDDEN_SECONDS, wait_seconds=dead_letters.WAIT_SECONDS)
            if not page:
                break
            found |= {letter.message_id: letter for letter in page}
    finally:
        dead.show_again(found.values())
    letters = sorted(found.values(), key=lambda letter: letter.sent_at)
    return Listed(queue, letters[:limit], max(count, len(found)))


def _row(queue: names.Queue, letter: DeadLetter, bodies: bool) -> dict[str, Any]:
    row = {
        "queue": queue.name.lower(),
        "message_id": letter.message_id,
        "sent_at": times.to_text(letter.sent_at),
        "receives": letter.receives,
        "size": letter.size,
        "reason": letter.reason,
    }
    if bodies:
        row["body"] = letter.body[:BODY_CHARS]
    return row


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table()
    for name in rows[0]:
        table.add_column(name, overflow="fold", no_wrap=name in ("queue", "message_id", "sent_at"))
    for row in rows:
        # Text, because a sender's own is no markup.
        table.add_row(*(Text(_plain(value)) for value in row.values()))
    return table


def _lines(row: dict[str, Any]) -> str:
    """One letter, for a terminal that has no room for the table."""
    return "\n".join(f"{name:>10}: {_plain(value)}" for name, value in row.items()) + "\n"


def _plain(value: object) -> str:
    """Text without what steers a terminal."""
    text = str(value)
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
