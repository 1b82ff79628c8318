"""The whole system from a seed: nothing lost, whatever fails; and the checks can fail."""

import time
from collections import Counter
from pathlib import Path

import pytest

from fanfold import names
from simulation import mutations, promise, script
from simulation.__main__ import run
from simulation.machines import installed
from simulation.world import World

# As many runs as fit into two minutes of a busy machine: fewer seeds are no failure, none is.
BUDGET_SECONDS = 100.0
MOST_SEEDS = 2_000


def test_no_seed_breaks_the_promise() -> None:
    faults: Counter[str] = Counter()
    end = time.monotonic() + BUDGET_SECONDS
    with installed():
        for seed in range(MOST_SEEDS):
            result = run(seed)
            assert not result.violations, (
                f"seed {seed}: {result.violations}; to see it again: "
                f"python -m simulation --seeds 1 --start {seed} --trace"
            )
            faults += result.faults
            if time.monotonic() > end:
                break
    assert seed >= 20
    assert {"throttled", "unanswered", "partial", "unsent", "duplicated", "crashed"} <= set(faults)


def test_the_same_seed_is_the_same_run() -> None:
    def trace_of(seed: int) -> list[str]:
        with installed():
            world = World(seed)
            world.run(script.play)
            return list(world.trace)

    assert trace_of(7) == trace_of(7)
    assert trace_of(7) != trace_of(8)


def test_what_is_taken_out_of_a_timeline_is_missed() -> None:
    with installed():
        world = World(3)
        world.run(script.play)
        assert promise.violations(world) == []
        rows = world.rows(names.TIMELINES)
        assert rows
        for row in rows:
            key = {"user_id": row["user_id"], "sort_key": row["sort_key"]}
            world.dynamodb.delete_item(TableName="Timelines", Key=key)
        found = promise.violations(world)
    assert any("no_acknowledged_follower_is_missed" in line for line in found)


@pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=lambda each: each.guard)
def test_every_guard_stands_where_the_mutations_look_for_it(
    mutation: mutations.Mutation, tmp_path: Path
) -> None:
    mutations.copy_with(mutation, tmp_path)
    assert (tmp_path / mutation.file).read_text() != (mutations.ROOT / mutation.file).read_text()


@pytest.mark.parametrize("guard", ["by key", "sent again", "sort key from acceptance"])
def test_a_guard_that_is_taken_out_is_missed_within_few_seeds(guard: str) -> None:
    (mutation, *_) = [each for each in mutations.MUTATIONS if guard in each.guard]
    assert mutations.catch(mutation, most=60, start=0).seeds is not None
