"""Growing a publisher's write shards when single writes of its edges are throttled.

Only the answer to a throttled single write says which limit it met; the answer to a batch does not.
A transient error here does not fail the follow.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from fanfold import clock
from fanfold.aws.retries import is_throttle, is_transient, throttling_reasons
from fanfold.follows.levels import Levels, ttl_cache
from fanfold.follows.sharding import HOT_KEY_RANGE, SAMPLE, NotGrown, Shards, grown

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
            with _ignoring_transient_errors():
                self.levels.publishers.count(publisher_id, one_in, now_ms=clock.now_ms())

    def failed(self, publisher_id: str, error: Exception) -> None:
        """Grow the publisher if the error of a single write says so, and it is due."""
        if not is_throttle(error):
            return
        is_hot = HOT_KEY_RANGE in throttling_reasons(error)
        with self._lock:
            if (publisher_id, is_hot) in self._checked:
                return
            self._checked[publisher_id, is_hot] = True
        if not is_hot:
            self.notify(publisher_id, NotGrown("the throttle is of no key range"))
            return
        with _ignoring_transient_errors():
            if self.levels.static() is not None:
                return
            is_due = self._is_due(publisher_id)
            seen = self.levels.read(publisher_id)
            if is_due:
                self._grow(publisher_id, seen)

    def _is_due(self, publisher_id: str) -> bool:
        """Whether the publisher was throttled before, and the wait since then is over."""
        with self._lock:
            now = clock.monotonic()
            try_at = self._try_at.get(publisher_id, math.inf)
            is_due = now >= try_at
            # Cached again at each throttle, so that it lasts until HOT_SECONDS after the last one.
            self._try_at[publisher_id] = now + _wait() if is_due or try_at == math.inf else try_at
            return is_due

    def _grow(self, publisher_id: str, seen: Shards) -> None:
        wish = grown(
            seen,
            now_ms=clock.now_ms(),
            max_level=self.max_level,
            cooldown_ms=self.cooldown_ms,
        )
        if isinstance(wish, NotGrown):
            self.notify(publisher_id, wish)
        elif self.levels.publishers.update(publisher_id, seen=seen, shards=wish):
            self.levels.remember(publisher_id, wish.level)
            self.notify(publisher_id, wish)


def _wait() -> float:
    shortest, longest = WAIT_SECONDS
    return shortest + (longest - shortest) * clock.chance()


@contextmanager
def _ignoring_transient_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not is_transient(error):
            raise
