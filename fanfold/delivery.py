"""The policy of DELIVER: pure, without I/O. It is told what happened and says what to do next.

A transport (transport_boto3) carries out the actions and reports the events. The loop is always

    action = policy.next(now)  ->  carry it out  ->  policy.<event>(...)  ->  again

until the action is `Done`, `HandBack` or `Failed`. Times are seconds of any monotonic clock.
"""

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import lt

from fanfold import ring

# BatchWriteItem takes no more.
CHUNK = 25
# One worker reaches what a table takes long before; more only queues inside the client.
MAX_IN_FLIGHT = 32
# Full jitter: a random wait below base * 2^attempt, at most the cap (AWS Builders' Library,
# "Timeouts, retries, and backoff with jitter").
BACKOFF_BASE_SECONDS = 0.05
BACKOFF_CAP_SECONDS = 1.0
# Without one entry written for so long, waiting on is paid for and helps nobody: hand back.
PATIENCE_SECONDS = 3.0


@dataclass(frozen=True)
class Page:
    """Edges of the range in ring order, and whether more of the range follows them."""

    edges: Sequence[str]
    more: bool


@dataclass(frozen=True)
class Read:
    """Read the page of edges that begins after `after`: a position, or the last edge read."""

    after: str


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
    """Time is up, or the table is throttled. What lies before `position` is written.

    `written` counts the entries from the range's start to there. `progress` is false when this run
    got no further than where it began.
    """

    position: str
    written: int
    progress: bool


@dataclass(frozen=True)
class Failed:
    """An error that trying again now does not cure; nothing is in flight any more."""

    error: Exception


Action = Read | Send | Wait | Done | HandBack | Failed


@dataclass
class _Batch:
    edges: Sequence[str]
    indexes: Sequence[int]  # where each edge stands in ring order, counted from where we began


@dataclass
class Delivery:
    """Delivers one post to the followers in a range of one publisher's ring.

    `start` and `already` are where an earlier worker stopped and how many it had written; `stop_at`
    is when to begin handing back; `chance` draws from [0, 1).
    """

    start: str
    stop_at: float
    chance: Callable[[], float]
    already: int = 0
    max_in_flight: int = MAX_IN_FLIGHT

    _fresh: list[str] = field(default_factory=list)  # read, never sent; `_next` is the first
    _next: int = 0
    _read: int = 0  # edges read so far
    _after: str = ""
    _more: bool = True
    _reading: bool = False
    _read_attempts: int = 0
    _read_not_before: float = -math.inf
    _retries: list[tuple[float, int, str]] = field(default_factory=list)  # heap by time
    _attempts: dict[int, int] = field(default_factory=dict)
    _in_flight: dict[int, _Batch] = field(default_factory=dict)
    _batches: int = 0
    _progress_at: float = math.inf  # until the first action is asked for
    _stopping: bool = False
    _failure: Exception | None = None

    def __post_init__(self) -> None:
        self._after = self.start

    # What to do next

    def next(self, now: float) -> Action:
        """Say what to do at time `now`."""
        self._progress_at = min(self._progress_at, now)
        self._stopping = self._stopping or self._must_stop(now)
        if self._stopping:
            if self._in_flight or self._reading:
                return Wait(math.inf)  # the transport's time-outs bound it
            return self._end()
        if self._wants_page() and now >= self._read_not_before:
            self._reading = True
            return Read(self._after)
        batch = self._next_batch(now)
        if batch:
            self._batches += 1
            self._in_flight[self._batches] = batch
            return Send(self._batches, batch.edges)
        if not (self._more or self._reading or self._in_flight or self._retries):
            return self._end()
        return Wait(self._wake_at())

    def _must_stop(self, now: float) -> bool:
        if self._failure or now >= self.stop_at:
            return True
        held_up = bool(self._retries) or self._read_attempts > 0
        return held_up and now - self._progress_at >= PATIENCE_SECONDS

    def _wants_page(self) -> bool:
        """Read ahead: the next page is read while the chunks of this one are written."""
        left = len(self._fresh) - self._next
        return self._more and not self._reading and left < CHUNK * self.max_in_flight

    def _next_batch(self, now: float) -> _Batch | None:
        if len(self._in_flight) >= self.max_in_flight:
            return None
        left = len(self._fresh) - self._next
        if not self._retries:  # the plain case, kept cheap: a slice of the page
            if left >= CHUNK or (left and not self._more):
                return self._take_fresh(CHUNK)
            return None
        due: list[tuple[int, str]] = []
        while self._retries and self._retries[0][0] <= now and len(due) < CHUNK:
            _, index, edge = heapq.heappop(self._retries)
            due.append((index, edge))
        fresh = self._take_fresh(CHUNK - len(due)) if left else _Batch((), ())
        edges = [*(edge for _, edge in due), *fresh.edges]
        indexes = [*(index for index, _ in due), *fresh.indexes]
        return _Batch(edges, indexes) if edges else None

    def _take_fresh(self, count: int) -> _Batch:
        edges = self._fresh[self._next : self._next + count]
        first = self._read - (len(self._fresh) - self._next)
        self._next += len(edges)
        return _Batch(edges, range(first, first + len(edges)))

    def _wake_at(self) -> float:
        times = [self.stop_at]
        if self._retries:
            times.append(self._retries[0][0])
        if self._wants_page():
            times.append(self._read_not_before)
        if self._retries or self._read_attempts:
            times.append(self._progress_at + PATIENCE_SECONDS)
        return min(times)

    def _end(self) -> Action:
        if self._failure:
            return Failed(self._failure)
        unwritten = [(index, edge) for _, index, edge in self._retries]
        if self._next < len(self._fresh):
            first = self._read - (len(self._fresh) - self._next)
            unwritten.append((first, self._fresh[self._next]))
        if unwritten:
            index, edge = min(unwritten)
        elif not self._more:
            return Done(self.already + self._read)
        elif self._read:
            # A position includes the edges on it, so the last edge is written, and counted, again:
            # to begin after it could miss another follower with the very same hash.
            index, edge = self._read - 1, self._after
        else:
            index, edge = 0, self.start
        position = ring.position_of(edge)
        return HandBack(position, self.already + index, progress=position > self.start)

    # What happened

    def page_read(self, page: Page) -> None:
        """The page that `Read` asked for."""
        self._reading = False
        self._read_attempts = 0
        self._more = page.more
        edges = page.edges
        if not edges:
            if page.more:
                raise ValueError("An empty page of edges cannot say where the next one begins.")
            return
        if edges[0] <= self._after or not all(map(lt, edges, edges[1:])):
            raise ValueError("Edges must come in ring order, each one once.")
        self._fresh = [*self._fresh[self._next :], *edges]
        self._next = 0
        self._read += len(edges)
        self._after = edges[-1]

    def read_failed(self, error: Exception, *, retryable: bool, now: float) -> None:
        """The page could not be read."""
        self._reading = False
        if retryable:
            self._read_not_before = now + self._backoff(self._read_attempts)
            self._read_attempts += 1
        else:
            self._failure = self._failure or error

    def batch_answered(self, batch: int, unprocessed: Collection[str], *, now: float) -> None:
        """The batch was answered; `unprocessed` are the followers whose entry was not written."""
        sent = self._in_flight.pop(batch)
        written = len(sent.edges) - len(unprocessed)
        if written:
            self._progress_at = now
        if not unprocessed:
            return
        lost = set(unprocessed)
        again = [
            (index, edge)
            for index, edge in zip(sent.indexes, sent.edges, strict=True)
            if ring.follower_of(edge) in lost
        ]
        if len(again) != len(unprocessed):
            raise ValueError("The table returned entries as unprocessed that were not sent.")
        self._retry(again, now)

    def batch_failed(self, batch: int, error: Exception, *, retryable: bool, now: float) -> None:
        """The whole batch failed; it may still have taken effect, and is safe to send again."""
        sent = self._in_flight.pop(batch)
        if not retryable:
            self._failure = self._failure or error
        self._retry(zip(sent.indexes, sent.edges, strict=True), now)

    def _retry(self, entries: Iterable[tuple[int, str]], now: float) -> None:
        for index, edge in entries:
            attempt = self._attempts.get(index, 0)
            self._attempts[index] = attempt + 1
            heapq.heappush(self._retries, (now + self._backoff(attempt), index, edge))

    def _backoff(self, attempt: int) -> float:
        ceiling = min(BACKOFF_CAP_SECONDS, BACKOFF_BASE_SECONDS * 2.0 ** min(attempt, 16))
        return self.chance() * ceiling
