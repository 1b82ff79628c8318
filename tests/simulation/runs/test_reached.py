"""The states that runs must reach: what counts as reached, and what is said of the others."""

import math

from proof.simulation.clients import requests
from proof.simulation.kinds import broken
from proof.simulation.observed.reached import STATES, least, missing
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
