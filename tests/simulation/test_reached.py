"""The states that runs must reach: what counts as reached, and what is said of the others."""

from collections import Counter

import pytest

from simulation.kinds import broken
from simulation.lambdas import installed
from simulation.reached import STATES, least, missing, table
from simulation.world import World


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


@pytest.mark.parametrize(
    ("seed", "states"),
    [
        (9, {"ten rounds of SWEEP", "stalled", "given up: a dead letter of Express"}),
        (13, {"stalled", "reopened by progress", "given up: a dead letter of Bulk"}),
    ],
)
def test_a_timeline_that_takes_nothing_for_hours_has_its_posts_stall(
    seed: int, states: set[str]
) -> None:
    with installed():
        world = World(seed)
        broken.live(world)
    world.reached.at_the_end()
    assert world.faults.injected["frozen"]
    assert states <= world.reached.times.keys()
