"""The levels of publishers' write shards, as a warm container remembers them.

A remembered level may be too low. That is safe for writing: readers read every level up to the
publisher's own.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from cachetools import TTLCache

from fanfold import clock
from fanfold.follows.patience import check
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.sharding import Shards

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

    def to_write(self, publisher_id: str, *, deadline: float = math.inf) -> int:
        """The level to write at: the static one, or the publisher's own.

        Never higher than the publisher's own level in its row: a static level that is higher is
        committed there first. Raises `TryLater` at the deadline.
        """
        static = self.static()
        check(deadline)
        own = self.remembered(publisher_id)
        if static is None:
            return own
        if own < static:
            check(deadline)
            own = self.publishers.raise_to(publisher_id, static, now_ms=clock.now_ms())
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
