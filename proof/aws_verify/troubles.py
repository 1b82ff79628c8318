"""What a run switches off or throttles for a while, and restores in any case."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from fanfold import names
from fanfold.aws.event_sources import DISABLED, ENABLED
from fanfold_cli.deliveries.switching import switch
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError

# A change of a table or a function takes seconds, rarely minutes.
CHANGE_SECONDS = 300.0
POLL_SECONDS = 1.0
# Write units a second: 10,000 entries take three minutes.
LOW_WRITE_UNITS = 50
# DynamoDB's value for no maximum.
NO_MAXIMUM = -1
NOWHERE = "functions.nowhere.handler"


@dataclass(frozen=True)
class Trouble:
    """`applied` lasts as long as its block; `not_here` says why the stack cannot have it."""

    what: str
    applied: Callable[[Deployment], AbstractContextManager[None]]
    not_here: str = ""


@contextmanager
def deliveries_paused(deployment: Deployment) -> Iterator[None]:
    try:
        switch(deployment, names.PAUSABLE, DISABLED)
        yield
    finally:
        switch(deployment, names.PAUSABLE, ENABLED)


@contextmanager
def writers_crashing(deployment: Deployment) -> Iterator[None]:
    """Every run of PLAN or DELIVER fails at its start, as after a broken deploy."""
    with _each_writer(deployment, _crashing):
        yield


@contextmanager
def _crashing(client: Any, function: str) -> Iterator[None]:
    handler = client.get_function_configuration(FunctionName=function)["Handler"]

    def settled() -> None:
        _wait(
            function.rpartition(":")[2],
            lambda: client.get_function_configuration(FunctionName=function).get(
                "LastUpdateStatus", "Successful"
            ),
            wanted="Successful",
        )

    def change(to: str) -> None:
        settled()  # Lambda refuses a second change during the first
        client.update_function_configuration(FunctionName=function, Handler=to)
        settled()

    try:
        change(NOWHERE)
        yield
    finally:
        change(handler)


@contextmanager
def writers_forbidden(deployment: Deployment) -> Iterator[None]:
    """Lambda refuses every run of PLAN and DELIVER: their reserved concurrency is 0."""
    with _each_writer(deployment, _forbidden):
        yield


@contextmanager
def _forbidden(client: Any, function: str) -> Iterator[None]:
    before = client.get_function_concurrency(FunctionName=function).get(
        "ReservedConcurrentExecutions"
    )
    try:
        client.put_function_concurrency(FunctionName=function, ReservedConcurrentExecutions=0)
        yield
    finally:
        if before is None:
            client.delete_function_concurrency(FunctionName=function)
        else:
            client.put_function_concurrency(
                FunctionName=function, ReservedConcurrentExecutions=before
            )


@contextmanager
def timelines_throttled(deployment: Deployment) -> Iterator[None]:
    """The timelines table refuses all but a few writes a second."""
    client, table = deployment.client("dynamodb"), deployment.settings().timelines_table

    def described() -> Any:
        return client.describe_table(TableName=table)["Table"]

    before = described().get("OnDemandThroughput", {}).get("MaxWriteRequestUnits", NO_MAXIMUM)

    def change(to: int) -> None:
        _wait("The table", lambda: described()["TableStatus"], wanted="ACTIVE")
        client.update_table(TableName=table, OnDemandThroughput={"MaxWriteRequestUnits": to})
        _wait("The table", lambda: described()["TableStatus"], wanted="ACTIVE")

    try:
        change(LOW_WRITE_UNITS)
        yield
    finally:
        change(before)


ON_AWS = (
    Trouble("all deliveries are paused", deliveries_paused),
    Trouble("every run of PLAN and DELIVER crashes at its start", writers_crashing),
    Trouble("PLAN and DELIVER may not run: their reserved concurrency is 0", writers_forbidden),
    Trouble(
        f"the timelines table takes at most {LOW_WRITE_UNITS} writes a second", timelines_throttled
    ),
)
# The engine accepts these two settings, but ignores them.
LOCALLY = (
    *ON_AWS[:2],
    Trouble(ON_AWS[2].what, writers_forbidden, "the local engine ignores reserved concurrency"),
    Trouble(ON_AWS[3].what, timelines_throttled, "the local engine throttles no table"),
)


def of(deployment: Deployment) -> tuple[Trouble, ...]:
    return LOCALLY if deployment.is_local else ON_AWS


def hold(seconds: float) -> None:
    """Wait this long, with a progress bar."""
    end = time.monotonic() + seconds
    with progress_bar("Holding", total=round(seconds), unit="seconds") as bar:
        while (left := end - time.monotonic()) > 0:
            bar.reach(round(seconds - left))
            time.sleep(min(POLL_SECONDS, left))
        bar.reach(round(seconds))


@contextmanager
def _each_writer(
    deployment: Deployment, trouble: Callable[[Any, str], AbstractContextManager[None]]
) -> Iterator[None]:
    """Change both functions that write entries of posts, PLAN and DELIVER, and restore them."""
    client = deployment.client("lambda")
    with ExitStack() as troubled:
        for queue in (names.PUBLISH, names.EXPRESS):
            troubled.enter_context(
                trouble(client, deployment.event_source_mapping(queue)["FunctionArn"])
            )
        yield


def _wait(what: str, state: Callable[[], str], *, wanted: str) -> None:
    end = time.monotonic() + CHANGE_SECONDS
    while (now := state()) != wanted:
        if time.monotonic() > end:
            raise ExpectedError(f"{what} is still {now} after {CHANGE_SECONDS:.0f} s.")
        time.sleep(POLL_SECONDS)
