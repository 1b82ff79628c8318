"""`fanfold fanout`: what the ledger says about the delivery of one post."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.table import Table
from rich.text import Text

from fanfold.aws.queues import WorkQueue
from fanfold.errors import Unsent
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import COMPLETE, STALLED, Fanout, Ledger
from fanfold.fanout.status import Status, status_of
from fanfold.messages import PlanFanout
from fanfold_cli.console import ExpectedError, print_json, print_result, say
from fanfold_cli.options import HomeOption, JsonOption, StackOption, checked_id
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment

# Longer than the largest fan-out takes; a fan-out that stands still is stalled before.
PATIENCE_SECONDS = 3600.0
POLL_SECONDS = 0.5

app = typer.Typer(help="The delivery of one post, as the ledger knows it.", no_args_is_help=True)

RefId = Annotated[str, typer.Argument(metavar="REF_ID", help="The ref_id of the post.")]


@app.command()
def show(
    ref_id: RefId, stack: StackOption = None, home: HomeOption = None, as_json: JsonOption = False
) -> None:
    """Show the state of a delivery once; exit code 1 when the ledger does not know it."""
    deployment = Deployment.choose(stack, home)
    _print(status_of(_row(_ledger(deployment), ref_id)), as_json=as_json)


@app.command()
def watch(
    ref_id: RefId,
    stack: StackOption = None,
    home: HomeOption = None,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds after which to stop watching.")
    ] = PATIENCE_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Watch a delivery until it is complete; exit code 1 when it stalls or takes too long."""
    ledger = _ledger(Deployment.choose(stack, home))
    status = follow(lambda: status_of(_row(ledger, ref_id)), timeout=timeout)
    _print(status, as_json=as_json)
    if status.state == COMPLETE:
        return
    if status.state == STALLED:
        say(
            f"'{ref_id}' stands still: mend what made its messages fail (`fanfold dlq list` says "
            "what), then `fanfold dlq redrive`, or `fanfold fanout resend` if there are none."
        )
    else:
        say(f"'{ref_id}' was not complete within {timeout:g} s; its delivery goes on.")
    raise typer.Exit(1)


@app.command()
def resend(
    ref_id: RefId, stack: StackOption = None, home: HomeOption = None, as_json: JsonOption = False
) -> None:
    """Send again what the ledger has pending, also of a stalled delivery; twice does no harm."""
    deployment = Deployment.choose(stack, home)
    row = _row(_ledger(deployment), ref_id)
    try:
        sent = _send_again(deployment, row)
    except (ClientError, BotoCoreError, Unsent) as error:
        raise ExpectedError(f"Not all was sent, run it again: {error}") from error
    if as_json:
        print_json({"ref_id": ref_id, "sent": sent})
    else:
        print_result(f"{sent:,} messages were sent for '{ref_id}'.")


def follow(look: Callable[[], Status], *, timeout: float) -> Status:
    """Show a progress bar until the delivery is complete or stalled, or the time is up."""
    end = time.monotonic() + timeout
    status = look()
    with progress_bar("Delivering", total=status.followers_estimated, unit="entries") as bar:
        while True:
            # The estimate may be off either way: at the end, what is delivered is all there was.
            is_complete = status.state == COMPLETE
            total = status.delivered if is_complete else status.followers_estimated
            bar.reach(status.delivered, total=total)
            if is_complete or status.state == STALLED or time.monotonic() >= end:
                return status
            time.sleep(min(POLL_SECONDS, max(0.0, end - time.monotonic())))
            status = look()


def _ledger(deployment: Deployment) -> Ledger:
    return Ledger(deployment.client("dynamodb"), deployment.settings().fanouts_table)


def _send_again(deployment: Deployment, row: Fanout) -> int:
    """What SWEEP would send, however often it has tried; how many messages that was."""
    settings, sqs = deployment.settings(), deployment.client("sqs")
    if row.awaits_plan:
        order = PlanFanout(fanout_id=row.fanout_id).message(group=row.publisher_id)
        WorkQueue(sqs, settings.publish_queue_url).send(order)
        return 1
    Lanes(
        express=WorkQueue(sqs, settings.express_queue_url),
        bulk=WorkQueue(sqs, settings.bulk_queue_url),
    ).send_pending(row)
    return len(row.pending)


def _row(fanouts: Ledger, ref_id: str) -> Fanout:
    checked_id(ref_id)
    try:
        found = fanouts.get(ref_id)
    except (ClientError, BotoCoreError) as error:
        raise ExpectedError(f"The ledger cannot be read: {error}") from error
    if found is None:
        raise ExpectedError(
            f"The ledger knows no fan-out '{ref_id}': nothing of this ref_id was accepted, or it "
            "is older than the retention."
        )
    return found


def _print(status: Status, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(status))
        return
    table = Table(show_header=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in asdict(status).items():
        shown = f"{value:,}" if isinstance(value, int) else "-" if value is None else str(value)
        table.add_row(name, Text(shown))
    print_result(table)
