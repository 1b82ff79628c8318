"""At which level a publisher's edges are written, and when that level is raised.

A warm container caches levels. A cached one may be too low. That is safe for writing: readers read
every level up to the publisher's own.

A publisher grows when single writes of its edges are throttled: only their errors say which limit
was met, and answers to batches do not. A transient error here does not fail the follow.

A put has `DEADLINE_SECONDS` of `fanfold.aws.retries`. No call of a growth or count begins later:
the growth is left to the next throttled put in time, and the count to the next one.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cachetools import TTLCache

from fanfold import clock
from fanfold.aws.retries import is_throttle, is_transient, throttling_reasons
from fanfold.errors import TryLater
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.sharding import HOT_KEY_RANGE, SAMPLE, NotGrown, Shards, grown

# A level is read again after a minute, or at the publisher's first throttle.
LEVEL_SECONDS = 60
# Publishers that one container remembers; at 200 bytes each, 2 MB.
PUBLISHERS = 10_000


def ttl_cache(seconds: float) -> Callable[[], MutableMapping[Any, Any]]:
    """A factory of caches for publishers; not thread-safe."""
    return lambda: TTLCache(PUBLISHERS, seconds, timer=clock.Lasting())


@dataclass(frozen=True)
class Levels:
    """The levels at which to write edges, and at which to read them."""

    publishers: PublishersTable

    _own: MutableMapping[str, int] = field(default_factory=ttl_cache(LEVEL_SECONDS))
    _static: MutableMapping[str, int | None] = field(default_factory=ttl_cache(LEVEL_SECONDS))
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def forget(self) -> None:
        """Empty the caches, as after a cold start."""
        with self._lock:
            self._own.clear()
            self._static.clear()

    def to_write(self, publisher_id: str, *, check: Callable[[], None] = lambda: None) -> int:
        """The level to write at: the static one, or the publisher's own.

        Never higher than the publisher's own level in its row: a static level that is higher is
        committed there first. `check` runs before each call but the first, and may raise.
        """
        static = self.static()
        check()
        own = self.remembered(publisher_id)
        if static is None:
            return own
        if own < static:
            now_ms = clock.now_ms()
            own = self.publishers.raise_to(publisher_id, static, now_ms=now_ms, check=check)
            self.remember(publisher_id, own)
        return static

    def highest(self, publisher_id: str) -> int:
        """The highest level at which the publisher has edges, as far as this container knows."""
        return max(self.to_write(publisher_id), self.remembered(publisher_id))

    def remembered(self, publisher_id: str) -> int:
        """The publisher's own level, at most a minute old."""
        with self._lock:
            known = self._own.get(publisher_id)
        if known is None:
            known = self.publishers.shards(publisher_id, consistent=False).level
            self.remember(publisher_id, known)
        return known

    def current(self, publisher_id: str) -> int:
        """The publisher's own level, read consistently: no acknowledged edge lies higher."""
        return self.read(publisher_id).level

    def read(self, publisher_id: str) -> Shards:
        """The publisher's shards, read consistently."""
        shards = self.publishers.shards(publisher_id)
        self.remember(publisher_id, shards.level)
        return shards

    def static(self) -> int | None:
        """The level at which all publishers are written; None if each has its own."""
        with self._lock:
            if "" in self._static:
                return self._static.get("")
        level = self.publishers.static_level()
        with self._lock:
            self._static[""] = level
        return level

    def remember(self, publisher_id: str, level: int) -> None:
        """Cache a level just read or stored; re-caching an older one would reset its time."""
        with self._lock:
            self._own[publisher_id] = level


# Read a throttled publisher's row at most once a second per container; otherwise a hundred
# containers make that row hot.
CHECK_SECONDS = 1
# A container waits for a random time after a publisher's first throttle, and grows the publisher
# only if it is throttled again: a peak of a second grows nothing, and a hundred containers do not
# all try at once.
WAIT_SECONDS = (1.0, 10.0)
# A publisher's follows are counted until this long after its last throttle. Counting those of a
# quiet publisher would cost writes for nothing.
HOT_SECONDS = 60

Notify = Callable[[str, Shards | NotGrown], None]


@dataclass(frozen=True)
class Growing:
    """Decides when this container tries to grow a publisher.

    `notify` is called with each growth by this container, and with each reason against one.
    """

    levels: Levels
    max_level: int
    cooldown_ms: int
    notify: Notify = lambda _publisher, _what: None

    _checked: MutableMapping[tuple[str, bool], bool] = field(
        default_factory=ttl_cache(CHECK_SECONDS)
    )
    _try_at: MutableMapping[str, float] = field(default_factory=ttl_cache(HOT_SECONDS))
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def forget(self) -> None:
        """Empty the caches, as after a cold start."""
        with self._lock:
            self._checked.clear()
            self._try_at.clear()

    def accepted(self, publisher_id: str, level: int) -> None:
        """Count a sample of the accepted follows of a publisher that was throttled lately."""
        one_in = SAMPLE * 2**level
        if publisher_id in self._try_at and clock.chance() * one_in < 1:
            with _failing_no_follow():
                self.levels.publishers.count(publisher_id, one_in, now_ms=clock.now_ms())

    def failed(self, publisher_id: str, error: Exception, check: Callable[[], None]) -> None:
        """Grow the publisher if the error of a single write says so, and it is due.

        `check` runs before each call; if it raises `TryLater`, no further one begins.
        """
        if not is_throttle(error):
            return
        is_hot = HOT_KEY_RANGE in throttling_reasons(error)
        if not is_hot:
            if self._is_first(publisher_id, is_hot):
                self.notify(publisher_id, NotGrown("the throttle is of no key range"))
            return
        with _failing_no_follow():
            check()
            if self.levels.static() is not None:
                return
            check()
            if not self._is_first(publisher_id, is_hot):
                return
            is_due = self._is_due(publisher_id)
            seen = self.levels.read(publisher_id)
            if is_due:
                self._grow(publisher_id, seen, check)

    def _is_first(self, publisher_id: str, is_hot: bool) -> bool:
        """Whether it is the first such throttle of the publisher within `CHECK_SECONDS`."""
        with self._lock:
            is_first = (publisher_id, is_hot) not in self._checked
            if is_first:
                self._checked[publisher_id, is_hot] = True
            return is_first

    def _is_due(self, publisher_id: str) -> bool:
        """Whether the publisher was throttled before, and the wait since then is over."""
        with self._lock:
            now = clock.monotonic()
            try_at = self._try_at.get(publisher_id, math.inf)
            is_due = now >= try_at
            # Cached again at each throttle, so that it lasts until HOT_SECONDS after the last one.
            self._try_at[publisher_id] = now + _wait() if is_due or try_at == math.inf else try_at
            return is_due

    def _grow(self, publisher_id: str, seen: Shards, check: Callable[[], None]) -> None:
        result = grown(
            seen, now_ms=clock.now_ms(), max_level=self.max_level, cooldown_ms=self.cooldown_ms
        )
        if isinstance(result, NotGrown):
            self.notify(publisher_id, result)
            return
        try:
            check()
        except TryLater:
            with self._lock:
                self._try_at[publisher_id] = clock.monotonic()  # still due, for a put in time
            raise
        if self.levels.publishers.update(publisher_id, seen=seen, shards=result):
            self.levels.remember(publisher_id, result.level)
            self.notify(publisher_id, result)


def _wait() -> float:
    shortest, longest = WAIT_SECONDS
    return shortest + (longest - shortest) * clock.chance()


@contextmanager
def _failing_no_follow() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not (isinstance(error, TryLater) or is_transient(error)):
            raise
