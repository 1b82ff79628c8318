"""The head as a warm container knows it: mostly at most a second old, and never going backwards.

Decisions by an older head are safe, because each change of the head or of a reader's row is
conditional on it. Only pages have to know what was told a few seconds ago.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

from fanfold import clock
from fanfold.aws.retries import is_transient
from fanfold.channels.head import Head
from fanfold.channels.head_table import HeadTable
from fanfold.errors import TryLater

# How often each container reads the row, and how late a post in a channel may be seen.
HEAD_SECONDS = 1.0
# A head is read again earlier by up to this share, at random: otherwise, containers that began
# together would go on reading the row together.
JITTER = 0.25
# `HEAD_SECONDS` in a stage that gives no channels and has none. Only a repair, or a function of the
# version before, may then add one.
IDLE_SECONDS = 60.0
# How old a head may be while the row, which is one hot key, is throttled. A stage that reads it
# once a minute gets a minute more.
MOST_SECONDS = 10.0


class HeadRequest(NamedTuple):
    """What BatchGetItem takes to read the head beside other rows, and the time of the request."""

    wanted: dict[str, Any]
    since: float


@dataclass
class KnownHead:
    """Any thread may use it. A stage that `gives` no channels goes on reading those that it has.

    Times are those of `now`.
    """

    table: HeadTable
    gives: bool = True
    now: clock.Lasting = field(default_factory=clock.Lasting)
    _head: Head = field(default_factory=Head)
    _read_at: float = -math.inf
    _refused_at: float = -math.inf
    _seconds: float = 0.0  # for which it is good
    _lock: Lock = field(default_factory=Lock)

    def forget(self) -> None:
        """Empty the cache, as after a cold start."""
        with self._lock:
            self._head, self._read_at, self._refused_at = Head(), -math.inf, -math.inf

    @property
    def fresh(self) -> Head | None:
        """The head, if it need not be read again yet."""
        with self._lock:
            now = self.now()
            seconds = IDLE_SECONDS if self._is_idle else self._seconds
            if now - self._refused_at < self._seconds:  # asking at once again would help nobody
                seconds = self._most_seconds
            return self._head if now - self._read_at < seconds else None

    def keep(self, head: Head, since: float) -> Head:
        """Keep what was read after `since`, unless what is known is later; returns what is kept."""
        with self._lock:
            self._head = self._head.later(head)
            if since >= self._read_at:
                self._read_at = since
                self._seconds = HEAD_SECONDS * (1 - JITTER * clock.chance())
            return self._head

    @property
    def cached(self) -> Head:
        """The head as it was read last."""
        with self._lock:
            return self._head

    def request(self) -> HeadRequest | None:
        """What reads the head, eventually, beside other rows; None if it is fresh."""
        if self.fresh is not None:
            return None
        return HeadRequest(self.table.wanted(), self.now())

    def receive(self, request: HeadRequest, answer: Mapping[str, Any]) -> Head:
        """The head after the answer to a request. Raises `TryLater`, as `get` does."""
        if self.table.table in answer.get("UnprocessedKeys", {}):
            return self._cached_or(TryLater("The channels cannot be read just now; try again."))
        rows = answer["Responses"].get(self.table.table, [])
        return self.keep(self.table.among(rows), request.since)

    def get(self) -> Head:
        """The head, read if it is not fresh, eventually.

        While it is throttled, as it was read `_most_seconds` ago at most; else the error is raised.
        """
        fresh = self.fresh
        if fresh is not None:
            return fresh
        try:
            return self._read(is_consistent=False)
        except Exception as error:
            if not is_transient(error):
                raise
            return self._cached_or(error)

    def at_hand(self) -> Head | None:
        """The head, of any age while it is throttled; None if it was never read.

        For callers whose update has a condition on it, and who decide again if that fails.
        """
        try:
            return self.get()
        except Exception as error:
            if not is_transient(error):
                raise
            with self._lock:
                return self._head if math.isfinite(self._read_at) else None

    def reload(self) -> Head:
        """The head, read consistently now."""
        return self._read(is_consistent=True)

    def _read(self, *, is_consistent: bool) -> Head:
        since = self.now()
        return self.keep(self.table.get(is_consistent=is_consistent), since)

    def _cached_or(self, refusal: Exception) -> Head:
        with self._lock:
            now = self._refused_at = self.now()
            if now - self._read_at < self._most_seconds:
                return self._head
        raise refusal

    @property
    def _is_idle(self) -> bool:
        return not self.gives and not self._head.channels

    @property
    def _most_seconds(self) -> float:
        """How old it may be while throttled; else pages of an idle stage would fail at once."""
        return 2 * IDLE_SECONDS if self._is_idle else MOST_SECONDS
