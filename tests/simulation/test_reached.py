"""The states that runs must reach: what counts as reached, and what is said of the others."""

import math
from collections import Counter
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fanfold.channels import following
from fanfold.channels.head import Head
from fanfold.timeline.marks import Reader
from proof.simulation.clients import requests
from proof.simulation.kinds import broken
from proof.simulation.observed.reached import STATES, least, missing, table
from proof.simulation.stage import stores
from proof.simulation.world.lambdas import installed
from proof.simulation.world.world import World
from tests.simulation.spoilings import calm


def test_a_state_that_too_few_runs_reach_is_told() -> None:
    enough = {state: least(state, 10_000) for state in STATES}
    assert not [*missing(enough, 10_000)]
    (sentence,) = missing({**enough, "stalled": enough["stalled"] - 1}, 10_000)
    assert sentence.startswith(f"'stalled' was reached in {enough['stalled'] - 1} of 10000 runs")
    assert [*missing({}, 10_000)]
    assert least("stalled", 40) == 0 < least("unprocessed items", 40), "few reach what is common"


def test_the_table_says_how_often_and_in_how_many_runs() -> None:
    lines = table(Counter({"stalled": 7, "a state of its own": 2}), {"stalled": 3}, 10_000)
    (line,) = [line for line in lines.splitlines() if line.startswith("stalled ")]
    assert line.split() == ["stalled", "7", "3", str(least("stalled", 10_000))]
    assert "a state of its own" in lines


def test_a_timeline_that_takes_nothing_for_hours_has_its_post_stall() -> None:
    def live(world: World) -> None:
        requests.relate(world, "follow", "ann", "p0")
        world.scheduler.sleep(60)
        requests.by_http(world, "p0", "post")
        world.scheduler.sleep(24 * 60 * 60)

    with installed():
        world = calm()
        world.longest_wait_seconds, world.max_hops = broken.LONGEST_WAIT_SECONDS, broken.MAX_HOPS
        world.faults.rates["hot"], world.faults.hot = 1.0, frozenset({"ann"})
        world.faults.hot_until = math.inf
        world.run(lambda each: each.start_client("all", lambda: live(each)))
    world.reached.at_the_end()
    wanted = {"stalled", "ten rounds of SWEEP", "given up: a dead letter of Express"}
    assert wanted <= world.reached.times.keys()


class _Recorder:
    """A client that keeps what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def update_item(self, **request: Any) -> None:
        self.asked.append(request)

    exceptions = None


@pytest.mark.parametrize(("noted", "is_reached"), [(8, True), (7, False)])
def test_a_follow_is_refused_for_its_head_if_the_row_was_noted_complete_to_a_later_one(
    noted: int, is_reached: bool
) -> None:
    world, client = calm(), _Recorder()
    readers: Any = stores(client).readers  # type: ignore[arg-type]
    following.note(readers, "ann", Reader(), Head(version=noted), ())
    task = world.scheduler.start(lambda: None)
    for request in client.asked:
        world.reached.applied("update_item", request, {}, task)
    change = following.followed(Reader(), Head(version=7), ["p0"])
    update = readers.count_up("ann", 1, max_follows=10, also=change)
    refusal: Any = {
        "Error": {"Code": "TransactionCanceledException"},
        "CancellationReasons": [{"Code": "None"}, {"Code": "ConditionalCheckFailed"}],
    }
    request = {"TransactItems": [{"Update": {}}, {"Update": update}]}
    world.reached.rejected(request, ClientError(refusal, "TransactWriteItems"), task)
    assert ("channels: a follow refused for its head" in world.reached.times) is is_reached
