"""`fanfold pause` and `fanfold resume`: hold a lane's deliveries back, and let them go on."""

import time
from enum import StrEnum
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError

from fanfold import names
from fanfold.aws.event_sources import DISABLED, ENABLED, PAUSED
from fanfold_cli.console import ExpectedError, print_json, print_result
from fanfold_cli.event_sources import mapping_of
from fanfold_cli.options import HomeOption, JsonOption, StackOption
from fanfold_cli.stack import Deployment

# AWS takes up to a minute or so to enable or disable a mapping, and refuses a change meanwhile.
PATIENCE_SECONDS = 180.0
POLL_SECONDS = 1.0


class Lane(StrEnum):
    """Which deliveries: small fan-outs, large ones, or both."""

    EXPRESS = "express"
    BULK = "bulk"
    ALL = "all"


LANES = {
    Lane.EXPRESS: (names.EXPRESS,),
    Lane.BULK: (names.BULK,),
    Lane.ALL: (names.EXPRESS, names.BULK),
}

LaneOption = Annotated[Lane, typer.Option("--lane", help="Which deliveries.")]


def pause(
    lane: LaneOption = Lane.ALL,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop delivering; posts are accepted and wait in the queue, for 14 days at most."""
    _switch(lane, DISABLED, stack, home, as_json=as_json)


def resume(
    lane: LaneOption = Lane.ALL,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deliver again, what has waited first."""
    _switch(lane, ENABLED, stack, home, as_json=as_json)


def _switch(lane: Lane, wanted: str, stack: str | None, home: HomeOption, *, as_json: bool) -> None:
    deployment = Deployment.choose(stack, home)
    try:
        done = [switch(deployment, queue, wanted) for queue in LANES[lane]]
    except (ClientError, BotoCoreError) as error:
        raise ExpectedError(f"The lane cannot be switched: {error} Run it again.") from error
    if as_json:
        print_json({"lanes": done})
        return
    for each in done:
        verb = "paused" if wanted == DISABLED else "running"
        was = f"is {verb} now" if each["changed"] else f"was {verb} already"
        print_result(f"{each['lane']} {was}.")


def switch(deployment: Deployment, queue: names.Queue, wanted: str) -> dict[str, Any]:
    """Bring the mapping of the queue to the state `wanted`, and wait until it is there."""
    lambda_ = deployment.client("lambda")
    mapping = mapping_of(deployment, queue)
    before = mapping["State"]
    state, asked = before, False
    end = time.monotonic() + PATIENCE_SECONDS
    while state != wanted:
        if not asked:
            asked = _ask(lambda_, mapping["UUID"], enabled=wanted == ENABLED)
        state = lambda_.get_event_source_mapping(UUID=mapping["UUID"])["State"]
        if state == wanted:
            break
        if time.monotonic() > end:
            raise ExpectedError(
                f"{queue.name.lower()} is still {state} after {PATIENCE_SECONDS:.0f} s; run it "
                "again to wait on."
            )
        time.sleep(POLL_SECONDS)
    is_paused_before = before in PAUSED
    return {
        "lane": queue.name.lower(),
        "was": before,
        "state": state,
        "changed": is_paused_before != (wanted == DISABLED),
    }


def _ask(lambda_: Any, mapping: str, *, enabled: bool) -> bool:
    """Ask for the change; False while another one is under way, which AWS refuses to mix."""
    try:
        lambda_.update_event_source_mapping(UUID=mapping, Enabled=enabled)
    except (
        lambda_.exceptions.ResourceInUseException,
        lambda_.exceptions.ResourceConflictException,
    ):
        return False
    return True
