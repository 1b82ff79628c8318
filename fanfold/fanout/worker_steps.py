"""The policy of DELIVER: what a worker does next, after what has happened. Pure, without I/O.

A transport makes the calls; the loop between the two is in transport/loop.py. The loop is always

    action = policy.next(now)  ->  carry the action out  ->  policy.<event>(...)  ->  again

until the action is `Done`, `HandBack` or `Failed`. Times are seconds of any monotonic clock.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fanfold.aws.items import MAX_PUTS
from fanfold.fanout.backlog import Backlog
from fanfold.fanout.batch_retries import Retries
from fanfold.fanout.pacing import MAX_IN_FLIGHT, Pace
from fanfold.follows import ring
from fanfold.follows.ring_reader import EdgePage, Read

# A worker that has written nothing for this long hands back: waiting is paid for and helps nobody.
PATIENCE_SECONDS = 3.0
# Stragglers are handed back as positions, so that no follower behind them is written again. At most
# one batch per segment; and at most 4,096 per fan-out (17 bytes each), so that the ledger's row
# stays below 250 KB.
MAX_STRAGGLERS = MAX_PUTS
MAX_STRAGGLERS_PER_FANOUT = 4_096


def max_stragglers_of(segments: int) -> int:
    """How many stragglers each of `segments` segments may hand back."""
    return min(MAX_STRAGGLERS, MAX_STRAGGLERS_PER_FANOUT // max(1, segments))


class Send(NamedTuple):
    """Write the entries of these followers, at most 25 and none twice, in one batch."""

    batch: int
    edges: Sequence[str]


class Wait(NamedTuple):
    """Do nothing until the next event, or until the time `until` if that comes first."""

    until: float


class Done(NamedTuple):
    """Every follower of the range has the entry; `written` of them since the segment's start."""

    written: int


class HandBack(NamedTuple):
    """Time is up, or the table is throttled: another worker continues.

    All entries before `position` are written, except those at the positions `stragglers`; `written`
    counts them from the segment's start. Without `progress`, this run wrote nothing that counts,
    and the other fields are those it began with.
    """

    position: str
    written: int
    progress: bool
    stragglers: tuple[str, ...] = ()


class Failed(NamedTuple):
    """An error that a retry does not cure; nothing is in flight any more."""

    error: Exception


Action = Read | Send | Wait | Done | HandBack | Failed


@dataclass
class Delivery:
    """Delivers one post to the followers in a range of one publisher's ring, up to `level`.

    The range goes from `start`, where an earlier worker stopped, to `hi`. That worker had written
    `already` entries and left out the `stragglers`, positions before `start`. `edges` are all those
    of the range, in ring order, if they have been read. `stop_at` is when to begin handing back;
    `chance` draws from [0, 1).
    """

    start: str
    hi: str
    stop_at: float
    chance: Callable[[], float]
    pace: Pace
    level: int = 0
    already: int = 0
    stragglers: Sequence[str] = ()
    edges: Sequence[str] | None = None
    max_stragglers: int = MAX_STRAGGLERS
    max_in_flight: int = MAX_IN_FLIGHT

    _backlog: Backlog = field(init=False)
    _retries: Retries = field(init=False)
    _read_attempts: int = 0
    _read_not_before: float = -math.inf
    _written: int = 0
    _progress_at: float = math.inf  # until the first action is asked for
    _stopping: bool = False
    _failure: Exception | None = None

    def __post_init__(self) -> None:
        self._retries = Retries(self.chance)
        self._backlog = Backlog(
            self.level, self.start, self.hi, self._retries, self.stragglers, self.edges
        )

    # What to do next

    def next(self, now: float) -> Action:
        """Say what to do at time `now`."""
        backlog = self._backlog
        self._progress_at = min(self._progress_at, now)
        self._stopping = self._stopping or self._must_stop(now)
        if self._stopping:
            if backlog.in_flight or backlog.is_reading:
                return Wait(math.inf)  # the transport's time-outs bound it
            return self._end()
        if now >= self._read_not_before and (read := backlog.next_read(self.max_in_flight)):
            return read
        wake_at = math.inf
        has_room = len(backlog.in_flight) < self.max_in_flight
        if has_room and (count := backlog.batch_size(now)):
            wake_at = self.pace.may_send_at(count, now)
            if wake_at <= now:
                batch, edges = backlog.begin_batch(now)
                self.pace.spend(len(edges))
                return Send(batch, edges)
        elif backlog.is_empty:
            return self._end()
        return Wait(min(wake_at, self._wake_at(now)))

    def _must_stop(self, now: float) -> bool:
        if self._failure or now >= self.stop_at:
            return True
        if self._retries.exceed_budget(self._written):
            return True
        held_up = bool(self._retries) or self._read_attempts > 0
        return held_up and now >= self._progress_at + PATIENCE_SECONDS

    def _wake_at(self, now: float) -> float:
        """When time alone changes what to do next, apart from the pace."""
        times = [self.stop_at]
        if self._retries.next_at > now:
            times.append(self._retries.next_at)
        if self._backlog.unread and self._read_not_before > now:
            times.append(self._read_not_before)
        if self._retries or self._read_attempts:
            times.append(self._progress_at + PATIENCE_SECONDS)
        return min(times)

    def _end(self) -> Action:
        if self._failure:
            return Failed(self._failure)
        if self._backlog.is_empty:
            return Done(self.already + self._backlog.edges_read)
        position, written, stragglers = self._backlog.rest(self.max_stragglers)
        if not written:
            return HandBack(self.start, self.already, False, tuple(self.stragglers))
        return HandBack(position, self.already + written, True, stragglers)

    # What happened

    def page_read(self, read: Read, page: EdgePage, *, now: float) -> None:
        """The page was read. That is progress: a ring of many empty shards takes its time."""
        self._read_attempts = 0
        self._progress_at = now
        self._backlog.page_read(read, page)

    def read_failed(self, read: Read, error: Exception, *, retryable: bool, now: float) -> None:
        self._backlog.read_failed(read)
        if retryable:
            if now >= self._read_not_before:  # pages that fail together back off once
                self._read_not_before = now + self._retries.backoff(self._read_attempts)
                self._read_attempts += 1
        else:
            self._failure = self._failure or error

    def batch_answered(self, batch: int, unprocessed: Collection[str], *, now: float) -> None:
        """The batch was answered; `unprocessed` are the followers whose entry was not written."""
        sent = self._backlog.in_flight.pop(batch)
        written = len(sent) - len(unprocessed)
        if written:
            self._written += written
            self._progress_at = now
        if not unprocessed:
            self.pace.answered(written, 0, now)
            return
        lost = set(unprocessed)
        again = [edge for edge in sent if ring.follower_of(edge) in lost]
        if len(again) != len(unprocessed):
            raise ValueError("The table returned entries as unprocessed that were not sent.")
        self._report_throttle(written, again, now)
        self._retries.add(again, now)

    def batch_failed(
        self, batch: int, error: Exception, *, retryable: bool, throttled: bool, now: float
    ) -> None:
        """The whole batch failed; it may still have been applied, and is safe to repeat."""
        again = self._backlog.in_flight.pop(batch)
        if not retryable:
            self._failure = self._failure or error
        if throttled:
            self._report_throttle(0, again, now)
        self._retries.add(again, now)

    def _report_throttle(self, written: int, throttled: Iterable[str], now: float) -> None:
        """Let the pace slow down, but not because of hot keys."""
        by_table = sum(
            # Stragglers of an earlier worker count as hot keys, too.
            edge > self.start and not self._retries.is_hot_key(edge)
            for edge in throttled
        )
        self.pace.answered(written + by_table, by_table, now)
