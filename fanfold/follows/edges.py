"""One follower's edge, written at the level where it belongs and cleared from wherever it may be.

A publisher whose followers come faster than a partition takes them grows more write shards: seen
here, because a single write is told why it was throttled, which a batch is not.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from cachetools import TTLCache

from fanfold import clock
from fanfold.aws.retries import is_throttle, is_transient, throttling_reasons
from fanfold.errors import TryLater
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.sharding import HOT_KEY_RANGE, SAMPLE, NotGrown, Shards, grown

# A call that the table does not take is made so often, with jitter between: 1.6 s at most, of a
# door's 10. After that RELATE goes on, from the order that was sent before.
ATTEMPTS = 6
BACKOFF_SECONDS = 0.05
# However many calls an operation makes: after this none is begun, but the second one where a level
# is raised. Each takes 3 s at most.
PATIENCE_SECONDS = 3.0
# A level that is too low is safe, so it may be remembered; a throttle refreshes it.
LEVEL_SECONDS = 60
# Publishers remembered by one warm container; at 200 bytes, 2 MB.
PUBLISHERS = 10_000
# How often one container looks after a throttle: a hundred of them would make a hot row else.
LOOK_SECONDS = 1
# A container that meets a throttle waits at random before it tries to grow, and tries only if it is
# throttled still: a hundred of them do not all try at once, and a peak of a second grows nothing.
WAIT_SECONDS = (1.0, 10.0)
# For so long after a throttle a publisher's follows are counted. A quiet publisher's cost nothing.
HOT_SECONDS = 60

T = TypeVar("T")
Tell = Callable[[str, Shards | NotGrown], None]


def _cache(seconds: float) -> Callable[[], MutableMapping[Any, Any]]:
    return lambda: TTLCache(PUBLISHERS, seconds, timer=lambda: clock.monotonic())


@dataclass(frozen=True)
class Edges:
    """The edges of all publishers, at the levels that their write shards have reached.

    `followers` must not retry by itself. `tell` hears of every growth and every refused one.
    """

    followers: EdgesTable
    publishers: PublishersTable
    max_level: int
    cooldown_ms: int
    tell: Tell = lambda _publisher, _what: None

    _levels: MutableMapping[str, int] = field(default_factory=_cache(LEVEL_SECONDS))
    _looked: MutableMapping[tuple[str, bool], bool] = field(default_factory=_cache(LOOK_SECONDS))
    _hot: MutableMapping[str, float] = field(default_factory=_cache(HOT_SECONDS))
    _static: MutableMapping[str, int | None] = field(default_factory=_cache(LEVEL_SECONDS))
    _lock: threading.RLock = field(default_factory=threading.RLock)  # the caches know none

    def forget(self) -> None:
        """Forget all that a warm container knows, as a cold one does."""
        with self._lock:
            for cache in (self._levels, self._looked, self._hot, self._static):
                cache.clear()

    def put(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        """Write the edge of follow `version`, unless one as new or newer is there.

        Raises `TryLater` if the table takes it too slowly; again is safe.
        """
        self._put(publisher_id, follower_id, version, _later())

    def ensure(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        """The same for an edge that is probably there: look first, because a write costs more.

        A put that changes nothing is a write unit of a shard all the same, and after a growth it
        would leave a second edge at another level. Begins where it most likely is; a level that is
        remembered may be too low, so before anything is put it is read anew. Raises `TryLater`, as
        `put` does.
        """
        until, looked = _later(), -1
        for own in (self._own, self._own_now):
            top = _patiently(partial(own, publisher_id), until)
            for level in range(top, looked, -1):
                look = partial(self.followers.version, publisher_id, follower_id, level=level)
                found = _patiently(look, until)
                if found is not None and found >= version:
                    return
            looked = max(looked, top)
        self._put(publisher_id, follower_id, version, until)

    def put_all(self, edges: Iterable[tuple[str, str, int]]) -> None:
        """Write edges (publisher, follower, version) that no newer follow can have put.

        Only for who looks at the rows again afterwards: a batch knows no conditions. What it leaves
        is put one by one, which tells why. Raises `TryLater`, as `put` does.
        """
        levelled = [(*edge, _patiently(partial(self.level, edge[0]), _later())) for edge in edges]
        left = self.followers.put_all(levelled)
        for publisher_id, follower_id, version, level in levelled:
            if (publisher_id, follower_id) in left:
                self.put(publisher_id, follower_id, version=version)
            else:
                self._accepted(publisher_id, level)

    def ensure_all(self, edges: Iterable[tuple[str, str, int]]) -> None:
        """The same as `put_all` for edges that are probably there.

        At the only level that there is, a put changes nothing; where there are more, it would leave
        a second edge, so we look first.
        """
        flat: list[tuple[str, str, int]] = []
        high: list[tuple[str, str, int]] = []
        for edge in edges:
            level = partial(self._highest, edge[0])
            (high if _patiently(level, _later()) else flat).append(edge)
        self.put_all(flat)
        for publisher_id, follower_id, version in high:
            self.ensure(publisher_id, follower_id, version=version)

    def remove(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        """Delete the edge that unfollow `version` ends, at every level where there is one.

        The level is read consistently: at a home that is forgotten, the edge would live on. Looked
        for first, because the lowest shards would else pay a write for every unfollow.
        """

        def remove(level: int) -> None:
            found = self.followers.version(publisher_id, follower_id, level=level)
            if found is not None and found <= version:
                self.followers.remove(publisher_id, follower_id, version=version, level=level)

        until = _later()
        top = _patiently(partial(self._own_now, publisher_id), until)
        for level in range(top + 1):
            _patiently(partial(remove, level), until)

    def _put(self, publisher_id: str, follower_id: str, version: int, until: float) -> None:
        def put() -> int:
            level = self.level(publisher_id, until=until)
            _check(until)
            with self._noticing(publisher_id):
                self.followers.put(publisher_id, follower_id, version=version, level=level)
            return level

        self._accepted(publisher_id, _patiently(put, until))

    def level(self, publisher_id: str, *, until: float = math.inf) -> int:
        """The level to write at; never higher than the publisher's own, which may be higher yet.

        Raises `TryLater` if it takes longer than `until` to find out.
        """
        fixed = self._fixed()
        _check(until)
        known = self._own(publisher_id)
        if fixed is None:
            return known
        if known < fixed:
            _check(until)
            # Committed before anything is written there.
            known = self.publishers.raise_to(publisher_id, fixed, now_ms=clock.now_ms())
            self._remember(publisher_id, known)
        return fixed

    def _highest(self, publisher_id: str) -> int:
        """The highest level where an edge may be, as far as we know."""
        return max(self.level(publisher_id), self._own(publisher_id))

    def _own(self, publisher_id: str) -> int:
        """The publisher's own level, or one that it had less than a minute ago."""
        with self._lock:
            known = self._levels.get(publisher_id)
        if known is None:
            known = self.publishers.shards(publisher_id, consistent=False).level
            self._remember(publisher_id, known)
        return known

    def _own_now(self, publisher_id: str) -> int:
        """The publisher's own level; no edge that was acknowledged before lies higher."""
        known = self.publishers.shards(publisher_id).level
        self._remember(publisher_id, known)
        return known

    def _fixed(self) -> int | None:
        """The level that all publishers are kept at, or None if each has its own."""
        with self._lock:
            if "" in self._static:
                return self._static.get("")
        level = self.publishers.static_level()
        with self._lock:
            self._static[""] = level
        return level

    def _remember(self, publisher_id: str, level: int) -> None:
        """Only what was just read: written anew, a level would never grow old."""
        with self._lock:
            self._levels[publisher_id] = level

    def _accepted(self, publisher_id: str, level: int) -> None:
        """Count one follow in many, of a publisher that was throttled lately."""
        one_in = SAMPLE * 2**level
        if publisher_id in self._hot and clock.chance() * one_in < 1:
            with _unless_transient():
                self.publishers.count(publisher_id, one_in, now_ms=clock.now_ms())

    @contextmanager
    def _noticing(self, publisher_id: str) -> Iterator[None]:
        """Hear why a write of an edge is throttled."""
        try:
            yield
        except Exception as error:
            if is_throttle(error):
                self._throttled(publisher_id, is_hot=HOT_KEY_RANGE in throttling_reasons(error))
            raise

    def _throttled(self, publisher_id: str, *, is_hot: bool) -> None:
        """Look whether the publisher has grown, or should; what fails here stops no follow."""
        with self._lock:
            if (publisher_id, is_hot) in self._looked:
                return
            self._looked[publisher_id, is_hot] = True
        if not is_hot:
            self.tell(publisher_id, NotGrown("the throttle is of no key range"))
            return
        with _unless_transient():
            if self._fixed() is not None:
                return
            is_due = self._is_due(publisher_id)
            seen = self.publishers.shards(publisher_id)
            self._remember(publisher_id, seen.level)
            if is_due:
                self._grow(publisher_id, seen)

    def _is_due(self, publisher_id: str) -> bool:
        """Whether the publisher was throttled before, and the time that we wait since is over."""
        with self._lock:
            now = clock.monotonic()
            try_at = self._hot.get(publisher_id, math.inf)
            is_due = now >= try_at
            # Written anew each time, so that it stays for as long as the throttles do.
            self._hot[publisher_id] = now + _wait() if is_due or try_at == math.inf else try_at
            return is_due

    def _grow(self, publisher_id: str, seen: Shards) -> None:
        wish = grown(
            seen,
            now_ms=clock.now_ms(),
            max_level=self.max_level,
            cooldown_ms=self.cooldown_ms,
        )
        if isinstance(wish, NotGrown):
            self.tell(publisher_id, wish)
        elif self.publishers.update(publisher_id, seen=seen, shards=wish):
            self._remember(publisher_id, wish.level)
            self.tell(publisher_id, wish)


def _later() -> float:
    """When an operation that begins now is given up."""
    return clock.monotonic() + PATIENCE_SECONDS


def _patiently(call: Callable[[], T], until: float) -> T:
    """Make a call until it succeeds or it is too late; again must be safe."""
    reason = None
    for _ in clock.tries(ATTEMPTS, BACKOFF_SECONDS):
        if clock.monotonic() >= until:
            break
        try:
            return call()
        except Exception as error:
            if not is_transient(error):
                raise
            reason = error
    raise _too_slow() from reason


def _check(until: float) -> None:
    if clock.monotonic() >= until:
        raise _too_slow()


def _too_slow() -> TryLater:
    return TryLater("The followers table takes this follow too slowly; try again in a moment.")


def _wait() -> float:
    shortest, longest = WAIT_SECONDS
    return shortest + (longest - shortest) * clock.chance()


@contextmanager
def _unless_transient() -> Iterator[None]:
    """For what is good to have: a throttle or a lost connection is let pass."""
    try:
        yield
    except Exception as error:
        if not is_transient(error):
            raise
