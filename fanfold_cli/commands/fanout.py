"""`fanfold fanout`: show, watch or resend the delivery of one post, as the ledger knows it."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from fanfold import clock, times
from fanfold.aws.queues import WorkQueue
from fanfold.errors import Unsent
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.row import COMPLETE, STALLED, Fanout
from fanfold.fanout.status import Status, status_of
from fanfold.messages import PlanFanout
from fanfold_cli.console import (
    ExpectedError,
    counted,
    failing_with,
    print_json,
    print_result,
    print_values,
    say,
)
from fanfold_cli.options import HomeOption, JsonOption, StackOption, checked_id
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment
from functions import _wiring

# More than the largest fan-out takes; one without progress is reported as stalled before.
PATIENCE_SECONDS = 3600.0
POLL_SECONDS = 0.5

app = typer.Typer(help="Show, watch or resend the delivery of one post.", no_args_is_help=True)

RefId = Annotated[str, typer.Argument(metavar="REF_ID", help="The ref_id of the post.")]


@app.command()
def show(
    ref_id: RefId, stack: StackOption = None, home: HomeOption = None, as_json: JsonOption = False
) -> None:
    """Show the state of a delivery; exit code 1 if the ledger does not know the post."""
    ledger = _ledger(Deployment.choose(stack, home))
    _print(status_of(_row(ledger, ref_id)), as_json=as_json)


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
    """Watch a delivery until it is complete; exit code 1 if it stalls or takes too long."""
    ledger = _ledger(Deployment.choose(stack, home))
    status = _follow(lambda: status_of(_row(ledger, ref_id)), timeout=timeout)
    _print(status, as_json=as_json)
    if status.state == COMPLETE:
        return
    if status.state == STALLED:
        say(
            f"The delivery of '{ref_id}' has stalled. `fanfold dlq list` shows why its messages "
            "failed: repair the cause, then run `fanfold dlq redrive`. If there are no dead "
            "letters, run `fanfold fanout resend`."
        )
    else:
        say(f"'{ref_id}' was not complete within {timeout:g} s; its delivery goes on.")
    raise typer.Exit(1)


@app.command()
def resend(
    ref_id: RefId, stack: StackOption = None, home: HomeOption = None, as_json: JsonOption = False
) -> None:
    """Send pending messages of a delivery again, even if it stalled. Duplicates do no harm."""
    deployment = Deployment.choose(stack, home)
    ledger = _ledger(deployment)
    _row(ledger, ref_id)
    with failing_with("Not all messages were sent; run it again", Unsent):
        row = ledger.sent_by_hand(ref_id, now=times.to_text(clock.now_ms()))
        sent = _send_again(deployment, row) if row else 0
    if as_json:
        print_json({"ref_id": ref_id, "sent": sent})
    else:
        print_result(f"Sent {counted(sent, 'message')} for '{ref_id}'.")


def _follow(read: Callable[[], Status], *, timeout: float) -> Status:
    """Show a progress bar until the delivery is complete or stalled, or the time is up."""
    end = time.monotonic() + timeout
    status = read()
    with progress_bar("Delivering", total=status.followers_estimated, unit="entries") as bar:
        while True:
            # The total is an estimate; once the delivery is complete, it is known.
            is_complete = status.state == COMPLETE
            total = status.delivered if is_complete else status.followers_estimated
            bar.reach(status.delivered, total=total)
            if is_complete or status.state == STALLED or time.monotonic() >= end:
                return status
            time.sleep(min(POLL_SECONDS, max(0.0, end - time.monotonic())))
            status = read()


def _ledger(deployment: Deployment) -> Ledger:
    return Ledger(deployment.client("dynamodb"), deployment.settings().fanouts_table)


def _send_again(deployment: Deployment, row: Fanout) -> int:
    """Send the command to PLAN, or all pending segments; return how many messages."""
    settings, sqs = deployment.settings(), deployment.client("sqs")
    if row.awaits_plan:
        command = PlanFanout(fanout_id=row.fanout_id).message(group=row.publisher_id)
        WorkQueue(sqs, settings.publish_queue_url).send(command)
        return 1
    _wiring.lanes(settings, sqs).send_pending(row)
    return len(row.pending)


def _row(ledger: Ledger, ref_id: str) -> Fanout:
    checked_id(ref_id)
    with failing_with("The ledger cannot be read"):
        found = ledger.get(ref_id)
    if found is None:
        raise ExpectedError(
            f"The ledger knows no fan-out '{ref_id}': no post with this ref_id was accepted, or "
            "it is older than the retention."
        )
    return found


def _print(status: Status, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(status))
        return
    values = asdict(status)
    for name, value in values.items():
        if value is None or isinstance(value, int):
            values[name] = "-" if value is None else f"{value:,}"
    print_values(values)
