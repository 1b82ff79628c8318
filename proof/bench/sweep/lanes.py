"""A queue that is fair between groups, on the bench's clock, for a million messages.

`proof.model.sqs` looks at every waiting message of a noisy group to find one of a quiet group,
which takes too long here. This one keeps a heap of groups. Its rule is that of "How Amazon SQS fair
queues work" (Developer Guide): a group is noisy with more than 10 % of the messages in flight and
at least 30 of them, or with more than 10 % of the recent processing time. Quiet groups go first,
the oldest message of them; among noisy ones the group with the fewest messages in flight. "Recent"
is not documented: here it is the last five to ten minutes. The guide also calls a group quiet again
after five minutes without a send; here it is noisy as long as its share is.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

NOISY_SHARE = 0.10
NOISY_IN_FLIGHT = 30
RECENT_SECONDS = 300.0

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Order:
    """A message. One with a `count` above 1 stands for as many equal ones, taken one by one."""

    sent_ms: int
    group: str
    body: str = ""
    count: int = 1
    number: int = 0


@dataclass(eq=False)
class LaneQueue:
    """Messages are taken and ended; none is redelivered, as no worker here dies."""

    now: Callable[[], float]
    is_fair: bool = True
    waiting: int = 0
    in_flight: Counter[str] = field(default_factory=Counter)
    _groups: dict[str, deque[Order]] = field(default_factory=dict)
    _heads: list[tuple[int, str]] = field(default_factory=list)  # of each group that waits
    _busy: Counter[str] = field(default_factory=Counter)  # seconds of work in this window
    _busy_before: Counter[str] = field(default_factory=Counter)
    _spent: float = 0.0  # the sum of both
    _window: int = 0
    _count: int = 0

    def put(self, order: Order) -> None:
        self._count += 1
        order.number = self._count
        group = self._groups.setdefault(order.group, deque())
        if not group:
            heapq.heappush(self._heads, (order.number, order.group))
        group.append(order)
        self.waiting += order.count

    def take(self) -> Order | None:
        """The next message, which is in flight until `end`."""
        group = self._next_group()
        if group is None:
            return None
        orders = self._groups[group]
        order = orders[0]
        if order.count > 1:
            order.count -= 1
            order = Order(order.sent_ms, group, order.body)
        else:
            orders.popleft()
        if orders:
            heapq.heappush(self._heads, (orders[0].number, group))
        else:
            del self._groups[group]
        self.waiting -= 1
        self.in_flight[group] += 1
        return order

    def end(self, order: Order, seconds: float) -> None:
        """Delete a message on which a worker spent `seconds`."""
        _drop(self.in_flight, order.group)
        self._turn_window()
        self._busy[order.group] += seconds  # type: ignore[assignment]
        self._spent += seconds

    def purge(self) -> list[Order]:
        """Drop what waits, and what came of it."""
        dropped = [order for orders in self._groups.values() for order in orders]
        self._groups.clear()
        self._heads.clear()
        self.waiting = 0
        return dropped

    def _next_group(self) -> str | None:
        noisy: list[tuple[int, str]] = []
        found = None
        while self._heads and found is None:
            head = heapq.heappop(self._heads)
            if self.is_fair and self._is_noisy(head[1]):
                noisy.append(head)
            else:
                found = head[1]
        if found is None and noisy:
            chosen = min(noisy, key=lambda head: (self.in_flight[head[1]], head))
            noisy.remove(chosen)
            found = chosen[1]
        for head in noisy:
            heapq.heappush(self._heads, head)
        return found

    def _is_noisy(self, group: str) -> bool:
        """At most ten groups are, as each has more than a tenth of something."""
        in_flight = self.in_flight[group]
        if in_flight >= NOISY_IN_FLIGHT and in_flight > NOISY_SHARE * self.in_flight.total():
            return True
        self._turn_window()
        return self._busy[group] + self._busy_before[group] > NOISY_SHARE * self._spent

    def _turn_window(self) -> None:
        window = int(self.now() / RECENT_SECONDS)
        if window != self._window:
            self._busy_before = self._busy if window == self._window + 1 else Counter()
            self._spent = self._busy_before.total()
            self._busy, self._window = Counter(), window


def _drop(counts: Counter[T], key: T) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
