"""The audit of a run: at random moments, and of everything at its end.

It must find nothing, whatever the traffic: a false alarm is a violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

from fanfold import clock
from fanfold.audit.audit import Audit, Found
from fanfold.audit.reads import Reads
from fanfold.audit.rule import Finding
from fanfold.fanout.row import from_item
from fanfold.stores import Stores
from proof.simulation.checks.evidence import Evidence
from proof.simulation.stage import settings
from proof.simulation.world.world import World

# The share of runs that are audited meanwhile, how often, and the pairs of a sample.
SHARE, MOST, PAIRS = 0.3, 4, 12
# When audits begin: early, or once most is delivered.
UNTIL_SECONDS = (60.0, 600.0, 6_000.0)
# How old an eventual read is, and how long an audit takes before each call.
LAGS = (0.0, 0.1, 5.0)
PAUSES = (0.0, 0.0, 0.01, 1.0)
# Every post of a run.
HOURS = 24.0 * 365


def attend(world: World) -> None:
    """Audit a share of the runs at random moments, in callbacks between the turns of tasks.

    From separate generators, and without the delays and throttles that others draw: no other run
    changes.
    """
    random = Random(f"{world.seed} audit")
    if random.random() >= SHARE:
        return
    for _ in range(random.randint(1, MOST)):
        at = random.uniform(0, random.choice(UNTIL_SECONDS))
        auditing = greenlet(partial(_audit, world, random))
        world.scheduler.at(at, auditing.switch)


def _audit(world: World, random: Random) -> None:
    auditing, begun_ms = _auditing(world, random, partial(_pause, world)), world.clock.now_ms()
    for _ in auditing.sample(random.randint(1, PAIRS), hours=HOURS):
        pass
    # A door may have died, and RELATE its first time: then a young follow has no edge for minutes.
    found = [each for each in auditing.report.found if each.finding is not Finding.UNSURE]
    # What is in a channel may be overlooked while the head is an old one.
    if world.damage.is_headless(begun_ms, world.clock.now_ms()):
        found = [each for each in found if each.finding is not Finding.OVERLOOKED]
    world.audited += found


def an_audit_finds_nothing(found: Evidence) -> Iterator[str]:
    """Neither meanwhile, nor of every post and every reader at the end."""
    world = found.world
    for each in (*world.audited, *_at_the_end(world)):
        if not _is_excused(world, each):
            yield f"An audit finds {each.finding} of {each.post} for {each.user_id}."


def _at_the_end(world: World) -> list[Found]:
    random = Random(f"{world.seed} last audit")
    auditing = _auditing(world, random, lambda _seconds: None, lags=LAGS[:1])
    with _time_of(world):
        for row in world.fanouts():
            for _ in auditing.post(from_item(row)):
                pass
        for user_id in world.history.users():
            for _ in auditing.reader(user_id):
                pass
    return auditing.report.found


def _is_excused(world: World, each: Found) -> bool:
    """Whether a restore or an accident has taken what the audit misses."""
    damage, pair = world.damage, (each.user_id, each.publisher_id)
    ref_id = each.post.rpartition("#")[2]
    return (
        (each.user_id, ref_id) in damage.lost_entries
        or each.user_id in damage.unmarked
        or pair in damage.undone | damage.unrelated
        or damage.touches(pair, 0, world.clock.now_ms())
    )


def _auditing(
    world: World, random: Random, sleep: Callable[[float], None], lags: Sequence[float] = LAGS
) -> Audit:
    own = settings(
        retention_days=world.retention_days, longest_retention_days=world.longest_retention_days
    )
    client: Any = _Client(world, random, sleep, lags)
    return Audit(Reads(Stores(client, own)), random.random, sleep=sleep)


@dataclass(frozen=True)
class _Client:
    """Reads the tables of a run, each time a moment later; it draws nothing of the run's."""

    world: World
    random: Random
    sleep: Callable[[float], None]
    lags: Sequence[float]

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.world.dynamodb, name)

        def late(**request: Any) -> Any:
            self.sleep(self.random.choice(PAUSES))
            database = self.world.database
            with (
                patch.object(database, "meter", None),
                patch.multiple(
                    database.hooks,
                    read_lag=lambda _table: self.random.choice(self.lags),
                    unprocessed=None,
                    shuffle=None,
                ),
            ):
                return call(**request)

        return late


def _pause(world: World, seconds: float) -> None:
    """Let the world go on for a while: the scheduler resumes this audit, and no task."""
    auditing = getcurrent()

    def go_on() -> None:
        auditing.parent = getcurrent()
        auditing.switch()

    world.scheduler.at(world.scheduler.now + seconds, go_on)
    auditing.parent.switch()


@contextmanager
def _time_of(world: World) -> Iterator[None]:
    """The product's clock shows the run's time, which stands still."""
    with (
        patch.object(clock, "now_ms", world.clock.now_ms),
        patch.object(clock, "monotonic", lambda: world.clock.elapsed),
    ):
        yield
