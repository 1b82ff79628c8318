"""`fanfold fanout`: show, watch, list, resend or abandon the deliveries in the ledger."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

import typer

from fanfold import clock
from fanfold.errors import TryLater, Unsent
from fanfold.fanout.row import CHANNEL, COMPLETE, ENDED, EXPIRED, STALLED, Fanout
from fanfold.fanout.status import status_of
from fanfold_cli.deliveries import fanouts, pauses
from fanfold_cli.deliveries.watch import until_ended
from fanfold_cli.options import HomeOption, JsonOption, RefId, StackOption, YesOption, checked_id
from fanfold_cli.progress import progress_bar, waiting_for
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import (
    ExpectedError,
    ask,
    counted,
    failing_with,
    interrupted_with,
    print_json,
    print_result,
    print_values,
    refuse_without_terminal,
    say,
)
from fanfold_cli.usage import WrongUsage

# Longer than the largest fan-out takes; one without progress becomes stalled sooner.
PATIENCE_SECONDS = 3600.0

LIMIT = 100

app = typer.Typer(
    help="Show, watch, list, resend or abandon deliveries of posts.", no_args_is_help=True
)

RefIds = Annotated[
    list[str] | None, typer.Argument(metavar="REF_ID", help="The ref_ids of the posts.")
]


@app.command()
def show(
    ref_id: RefId, stack: StackOption = None, home: HomeOption = None, as_json: JsonOption = False
) -> None:
    """Show the state of a delivery; exit code 1 if the post is unknown."""
    ledger = Deployment.choose(stack, home).stores().ledger
    _print(fanouts.row_of(ledger, ref_id), as_json=as_json)


@app.command()
def watch(
    ref_id: RefId,
    stack: StackOption = None,
    home: HomeOption = None,
    timeout: Annotated[
        float, typer.Option(min=0, help="Stop watching after this many seconds.")
    ] = PATIENCE_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Watch a delivery until it ends; exit code 1 if it does not complete in time."""
    ledger = Deployment.choose(stack, home).stores().ledger
    row = until_ended(
        lambda: fanouts.row_of(ledger, ref_id), lambda row: asdict(status_of(row)), seconds=timeout
    )
    _print(row, as_json=as_json)
    status = status_of(row)
    if status.state == COMPLETE:
        return
    if status.state == STALLED:
        say(
            f"The delivery of '{ref_id}' has stalled. `fanfold dlq list` shows why its messages "
            "failed: repair the cause, then run `fanfold dlq redrive`. If there are no dead "
            "letters, run `fanfold fanout resend`."
        )
    elif status.state == EXPIRED:
        say(
            f"The delivery of '{ref_id}' has expired: the time to live of its entries was over "
            "before all were written. If the post still matters, publish it under another ref_id."
        )
    elif status.state in ENDED:
        say(f"The delivery of '{ref_id}' was {status.state}; nothing continues it.")
    else:
        say(f"'{ref_id}' was not complete within {timeout:g} s; its delivery goes on.")
    raise typer.Exit(1)


@app.command("list")
def list_(
    stalled: Annotated[
        bool, typer.Option("--stalled", help="List deliveries that SWEEP has given up.")
    ] = False,
    is_open: Annotated[bool, typer.Option("--open", help="List deliveries in progress.")] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, help="Maximum to list of each kind.")
    ] = LIMIT,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List stalled and open deliveries, oldest first."""
    deployment = Deployment.choose(stack, home)
    both = not stalled and not is_open
    with (
        failing_with("The ledger cannot be read; run it again", TryLater),
        waiting_for("the ledger"),
    ):
        found = fanouts.listed(
            deployment, stalled=stalled or both, is_open=is_open or both, limit=limit
        )
        paused = pauses.read(deployment)
    if as_json:
        rows = [fanouts.content(row) for row in found.rows]
        lanes = None if paused.failure else [asdict(each) for each in paused.lanes]
        print_json({"fanouts": rows, "counts": found.counts, "paused": lanes})
        return
    if found.rows:
        fanouts.draw(found.rows)
    for state, count in found.counts.items():
        more = f", of which {limit:,} are listed; --limit lists more" if count > limit else ""
        say(f"{counted(count, 'delivery', 'deliveries')} {state}{more}.")
    if told := paused.told(clock.now_ms()):
        say(told)


@app.command()
def resend(
    ref_ids: RefIds = None,
    stalled: Annotated[
        bool, typer.Option("--stalled", help="Resend all stalled deliveries.")
    ] = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resend pending messages of deliveries, stalled or not; duplicates do no harm."""
    if bool(ref_ids) == stalled:
        raise WrongUsage("Name REF_IDs, or --stalled.")
    deployment = Deployment.to_change(stack, home)
    known, missing = _known(deployment, ref_ids or ())
    _say_which_ended(known.values())
    again = "Not all messages were sent; run it again"
    with interrupted_with("run it again."), failing_with(again, Unsent):
        ids = list(deployment.stores().ledger.stalled_ids()) if stalled else list(known)
        with progress_bar("Sending", total=len(ids), unit="deliveries") as bar:
            sent = fanouts.resend(deployment, ids, bar)
    total = sum(sent.values())
    if as_json:
        print_json({"fanouts": sent, "sent": total, "not_found": missing})
    else:
        which = f"'{ids[0]}'" if len(ids) == 1 else counted(len(ids), "delivery", "deliveries")
        print_result(f"Sent {counted(total, 'message')} for {which}.")
    _end(missing)


@app.command()
def abandon(
    ref_ids: RefIds = None,
    yes: YesOption = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """End deliveries for good; asks first.

    Delivered entries stay. An abandoned delivery cannot be resumed.
    """
    if not ref_ids:
        raise WrongUsage("Name REF_IDs.")
    refuse_without_terminal(yes=yes)
    deployment = Deployment.to_change(stack, home)
    known, missing = _known(deployment, ref_ids)
    _say_which_ended(known.values())
    going_on = [row for row in known.values() if row.state not in ENDED]
    done: list[str] = []
    if going_on:
        if not as_json:
            fanouts.draw(going_on)
        say("Followers who do not have these posts yet will not get them. Nothing reopens this.")
        question = f"Abandon {counted(len(going_on), 'delivery', 'deliveries')}?"
        ask(question, place=deployment.place, yes=yes)
        again = "Not all were abandoned; run it again"
        with (
            interrupted_with("run it again."),
            failing_with(again),
            waiting_for(f"{counted(len(going_on), 'delivery', 'deliveries')} to be abandoned"),
        ):
            done = fanouts.abandon(deployment, [row.fanout_id for row in going_on])
    if as_json:
        print_json({"abandoned": done, "not_found": missing})
    else:
        print_result(f"Abandoned {counted(len(done), 'delivery', 'deliveries')}.")
    _end(missing)


def _known(deployment: Deployment, ref_ids: Iterable[str]) -> tuple[dict[str, Fanout], list[str]]:
    """The rows of the known ids, and the ids that the ledger does not know, without repetitions.

    Raises `ExpectedError` if it knows none of them.
    """
    given = [checked_id(ref_id) for ref_id in dict.fromkeys(ref_ids)]
    ledger = deployment.stores().ledger
    with failing_with("The ledger cannot be read"), waiting_for("the ledger"):
        rows = {ref_id: ledger.get(ref_id) for ref_id in given}
    known = {ref_id: row for ref_id, row in rows.items() if row is not None}
    missing = [ref_id for ref_id in given if ref_id not in known]
    if missing and not known:
        raise ExpectedError(fanouts.unknown(missing))
    return known, missing


def _say_which_ended(rows: Iterable[Fanout]) -> None:
    for row in rows:
        if row.state in ENDED:
            say(f"'{row.fanout_id}' has ended already: {row.state}.")


def _end(missing: list[str]) -> None:
    if missing:
        say(fanouts.unknown(missing))
        raise typer.Exit(1)


def _print(row: Fanout, *, as_json: bool) -> None:
    status = status_of(row)
    if as_json:
        print_json(asdict(status))
        return
    values = asdict(status)
    for name, value in values.items():
        if value is None or isinstance(value, int):
            values[name] = "-" if value is None else f"{value:,}"
    if status.state == COMPLETE and status.followers_estimated != status.delivered:
        # Without this note, the difference would look like lost posts.
        values["followers_estimated"] += " (a forecast; every follower has the post)"
    if status.by == CHANNEL:
        readers = f"read by about {counted(row.followers, 'follower')}"
        values["by"] = f"in the channel of {row.publisher_id}, {readers}"
    if row.repaired:
        values["repaired"] = f"{row.repaired:,} (found missing by an audit, and written)"
    print_values(values)
