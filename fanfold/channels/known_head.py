"""The head as a warm container knows it: at most a second old, and never going backwards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

from fanfold import clock
from fanfold.channels.head import Head, head_of
from fanfold.channels.head_table import HeadTable

# Every container reads the one row as often, and every post in a channel is seen as late.
HEAD_SECONDS = 1.0
# A head is read again up to so much earlier, by chance: else containers that began at the same time
# would go on reading the row at the same time.
JITTER = 0.25


class Question(NamedTuple):
    """The GetItem that reads the head beside other calls, and when it is made, by `now`."""

    request: dict[str, Any]
    since: float


@dataclass
class KnownHead:
    """Any thread may use it. Times are those of `now`."""

    table: HeadTable
    now: clock.Lasting = field(default_factory=clock.Lasting)
    _head: Head = field(default_factory=Head)
    _read_at: float = -math.inf
    _seconds: float = 0.0  # for which it is good
    _lock: Lock = field(default_factory=Lock)

    def forget(self) -> None:
        """Empty the cache, as after a cold start."""
        with self._lock:
            self._head, self._read_at = Head(), -math.inf

    @property
    def fresh(self) -> Head | None:
        """The head, if it was read within about a second; None if it has to be read again."""
        with self._lock:
            return self._head if self.now() - self._read_at < self._seconds else None

    def learn(self, head: Head, since: float) -> Head:
        """Keep what was read after `since`, unless what is known is later; returns what is kept."""
        with self._lock:
            self._head = self._head.later(head)
            if since >= self._read_at:
                self._read_at = since
                self._seconds = HEAD_SECONDS * (1 - JITTER * clock.chance())
            return self._head

    @property
    def last(self) -> Head:
        """The head as it was read last."""
        with self._lock:
            return self._head

    def ask(self) -> Question | None:
        """What reads the head, eventually, beside other calls; None if it is fresh."""
        if self.fresh is not None:
            return None
        return Question(self.table.request(is_consistent=False), self.now())

    def hear(self, question: Question, answer: Mapping[str, Any]) -> Head:
        """The head after the answer to a question."""
        return self.learn(head_of(answer.get("Item", {})), question.since)

    def get(self) -> Head:
        """The head, read if it is not fresh, eventually."""
        fresh = self.fresh
        return self._read(is_consistent=False) if fresh is None else fresh

    def anew(self) -> Head:
        """The head, read consistently now."""
        return self._read(is_consistent=True)

    def _read(self, *, is_consistent: bool) -> Head:
        since = self.now()
        return self.learn(self.table.get(is_consistent=is_consistent), since)
