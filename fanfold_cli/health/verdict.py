"""What was read of a stage, and the verdict on it: is everything well? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fanfold import names
from fanfold.channels.head import MOST
from fanfold.sweep.oldest import SMALL_LATE_SECONDS
from fanfold_cli.deliveries.pauses import Paused
from fanfold_cli.terminal import counted, duration

PUBLISH, EXPRESS, BULK = (queue.lane for queue in names.PAUSABLE)
# Bulk deliveries of which none has moved for this long stand still, as in the alarm of that name.
STILL_SECONDS = 900
WELL, NOT_WELL, NOT_KNOWN = 0, 1, 2  # exit codes
LIST_OPEN = "`fanfold fanout list --open` names the posts, and `fanfold dlq list` may say why."


@dataclass(frozen=True, kw_only=True)
class Depth:
    """Approximate numbers of messages in a queue and its dead-letter queue."""

    waiting: int = 0
    at_work: int = 0  # received, and hidden until their worker has deleted them or failed
    delayed: int = 0
    dead: int = 0

    @property
    def owed(self) -> int:
        return self.waiting + self.at_work + self.delayed


class Open(NamedTuple):
    """An open delivery, in the lane in which its messages wait."""

    lane: str
    accepted_ms: int
    changed_ms: int  # when its row last changed; 0 if the row was not read


class Lag(NamedTuple):
    """How long deliveries took from acceptance to complete, in seconds."""

    p50: float
    p99: float
    posts: int


class Audit(NamedTuple):
    """The last report of `fanfold audit`."""

    at_ms: int
    missing: int


@dataclass(frozen=True, kw_only=True)
class Health:
    """What was read of a stage at `now_ms`; None is not known.

    `unread` says why, by what could not be read. `without_metrics` says why CloudWatch has nothing
    to say of this stage, so that its part is missing by right; empty if it has.
    """

    now_ms: int
    unread: Mapping[str, str] = field(default_factory=dict)
    without_metrics: str = ""
    open: tuple[Open, ...] | None = None
    stalled: int | None = None
    queues: Mapping[str, Depth] | None = None
    paused: Paused | None = None
    channels: tuple[int, int] | None = None  # active and demoted
    channel_threshold: int = 0  # 0 where PLAN gives no channels
    lags: Mapping[str, Lag] | None = None  # by lane, or `sweep` for what SWEEP completed
    throttles: Mapping[str, int] | None = None  # by table
    alarms: tuple[str, ...] | None = None  # that ring
    audit: Audit | None = None

    def seconds_since(self, at_ms: int) -> float:
        return max(0, self.now_ms - at_ms) / 1000

    @property
    def held(self) -> frozenset[str]:
        """The paused lanes."""
        return frozenset(each.lane for each in self.paused.lanes) if self.paused else frozenset()


class Problem(NamedTuple):
    """Why not everything is well, and what to do."""

    what: str
    do: str


@dataclass(frozen=True)
class Verdict:
    """The problems, most urgent first; the answer in one sentence, and as an exit code."""

    problems: tuple[Problem, ...]
    sentence: str
    exit_code: int


def verdict_on(health: Health) -> Verdict:
    """Judge what was read: what is not well is said even if other things could not be read."""
    problems = tuple(_problems(health))
    unread = f"{', '.join(health.unread)} could not be read" if health.unread else ""
    if problems:
        said = "; ".join((*(each.what for each in problems), *filter(None, [unread])))
        return Verdict(problems, f"Not everything is well: {said}.", NOT_WELL)
    if unread:
        return Verdict((), f"Whether everything is well is not known: {unread}.", NOT_KNOWN)
    if health.without_metrics:
        known = f"{_open(health)}; alarms and metrics are not known, {health.without_metrics}"
        return Verdict((), f"Everything is well, as far as is known: {known}.", WELL)
    return Verdict((), f"Everything is well: {_open(health)}, and no alarm rings.", WELL)


def _problems(health: Health) -> Iterator[Problem]:
    if health.paused and (lanes := [each.lane for each in health.paused.lanes]):
        verb = "is" if len(lanes) == 1 else "are"
        yield Problem(f"{', '.join(lanes)} {verb} paused", health.paused.told(health.now_ms))
    if health.stalled:
        yield Problem(
            f"{counted(health.stalled, 'delivery has', 'deliveries have')} stalled",
            "`fanfold fanout list --stalled` names the posts. Remove the cause, then run `fanfold "
            "fanout resend --stalled`.",
        )
    yield from _late(health)
    dead = {name: depth.dead for name, depth in (health.queues or {}).items() if depth.dead}
    if dead:
        where = ", ".join(f"{name} {count:,}" for name, count in dead.items())
        yield Problem(
            f"{counted(sum(dead.values()), 'dead letter')} ({where})",
            "`fanfold dlq list` says why. Remove the cause, then run `fanfold dlq redrive`.",
        )
    if health.audit and health.audit.missing:
        entries = counted(health.audit.missing, "entry was", "entries were")
        yield Problem(
            f"in the last audit, {entries} missing",
            "Run the audit again: it names the posts, and says how to write what is missing.",
        )
    if health.channel_threshold and health.channels and sum(health.channels) >= MOST:
        yield Problem(
            f"all {MOST} channels are taken", "`fanfold channels list` shows which to demote."
        )
    if health.alarms:
        ring = counted(len(health.alarms), "alarm rings", "alarms ring")
        yield Problem(
            f"{ring}: {', '.join(health.alarms)}",
            "'The alarms' in docs/operations.md says what each means, and what to do.",
        )


def _late(health: Health) -> Iterator[Problem]:
    """Deliveries that take too long, but for those in a paused lane.

    A delivery of one segment is late by its age. A large one may take hours by right: its alarms
    judge it, or without them, whether any of its lane has moved of late.
    """
    going = [each for each in health.open or () if each.lane not in health.held]
    late = [
        each.accepted_ms
        for each in going
        if each.lane != BULK and health.seconds_since(each.accepted_ms) >= SMALL_LATE_SECONDS
    ]
    if late:
        oldest = health.seconds_since(min(late))
        yield Problem(
            f"{counted(len(late), 'small delivery has', 'small deliveries have')} taken more than "
            f"{SMALL_LATE_SECONDS // 60} minutes, the oldest {duration(int(oldest))}",
            LIST_OPEN,
        )
    moved = [each.changed_ms for each in going if each.lane == BULK and each.changed_ms]
    if moved and health.alarms is None and health.seconds_since(max(moved)) >= STILL_SECONDS:
        yield Problem(
            f"no bulk delivery has moved for {duration(int(health.seconds_since(max(moved))))}",
            f"The log of the function deliver says why. {LIST_OPEN}",
        )


def _open(health: Health) -> str:
    """How much is in progress, in a stage where nothing is wrong."""
    if not health.open:
        return "no delivery is open"
    oldest = health.seconds_since(min(each.accepted_ms for each in health.open))
    are = counted(len(health.open), "delivery is", "deliveries are")
    return f"{are} open, the oldest for {duration(int(oldest))}"
