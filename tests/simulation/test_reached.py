"""The states that runs must reach: what counts as reached, and what is said of the others."""

import math
from collections import Counter

from simulation import requests
from simulation.kinds import broken
from simulation.lambdas import installed
from simulation.reached import STATES, least, missing, table
from simulation.world import World
from tests.simulation.spoilings import calm


def test_a_state_that_too_few_runs_reach_is_told() -> None:
    enough = {state: least(state, 10_000) for state in STATES}
    assert not [*missing(enough, 10_000)]
    (sentence,) = missing({**enough, "stalled": enough["stalled"] - 1}, 10_000)
    assert sentence.startswith(f"'stalled' was reached in {enough['stalled'] - 1} of 10000 runs")
    assert [*missing({}, 10_000)]


def test_a_few_runs_need_reach_only_what_is_common() -> None:
    assert least("stalled", 10_000) > 0
    assert least("stalled", 40) == 0
    assert least("unprocessed items", 400) > 0


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
