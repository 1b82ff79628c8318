"""`fanfold dlq`: list, show, redrive, drop or restore the dead letters of a stack."""

from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fanfold import names
from fanfold.aws.dead_letters import CONTRACT
from fanfold_cli import kept_file
from fanfold_cli.dlq import dropping, move_tasks, redriving
from fanfold_cli.dlq.letters import (
    BODY_CHARS,
    QUEUES,
    draw,
    held_elsewhere,
    holding,
    oldest,
    row,
    visible,
)
from fanfold_cli.options import HomeOption, JsonOption, StackOption, YesOption
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import (
    INTERRUPTED,
    ExpectedError,
    counted,
    failing_with,
    interrupted_with,
    print_json,
    print_result,
    print_values,
    printable,
    refuse_without_terminal,
    say,
)
from fanfold_cli.usage import WrongUsage

LIMIT = 100

app = typer.Typer(help="List, show, redrive, drop or restore dead letters.", no_args_is_help=True)


class QueueName(StrEnum):
    """The keys of `QUEUES`: typer takes choices as an enumeration."""

    PUBLISH = "publish"
    EXPRESS = "express"
    BULK = "bulk"
    RELATION = "relation"


QueueOption = Annotated[
    QueueName | None, typer.Option("--queue", help=r"Only this queue. \[default: all queues]")
]
SomeIds = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help="Message ids from `fanfold dlq list`.")
]


@app.command("list")
def list_(
    queue: QueueOption = None,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, help="Maximum to list per queue.")
    ] = LIMIT,
    bodies: Annotated[
        bool,
        typer.Option("--bodies", help=f"Also show the first {BODY_CHARS} characters of each body."),
    ] = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the dead letters.

    None is removed, but SQS counts one more receive of each.
    """
    deployment = Deployment.choose(stack, home)
    rows: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    held: dict[str, int] = {}
    notes: list[str] = []
    for name, each in _chosen(queue).items():
        with (
            failing_with(f"The dead-letter queue of {name} cannot be read"),
            waiting_for(f"the dead letters of {name}"),
        ):
            letters, counts[name], missed = oldest(deployment, each, limit)
        rows += [row(name, letter, bodies) for letter in letters]
        if len(letters) == limit < counts[name]:
            listed = f"{len(letters):,} {'is' if len(letters) == 1 else 'are'} listed"
            holds = f"{name} holds about {counted(counts[name], 'message')}"
            notes.append(f"{holds}, of which {listed}; --limit lists more.")
        elif missed:
            held[name] = missed
    if as_json:
        print_json({"messages": rows, "counts": counts, "held": held})
    else:
        draw(rows)
        for note in notes:
            say(note)
        if not rows and not held:
            say("No dead letters were found.")
    _end([], held)


@app.command()
def show(
    message_id: Annotated[
        str, typer.Argument(metavar="ID", help="Message id from `fanfold dlq list`.")
    ],
    queue: QueueOption = None,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a dead letter with its full body; exit code 1 if it is not found."""
    deployment = Deployment.choose(stack, home)
    with (
        failing_with("The dead letters cannot be read"),
        holding(deployment, _chosen(queue).values(), {message_id}) as held,
    ):
        found = [(each.name, letter) for each in held for letter in each.letters.values()]
    if not found:
        raise ExpectedError(_not_found([message_id]))
    ((name, letter),) = found
    about = {**row(name, letter, bodies=False), "group": letter.group, "type": letter.type}
    if as_json:
        print_json({**about, "body": letter.body})
        return
    print_values({key: printable(value) for key, value in about.items()})
    print_result(visible(letter.body))


@app.command()
def redrive(
    ids: SomeIds = None,
    queue: QueueOption = None,
    rate: Annotated[
        int | None,
        typer.Option(min=1, max=move_tasks.MAX_RATE, help="Maximum messages per second."),
    ] = None,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move dead letters back to their queues: all, or those named.

    Letters that cannot succeed stay.
    """
    deployment = Deployment.to_change(stack, home)
    begun, missing, is_interrupted = list[redriving.Moving](), list[str](), False
    try:
        with failing_with("Nothing was moved; run it again. The error"):
            days = deployment.run_time_settings().retention_days
            run = redriving.Redrive(deployment, begun, rate, days)
            chosen = _chosen(queue).values()
            if ids:
                missing = run.move_named(chosen, ids)
            else:
                for each in chosen:
                    run.move_all(each)
    except KeyboardInterrupt:
        is_interrupted = True
    held = {each.name: each.held for each in begun if each.held}
    moved = sum(each.moved for each in begun)
    stayed = sum((each.stays for each in begun), Counter[str]())
    errors = [each.error for each in begun if each.error]
    if as_json:
        print_json(
            {
                "moved": moved,
                "stayed": stayed,
                "not_found": missing,
                "queues": [each.content() for each in begun],
            }
        )
    else:
        if moved or stayed or missing or held or errors or is_interrupted:
            print_result(f"Moved {counted(moved, 'message')} back.")
        else:
            print_result("There was nothing to move back: no dead letters were found.")
        redriving.say_what_stayed(stayed, "the dead-letter queue")
        if CONTRACT in stayed:
            say("`fanfold dlq list` says why, and `fanfold dlq drop` removes them.")
    for error in errors:
        say(error)
    if is_interrupted:
        say(f"Interrupted: run it again. {redriving.NOT_MOVED}")
    failed = bool(errors or (ids and stayed))
    _end(missing, held, code=INTERRUPTED if is_interrupted else int(failed))


@app.command()
def drop(
    ids: SomeIds = None,
    queue: QueueOption = None,
    every: Annotated[
        bool, typer.Option("--all", help="Drop all dead letters of the queue given by --queue.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(help=r"New file to save them in. \[default: dead-letters-TIME.jsonl]"),
    ] = None,
    yes: YesOption = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Save dead letters to a file for `restore`, then delete them; asks first."""
    if bool(ids) == every or (every and queue is None):
        raise WrongUsage("Name message ids, or --queue and --all.")
    refuse_without_terminal(yes=yes)
    deployment = Deployment.to_change(stack, home)
    file = to or kept_file.default_path("dead-letters")
    done = dropping.drop(
        deployment, _chosen(queue).values(), None if every else ids, file=file, yes=yes
    )
    kept = [letter.message_id for letter in done.kept]
    if as_json:
        print_json(
            {
                "dropped": len(done.dropped),
                "file": str(done.file) if done.file else None,
                "not_dropped": kept,
                "not_found": done.missing,
                "held": done.held,
            }
        )
    else:
        it = "it" if len(done.dropped) == 1 else "them"
        where = f"; {file} holds {it}" if done.file else ""
        print_result(f"Dropped {counted(len(done.dropped), 'letter')}{where}.")
    if kept:
        say(f"SQS did not delete {', '.join(kept)}; run the command again for them.")
    _end(done.missing, done.held, code=int(bool(kept)))


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File written by `drop`.")],
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send dropped letters back to their queues; sending one twice does no harm."""
    deployment = Deployment.to_change(stack, home)
    letters = dropping.read_file(file, place=deployment.place)
    with failing_with("Nothing was sent back"):
        days = deployment.run_time_settings().retention_days
        for queue in {queue.name: queue for queue, _ in letters}.values():
            move_tasks.refuse_while_running(deployment, queue)
    with interrupted_with("run it again; a letter that is sent twice does no harm."):
        sent, stayed = dropping.restore(deployment, letters, retention_days=days)
    if as_json:
        print_json({"sent": sent, "stayed": stayed})
    else:
        print_result(f"Sent {counted(sent, 'letter')} back.")
        redriving.say_what_stayed(stayed, str(file))
    _end([], {}, code=int(bool(stayed)))


def _not_found(ids: list[str]) -> str:
    return (
        f"No dead letter that can be read now has the id {', '.join(ids)}. `fanfold dlq list` "
        "shows the ids; one that another command holds is back within ten minutes."
    )


def _end(missing: list[str], held: dict[str, int], *, code: int = 0) -> None:
    """Exit with this code, or with 1 if a letter was not found or another command holds it."""
    if missing:
        say(_not_found(missing))
    for name, count in held.items():
        say(held_elsewhere(name, count))
    if missing or held or code:
        raise typer.Exit(code or 1)


def _chosen(name: QueueName | None) -> dict[str, names.Queue]:
    return QUEUES if name is None else {name.value: QUEUES[name]}
