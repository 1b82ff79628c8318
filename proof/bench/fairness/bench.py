"""Does a small publish wait for a large one? Both on the capacity model, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import median

from proof.bench.figures import Bars, BenchResult, Figure, Row
from proof.bench.progress import with_progress
from proof.model.dynamodb.capacity import Limits
from proof.simulation.timed.system import System
from proof.simulation.timed.tables import follow, make_up_followers

LARGE, SMALL = 10_000_000, 100
# Each small publish is of another publisher; the first comes together with the large one.
PUBLISHES, SHORT_PUBLISHES = 20, 5
APART_SECONDS = 0.5
# Something is wrong if the last small publish takes longer; a cold table is the slowest case.
PATIENCE_SECONDS = 120

LARGE_PUBLISHER = "ada00000-0000-4000-8000-999999999999"
LARGE_POST = "90570000-0000-4000-8000-999999999999"


@dataclass(frozen=True)
class FairnessCase:
    name: str
    is_beside: bool = True  # whether a large publish runs at the same time
    believed: int = 40_000
    limits: Limits | None = None


ALONE = FairnessCase("alone", is_beside=False)
BESIDE = FairnessCase("beside 10 M")
OTHERS = (
    FairnessCase("4,000 units/s: alone", is_beside=False, believed=4_000),
    FairnessCase("4,000 units/s: beside 10 M", believed=4_000),
    FairnessCase("budget 40,000, table cold: alone", is_beside=False, limits=Limits()),
    FairnessCase("budget 40,000, table cold: beside 10 M", limits=Limits()),
)


def run(*, short: bool) -> BenchResult:
    """Publish to 100 followers repeatedly, alone and while 10 M entries are written."""
    cases = (ALONE, BESIDE) if short else (ALONE, BESIDE, *OTHERS)
    publishes = SHORT_PUBLISHES if short else PUBLISHES
    times: dict[str, list[float]] = {}
    for case in with_progress("fairness", cases):
        times[case.name] = small_publishes(case, publishes)
    alone, beside = times[ALONE.name], times[BESIDE.name]
    return BenchResult(
        figures=[
            Figure(
                name="fairness.ratio",
                value=max(beside) / median(alone),
                target=3.0,
                unit="x",
                against="the median publish to 100 followers alone; ours: the slowest beside 10 M",
            )
        ],
        rows=[
            Row(name, 1_000 * median(found), "ms", f"median; slowest {1_000 * max(found):,.0f} ms")
            for name, found in times.items()
        ],
        setting={
            "publishes": f"{publishes}, {APART_SECONDS} s apart, the first together with the large",
            "time": "virtual, from the publish to the last follower; Lambda warm",
        },
        chart=Bars(
            title="From the publish to the last of 100 followers (median)",
            unit="ms",
            bars={name: 1_000 * median(found) for name, found in times.items()},
        ),
    )


def small_publishes(case: FairnessCase, publishes: int) -> list[float]:
    """Seconds from each small publish to its last follower."""
    system = System(case.believed, case.limits)
    small = {f"ada{number:05d}": f"9057{number:05d}" for number in range(publishes)}
    for publisher in small:
        follow(system.database, publisher, SMALL)
    begun = {post: APART_SECONDS * number for number, post in enumerate(small.values())}
    with system.virtual_time():
        if case.is_beside:
            make_up_followers(system.database, LARGE_PUBLISHER, LARGE, seed=1)
            system.publish(LARGE_PUBLISHER, LARGE_POST)
        for publisher, post in small.items():
            system.scheduler.at(begun[post], partial(system.publish, publisher, post))
        _run_until_complete(system, begun)
    return [system.written(post).last_at - since for post, since in begun.items()]


def _run_until_complete(system: System, begun: dict[str, float]) -> None:
    """Go on until every small publish is complete; looked at twice a second, as it takes long."""
    scheduler, end = system.scheduler, max(begun.values())
    while not all(map(system.is_complete, begun)):
        if scheduler.now > end + PATIENCE_SECONDS:
            raise RuntimeError(f"Small publishes take longer than {PATIENCE_SECONDS} s.")
        scheduler.run_to(scheduler.now + APART_SECONDS)
