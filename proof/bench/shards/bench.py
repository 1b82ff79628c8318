"""How soon a rush of follows to one publisher is taken, and what its shards cost a reader."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

from fanfold.follows.sharding import PARTITION_WRITES
from fanfold.settings import Settings
from proof.bench.figures import BenchResult, Figure, Lines, Row
from proof.bench.progress import with_progress
from proof.bench.shards.history import read_units_of
from proof.bench.shards.rush import GrowthCounts, GrowthPlan, GrowthRush

COOLDOWN_SECONDS = Settings.growth_cooldown_ms / 1000
# The rate is full when this share of the follows offered is taken by their first put.
FULL = 0.95
DYNAMIC = GrowthPlan()
SHORT = GrowthPlan(follows_per_second=2_000, seconds=16)
# Shards that never grow show in a few seconds what they take.
FIXED_SECONDS, SHORT_FIXED_SECONDS = 6, 3
FIXED_LEVELS = (0, 4)
FOLLOWERS, SHORT_FOLLOWERS = 220_000, 50_000
LEVELS, SHORT_LEVELS = (4, 8), (4,)
# Lines of the chart.
GROWING, ROOM = "write shards that grow", "what these shards take"


@dataclass(frozen=True)
class ShardsRun:
    plan: GrowthPlan
    counts: GrowthCounts
    lost: int
    twice: int = 0

    @property
    def at_once(self) -> list[float]:
        """For each second, the share of its follows that the first put took."""
        counts = self.counts
        return [counts.at_once[each] / counts.offered[each] for each in range(self.plan.seconds)]

    @property
    def full_at(self) -> int:
        """The second from which the rate is full until the end; the end itself if it never is."""
        below = [second for second, share in enumerate(self.at_once) if share < FULL]
        return below[-1] + 1 if below else 0

    @property
    def throttled_share(self) -> float:
        """The share of puts throttled from full rate on; 1 if the rate was never full."""
        after = range(self.full_at, self.plan.seconds)
        puts = sum(self.counts.puts[each] for each in after)
        return sum(self.counts.throttled[each] for each in after) / puts if puts else 1.0

    @property
    def accepted(self) -> float:
        """Follows a second that were taken in the second half of the run."""
        last = range(self.plan.seconds // 2, self.plan.seconds)
        return sum(self.counts.accepted[each] for each in last) / len(last)

    @property
    def line(self) -> list[tuple[float, float]]:
        return [(each, self.counts.accepted[each]) for each in range(self.plan.seconds)]

    @property
    def room(self) -> list[tuple[float, float]]:
        """The capacity of each level's shards, each on its own partition; as steps."""
        points: list[tuple[float, float]] = [(0, PARTITION_WRITES)]
        for at, level in self.counts.levels:
            points += [(at, points[-1][1]), (at, PARTITION_WRITES * 2**level)]
        return [*points, (self.plan.seconds, points[-1][1])]


def run(*, short: bool) -> BenchResult:
    """Run rushes with shards that grow and with fixed ones; read rings of several levels."""
    dynamic = SHORT if short else DYNAMIC
    seconds = SHORT_FIXED_SECONDS if short else FIXED_SECONDS
    plans = [dynamic, *(replace(dynamic, static_level=lv, seconds=seconds) for lv in FIXED_LEVELS)]
    followers, levels = (SHORT_FOLLOWERS, SHORT_LEVELS) if short else (FOLLOWERS, LEVELS)
    # In parallel: time is virtual, so one cannot slow down another.
    with ProcessPoolExecutor(mp_context=get_context("fork")) as processes:
        rushes = [processes.submit(rush, plan) for plan in plans]
        rings = {lv: processes.submit(read_units_of, followers, lv) for lv in (0, *levels)}
        found, *fixed = [each.result() for each in with_progress("shards, a rush", rushes)]
        units = {lv: each.result() for lv, each in with_progress("shards, a ring", rings.items())}
    offered = f"{dynamic.follows_per_second:,} follows/s offered"
    return BenchResult(
        figures=[
            Figure(
                name="shards.cooldowns_to_full_rate",
                value=found.full_at / COOLDOWN_SECONDS,
                target=5,
                unit="cooldowns",
                against=f"{offered}, until {FULL:.0%} of them are taken by their first put",
            ),
            Figure(
                name="shards.throttled_share",
                value=100 * found.throttled_share,
                target=3,
                unit="%",
                against="all puts from then on",
            ),
            Figure(
                name="shards.lost",
                value=found.lost + sum(each.lost for each in fixed),
                target=0,
                unit="followers",
                against="those acknowledged; a delivery has to read each of them once",
            ),
            Figure(
                name="shards.ring_read_units_ratio",
                value=max(units[level] for level in levels) / units[0],
                target=1.15,
                unit="x",
                against=f"the read units of {followers:,} edges at level 0; ours: levels "
                + " and ".join(map(str, levels)),
            ),
        ],
        rows=[
            *_growths(found),
            Row(
                "RELATE's second pass",
                found.counts.reconciled,
                "follows",
                f"{found.counts.to_retry} of them come again",
            ),
            Row("edges at a second level", found.twice, "edges", "rows that readers drop"),
            *(_fixed(each) for each in fixed),
            *(
                Row(f"reading the ring at level {level}", spent, "units", f"{followers:,} edges")
                for level, spent in units.items()
            ),
        ],
        setting={
            "rush": f"{offered} for {dynamic.seconds} s, {dynamic.containers} containers",
            "table": f"warm for {dynamic.warm_write_units:,} write units/s, on the capacity model",
            "time": "virtual",
        },
        chart=Lines(
            title=f"Follows of one publisher that are taken, of {offered}",
            x="s",
            y="follows/s",
            lines={
                GROWING: found.line,
                ROOM: found.room,
                **{_name(each): each.line for each in fixed},
            },
        ),
    )


def rush(plan: GrowthPlan) -> ShardsRun:
    rushed = GrowthRush(plan)
    return ShardsRun(plan, rushed.run(), rushed.lost(), rushed.twice())


def _growths(found: ShardsRun) -> list[Row]:
    ends = [*(at for at, _ in found.counts.levels[1:]), found.plan.seconds]
    rows = []
    for (at, level), end in zip(found.counts.levels, ends, strict=True):
        # The first second has the growth itself and the burst capacity of new partitions.
        whole = range(int(at) + 2, int(end)) or range(int(at), int(at) + 1)
        taken = sum(found.counts.accepted[each] for each in whole) / len(whole)
        rows.append(Row(f"{2**level} shards after", at, "s", f"{taken:,.0f} follows/s taken"))
    return rows


def _fixed(found: ShardsRun) -> Row:
    after = range(1, found.plan.seconds)
    share = sum(found.at_once[each] for each in after) / len(after)
    puts = sum(found.counts.throttled.values()) / found.counts.puts.total()
    return Row(
        _name(found),
        found.accepted,
        "follows/s",
        f"taken; {share:.0%} by their first put; {puts:.0%} of all puts throttled",
    )


def _name(found: ShardsRun) -> str:
    level = found.plan.static_level
    assert level is not None
    return "one shard" if level == 0 else f"{2**level} shards from the beginning"
