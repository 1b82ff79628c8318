"""A world that lives for weeks: time passes in leaps, between which clients look at it.

DynamoDB deletes expired items within two days, or even ten. Copies of messages come as late as SQS
allows: after up to 14 days. The retention may change, as by a deployment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeAlias

from fanfold import names
from fanfold.fanout.row import Fanout, from_item
from fanfold.rates import Rate
from fanfold.settings import Settings
from proof.model.sqs.messages import Message
from proof.simulation.clients.bodies import content_of
from proof.simulation.oracle.ids import DAY, Between, IdAttempt
from proof.simulation.world.aws_clients import running
from proof.simulation.world.lambdas import lambdas
from proof.simulation.world.skipped_sweeps import lane_of
from proof.simulation.world.world import MAX_QUIESCENCE_SECONDS, World

DAY_SECONDS = 24 * 60 * 60.0
RETENTIONS = (3, 7, 30)
TTL_SECONDS = (2 * DAY_SECONDS, 2 * DAY_SECONDS, 10 * DAY_SECONDS)
# SQS keeps a message this long in any queue.
KEPT_SECONDS = 14 * DAY_SECONDS
# Lambda ends every environment within hours, even busy ones ("Understanding the Lambda execution
# environment lifecycle").
LONGEST_LIFE_SECONDS = DAY_SECONDS / 2
# Longer than any delay or visibility timeout that the product chooses.
SOON_SECONDS = 900.0

Pair: TypeAlias = tuple[str, str]  # user, publisher


@dataclass
class Moment:
    """What clients see in the calm, and what happened since the last moment."""

    at: Between
    retention_ms: int
    follows: dict[str, set[str]] = field(default_factory=dict)  # publishers by user
    # Entries by user: publisher, ref_id, published_at and title.
    shown: dict[str, list[tuple[str, str, str, str]]] = field(default_factory=dict)
    muted: dict[str, set[str]] = field(default_factory=dict)  # publishers by user
    # For each pair that somebody tried to change: its state, or None if unknown.
    asked_for: dict[Pair, bool | None] = field(default_factory=dict)
    asked_for_mutes: dict[Pair, bool | None] = field(default_factory=dict)
    fanouts: dict[str, Fanout] = field(default_factory=dict)
    hindered: set[str] = field(default_factory=set)  # posts that cannot be delivered now
    spoilt: set[str] = field(default_factory=set)  # posts that have lost orders or their row


@dataclass
class LongWorld(World):
    """`log` has handled attempts and moments, in order."""

    may_be_busy: bool = False
    log: list[IdAttempt | Moment] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.drawn = Random(f"{self.seed} weeks")
        self.retention_days = self.longest_retention_days = self.drawn.choice(RETENTIONS)
        self.ttl_seconds = self.drawn.choice(TTL_SECONDS)
        self.database.hooks.ttl_delay = lambda _table: self.drawn.uniform(0, self.ttl_seconds)
        self.queues.hooks.is_duplicated = self._is_duplicated
        self.queues.hooks.copy_seconds = self._copy_seconds
        self.rate = Rate.a_minute(Settings.publishes_per_minute)  # so that 429 has a cause
        self.faults.rates["late"] = 0.0  # only copies are late, so that a calm moment need not wait
        self.door_skew_ms = 0  # ids and retentions end at exact times
        self.triggers.skips, self.triggers.seconds_a_message = True, 0.0
        self.users: list[str] = []
        self.publishers: list[str] = []
        self.attempts: list[IdAttempt] = []  # not in the log yet
        self.copied: list[tuple[Message, float]] = []  # with the time until which a copy may come
        self.requests: dict[Pair, list[bool | None]] = defaultdict(list)  # since the last moment
        self.mutes: dict[Pair, list[bool | None]] = defaultdict(list)
        self.granted: list[tuple[Pair, str, int]] = []  # requests: kind, and when they began
        self.unsettled: dict[Pair, float] = {}  # until when a message may still come
        self.robbed: dict[str, dict[str, Any]] = {}  # rows of posts that were lost
        self.spoilt: set[str] = set()

    def _copy_seconds(self) -> float:
        return self.drawn.choice((0.0, 1.0, 3_600.0, self.drawn.uniform(0, KEPT_SECONDS)))

    def _is_duplicated(self, _random: Random, _queue: str, message: Message) -> bool:
        if content_of(message.body).get("fanout_id") in self.spoilt:
            return False  # a copy that comes days later would be neither lost nor waiting
        if not self.faults.strikes("duplicated"):
            return False
        self.copied.append((message, message.sent_at + KEPT_SECONDS))
        return True

    def alive(self, live: Callable[[], None]) -> None:
        """Run `live` in this world."""
        running.world = self
        lambdas().restart()
        try:
            live()
        finally:
            del running.world

    def act(self, *clients: tuple[str, Callable[[], object]], faults: bool = True) -> None:
        """Run clients to their end."""
        self.faults.are_on = faults
        for name, client in clients:
            self.start_client(name, client)
        self.scheduler.run(until=lambda: not self._clients)

    def pass_until(self, at: float) -> None:
        """Let time pass, with faults, until `at` in seconds of the scheduler."""
        leaps = at - self.scheduler.now > LONGEST_LIFE_SECONDS
        self.faults.are_on = True
        self.scheduler.at(at, lambda: None)
        self.scheduler.run(until=lambda: self.scheduler.now >= at)
        if leaps:
            lambdas().restart()

    def settle(self) -> None:
        """Run without faults until nothing can progress."""
        self.faults.are_on = False
        end = self.scheduler.now + MAX_QUIESCENCE_SECONDS
        self.scheduler.run(until=lambda: self._is_calm() or self.scheduler.now > end)
        self._log_attempts()

    def deploy(self, retention_days: int) -> None:
        """Change the stage's retention, which restarts every environment."""
        self.retention_days = retention_days
        self.longest_retention_days = max(self.longest_retention_days, retention_days)
        lambdas().restart()

    def hinders(self, row: Fanout) -> bool:
        """Whether a fan-out cannot progress now."""
        is_lost = row.fanout_id in self.triggers.lost or row.fanout_id in self.robbed
        return is_lost or lane_of(row).name in self.triggers.paused

    def _is_calm(self) -> bool:
        if self.scheduler.tasks or self.triggers.ready():
            return False
        if self.triggers.next_change() < self.scheduler.now + SOON_SECONDS:
            return False
        return all(self.hinders(from_item(row)) for row in self.open_fanouts())

    # What was asked for

    @property
    def is_intake_paused(self) -> bool:
        """Whether messages of other services are not received."""
        return names.PUBLISH.name in self.triggers.paused

    def _log_attempts(self) -> None:
        """Log attempts that have been handled, and copies that may have been."""
        now_ms, keeps = float(self.clock.now_ms()), self.retention_days * DAY
        letters = [  # those that SQS moved after the last try; a worker may have half done them
            content_of(message.body)
            for _, message in self.dead_letters()
            if message.dead_letter_source
        ]
        waiting = [each for each in self.attempts if each.is_message and self.is_intake_paused]
        for attempt in self.attempts:
            if attempt in waiting:  # unless it was taken before the pause
                attempt.shortest_ms = min(attempt.shortest_ms, keeps)
                may = replace(attempt, done=now_ms, retention_ms=keeps, is_copy=True)
                self.log.append(may)
                continue
            attempt.done, attempt.retention_ms = now_ms, keeps
            may_be_gone = now_ms - attempt.sent > (KEPT_SECONDS - MAX_QUIESCENCE_SECONDS) * 1000
            is_failed = any(attempt.is_in(letter) for letter in letters)
            attempt.is_certain = not (may_be_gone or is_failed)
            self.log.append(attempt)
        self.attempts = waiting
        if self.is_intake_paused:
            return
        copies = [content_of(message.body) for message, _ in self.copied]
        self.log += [
            replace(attempt, done=now_ms, retention_ms=keeps, is_copy=True)
            for attempt in self.log
            if isinstance(attempt, IdAttempt)
            and attempt.is_message
            and not attempt.is_copy
            and any(attempt.is_in(copy) for copy in copies)
        ]
        self.copied = [each for each in self.copied if each[1] >= self.clock.now]

    def moment(self) -> Moment:
        """Describe this moment, before clients read."""
        now, now_ms = self.scheduler.now, self.clock.now_ms()
        found = Moment(Between(now_ms, now_ms), self.retention_days * DAY, spoilt=set(self.spoilt))
        found.asked_for = {pair: _surely(requests) for pair, requests in self.requests.items()}
        found.asked_for_mutes = {pair: _surely(requests) for pair, requests in self.mutes.items()}
        self.mutes.clear()
        letters = " ".join(message.body for _, message in self.dead_letters())
        for user in self.users:
            if f'"{user}"' in letters:
                # A copy of a dead letter may come as long as SQS keeps it.
                for publisher in self.publishers:
                    self.unsettled[user, publisher] = now + KEPT_SECONDS
        for pair, until in self.unsettled.items():
            if self.is_intake_paused or until >= now:
                found.asked_for[pair] = None
        if not self.is_intake_paused:
            self.requests.clear()
        for item in self.fanouts():
            row = from_item(item)
            found.fanouts[row.fanout_id] = row
            if self.hinders(row) or row.state == "stalled":
                found.hindered.add(row.fanout_id)
        self.log.append(found)
        return found


def _surely(requests: list[bool | None]) -> bool | None:
    """The state after these requests; None if unknown."""
    return requests[0] if len(requests) == 1 else None
