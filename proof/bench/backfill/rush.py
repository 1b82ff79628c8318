"""A rush of follows to one publisher, and what its backfills leave to deliveries."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial

from fanfold import clock, names
from fanfold_cli.cost.prices import PRICES
from proof.bench.backfill.system import Follows
from proof.model.dynamodb.capacity import READ, Limits, Resource
from proof.simulation.timed.system import PUBLISHER
from proof.simulation.timed.tables import FOLLOWER, follow, make_up_followers

# Small publishes of other publishers, and a large one, begin in the middle of the rush.
SMALL, PUBLISHES = 100, 20
LARGE_PUBLISHER = "ada00000-0000-4000-8000-999999999999"
LARGE_POST = "90570000-0000-4000-8000-999999999999"
# As many users each follow another publisher meanwhile; their numbers are nobody else's.
OTHER_PUBLISHER, FIRST_OTHER = "ada{}", 10_000_000
# The share of RELATE is measured over so long: a worker's burst is a batch after a pause.
WINDOW_SECONDS = 60
STEP_SECONDS = 10
PATIENCE_SECONDS = 4 * 60 * 60


@dataclass(frozen=True)
class RushPlan:
    """Follows, evenly over `seconds`, at a capacity; and the followers of the large post.

    By default a quarter of 220,000 follows at 40,000 units a second, and of a million followers.
    """

    follows: int = 55_000
    seconds: int = 600
    capacity: int = 10_000
    large: int = 250_000
    apart_seconds: float = 0.5  # of the small publishes
    is_cold: bool = False  # tables take what new ones do, whatever the capacity

    @property
    def limits(self) -> Limits | None:
        return Limits() if self.is_cold else None


@dataclass(frozen=True)
class RushResult:
    small: list[float]  # seconds from each small publish to its last follower
    large: float  # the same of the large one
    entries: int  # that RELATE has put
    lasted: float  # seconds from the first follow to the last entry
    share: float  # the largest share of the capacity that RELATE took in a window
    read_units: float  # of the backfill alone: the outbox, and the entries it looked for
    waits: list[float]  # seconds from each new follow to the end of its first pass
    other_waits: list[float]  # the same of follows of other publishers
    other_answers: list[float]  # seconds until those were answered
    by_second: list[tuple[float, float]]

    @property
    def dollars(self) -> float:
        return PRICES.dynamodb(writes=self.entries, reads=self.read_units)


def rush(plan: RushPlan, *, is_on: bool = True) -> RushResult:
    """Let the rush come, unless it is not on, and publish and follow others beside it."""
    system = Follows(plan.capacity, plan.limits)
    scheduler, half = system.scheduler, plan.seconds / 2
    small = {f"ada{number:05d}": f"9057{number:05d}" for number in range(PUBLISHES)}
    begun = {post: half + plan.apart_seconds * number for number, post in enumerate(small.values())}
    for publisher in small:
        follow(system.database, publisher, SMALL)
    make_up_followers(system.database, LARGE_PUBLISHER, plan.large, seed=1)
    system.post_before(PUBLISHER)
    answers: list[float] = []
    with system.virtual_time():
        if is_on:
            _begin(system, plan, 0)
        for number, (publisher, post) in enumerate(small.items(), FIRST_OTHER):
            scheduler.at(begun[post], partial(system.publish, publisher, post))
            system.post_before(OTHER_PUBLISHER.format(number))
            scheduler.at(begun[post], partial(_follow_another, system, number, answers))
        scheduler.at(half, partial(system.publish, LARGE_PUBLISHER, LARGE_POST))
        posts = (*begun, LARGE_POST)
        while not (_is_over(system, plan) and all(map(system.is_complete, posts))):
            if scheduler.now > PATIENCE_SECONDS:
                raise RuntimeError(f"The rush is not over after {PATIENCE_SECONDS} s.")
            scheduler.run_to(scheduler.now + STEP_SECONDS)
    others = {FOLLOWER.format(number) for number in range(FIRST_OTHER, FIRST_OTHER + PUBLISHES)}
    windows: Counter[int] = Counter()
    for second, entries in system.backfilled.items():
        windows[second // WINDOW_SECONDS * WINDOW_SECONDS] += entries
    return RushResult(
        small=[system.written(post).last_at - since for post, since in begun.items()],
        large=system.written(LARGE_POST).last_at - half,
        entries=system.backfilled.total(),
        lasted=max(system.backfilled, default=0),
        share=max(windows.values(), default=0) / (WINDOW_SECONDS * plan.capacity),
        read_units=_read_units(system),
        waits=[wait for user, wait in system.waits.items() if user not in others],
        other_waits=[wait for user, wait in system.waits.items() if user in others],
        other_answers=answers,
        by_second=[(at, count / WINDOW_SECONDS) for at, count in sorted(windows.items())],
    )


def _begin(system: Follows, plan: RushPlan, number: int) -> None:
    """One follow; schedules the next one."""
    if number == plan.follows:
        return
    scheduler, user = system.scheduler, FOLLOWER.format(number)

    def door() -> None:
        system.door.follow(user, PUBLISHER, asked_at=clock.now_ms())

    scheduler.start(door)
    next_at = (number + 1) * plan.seconds / plan.follows
    scheduler.at(next_at, partial(_begin, system, plan, number + 1))


def _follow_another(system: Follows, number: int, answers: list[float]) -> None:
    """One follow of a publisher whom nobody else follows."""
    user, publisher = FOLLOWER.format(number), OTHER_PUBLISHER.format(number)

    def door() -> None:
        began = system.scheduler.now
        system.door.follow(user, publisher, asked_at=clock.now_ms())
        answers.append(system.scheduler.now - began)

    system.scheduler.start(door)


def _is_over(system: Follows, plan: RushPlan) -> bool:
    is_past = system.scheduler.now > plan.seconds + names.API.seconds + STEP_SECONDS
    url = system.lanes[names.RELATION].url
    return is_past and system.queues.queue(url).is_empty


def _read_units(system: Follows) -> float:
    """Read units of outboxes and of entries, and one for the row of each first pass."""
    resources = (Resource(names.POSTS.name, names.OUTBOX.name), Resource(names.TIMELINES.name))
    spent = sum(float(system.meter.units[resource, READ]) for resource in resources)
    return spent + len(system.waits)
