"""The loop of deliveries: threads that deliver at the same time share its calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, Event, current_thread
from typing import Any
from unittest.mock import patch

import pytest

from fanfold import clock
from fanfold.errors import TryLater
from fanfold.fanout.pacing import Pace
from fanfold.fanout.transport.loop import CONNECTIONS, Call, End, Finished, Job, Loop
from fanfold.fanout.worker_steps import Delivery, Done, Failed, HandBack, Send
from fanfold.follows import ring
from fanfold.timeline.entries import Entry
from tests.timers import Clock

PATIENCE_SECONDS = 30.0
WRITTEN: tuple[str, ...] = ()


class Arrivals(list[Job]):
    """The deliveries that have joined a loop, whose leading thread may wait for the first."""

    def __init__(self) -> None:
        super().__init__()
        self.has_first = Event()

    def append(self, job: Job) -> None:
        super().append(job)
        self.has_first.set()


class Table:
    """A transport whose calls end in order, one at a time; it notes who wrote what."""

    def __init__(self, answer: Callable[[Call], Any] = lambda _call: WRITTEN) -> None:
        self.answer = answer
        self.written: list[tuple[str, str]] = []  # sort key and follower
        self.batches: list[str] = []  # sort keys
        self.most = 0  # calls in flight
        self.leaders: set[str] = set()
        self.uses = 0
        self._in_flight: deque[Call] = deque()

    @contextmanager
    def calls(self) -> Iterator[Table]:
        self.uses += 1
        assert not self._in_flight
        try:
            yield self
        finally:
            self._in_flight.clear()

    def start(self, call: Call) -> None:
        self.leaders.add(current_thread().name)
        self._in_flight.append(call)
        self.most = max(self.most, len(self._in_flight))

    def finished(self, seconds: float | None) -> Iterator[Finished]:
        if not self._in_flight:
            assert seconds is not None, "It would wait for ever."
            clock.sleep(seconds)
            return
        call = self._in_flight.popleft()
        assert isinstance(call.action, Send)
        result = self.answer(call)
        if result == WRITTEN:
            self.batches.append(call.job.entry.sort_key)
            followers = map(ring.follower_of, call.action.edges)
            self.written += [(call.job.entry.sort_key, each) for each in followers]
        yield Finished(call, result)


def delivery(followers: int, pace: Pace, seconds: float = PATIENCE_SECONDS) -> Delivery:
    edges = sorted(ring.edge(f"user-{each}") for each in range(followers))
    return Delivery(
        start=ring.START,
        hi=ring.END,
        edges=edges,
        pace=pace,
        stop_at=clock.monotonic() + seconds,
        chance=lambda: 0.5,
    )


def entry(name: str) -> Entry:
    return Entry(f"2026-11-20T18:00:00.123Z#{name}", "ada", 1_900_000_000)


def at_once(loop: Loop, *deliveries: Delivery) -> list[Any]:
    """How deliveries end that are begun at the same time, each by a thread of its own."""
    gate = Barrier(len(deliveries))

    def run(number: int) -> Any:
        gate.wait(PATIENCE_SECONDS)
        try:
            return loop.run(deliveries[number], entry(f"post-{number}"))
        except BaseException as error:  # noqa: BLE001 - it is what the test asks for
            return error

    with ThreadPoolExecutor(len(deliveries)) as threads:
        return list(threads.map(run, range(len(deliveries))))


def test_deliveries_of_all_threads_end_each_with_its_own_entries() -> None:
    table = Table()
    loop, pace = Loop(table, join_seconds=0.01), Pace(1e6)
    sizes = [1, 25, 26, 500, 0, 3, 999, 60, 7, 300]
    ends = at_once(loop, *(delivery(size, pace) for size in sizes))
    assert ends == [Done(size) for size in sizes]
    wanted = {
        (entry(f"post-{number}").sort_key, f"user-{each}")
        for number, size in enumerate(sizes)
        for each in range(size)
    }
    assert len(table.written) == len(wanted) == sum(sizes)
    assert set(table.written) == wanted


def joining_late(loop: Loop, table: Table, first: Delivery, late: Delivery) -> tuple[End, End]:
    """How two deliveries end, of which one joins as the first call of the other is answered."""
    loop._new = arrivals = Arrivals()
    begun: list[Future[End]] = []

    def join(_call: Call) -> Any:
        if not begun:
            arrivals.has_first.clear()
            begun.append(threads.submit(loop.run, late, entry("late")))
            assert arrivals.has_first.wait(PATIENCE_SECONDS)
        return WRITTEN

    table.answer = join
    with ThreadPoolExecutor(1) as threads:
        end = loop.run(first, entry("first"))
        return end, begun[0].result(PATIENCE_SECONDS)


def test_deliveries_take_turns() -> None:
    """A post with few followers does not wait behind one with many."""
    table, pace = Table(), Pace(1e6, burst=10_000)
    few, many = delivery(25, pace), delivery(2_000, pace)
    assert joining_late(Loop(table, join_seconds=0.01), table, many, few) == (Done(2_000), Done(25))
    assert table.batches.index(entry("late").sort_key) <= CONNECTIONS + 1
    assert len(table.leaders) == 1


def test_one_delivery_that_wants_more_has_no_more_calls_than_connections() -> None:
    table, greedy = Table(), delivery(5_000, Pace(1e6, burst=100_000))
    greedy.max_in_flight = 2 * CONNECTIONS
    assert Loop(table).run(greedy, entry("post")) == Done(5_000)
    assert table.most == CONNECTIONS


def test_each_delivery_stops_at_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = Clock()
    monkeypatch.setattr(clock, "monotonic", lambda: now.now)
    monkeypatch.setattr(clock, "sleep", now.sleep)
    table, slow = Table(), Pace(25.0, burst=25)
    long, short = delivery(50, slow), delivery(5_000, slow, seconds=0.2)
    ends = joining_late(Loop(table, join_seconds=0.01), table, long, short)
    assert ends[0] == Done(50)
    assert isinstance(ends[1], HandBack)
    assert len(table.leaders) == 1


@pytest.mark.parametrize("answered", [ValueError("refused"), ("nobody",)], ids=["error", "lie"])
def test_an_answer_that_is_an_error_or_cannot_be_believed_ends_only_its_delivery(
    answered: Any,
) -> None:
    def answer(call: Call) -> Any:
        return answered if call.job.entry.sort_key.endswith("post-1") else WRITTEN

    good, bad, fine = at_once(Loop(Table(answer)), *(delivery(100, Pace(1e6)) for _ in range(3)))
    assert good == fine == Done(100)
    assert isinstance(bad, Failed)
    assert isinstance(bad.error, ValueError)


class Killed(BaseException):
    """What ends a process."""


@pytest.mark.parametrize("error", [ZeroDivisionError, Killed])
def test_no_thread_waits_for_ever_where_the_leading_one_stops(error: type[BaseException]) -> None:
    def answer(_call: Call) -> Any:
        raise error

    table = Table(answer)
    loop = Loop(table)
    ends = at_once(loop, *(delivery(100, Pace(1e6)) for _ in range(4)))
    raised = [each for each in ends if isinstance(each, error)]
    failed = [each.error for each in ends if isinstance(each, Failed)]
    assert raised
    assert len(raised) + len(failed) == 4
    assert all(isinstance(each, TryLater) for each in failed)
    table.answer = lambda _call: WRITTEN
    assert loop.run(delivery(3, Pace(1e6)), entry("next")) == Done(3)


def test_a_delivery_that_joins_as_the_leading_thread_stops_does_not_wait_for_ever() -> None:
    """Whoever comes after the others were told of the end leads itself."""
    table, pace = Table(), Pace(1e6)
    loop = Loop(table)
    table.answer = lambda _call: 1 / 0
    last = delivery(3, pace)
    ends: list[Any] = []
    plain = Job.finish

    def finish(job: Job, end: Any) -> None:
        plain(job, end)
        if isinstance(end, Failed) and not ends:
            table.answer = lambda _call: WRITTEN
            ends.append(threads.submit(loop.run, last, entry("last")))
            ends[0].result(PATIENCE_SECONDS)

    with (
        ThreadPoolExecutor(1) as threads,
        patch.object(Job, "finish", finish),
        pytest.raises(ZeroDivisionError),
    ):
        loop.run(delivery(3, pace), entry("first"))
    assert ends[0].result() == Done(3)
