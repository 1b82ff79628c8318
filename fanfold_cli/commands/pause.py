"""`fanfold pause` and `fanfold resume`: stop deliveries, and start them again."""

import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from fanfold import names
from fanfold.aws.event_sources import DISABLED, ENABLED, PAUSED
from fanfold_cli.console import ExpectedError, failing_with, print_json, print_result
from fanfold_cli.event_sources import mapping_of
from fanfold_cli.options import HomeOption, JsonOption, StackOption
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment

# AWS takes about a minute to enable or disable a mapping, and refuses other changes meanwhile.
PATIENCE_SECONDS = 180.0
POLL_SECONDS = 1.0


class Lane(StrEnum):
    EXPRESS = "express"
    BULK = "bulk"
    ALL = "all"
    PUBLISH = "publish"


LANES = {
    Lane.EXPRESS: (names.EXPRESS,),
    Lane.BULK: (names.BULK,),
    # PLAN delivers to few followers by itself, and sends the rest to the two lanes.
    Lane.PUBLISH: (names.PUBLISH,),
    Lane.ALL: (names.PUBLISH, names.EXPRESS, names.BULK),
}

LaneOption = Annotated[
    Lane,
    typer.Option(
        "--lane",
        help="One queue instead of all: publish, where few followers are delivered to at once, "
        "all other posts are planned, and messages of other services arrive; express, for the "
        "rest of small fan-outs; or bulk, for large ones.",
    ),
]


def pause(
    lane: LaneOption = Lane.ALL,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop delivering: PLAN and both lanes.

    Posts are still accepted and wait, for 14 days at most; so do messages of other services.
    """
    _switch_lanes(lane, DISABLED, stack, home, as_json=as_json)


def resume(
    lane: LaneOption = Lane.ALL,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start delivering again, including the posts that waited."""
    _switch_lanes(lane, ENABLED, stack, home, as_json=as_json)


def _switch_lanes(
    lane: Lane, wanted: str, stack: str | None, home: str | None, *, as_json: bool
) -> None:
    deployment = Deployment.choose(stack, home)
    with (
        failing_with("The lane cannot be switched; run it again"),
        waiting_for(f"Lambda to switch {lane}, which takes a minute"),
    ):
        done = [switch(deployment, queue, wanted) for queue in LANES[lane]]
    if as_json:
        print_json({"lanes": done})
        return
    verb = "paused" if wanted == DISABLED else "running"
    for each in done:
        was = f"is {verb} now" if each["changed"] else f"was {verb} already"
        print_result(f"{each['lane']} {was}.")


def switch(deployment: Deployment, queue: names.Queue, wanted: str) -> dict[str, Any]:
    """Bring the event source mapping of the queue to the state `wanted`, and wait for it."""
    lambda_ = deployment.client("lambda")
    mapping = mapping_of(deployment, queue)
    before = state = mapping["State"]
    is_requested = False
    end = time.monotonic() + PATIENCE_SECONDS
    while state != wanted:
        if not is_requested:
            is_requested = _request(lambda_, mapping["UUID"], enabled=wanted == ENABLED)
        state = lambda_.get_event_source_mapping(UUID=mapping["UUID"])["State"]
        if state == wanted:
            break
        if time.monotonic() > end:
            raise ExpectedError(
                f"{queue.name.lower()} is still {state} after {PATIENCE_SECONDS:.0f} s; run the "
                "command again to keep waiting."
            )
        time.sleep(POLL_SECONDS)
    return {
        "lane": queue.name.lower(),
        "was": before,
        "state": state,
        "changed": (before in PAUSED) != (wanted == DISABLED),
    }


def _request(lambda_: Any, mapping: str, *, enabled: bool) -> bool:
    """Request the change; return False if AWS refuses it because another one is in progress."""
    try:
        lambda_.update_event_source_mapping(UUID=mapping, Enabled=enabled)
    except (
        lambda_.exceptions.ResourceInUseException,
        lambda_.exceptions.ResourceConflictException,
    ):
        return False
    return True
