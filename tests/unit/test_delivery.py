"""The policy of DELIVER, driven by a table that fails in every way a table can."""

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanfold import ring
from fanfold.delivery import (
    CHUNK,
    MAX_IN_FLIGHT,
    PATIENCE_SECONDS,
    Delivery,
    Done,
    Failed,
    HandBack,
    Page,
    Read,
    Send,
    Wait,
)

PAGE = 60


class Throttled(Exception):
    """The table takes nothing just now."""


class Refused(Exception):
    """The table will never take this."""


def followers(count: int) -> list[str]:
    """Edges of so many followers, in ring order."""
    return sorted(ring.edge(f"follower-{number}") for number in range(count))


@dataclass
class World:
    """A table, a clock and a chance, which answer what is in flight in any order."""

    edges: list[str]
    chance: random.Random
    partial: float = 0.0
    throttled: float = 0.0
    took_effect: float = 0.0  # of the failed calls, how many had written after all
    unread: float = 0.0
    refused: float = 0.0
    page: int = PAGE
    now: float = 1000.0
    written: Counter[str] = field(default_factory=Counter)
    batches: list[list[str]] = field(default_factory=list)
    most_in_flight: int = 0

    def run(self, delivery: Delivery) -> Done | HandBack | Failed:
        """Carry the delivery out, answering in random order, until it ends."""
        open_actions: list[Read | Send] = []
        for _ in range(100_000):
            match delivery.next(self.now):
                case Read() | Send() as action:
                    open_actions.append(action)
                    sends = sum(isinstance(each, Send) for each in open_actions)
                    self.most_in_flight = max(self.most_in_flight, sends)
                case Wait(until):
                    assert open_actions or until < float("inf"), "waits for nothing"
                    if open_actions:
                        self.now += self.chance.random() * 0.01
                        action = open_actions.pop(self.chance.randrange(len(open_actions)))
                        self.answer(delivery, action)
                    else:
                        assert until >= self.now
                        self.now = until
                case end:
                    assert not open_actions, "ended with calls in flight"
                    return end
        raise AssertionError("the delivery does not end")

    def answer(self, delivery: Delivery, action: Read | Send) -> None:
        if isinstance(action, Read):
            self.read(delivery, action)
        else:
            self.send(delivery, action)

    def read(self, delivery: Delivery, action: Read) -> None:
        if self.chance.random() < self.unread:
            delivery.read_failed(Throttled(), retryable=True, now=self.now)
            return
        rest = self.edges[bisect_right(self.edges, action.after) :]
        delivery.page_read(Page(rest[: self.page], more=len(rest) > self.page))

    def send(self, delivery: Delivery, action: Send) -> None:
        assert 1 <= len(action.edges) <= CHUNK
        assert len(set(action.edges)) == len(action.edges), "a key twice in one batch"
        self.batches.append(list(action.edges))
        if self.chance.random() < self.refused:
            delivery.batch_failed(action.batch, Refused(), retryable=False, now=self.now)
        elif self.chance.random() < self.throttled:
            if self.chance.random() < self.took_effect:
                self.written.update(action.edges)
            delivery.batch_failed(action.batch, Throttled(), retryable=True, now=self.now)
        else:
            left = [edge for edge in action.edges if self.chance.random() < self.partial]
            self.written.update(set(action.edges) - set(left))
            self.chance.shuffle(left)
            users = [ring.follower_of(edge) for edge in left]
            delivery.batch_answered(action.batch, users, now=self.now)


def deliver(world: World, *, start: str = ring.START, already: int = 0, seconds: float = 1e9):  # type: ignore[no-untyped-def]
    """Run one delivery over the world from `start` on."""
    return world.run(
        Delivery(
            start=start,
            already=already,
            stop_at=world.now + seconds,
            chance=world.chance.random,
        )
    )


@pytest.fixture
def calm() -> Callable[[int], World]:
    return lambda count: World(followers(count), random.Random(1))


@pytest.mark.parametrize("count", [0, 1, 24, 25, 26, 59, 60, 61, 1000])
def test_every_follower_is_written_once_and_counted(
    calm: Callable[[int], World], count: int
) -> None:
    world = calm(count)
    assert deliver(world) == Done(count)
    assert world.written == Counter(world.edges)


def test_chunks_are_full_but_for_the_last(calm: Callable[[int], World]) -> None:
    world = calm(1010)
    deliver(world)
    assert sorted(Counter(map(len, world.batches)).items()) == [(10, 1), (25, 40)]


def test_no_more_than_the_ceiling_is_in_flight(calm: Callable[[int], World]) -> None:
    world = calm(5000)
    world.page = 2500
    deliver(world)
    assert world.most_in_flight == MAX_IN_FLIGHT


def test_unprocessed_entries_are_sent_again_by_key_and_no_others() -> None:
    world = World(followers(500), random.Random(2), partial=0.3)
    assert deliver(world) == Done(500)
    assert world.written == Counter(world.edges)  # none twice: what was written is not sent again


def test_a_whole_throttle_and_a_lost_answer_are_sent_again() -> None:
    world = World(followers(500), random.Random(3), throttled=0.3, took_effect=0.5, unread=0.3)
    assert deliver(world) == Done(500)
    assert set(world.written) == set(world.edges)


def test_an_error_that_does_not_pass_ends_the_delivery_after_what_is_in_flight() -> None:
    world = World(followers(2000), random.Random(4), refused=0.1)
    end = deliver(world)
    assert isinstance(end, Failed)
    assert isinstance(end.error, Refused)


def test_a_throttle_that_lasts_is_handed_back_and_not_waited_for() -> None:
    world = World(followers(500), random.Random(5), throttled=1.0)
    begin = world.now
    end = deliver(world)
    assert end == HandBack(ring.position_of(world.edges[0]), 0, progress=True)
    assert PATIENCE_SECONDS <= world.now - begin < 2 * PATIENCE_SECONDS


def test_a_hand_back_that_got_no_further_says_so() -> None:
    world = World(followers(500), random.Random(5), throttled=1.0)
    start = ring.position_of(world.edges[0])
    assert deliver(world, start=start) == HandBack(start, 0, progress=False)


def test_a_follower_list_that_cannot_be_read_is_handed_back_where_it_began() -> None:
    world = World(followers(500), random.Random(6), unread=1.0)
    assert deliver(world) == HandBack(ring.START, 0, progress=False)


def test_time_that_is_up_before_it_begins_hands_everything_back() -> None:
    world = World(followers(500), random.Random(7))
    assert deliver(world, seconds=0) == HandBack(ring.START, 0, progress=False)
    assert not world.batches


def test_nothing_is_sent_after_the_deadline() -> None:
    world = World(followers(5000), random.Random(8))
    delivery = Delivery(start=ring.START, stop_at=world.now + 0.1, chance=world.chance.random)
    end = world.run(delivery)
    assert isinstance(end, HandBack)
    assert end.progress
    assert sum(world.written.values()) < 5000


@given(
    count=st.integers(0, 400),
    seed=st.integers(0, 2**32),
    page=st.integers(CHUNK + 1, 100),
    partial=st.sampled_from([0.0, 0.1, 0.6]),
    throttled=st.sampled_from([0.0, 0.1, 0.6]),
    unread=st.sampled_from([0.0, 0.2]),
    seconds=st.floats(0.2, 2.0),
)
@settings(max_examples=200, deadline=None)
def test_every_follower_of_the_range_is_written_or_handed_back(
    count: int,
    seed: int,
    page: int,
    partial: float,
    throttled: float,
    unread: float,
    seconds: float,
) -> None:
    world = World(
        followers(count),
        random.Random(seed),
        partial=partial,
        throttled=throttled,
        took_effect=0.5,
        unread=unread,
        page=page,
    )
    start, already = ring.START, 0
    for _ in range(2000):
        end = deliver(world, start=start, already=already, seconds=seconds)
        if isinstance(end, Done):
            break
        assert isinstance(end, HandBack)
        below = [edge for edge in world.edges if edge < end.position]
        assert set(below) <= set(world.written), "handed back beyond an unwritten follower"
        assert end.written == len(below)
        assert end.position >= start
        start, already = end.position, end.written
    assert end == Done(count)
    assert set(world.written) == set(world.edges)


A, B, C = followers(3)


@pytest.mark.parametrize("page", [Page([B, A], False), Page([A, A, C], False), Page([], True)])
def test_a_page_that_is_not_in_ring_order_is_refused(page: Page) -> None:
    delivery = Delivery(start=ring.START, stop_at=10.0, chance=random.random)
    assert delivery.next(0.0) == Read(ring.START)
    with pytest.raises(ValueError, match=r"[Ee]dges"):
        delivery.page_read(page)


def test_unprocessed_entries_that_were_never_sent_are_refused() -> None:
    delivery = Delivery(start=ring.START, stop_at=10.0, chance=random.random)
    delivery.next(0.0)
    delivery.page_read(Page(followers(3), more=False))
    send = delivery.next(0.0)
    assert isinstance(send, Send)
    with pytest.raises(ValueError, match="not sent"):
        delivery.batch_answered(send.batch, ["a-stranger"], now=0.0)
