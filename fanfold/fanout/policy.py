"""The policy of DELIVER: pure, without I/O. It is told what happened and says what to do next.

A transport carries out the actions; the loop between the two is in transport.py. The loop is always

    action = policy.next(now)  ->  carry it out  ->  policy.<event>(...)  ->  again

until the action is `Done`, `HandBack` or `Failed`. Times are seconds of any monotonic clock.
"""

import heapq
import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from fanfold.aws.items import MAX_PUTS
from fanfold.fanout.pacing import Pace
from fanfold.follows import ring
from fanfold.follows.ring_reader import Page, Read, RingRead

CHUNK = MAX_PUTS
# A ceiling only, far above what the pace asks for: at 5.5 ms a call, 64 are 290,000 entries a
# second.
MAX_IN_FLIGHT = 64
# Full jitter: a random wait below base * 2^attempt, at most the cap (AWS Builders' Library,
# "Timeouts, retries, and backoff with jitter").
BACKOFF_BASE_SECONDS = 0.05
BACKOFF_CAP_SECONDS = 1.0
# Without one entry written for so long, waiting on is paid for and helps nobody: hand back.
PATIENCE_SECONDS = 3.0
# An entry that is throttled for the third time tells about itself, and so does one that an earlier
# worker left behind; any other tells about the table.
TELLING_ATTEMPTS = 2
# Of what a run sends, so much may be sent again, beside all that is in flight when a throttle
# begins. A table that throttles more is given time: the rest is handed back.
RETRY_SHARE = 0.2
RETRY_ENTRIES = CHUNK * MAX_IN_FLIGHT
# Followers that lag behind when the rest of a segment is handed back travel by their positions,
# so that nobody behind them is written again. Not more than a batch; and with many segments fewer,
# so that 4,096 of them (17 bytes a position) leave the ledger's row below 250 KB.
MAX_STRAGGLERS = CHUNK
MAX_STRAGGLERS_IN_ALL = 4_096


def stragglers_of(segments: int) -> int:
    """How many stragglers a segment of so many may hand back."""
    return min(MAX_STRAGGLERS, MAX_STRAGGLERS_IN_ALL // max(1, segments))


@dataclass(frozen=True)
class Send:
    """Write the entries of these followers, at most 25 and none twice, in one batch."""

    batch: int
    edges: Sequence[str]


@dataclass(frozen=True)
class Wait:
    """Nothing to do before the next event, or before `until` if that comes first."""

    until: float


@dataclass(frozen=True)
class Done:
    """Every follower of the range has the entry; `written` of them since the range's start."""

    written: int


@dataclass(frozen=True)
class HandBack:
    """Time is up, or the table is throttled.

    All before `position` is written, but for the followers at the positions of the `stragglers`.
    `written` counts the entries from the segment's start to there. `progress` is false when this
    run wrote nothing that counts; then all is as it began.
    """

    position: str
    written: int
    progress: bool
    stragglers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failed:
    """An error that trying again now does not cure; nothing is in flight any more."""

    error: Exception


Action = Read | Send | Wait | Done | HandBack | Failed


# Behind every edge of a position: an edge goes on with '#'.
_BEHIND = "~"


@dataclass
class Delivery:
    """Delivers one post to the followers in a range of one publisher's ring, up to `level`.

    `start` is where an earlier worker stopped, `stragglers` are positions before it that it left
    out, and `already` is how many it had written; the range ends at `hi`. `stop_at` is when to
    begin handing back; `chance` draws from [0, 1).
    """

    start: str
    hi: str
    stop_at: float
    chance: Callable[[], float]
    pace: Pace
    level: int = 0
    already: int = 0
    stragglers: Sequence[str] = ()
    max_stragglers: int = MAX_STRAGGLERS
    max_in_flight: int = MAX_IN_FLIGHT

    _edges: list[str] = field(default_factory=list)  # read and not let go, in ring order
    _next: int = 0  # where the first of them stands that was never sent
    _let_go: int = 0  # edges before those: written, and so are all before them
    _ranges: deque[RingRead] = field(default_factory=deque)  # yet to be read, in ring order
    _read_attempts: int = 0
    _read_not_before: float = -math.inf
    _retries: list[tuple[float, str]] = field(default_factory=list)  # heap by time
    _attempts: dict[str, int] = field(default_factory=dict)
    _retried: int = 0
    _written: int = 0
    _in_flight: dict[int, Sequence[str]] = field(default_factory=dict)
    _batches: int = 0
    _progress_at: float = math.inf  # until the first action is asked for
    _stopping: bool = False
    _failure: Exception | None = None

    def __post_init__(self) -> None:
        lagging = sorted({each for each in self.stragglers if each < self.start})
        for position in lagging:
            self._ranges.append(RingRead(self.level, position, position + _BEHIND))
        if self.start < self.hi:
            self._ranges.append(RingRead(self.level, self.start, self.hi))

    # What to do next

    def next(self, now: float) -> Action:
        """Say what to do at time `now`."""
        self._progress_at = min(self._progress_at, now)
        self._stopping = self._stopping or self._must_stop(now)
        if self._stopping:
            if self._in_flight or self._is_reading:
                return Wait(math.inf)  # the transport's time-outs bound it
            return self._end()
        if now >= self._read_not_before and (read := self._next_read()):
            return read
        wake_at = math.inf
        if count := self._sendable(now):
            wake_at = self.pace.may_send_at(count, now)
            if wake_at <= now:
                return self._send(now)
        elif not (self._ranges or self._in_flight or self._retries):
            return self._end()
        return Wait(min(wake_at, self._wake_at(now)))

    def _must_stop(self, now: float) -> bool:
        if self._failure or now >= self.stop_at:
            return True
        if self._retried > RETRY_ENTRIES + RETRY_SHARE * self._written:
            return True
        held_up = bool(self._retries) or self._read_attempts > 0
        return held_up and now >= self._progress_at + PATIENCE_SECONDS

    @property
    def _is_reading(self) -> bool:
        return bool(self._ranges) and self._ranges[0].is_reading

    def _next_read(self) -> Read | None:
        """Read ahead: the next pages are read while the chunks of these are written."""
        left = len(self._edges) - self._next
        if self._ranges and left < CHUNK * self.max_in_flight:
            return self._ranges[0].next_read()
        return None

    def _sendable(self, now: float) -> int:
        """How many entries the next batch may hold; none if it has to wait for something."""
        if len(self._in_flight) >= self.max_in_flight:
            return 0
        left = len(self._edges) - self._next
        is_due = bool(self._retries) and self._retries[0][0] <= now
        # The end of a page waits for the next one, so that chunks are full.
        if left >= CHUNK or is_due or (left and not self._ranges):
            return min(CHUNK, left + len(self._retries))
        return 0

    def _send(self, now: float) -> Send:
        edges = self._next_batch(now)
        self.pace.spend(len(edges))
        self._batches += 1
        self._in_flight[self._batches] = edges
        return Send(self._batches, edges)

    def _next_batch(self, now: float) -> Sequence[str]:
        due: list[str] = []
        while self._retries and self._retries[0][0] <= now and len(due) < CHUNK:
            due.append(heapq.heappop(self._retries)[1])
        fresh = self._edges[self._next : self._next + CHUNK - len(due)]
        self._next += len(fresh)
        return due + fresh

    def _wake_at(self, now: float) -> float:
        """When time alone changes what is to be done, apart from the pace."""
        times = [self.stop_at]
        if self._retries and self._retries[0][0] > now:
            times.append(self._retries[0][0])
        if self._ranges and self._read_not_before > now:
            times.append(self._read_not_before)
        if self._retries or self._read_attempts:
            times.append(self._progress_at + PATIENCE_SECONDS)
        return min(times)

    def _end(self) -> Action:
        if self._failure:
            return Failed(self._failure)
        unwritten = [*(edge for _, edge in self._retries), *self._edges[self._next :]]
        if not (unwritten or self._ranges):
            return Done(self.already + self._let_go + len(self._edges))
        position = self._reached()
        unread = [each.lo for each in self._ranges if each.hi != self.hi]
        behind = {ring.position_of(edge) for edge in (*unwritten, *unread)}
        lag = sorted(each for each in behind if each < position)
        # All that there were may travel on, or the position would go back.
        most = max(self.max_stragglers, bisect_left(lag, self.start))
        if len(lag) > most:
            position, lag = lag[most], lag[:most]
        # A position means all edges on it: if one is unwritten, none of them counts yet.
        before = (ring.position_of(edge) for edge in self._edges)
        written = self._let_go + sum(each < position and each not in lag for each in before)
        if not written:
            return HandBack(self.start, self.already, False, tuple(self.stragglers))
        return HandBack(position, self.already + written, True, tuple(lag))

    def _reached(self) -> str:
        """The position before which every edge of the range was sent."""
        for edge in self._edges[self._next :]:
            if edge > self.start:
                return ring.position_of(edge)
        if self._ranges and self._ranges[-1].hi == self.hi:
            # The last edge that was read is written again: to begin after it could miss another
            # follower with the very same hash.
            return ring.position_of(max(self.start, self._edges[-1] if self._edges else ""))
        return max(self.start, ring.behind_all(self.hi))

    # What happened

    def page_read(self, read: Read, page: Page, *, now: float) -> None:
        """The page that was asked for. Of a ring of many shards, that is progress."""
        self._read_attempts = 0
        self._progress_at = now
        current = self._ranges[0]
        current.page_read(read, page)
        if edges := current.take():
            self._edges += edges
            self._forget_written()
        if current.is_done:
            self._ranges.popleft()

    def _forget_written(self) -> None:
        """Let go of edges that are written, so that a long segment takes no more room.

        But not of those at the position where something is owed: they count together or not at all.
        """
        sent = chain.from_iterable(self._in_flight.values())
        again = (edge for _, edge in self._retries)
        owed = min(chain(sent, again), default=self._edges[self._next])
        count = bisect_left(self._edges, ring.position_of(owed))
        del self._edges[:count]
        self._next -= count
        self._let_go += count

    def read_failed(self, read: Read, error: Exception, *, retryable: bool, now: float) -> None:
        """The page could not be read."""
        self._ranges[0].read_failed(read)
        if retryable:
            if now >= self._read_not_before:  # else it was on its way with one that failed
                self._read_not_before = now + self._backoff(self._read_attempts)
                self._read_attempts += 1
        else:
            self._failure = self._failure or error

    def batch_answered(self, batch: int, unprocessed: Collection[str], *, now: float) -> None:
        """The batch was answered; `unprocessed` are the followers whose entry was not written."""
        sent = self._in_flight.pop(batch)
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
        self._tell_pace(written, again, now)
        self._retry(again, now)

    def batch_failed(
        self, batch: int, error: Exception, *, retryable: bool, throttled: bool, now: float
    ) -> None:
        """The whole batch failed; it may still have taken effect, and is safe to send again."""
        again = self._in_flight.pop(batch)
        if not retryable:
            self._failure = self._failure or error
        if throttled:
            self._tell_pace(0, again, now)
        self._retry(again, now)

    def _tell_pace(self, written: int, throttled: Iterable[str], now: float) -> None:
        telling = sum(
            edge > self.start and self._attempts.get(edge, 0) < TELLING_ATTEMPTS
            for edge in throttled
        )
        self.pace.answered(written + telling, telling, now)

    def _retry(self, edges: Sequence[str], now: float) -> None:
        self._retried += len(edges)
        for edge in edges:
            attempt = self._attempts.get(edge, 0)
            self._attempts[edge] = attempt + 1
            heapq.heappush(self._retries, (now + self._backoff(attempt), edge))

    def _backoff(self, attempt: int) -> float:
        ceiling = min(BACKOFF_CAP_SECONDS, BACKOFF_BASE_SECONDS * 2.0 ** min(attempt, 16))
        return self.chance() * ceiling
