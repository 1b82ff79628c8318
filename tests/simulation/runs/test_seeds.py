"""The whole system from seeds: no check is violated, whatever fails; and the checks can fail."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from fanfold import names
from proof.mutants import listing, simulated
from proof.simulation.__main__ import run
from proof.simulation.checks.evidence import Evidence
from proof.simulation.checks.judge import violations
from proof.simulation.kinds import undisturbed
from proof.simulation.kinds.drawn import KINDS
from proof.simulation.kinds.ordinary import play
from proof.simulation.observed.reached import missing
from proof.simulation.world.lambdas import installed
from proof.simulation.world.world import World

# A position in the ledger with a count, and behind them at least one straggler.
WITH_STRAGGLER = re.compile(r"'[0-9a-g]{16}\.\d{10}\.[0-9a-f]{16}")


TRACED = 10  # worlds of each kind

# Of the 110 guards that stand in no special kind of world, 140 seeds notice that 105 are gone, and
# 200 more notice two more. `make verify` draws thousands.
BLOCKS = (range(40), pytest.param(range(40, 80), marks=pytest.mark.thorough))


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_no_seed_has_a_violation(seeds: range, record_property: Callable[..., None]) -> None:
    faults: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    transports: Counter[str] = Counter()
    with installed():
        for seed in seeds:
            result = run(seed)
            assert not result.violations, (
                f"seed {seed}: {result.violations}; to see it again: "
                f"python -m proof.simulation --seeds 1 --start {seed} --trace"
            )
            faults += result.faults
            reached += result.reached
            runs.update(result.reached.keys())
            transports[result.transport] += 1
    assert {"throttled", "unanswered", "partial", "unsent", "duplicated", "crashed", "hot"} <= set(
        faults
    )
    assert set(transports) == set(names.TRANSPORTS)
    record_property("reached", {"times": dict(reached), "runs": dict(runs), "seeds": len(seeds)})
    assert not [*missing(runs, len(seeds))]


def test_the_page_about_seeds_names_every_kind_in_order() -> None:
    page = (listing.ROOT / "docs/find-a-seed.md").read_text()
    kinds = page.partition("| kind |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", kinds, re.MULTILINE) == [kind.name for kind in KINDS]


def test_where_nothing_goes_wrong_every_check_of_costs_applies() -> None:
    with installed():
        for seed in range(10):
            world = World(seed)
            undisturbed.live(world)
            assert violations(world, undisturbed.KIND.checks) == []
            found = Evidence(world)
            assert not world.faults.injected
            assert not found.may_be_sent_twice()
            assert world.observer.puts == len(found.entries.keys() - found.only_filled)
            assert world.watch
            assert not world.watch.first_rang


def test_a_seed_repeats_its_run_whatever_ran_before() -> None:
    def traces_of(*seeds: int) -> dict[int, list[str]]:
        found = {}
        for seed in seeds:
            with installed():
                world = World(seed)
                world.run(play)
                found[seed] = [world.transport, *world.trace]
        return found

    forward, backward = traces_of(7, 8, 9, 10, 11), traces_of(11, 10, 9, 8, 7)
    assert forward == backward
    assert forward[7] != forward[8]
    assert {trace[0] for trace in forward.values()} == set(names.TRANSPORTS)


@pytest.mark.thorough
def test_a_seed_repeats_its_run_in_another_process() -> None:
    """Python hashes texts by a seed of each process, which is the order of its sets."""
    traces = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.simulation.traces", str(TRACED)],
            cwd=listing.ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(listing.ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in "12"
    ]
    one, other = (each.communicate()[0].splitlines() for each in traces)
    assert len(one) == TRACED * len(KINDS)
    assert one == other


@pytest.mark.parametrize(
    "transport", [names.LIBCURL, pytest.param(names.BOTO3, marks=pytest.mark.thorough)]
)
def test_a_straggler_delays_nobody_and_causes_no_second_write(transport: str) -> None:
    handed_back = checked = 0
    with installed():
        for seed in range(16):
            world = World(seed, transport)
            world.faults.rates = {**dict.fromkeys(world.faults.rates, 0.0), "hot": 1.0}
            world.run(play)
            assert violations(world) == []
            found = Evidence(world)
            # Two PLANs that had one post at once wrote it twice.
            is_once = not (found.may_be_sent_twice() or found.written_again() or found.most_again())
            if is_once and len(world.faults.hot) <= 2:
                written = world.meter.of(names.TIMELINES.name)
                filled = sum(world.observer.filled.values())
                assert written - filled == len(found.entries.keys() - found.only_filled)
                checked += 1
            handed_back += any(WITH_STRAGGLER.search(line) for line in world.trace)
    assert checked >= 4
    assert handed_back >= 2


def test_a_missing_guard_is_noticed_within_few_seeds() -> None:
    noticed = [each for each in listing.read() if each.known.startswith(f"{listing.SIMULATION} ")]
    soonest = min(noticed, key=lambda each: int(each.known.split()[1]))
    assert simulated.catch(soonest, seeds=60).by
