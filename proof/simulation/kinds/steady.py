"""Worlds that are never calm: publishers keep posting while something is wrong for hours.

Each has one story. What is accepted is judged minute by minute, by
`proof/simulation/oracle/liveness.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TypeAlias

from fanfold import names, times
from fanfold.fanout.row import Fanout
from proof.simulation.checks.alarms import a_small_post_waits_for_no_celebrity
from proof.simulation.checks.judge import CHECKS
from proof.simulation.clients.requests import by_http, by_queue, relate, relate_by_queue
from proof.simulation.faults.troubles import FAILURES, LASTING, THROTTLES, Trouble
from proof.simulation.kinds.kind import Kind
from proof.simulation.observed.cloudwatch import MINUTE, Watch
from proof.simulation.oracle.liveness import Liveness
from proof.simulation.stage import stores
from proof.simulation.world.lambdas import MAPPED
from proof.simulation.world.world import World

# How far the clock of API Gateway is ahead of that of SQS.
SKEWS_MS = (0, -150, 150)
# A fault this short passes unnoticed: three runs of SWEEP that fail ring.
SHORT_MINUTES = 2
# An operator acts some minutes after an alarm, and finally even without one.
COMES_MINUTES, AT_LAST_MINUTES = (1, 15), 120
# Give up waiting for an alarm after these minutes without a failed call.
IDLE_MINUTES = 15
# Traffic continues this long after the trouble.
AFTER_MINUTES = 15
# Open fan-outs of others: a run of SWEEP reads three rows.
CROWD_OPEN = 36
# Followers of the celebrity, who has ten segments and more.
FANS = 24


@dataclass
class Steady:
    """One world, with the decisions of its story."""

    world: World
    random: Random
    small: list[str] = field(default_factory=lambda: ["p0", "p1"])  # publishers of one segment
    large: list[str] = field(default_factory=lambda: ["p2"])
    ends: bool = False

    def traffic(self) -> None:
        """Let users follow, and then each publisher post until the end."""
        for publisher in self.small:
            for number in range(self.random.randint(1, 4)):
                self._follow(f"{publisher}-u{number}", publisher)
        for publisher in self.large:
            for number in range(self.random.randint(5, 9)):
                self._follow(f"{publisher}-u{number}", publisher)
        for publisher in (*self.small, *self.large):
            self.world.start_client(publisher, partial(self._post, publisher))
        self.world.start_client("restless", self._come_and_go)

    def _come_and_go(self) -> None:
        while not self.ends:
            kind = self.random.choice(("follow", "unfollow"))
            act = relate if self.random.random() < 0.6 else relate_by_queue
            act(self.world, kind, "restless", self.random.choice(self.small))
            self.sleep(self.random.uniform(0, 20))

    def _follow(self, user: str, publisher: str) -> None:
        act = partial(relate, self.world, "follow", user, publisher)
        self.world.start_client(user, act)

    def _post(self, publisher: str) -> None:
        every, number = self.random.uniform(4, 12), 0
        self.world.scheduler.sleep(30.0)
        while not self.ends:
            publish = by_http if self.random.random() < 0.6 else by_queue
            publish(self.world, publisher, f"{publisher}-{number}")
            number += 1
            self.world.scheduler.sleep(self.random.uniform(0, 2 * every) * MINUTE)

    def act(self, story: Callable[[], object]) -> None:
        """Run the story during the traffic, which continues for a while after it."""

        def run() -> None:
            self.sleep(self.random.uniform(1, 5))
            story()
            self.sleep(AFTER_MINUTES)
            self.ends = True

        self.world.start_client("story", run)

    def sleep(self, minutes: float) -> None:
        self.world.scheduler.sleep(minutes * MINUTE)

    def trouble(self, resource: names.Table | names.Queue, errors: object, rate: float) -> Trouble:
        """A trouble with a table or a queue, for all functions or one; not on yet."""
        service = "dynamodb" if isinstance(resource, names.Table) else "sqs"
        code, status = self.random.choice(errors[service])  # type: ignore[index]
        found = Trouble(self.random, service, resource.name, code, status, rate=rate)
        self.world.troubles.append(found)
        return found

    def last(self, troubles: list[Trouble], minutes: float) -> None:
        for each in troubles:
            each.is_on = True
            self.world.note(f"trouble: {each}")
        self.sleep(minutes)
        self.end(troubles)

    def end(self, troubles: list[Trouble]) -> None:
        for each in troubles:
            each.is_on = False
        self.world.note("the trouble ends")

    def until_mended(self, begun: int) -> None:
        """Wait until an operator acts, after an alarm or finally without one."""
        watch = self.world.watch
        assert watch
        while not watch.ringing and watch.minute < begun + AT_LAST_MINUTES:
            self.sleep(1)
            if watch.minute > begun + IDLE_MINUTES and not self.world.faults.injected["troubled"]:
                break
        self.sleep(self.random.uniform(*COMES_MINUTES))


Story: TypeAlias = Callable[[Steady], None]

# The stories


def calm(it: Steady) -> None:
    """Something fails now and then, or completely for a moment."""
    if it.random.random() < 0.5:
        for name in ("partial", "duplicated", "unsent"):
            it.world.faults.rates[name] = 0.02
    errors = it.random.choice((THROTTLES, FAILURES))
    found = it.trouble(it.random.choice((*names.TABLES, *names.QUEUES)), _ever(errors), 1.0)
    found.tells = False

    def story() -> None:
        it.sleep(it.random.uniform(0, 10))
        it.last([found], it.random.uniform(0, SHORT_MINUTES))
        it.sleep(it.random.uniform(20, 40))

    it.act(story)


def brownout(it: Steady) -> None:
    """One table refuses all calls, or most, for long."""
    errors = _ever(it.random.choice((THROTTLES, FAILURES)))
    table, rate = it.random.choice(names.TABLES), it.random.choice((1.0, 1.0, 0.8))
    found = it.trouble(table, errors, rate)
    # Half an hour without timelines is ten thousand calls already.
    most = 35 if table is names.TIMELINES else 90
    it.act(lambda: it.last([found], it.random.uniform(20, most)))


def refused_sends(it: Steady) -> None:
    """A queue, or every queue, takes no message for an hour."""
    queues = it.random.choice(([it.random.choice(names.QUEUES)], list(names.QUEUES)))
    errors = _ever(it.random.choice((THROTTLES, FAILURES)))
    found = [it.trouble(queue, errors, it.random.choice((1.0, 0.9))) for queue in queues]
    it.act(lambda: it.last(found, it.random.uniform(50, 70)))


def no_sweep(it: Steady) -> None:
    """SWEEP does not run, workers die, and at first commands to PLAN are lost."""
    it.world.faults.rates["crashed"] = 0.01
    found = it.trouble(names.PUBLISH, _ever(FAILURES), 0.7)

    def story() -> None:
        it.world.triggers.runs_sweep = False
        it.last([found], it.random.uniform(5, 15))
        it.sleep(it.random.uniform(5, 45))
        it.world.triggers.runs_sweep = True
        it.sleep(20)

    it.act(story)


def lasting(it: Steady) -> None:
    """Something is forbidden or missing until somebody repairs it."""
    found = it.trouble(it.random.choice((*names.TABLES, *names.QUEUES)), LASTING, 1.0)
    if it.random.random() < 0.6:
        found.function = it.random.choice(names.FUNCTIONS).name

    def story() -> None:
        watch = it.world.watch
        assert watch
        found.is_on = True
        it.world.note(f"trouble: {found}")
        it.until_mended(watch.minute)
        it.end([found])

    it.act(story)


def locked_queue(it: Steady) -> None:
    """The key of a queue is disabled: nobody sends, and nobody receives."""
    queue = it.random.choice(names.QUEUES)
    found = it.trouble(queue, {"sqs": (("KmsDisabled", 400),)}, 1.0)

    def story() -> None:
        watch = it.world.watch
        assert watch
        found.is_on = True
        it.world.triggers.lock(queue.name)
        it.world.note(f"locked: {queue.name}")
        it.until_mended(watch.minute)
        it.world.triggers.unlock(queue.name)
        it.end([found])

    it.act(story)


def paused(it: Steady) -> None:
    """An operator pauses queues, and forgets them for a while."""
    count = it.random.choice((1, 1, 1, len(MAPPED)))
    queues = {each.name for each in it.random.sample(MAPPED, count)}

    def story() -> None:
        it.world.triggers.pause(queues)
        it.world.note(f"paused: {sorted(queues)}")
        it.sleep(it.random.uniform(5, 60))
        it.world.triggers.resume()

    it.act(story)


def forgotten_lane(it: Steady) -> None:
    """An operator pauses the bulk lane, and forgets it until long after its alarm.

    In some worlds, the rows that count posts are throttled meanwhile, which must affect no fan-out.
    """
    found = it.trouble(names.PUBLISHERS, _ever(THROTTLES), it.random.choice((0.0, 1.0)))
    found.function, found.operation = names.PLAN.name, "update_item"

    def story() -> None:
        it.world.triggers.pause({names.BULK.name})
        it.world.note("paused: Bulk")
        it.last([found], it.random.uniform(45, 75))
        it.world.triggers.resume()

    it.act(story)


def celebrity(it: Steady) -> None:
    """A celebrity keeps posting, and the bulk lane is slow: nobody else must wait."""
    world = it.world
    it.large = ["star"]
    world.triggers.slow_lanes = (names.BULK,)
    world.triggers.seconds_a_message = it.random.choice((5.0, 10.0, 20.0))
    for number in range(FANS):
        world.start_client(f"fan{number}", partial(relate, world, "follow", f"fan{number}", "star"))
    it.act(lambda: it.sleep(it.random.uniform(20, 60)))


def crowded_ledger(it: Steady) -> None:
    """Many large fan-outs of others stay open, and workers process them all the time."""
    world = it.world
    ledger = stores(world.dynamodb).ledger
    begun_ms = world.clock.now_ms() - 3_600_000
    # A fan-out that changes in the future is never silent.
    busy = times.to_text(world.clock.now_ms() + 86_400_000)
    for number in range(CROWD_OPEN):
        fanout_id = f"-{number}"
        accepted_at = times.to_text(begun_ms + number)
        fanout = Fanout(
            fanout_id=fanout_id,
            publisher_id="neighbour",
            sort_key=f"{accepted_at}#{fanout_id}",
            accepted_at=accepted_at,
            expires_at=begun_ms // 1000 + 30 * 86_400,
        )
        ledger.open(fanout)
        ledger.plan(fanout, segments=4, followers=20, level=0, now=busy)
    it.act(lambda: it.sleep(it.random.uniform(20, 40)))


# Each story with its weight.
STORIES: tuple[tuple[Story, float], ...] = (
    (calm, 2.0),
    (brownout, 2.0),
    (refused_sends, 1.0),
    (no_sweep, 1.0),
    (lasting, 3.0),
    (locked_queue, 1.0),
    (paused, 1.0),
    (forgotten_lane, 1.0),
    (celebrity, 2.0),
    (crowded_ledger, 1.0),
)


def live(world: World) -> None:
    """Run the world's story to its end."""
    random = Random(f"{world.seed} steady")
    stories, shares = zip(*STORIES, strict=True)
    tell(random.choices(stories, shares)[0], world, random)


def tell(story: Story, world: World, random: Random) -> None:
    """Run a story in a world where nothing else goes wrong."""
    world.faults.rates = dict.fromkeys(world.faults.rates, 0.0)
    world.time_pressure, world.worker_rate, world.is_busy = 1.0, 10_000.0, False
    world.meter.throttle, world.is_crowded = None, False
    world.triggers.seconds_a_message = 0.0
    world.door_skew_ms = random.choice(SKEWS_MS)
    world.story = story.__name__
    Liveness(Watch(world))

    def play(_world: World) -> None:
        steady = Steady(world, random)
        story(steady)
        steady.traffic()

    world.run(play)


def _ever(errors: dict[str, tuple[str, int]]) -> dict[str, tuple[tuple[str, int], ...]]:
    """One kind of error, as a choice."""
    return {service: (error,) for service, error in errors.items()}


KIND = Kind("steady", 0.04, live, (*CHECKS, a_small_post_waits_for_no_celebrity))
