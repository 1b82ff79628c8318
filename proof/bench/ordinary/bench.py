"""How soon do all of a few followers have a post, and what does that take? On the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from proof.bench.figures import BenchResult, Figure, Lines, Row
from proof.bench.ordinary.plain import Plain
from proof.bench.ordinary.two_hops import TwoHops
from proof.bench.progress import with_progress
from proof.simulation.timed.system import POST, PUBLISHER, System
from proof.simulation.timed.tables import follow

FOLLOWERS = (10, 100, 1_000, 3_000)
TIME_TARGETS = {100: 60, 1_000: 110, 3_000: 250}  # ms
FEW = 100
# Of another service, whose posts come ten to a batch.
BATCH = 10
SEEDS = range(3)
CAPACITY = 40_000
# Of boto3's client, for an entry: fanfold/budgets.py.
BOTO3_CPU_SECONDS = 49e-6
# The API is one function; each worker's is another.
API = 1

OURS = "Fanfold"
WAYS: dict[str, Callable[..., System]] = {
    OURS: System,
    "always planned": TwoHops,
    "plain Lambda": Plain,
    "plain Lambda with its CPU": partial(Plain, cpu_seconds=BOTO3_CPU_SECONDS),
}


@dataclass(frozen=True)
class TimedPublish:
    """One publish over HTTP; seconds are since the API's answer."""

    seconds: float
    since_request: float
    calls: int  # in a row, from the request until the last entry was there
    calls_to_end: int  # until the fan-out was known to be complete
    invocations: int
    units_beside: dict[str, float]

    @property
    def units(self) -> float:
        return sum(self.units_beside.values())


@dataclass(frozen=True)
class Runs:
    """The same publish from several seeds, of which the worst counts."""

    followers: int
    publishes: Sequence[TimedPublish]

    def worst(self, of: Callable[[TimedPublish], float]) -> float:
        return max(map(of, self.publishes))

    @property
    def ms(self) -> float:
        return 1_000 * self.worst(lambda each: each.seconds)

    @property
    def row(self) -> str:
        """What it took beside the time."""
        worst = self.worst
        return (
            f"{1_000 * worst(lambda each: each.since_request):,.0f} ms since the request; "
            f"{worst(lambda each: each.calls):g} calls in a row, "
            f"{worst(lambda each: each.calls_to_end):g} to the end, "
            f"{worst(lambda each: each.units):g} units beside the entries, "
            f"{API + worst(lambda each: each.invocations):g} invocations"
        )


def run(*, short: bool) -> BenchResult:
    """Publish to few followers, our way and two others, from the same seeds."""
    seeds = SEEDS[:1] if short else SEEDS
    cases = [(way, followers) for way in WAYS for followers in FOLLOWERS]
    found = {
        (way, followers): Runs(
            followers, [publish(WAYS[way](CAPACITY, seed=seed), followers) for seed in seeds]
        )
        for way, followers in with_progress("ordinary", cases)
    }
    batches = {
        way: max(of_a_batch(WAYS[way](CAPACITY, seed=seed), FEW) for seed in seeds)
        for way in (OURS, "always planned")
    }
    return BenchResult(
        figures=_figures({followers: found[OURS, followers] for followers in FOLLOWERS}),
        rows=[
            *(
                Row(f"{way}: {followers:,} followers", runs.ms, "ms", runs.row)
                for (way, followers), runs in found.items()
            ),
            *(
                Row(
                    f"{way}: {BATCH} posts of {FEW} followers",
                    1_000 * seconds,
                    "ms",
                    "by queue, in one batch: from SQS's answer to the last entry of all",
                )
                for way, seconds in batches.items()
            ),
        ],
        setting={
            "seeds": f"{len(seeds)}, the worst of each",
            "time": "virtual, from the API's answer to the last entry; Lambda warm",
            "capacity": f"{CAPACITY:,} write units a second",
        },
        chart=Lines(
            title="From the API's answer to the last entry",
            x="followers",
            y="ms",
            lines={way: [(n, found[way, n].ms) for n in FOLLOWERS] for way in WAYS},
            log_x=True,
        ),
    )


def publish(system: System, followers: int) -> TimedPublish:
    """Publish one post; raises `RuntimeError` if a follower is missed or a message fails."""
    follow(system.database, PUBLISHER, followers)
    system.publish(PUBLISHER, POST)
    with system.virtual_time():
        system.scheduler.run(lambda: len(system.written(POST).users) == followers)
        calls = system.in_a_row.begun
    system.run_until_complete(POST)
    written = system.written(POST)
    if written.puts != followers or system.counts.failures:
        raise RuntimeError(f"{written.puts:,} entries were written for {followers:,} followers.")
    return TimedPublish(
        seconds=written.last_at - system.accepted[POST],
        since_request=written.last_at,
        calls=calls,
        calls_to_end=system.in_a_row.begun,
        invocations=sum(mapping.invocations for mapping in system.mappings.values()),
        units_beside=system.units_beside(),
    )


def of_a_batch(system: System, followers: int) -> float:
    """Seconds until a batch of posts, each of another publisher, has reached all followers.

    They are counted from SQS's answer. Raises `RuntimeError` if a message fails.
    """
    posts = {f"ada{number:05d}": f"9057{number:05d}" for number in range(BATCH)}
    for publisher in posts:
        follow(system.database, publisher, followers)
    system.send(*posts.items())
    for post in posts.values():
        system.run_until_complete(post)
    written = [system.written(post) for post in posts.values()]
    if system.counts.failures or {len(each.users) for each in written} != {followers}:
        raise RuntimeError("Some followers do not have the post.")
    return max(each.last_at for each in written) - min(system.accepted.values())


def _figures(ours: dict[int, Runs]) -> list[Figure]:
    few = ours[FEW]
    return [
        *(
            Figure(
                f"ordinary.time_ms_{followers}",
                ours[followers].ms,
                target,
                "ms",
                "from the API's answer to the last entry",
            )
            for followers, target in TIME_TARGETS.items()
        ),
        Figure(
            "ordinary.units_beside",
            few.worst(lambda each: each.units),
            8,
            "units",
            f"write units beside the entries, of a publish over HTTP to {FEW} followers",
        ),
        Figure(
            "ordinary.calls_in_a_row",
            few.worst(lambda each: each.calls_to_end),
            9,
            "calls",
            f"from the request to the end in the ledger, with {FEW} followers",
        ),
        Figure(
            "ordinary.functions",
            API + few.worst(lambda each: each.invocations),
            2,
            "functions",
            f"invoked for a publish over HTTP to {FEW} followers",
        ),
    ]
