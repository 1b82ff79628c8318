"""Decides which runs of SWEEP can be skipped, so that a world can live for weeks.

Runs are skipped only while nothing else happens: no function runs, and no worker could receive a
message. The horizon is the next event: a client wakes, a message is visible, or a lane is resumed.
Until then, the rows of the ledger do not change, so the remedy of each open fan-out depends only on
the time, and what is due stays due. The same is true of the removal of a demoted channel. A run
before anything is due changes only what SWEEP remembers, so it is skipped. While a queue is paused,
SWEEP remembers when it last saw that, so the last run before the horizon is not skipped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fanfold import names
from fanfold.channels.head import head_of
from fanfold.fanout.row import Fanout, from_item
from fanfold.sweep.silence import Remedy, remedy_for
from proof.simulation.faults.faults import MAX_SKEW_MS
from proof.simulation.stage import stores

if TYPE_CHECKING:
    from proof.simulation.world.world import World

MINUTE = 60.0
SWEPT = {names.PUBLISH.name, names.EXPRESS.name, names.BULK.name}
# SWEEP runs at least once a day.
FARTHEST = 24 * 60 * MINUTE
# Longer than a run takes until it reads the time.
MARGIN_MS = 1_000


def idle_runs(world: World) -> int:
    """How many runs of SWEEP can change nothing, from the one that is due now."""
    if any(task.environment for task in world.scheduler.tasks) or world.triggers.ready():
        return 0
    now = world.scheduler.now
    happens = world.scheduler.next_due(), world.triggers.next_change(), *_removals(world)
    horizon = min(*happens, now + FARTHEST)
    runs = max(0, math.ceil((horizon - now) / MINUTE))  # before it
    return first_due(world, runs - 1 if world.triggers.paused else runs)


def _removals(world: World) -> Iterator[float]:
    """When demoted channels are to be removed, in seconds of the clock."""
    start = world.clock.now - world.clock.elapsed
    for until in _ends(world):
        yield max(world.scheduler.now, until + 1 - start)


def _ends(world: World) -> list[int]:
    """When demoted channels stop being readable, and SWEEP removes them."""
    heads = map(head_of, world.rows(names.PUBLISHERS, having="channels"))
    channels = (channel for head in heads for channel in head.channels.values())
    return [channel.until for channel in channels if not channel.is_active]


def first_due(world: World, runs: int) -> int:
    """The number of the first of these runs for which something is due; `runs` if none is."""
    rows = [from_item(row) for row in world.rows(names.FANOUTS, having="open_fanout")]
    remembered = stores(world.dynamodb).open_fanouts
    memory = remembered.memory()
    if world.triggers.paused & SWEPT - memory.held:
        return 0  # a run would note the pause
    paused = memory.paused
    is_skewed = world.faults.are_on and world.faults.rates["skewed"] > 0
    ends = _ends(world)
    margin_ms = MARGIN_MS + (MAX_SKEW_MS if is_skewed else 0)

    def is_due(run: int) -> bool:
        at_ms = world.clock.now_ms() + int(run * MINUTE * 1000) + margin_ms
        return any(until * 1000 < at_ms for until in ends) or any(
            _remedy(world, row, at_ms, paused) is not Remedy.NOTHING for row in rows
        )

    lo, hi = 0, max(0, runs)
    while lo < hi:  # once something is due, it stays due
        middle = (lo + hi) // 2
        lo, hi = (lo, middle) if is_due(middle) else (middle + 1, hi)
    return lo


def _remedy(world: World, row: Fanout, at_ms: int, paused: Mapping[str, int]) -> Remedy:
    lane = lane_of(row).name
    paused_ms = at_ms if lane in world.triggers.paused else paused.get(lane, 0)
    return remedy_for(row, now_ms=at_ms, paused_ms=paused_ms)


def lane_of(row: Fanout) -> names.Queue:
    """The queue of a fan-out's orders."""
    if row.awaits_plan:
        return names.PUBLISH
    return names.BULK if row.is_bulk else names.EXPRESS
