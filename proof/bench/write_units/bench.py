"""Write units of a publish for each follower, over all tables and indexes, as the model counts."""

from __future__ import annotations

from dataclasses import dataclass

from fanfold import names
from proof.bench.figures import Bars, BenchResult, Figure, Row
from proof.bench.progress import with_progress
from proof.simulation.timed.system import POST, PUBLISHER, System
from proof.simulation.timed.tables import follow

WRITE_CAPACITY = 40_000
TARGETS = {1_000: 1.010, 10_000: 1.002, 220_000: 1.001}
SHORT = (1_000, 10_000)


@dataclass(frozen=True)
class SpentUnits:
    followers: int
    entries: float
    others: dict[str, float]  # by table or index

    @property
    def per_entry(self) -> float:
        return (self.entries + sum(self.others.values())) / self.followers


def run(*, short: bool) -> BenchResult:
    """Publish 1 KB to few and to many followers."""
    spent = [
        publish(followers)
        for followers in with_progress("write-units", SHORT if short else TARGETS)
    ]
    return BenchResult(
        figures=[
            Figure(
                name=f"write_units.per_entry_{each.followers}",
                value=each.per_entry,
                target=TARGETS[each.followers],
                unit="units",
                against="one unit for each follower",
            )
            for each in spent
        ],
        rows=[row for each in spent for row in _rows(each)],
        setting={
            "body": "1 KB",
            "counted by": "the capacity model, from bytes, images and index projections",
        },
        chart=Bars(
            title="What is written beside the entries",
            unit="units for 1,000 followers",
            bars={f"{each.followers:,} followers": 1_000 * (each.per_entry - 1) for each in spent},
        ),
    )


def publish(followers: int) -> SpentUnits:
    """Publish one post; raises `RuntimeError` if a follower is missed."""
    system = System(WRITE_CAPACITY)
    follow(system.database, PUBLISHER, followers)
    system.publish(PUBLISHER, POST)
    system.run_until_complete(POST)
    if len(system.written(POST).users) != followers:
        raise RuntimeError(f"Not all of the {followers:,} followers have the post.")
    return SpentUnits(followers, system.meter.of(names.TIMELINES.name), system.units_beside())


def _rows(spent: SpentUnits) -> list[Row]:
    beside = ", ".join(f"{name} {units:g}" for name, units in sorted(spent.others.items()))
    total = sum(spent.others.values())
    name = f"{spent.followers:,} followers: beside the entries"
    entries = f"entries {spent.entries:,.0f}"
    return [Row(name, total, "units", f"{beside}; {entries}")]
