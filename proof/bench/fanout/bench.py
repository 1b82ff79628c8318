"""How close does a fan-out come to the table's capacity? On the capacity model, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proof.bench.figures import BenchResult, Figure, Lines, Point, Row
from proof.bench.progress import with_progress
from proof.model.dynamodb.capacity import Limits
from proof.simulation.timed.sockets import TABLE_WRITES, in_virtual_time, over_sockets
from proof.simulation.timed.system import POST, PUBLISHER, System
from proof.simulation.timed.tables import Written, follow

FOLLOWERS = 220_000
SOCKET_FOLLOWERS = 4_000
CAPACITIES = (4_000, 20_000, 40_000)
SEEDS = range(3)
# Tenths of a second between two points of the chart.
TENTHS = 5


@dataclass(frozen=True)
class CapacityCase:
    name: str
    believed: int  # the capacity that the workers' budget is made for
    limits: Limits | None = None  # of the table; None: warm for that capacity
    cold: bool = False  # Lambda has no warm environments
    seed: int = 0


@dataclass(frozen=True)
class FanoutRun:
    case: CapacityCase
    system: System
    written: Written
    followers: int

    @property
    def limit(self) -> float:
        """Entries a second: the budget's share of the capacity, or all that a cold table takes."""
        limits = self.case.limits
        share = self.system.budget.bulk.rate
        return share if limits is None else limits.partitions * limits.partition_writes

    @property
    def time_ratio(self) -> float:
        """Time from the publish to the last follower, against the limit's."""
        return self.written.last_at / (self.followers / self.limit)

    @property
    def written_ratio(self) -> float:
        return self.written.puts / self.followers

    @property
    def throttled_percent(self) -> float:
        """Which part of the entries sent came back."""
        return 100 * self.system.counts.throttled_share

    @property
    def rows(self) -> list[Row]:
        counts, seconds = self.system.counts, self.written.last_at
        name, bulk = self.case.name, self.system.budget.bulk
        handed_back = counts.outcomes["handed back"]
        return [
            Row(
                f"{name}: time",
                seconds,
                "s",
                f"{self.time_ratio:.3f} x the limit's, {self.limit:,.0f} entries/s",
            ),
            Row(
                f"{name}: rate",
                self.followers / seconds,
                "entries/s",
                f"{bulk.max_concurrency} workers of at most {bulk.worker_rate:,}",
            ),
            Row(
                f"{name}: throttled",
                counts.throttled,
                "entries",
                f"{self.throttled_percent:.2f} % of those sent; {self.written.puts:,} written, "
                f"{handed_back:,} hand-backs",
            ),
        ]

    @property
    def line(self) -> list[Point]:
        """Entries a second over time."""
        written, end = self.written.by_time, int(10 * self.written.last_at)
        return [
            (start / 10, sum(written.get(start + t, 0) for t in range(TENTHS)) * 10 / TENTHS)
            for start in range(0, end + 1, TENTHS)
        ]


def run(*, short: bool) -> BenchResult:
    """Publish to many followers at several capacities, to a cold table, and from a cold Lambda."""
    if short:
        gated, others = [_warm(40_000, 0)], list[CapacityCase]()
    else:
        gated = [_warm(capacity, seed) for seed in SEEDS for capacity in CAPACITIES]
        others = [
            CapacityCase("budget 40,000, table cold", 40_000, limits=Limits()),
            CapacityCase("40,000 units/s, Lambda cold", 40_000, cold=True),
        ]
    runs = [fan_out(case, FOLLOWERS) for case in with_progress("fanout", [*gated, *others])]
    against_targets = runs[: len(gated)]
    shown = [each for each in runs if each.case.seed == 0]
    return BenchResult(
        figures=_figures(against_targets),
        rows=[*(row for each in shown for row in each.rows), *([] if short else _beside_sockets())],
        setting={
            "followers": f"{FOLLOWERS:,}",
            "seeds": f"{1 if short else len(SEEDS)}, the figures are the worst of all runs",
            "time": "virtual; DynamoDB is the capacity model",
        },
        chart=Lines(
            title=f"A fan-out to {FOLLOWERS:,} followers",
            x="seconds since the publish",
            y="entries/s",
            lines={each.case.name: each.line for each in shown},
            steps=True,
            log_x=True,
        ),
    )


def fan_out(case: CapacityCase, followers: int) -> FanoutRun:
    """Publish once and wait until it is complete; raises `RuntimeError` if a follower is missed."""
    system = System(case.believed, case.limits, seed=case.seed, cold=case.cold)
    follow(system.database, PUBLISHER, followers)
    system.publish(PUBLISHER, POST)
    system.run_until_complete(POST)
    written = system.written(POST)
    if len(written.users) != followers or system.counts.failures:
        raise RuntimeError(f"{len(written.users):,} of {followers:,} have the post.")
    return FanoutRun(case, system, written, followers)


def _warm(capacity: int, seed: int) -> CapacityCase:
    return CapacityCase(f"{capacity:,} units/s", capacity, seed=seed)


def _beside_sockets() -> list[Row]:
    """One worker with and without sockets; raises `RuntimeError` if a follower is missed."""
    rows = []
    for way, found in (
        ("over sockets", over_sockets(SOCKET_FOLLOWERS)),
        ("in virtual time", in_virtual_time(SOCKET_FOLLOWERS)),
    ):
        if found.users != SOCKET_FOLLOWERS:
            raise RuntimeError(f"{found.users:,} of {SOCKET_FOLLOWERS:,} have the post, {way}.")
        rows.append(
            Row(
                f"one worker {way}",
                found.seconds,
                "s",
                f"{SOCKET_FOLLOWERS:,} followers, a table of {TABLE_WRITES:,.0f} units/s: "
                f"{found.throttled_percent:.1f} % throttled, {found.puts:,} written",
            )
        )
    return rows


def _figures(runs: Sequence[FanoutRun]) -> list[Figure]:
    return [
        Figure(
            name="fanout.time_ratio",
            value=max(each.time_ratio for each in runs),
            target=1.045,
            unit="x",
            against="followers / the 85 % of the table's limit that bulk may use",
        ),
        Figure(
            name="fanout.throttled_share",
            value=max(each.throttled_percent for each in runs),
            target=2.0,
            unit="%",
            against="all entries sent",
        ),
        Figure(
            name="fanout.written_ratio",
            value=max(each.written_ratio for each in runs),
            target=1.01,
            unit="x",
            against="followers",
        ),
    ]
