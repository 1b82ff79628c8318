"""The policy of DELIVER, driven by a table that fails in every way a table can."""

import math
import random
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fanfold.aws.items import MAX_PUTS
from fanfold.fanout.backlog import Resume
from fanfold.fanout.batch_retries import RETRY_ENTRIES, RETRY_SHARE
from fanfold.fanout.pacing import MAX_IN_FLIGHT, SLOWEST, Pace
from fanfold.fanout.segment_size import segment_range
from fanfold.fanout.worker_steps import (
    MAX_STRAGGLERS,
    MAX_STRAGGLERS_PER_FANOUT,
    PATIENCE_SECONDS,
    Delivery,
    Done,
    Failed,
    HandBack,
    Send,
    Wait,
    max_stragglers_of,
)
from fanfold.follows import ring
from fanfold.follows.ring import follower_of, position_of
from fanfold.follows.ring_reader import EdgePage, Read

PAGE = 60
# The first read of the whole ring of a publisher with one shard.
WHOLE = Read(0, 0, ring.START, ring.END)
UNHURRIED = 1e9
FROM_THE_START = Resume(ring.START, 0)


class Throttled(Exception):
    """Transient: the table accepts nothing for now."""


class Lost(Exception):
    """Transient: the call was not answered."""


class Denied(Exception):
    """Permanent."""


def followers(count: int) -> list[str]:
    """Edges of `count` followers, in ring order."""
    return sorted(ring.edge(f"follower-{number}") for number in range(count))


def crowded(count: int, *, spots: int, chance: random.Random) -> list[str]:
    """Edges that share `spots` positions; real hashes would do so once in a million lifetimes."""
    step = ring.RING_SIZE // spots
    return sorted(f"{chance.randrange(spots) * step:016x}#{number}" for number in range(count))


@dataclass
class FaultyTables:
    """Followers and timelines with faults, on a clock of their own; calls end in any order."""

    edges: list[str]
    chance: random.Random
    partial: float = 0.0  # share of entries left unprocessed
    throttled: float = 0.0  # share of batches that fail as a whole
    lost: float = 0.0  # share of batches without an answer
    applied: float = 0.0  # share of failed batches that were written after all
    unread: float = 0.0  # share of pages that are throttled
    denied: float = 0.0  # share of batches that fail for good
    stuck: dict[str, int] = field(default_factory=dict)  # refusals to come, by edge
    level: int = 0
    shards: dict[tuple[int, int], list[str]] = field(default_factory=dict)  # if the level is not 0
    page: int = PAGE
    slowness: float = 0.01  # seconds that the next answer takes at most
    now: float = 1000.0
    written: Counter[str] = field(default_factory=Counter)
    batches: list[list[str]] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)  # of each batch
    most_in_flight: int = 0

    def run(self, delivery: Delivery) -> Done | HandBack | Failed:
        """Make the calls that the delivery asks for, and answer them, until it ends."""
        in_flight: list[Read | Send] = []
        calls = idle = 0
        for _ in range(100_000):
            match delivery.next(self.now):
                case Read() | Send() as action:
                    calls += 1
                    in_flight.append(action)
                    self.check(action, delivery.stop_at)
                    sends = sum(isinstance(each, Send) for each in in_flight)
                    self.most_in_flight = max(self.most_in_flight, sends)
                case Wait(until):
                    assert until > self.now, "waits for a time that has passed"
                    assert in_flight or until < float("inf"), "waits for nothing"
                    answered_at = self.now + self.chance.random() * self.slowness
                    if in_flight and answered_at <= until:
                        self.now = answered_at
                        action = in_flight.pop(self.chance.randrange(len(in_flight)))
                        self.answer(delivery, action)
                    else:
                        self.now = until
                        idle += 1
                case end:
                    assert not in_flight, "ended with calls in flight"
                    assert idle <= 2 * calls + 2, "woke up for nothing"
                    return end
        raise AssertionError("the delivery does not end")

    def check(self, action: Read | Send, stop_at: float) -> None:
        if isinstance(action, Read):
            assert action.after < action.hi, "DynamoDB refuses such a range"
            return
        assert self.now < stop_at, "sends after the deadline"
        assert 1 <= len(action.edges) <= MAX_PUTS
        assert len(set(action.edges)) == len(action.edges), "a key twice in one batch"
        self.batches.append(list(action.edges))
        self.begins.append(self.now)

    def answer(self, delivery: Delivery, action: Read | Send) -> None:
        if isinstance(action, Send):
            self.send(delivery, action)
        elif self.chance.random() < self.unread:
            delivery.read_failed(action, Throttled(), retryable=True, now=self.now)
        else:
            shard = action.level, action.shard
            edges = self.shards.get(shard, []) if self.level else self.edges
            first, end = bisect_right(edges, action.after), bisect_left(edges, action.hi)
            last = min(end, first + self.page)
            page = EdgePage(edges[first:last], more=last < end)
            delivery.page_read(action, page, now=self.now)

    def send(self, delivery: Delivery, action: Send) -> None:
        if self.chance.random() < self.denied:
            self.fail(delivery, action, Denied())
        elif self.chance.random() < self.throttled:
            self.fail(delivery, action, Throttled())
        elif self.chance.random() < self.lost:
            self.fail(delivery, action, Lost())
        else:
            left = [edge for edge in action.edges if self.leaves(edge)]
            self.written.update(set(action.edges) - set(left))
            self.chance.shuffle(left)
            delivery.batch_answered(action.batch, [*map(follower_of, left)], now=self.now)

    def fail(self, delivery: Delivery, action: Send, error: Exception) -> None:
        if self.chance.random() < self.applied:
            self.written.update(action.edges)
        delivery.batch_failed(
            action.batch,
            error,
            retryable=not isinstance(error, Denied),
            throttled=isinstance(error, Throttled),
            now=self.now,
        )

    def leaves(self, edge: str) -> bool:
        """Whether this entry is left unprocessed this time."""
        if self.stuck.get(edge, 0) > 0:
            self.stuck[edge] -= 1
            return True
        return self.chance.random() < self.partial

    def recover(self) -> None:
        """Stop all faults."""
        self.partial = self.throttled = self.lost = self.unread = 0.0
        self.stuck.clear()

    @property
    def sent(self) -> int:
        """Entries sent, repetitions included."""
        return sum(map(len, self.batches))


def tables_of(count: int, seed: int = 1, **faults: Any) -> FaultyTables:
    """Tables with `count` followers, and no faults but those given."""
    return FaultyTables(followers(count), random.Random(seed), **faults)


def delivery_on(tables: FaultyTables, *, seconds: float = UNHURRIED, **options: Any) -> Delivery:
    """A delivery to the whole ring, unless `options` say otherwise, with `seconds` of time."""
    whole = {"start": ring.START, "hi": ring.END, "level": tables.level, "pace": Pace(1e9)}
    return Delivery(
        stop_at=tables.now + seconds, **{"chance": tables.chance.random, **whole, **options}
    )


def deliver(
    tables: FaultyTables, *, seconds: float = UNHURRIED, **options: Any
) -> Done | HandBack | Failed:
    return tables.run(delivery_on(tables, seconds=seconds, **options))


@pytest.mark.parametrize("count", [0, 1, 25, 26, 60, 61, 1010])
def test_every_follower_is_written_once_in_full_batches(count: int) -> None:
    tables = tables_of(count)
    assert deliver(tables) == Done(count)
    assert tables.written == Counter(tables.edges)
    assert len(tables.batches) == math.ceil(count / MAX_PUTS)


def test_a_permanent_error_of_a_batch_ends_the_delivery_after_the_calls_in_flight() -> None:
    tables = tables_of(2000, 4, denied=0.1)
    end = deliver(tables)
    assert isinstance(end, Failed)
    assert isinstance(end.error, Denied)


def test_a_permanent_error_of_a_page_ends_the_delivery() -> None:
    delivery = delivery_on(tables_of(0))
    delivery.next(0.0)
    delivery.read_failed(WHOLE, Denied(), retryable=False, now=0.0)
    end = delivery.next(0.0)
    assert isinstance(end, Failed)
    assert isinstance(end.error, Denied)


# Handing back: deadline, patience, retry budget


@pytest.mark.parametrize(
    ("seconds", "faults"), [(UNHURRIED, {"throttled": 1.0}), (UNHURRIED, {"unread": 1.0}), (0, {})]
)
@pytest.mark.parametrize("begins_at", [0, 30])
def test_a_hand_back_without_progress_is_where_the_delivery_began(
    seconds: float, faults: dict[str, float], begins_at: int
) -> None:
    tables = tables_of(500, 5, **faults)
    start = position_of(tables.edges[begins_at]) if begins_at else ring.START
    late = (position_of(tables.edges[7]),) if begins_at else ()
    end = deliver(tables, seconds=seconds, start=start, already=begins_at, stragglers=late)
    assert end == HandBack(start, begins_at, progress=False, stragglers=late)
    assert not tables.written
    assert seconds or not tables.batches


def test_a_spent_retry_budget_hands_the_rest_back() -> None:
    tables = tables_of(20_000, 9, partial=0.7, page=2500, slowness=0.0001)
    end = deliver(tables)
    assert isinstance(end, HandBack)
    assert end.progress
    again = tables.sent - sum(tables.written.values())
    # The batches in flight at that moment may fail as well.
    assert RETRY_ENTRIES < again <= RETRY_ENTRIES + RETRY_SHARE * 20_000 + MAX_PUTS * MAX_IN_FLIGHT


@given(begins=st.floats(0.0, 1e7), seed=st.integers(0, 2**32))
@example(begins=1.7637746189766141, seed=0)
def test_patience_ends_exactly_at_the_time_waited_for(begins: float, seed: int) -> None:
    # If a sum of floats were rounded below that time, the policy would wait for the present.
    tables = tables_of(1, seed, now=begins, unread=1.0, slowness=0.0)
    assert deliver(tables) == HandBack(ring.START, 0, progress=False)
    assert tables.now == begins + PATIENCE_SECONDS


def test_empty_pages_of_many_shards_count_as_progress() -> None:
    # Reading all shards takes longer than patience, and every third page fails.
    delivery = delivery_on(tables_of(0), level=6, chance=lambda: 0.0)
    now, reads = 0.0, 0
    while isinstance(action := delivery.next(now), Read):
        now += 1.0
        reads += 1
        if reads % 3:
            delivery.page_read(action, EdgePage([], more=False), now=now)
        else:
            delivery.read_failed(action, Throttled(), retryable=True, now=now)
    assert action == Done(0)
    assert reads > 127


# Pace


def warm(tables: FaultyTables, ceiling: float) -> Pace:
    """The pace of a worker past its slow start."""
    pace = Pace(ceiling)
    pace.may_send_at(MAX_PUTS, tables.now - 1.0)
    pace.may_send_at(MAX_PUTS, tables.now)
    assert pace.rate == ceiling
    return pace


def test_throttles_lower_the_rate_and_lost_answers_do_not() -> None:
    def rate(**faults: float) -> float:
        tables = tables_of(500, 11, **faults)
        pace = warm(tables, 10_000)
        deliver(tables, pace=pace)
        return pace.rate

    assert rate(throttled=0.5) < 8_000
    assert rate(partial=0.5) < 8_000
    assert rate(lost=0.5) == 10_000


def test_a_follower_that_is_always_throttled_does_not_slow_the_others_down() -> None:
    tables = tables_of(20_000, 12, page=2500, slowness=0.001)
    tables.stuck = {tables.edges[0]: 1000}
    pace, rates = warm(tables, 2000), [2000.0]

    def seconds() -> float:
        rates.append(pace.rate)
        return 4.0

    ends = chain(tables, seconds=seconds, rounds=40, pace=pace)
    assert ends[-1] == Done(20_000)
    tries = Counter(edge for batch in tables.batches for edge in batch)[tables.edges[0]]
    assert 2000 * 0.5**tries < SLOWEST, "too few throttles to prove anything"
    assert min(rates) > 0.9 * 2000


# Stragglers


@pytest.mark.parametrize(
    ("segments", "most"), [(0, 25), (128, 25), (256, 16), (4096, 1), (10**6, 0)]
)
def test_the_stragglers_of_all_segments_fit_the_ledgers_row(segments: int, most: int) -> None:
    assert max_stragglers_of(segments) == most
    assert most * segments <= MAX_STRAGGLERS_PER_FANOUT or segments == 0


def chain(
    tables: FaultyTables,
    *,
    seconds: Callable[[], float],
    rounds: int,
    begin: Resume = FROM_THE_START,
    lo: str = ring.START,
    **options: Any,
) -> list[Done | HandBack | Failed]:
    """Pass each hand-back to the next delivery, as the ledger's text, until one ends otherwise.

    After `rounds` of them the faults stop, and time suffices.
    """
    noted = begin.to_text()
    ends: list[Done | HandBack | Failed] = []
    for each in range(rounds + 1):
        left = seconds()
        if each == rounds:
            tables.recover()
            left = UNHURRIED
        resume = Resume.from_text(noted)
        end = deliver(
            tables,
            seconds=left,
            start=resume.position,
            already=resume.written,
            stragglers=resume.stragglers,
            **options,
        )
        ends.append(end)
        if not isinstance(end, HandBack):
            return ends
        check(tables, resume, end, lo=lo, **options)
        if end.progress:
            text = Resume(end.position, end.written, end.stragglers).to_text()
            assert text > noted, "the ledger would refuse it"
            noted = text
    raise AssertionError("a delivery without faults and deadline did not end")


def check(
    tables: FaultyTables,
    resume: Resume,
    end: HandBack,
    *,
    lo: str,
    hi: str = ring.END,
    max_stragglers: int = MAX_STRAGGLERS,
    **_: Any,
) -> None:
    """Check that the hand-back leaves no unwritten follower out, and claims nothing untrue."""
    assert end.position >= resume.position
    promised = promised_by(tables.edges, end.position, end.stragglers, lo=lo, hi=hi)
    assert promised <= set(tables.written), "an unwritten follower is left out"
    assert end.written == len(promised)
    assert end.progress is (end.written > resume.written)
    if not end.progress:
        assert (end.position, end.stragglers) == (resume.position, resume.stragglers)
        return
    assert len(end.stragglers) <= max(max_stragglers, len(resume.stragglers))
    assert all(each < end.position for each in end.stragglers)
    assert list(end.stragglers) == sorted(set(end.stragglers))
    assert {len(each) for each in (end.position, *end.stragglers)} == {ring.POSITION_DIGITS}


def promised_by(
    edges: Sequence[str], position: str, stragglers: Collection[str], *, lo: str, hi: str
) -> set[str]:
    """The edges that a hand-back claims are written."""
    return {
        edge
        for edge in edges
        if lo <= edge < min(position, hi) and position_of(edge) not in stragglers
    }


@st.composite
def any_tables(draw: st.DrawFn) -> FaultyTables:
    """Tables with any faults, or none, and any followers at any levels."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    count = draw(st.sampled_from([0, 1, 24, 25, 26, 49, 50, 51]) | st.integers(0, 300))
    # Edges share three positions, or 50, or have one each.
    spots = draw(st.sampled_from([3, 50, 2**60]))
    edges = crowded(count, spots=spots, chance=chance)
    level = draw(st.sampled_from([0, 0, 0, 1, 3]))
    shards: dict[tuple[int, int], list[str]] = {}
    for edge in edges:
        for placed_at in {chance.randint(0, level), chance.randint(0, level)}:
            shard = placed_at, ring.shard_of(position_of(edge), placed_at)
            shards.setdefault(shard, []).append(edge)
    rates = st.sampled_from([0.0, 0.0, 0.1, 0.6, 1.0])
    return FaultyTables(
        edges,
        chance,
        level=level,
        shards=shards,
        partial=draw(rates),
        throttled=draw(rates),
        lost=draw(rates),
        applied=draw(st.sampled_from([0.0, 0.5])),
        unread=draw(st.sampled_from([0.0, 0.0, 0.2, 0.9])),
        stuck={edge: draw(st.integers(1, 40)) for edge in edges if chance.random() < 0.02},
        page=draw(st.sampled_from([24, 25, 26, 50]) | st.integers(1, 100)),
        slowness=draw(st.sampled_from([0.0, 0.01, 1.0])),
        now=draw(st.sampled_from([0.0, 1000.0, 1e9])),
    )


@given(
    tables=any_tables(),
    begins_at=st.integers(0, 300),
    late=st.lists(st.integers(0, 300), max_size=25),
    strangers=st.lists(st.integers(0, ring.RING_SIZE - 1), max_size=3),
    longest=st.sampled_from([0.0, 0.05, 1.0, 10.0]),
    ceiling=st.sampled_from([1.0, 24.0, 25.0, 400.0, 10_000.0]),
    max_stragglers=st.integers(0, 25),
    max_in_flight=st.integers(1, MAX_IN_FLIGHT),
    segment=st.sampled_from([(0, 1), (0, 1), (0, 2), (1, 2), (2, 4)]),
)
@settings(max_examples=4 * settings().max_examples)
def test_every_follower_of_the_range_is_written_or_handed_back_wherever_it_begins(
    tables: FaultyTables,
    begins_at: int,
    late: list[int],
    strangers: list[int],
    longest: float,
    ceiling: float,
    max_stragglers: int,
    max_in_flight: int,
    segment: tuple[int, int],
) -> None:
    """Stragglers may have unfollowed, lie at the start of the range, or be named twice."""
    part, (number, count) = segment_range(*segment), segment
    inside = [edge for edge in tables.edges if part.lo <= edge < part.hi]
    positions = [*map(position_of, inside), ring.behind_all(part.hi)]
    start = positions[min(begins_at, len(inside))] if begins_at else part.lo
    stragglers = [positions[each] for each in late if each < len(inside)]
    stragglers += [f"{(number * ring.RING_SIZE + each) // count:016x}" for each in strangers]
    known = promised_by(tables.edges, start, stragglers, lo=part.lo, hi=part.hi)
    tables.written.update(known)
    ends = chain(
        tables,
        seconds=lambda: tables.chance.random() * longest,
        rounds=10,
        begin=Resume(start, len(known), tuple(stragglers)),
        lo=part.lo,
        hi=part.hi,
        pace=Pace(ceiling),
        max_stragglers=max_stragglers,
        max_in_flight=max_in_flight,
    )
    assert ends[-1] == Done(len(inside))
    assert set(tables.written) == set(inside)
    assert tables.most_in_flight <= max_in_flight
    if len(ends) == 1:
        assert all(tables.written[edge] == 1 for edge in known), "written again"


@given(tables=any_tables(), seed=st.integers(0, 2**32))
def test_one_run_writes_no_acknowledged_follower_twice(tables: FaultyTables, seed: int) -> None:
    tables = replace(tables, applied=0.0, chance=random.Random(seed))
    deliver(tables)
    assert set(tables.written.values()) <= {1}


# Answers that contradict DynamoDB


def test_unprocessed_entries_that_were_never_sent_are_refused() -> None:
    delivery = delivery_on(tables_of(0))
    delivery.next(0.0)
    delivery.page_read(WHOLE, EdgePage(followers(3), more=False), now=0.0)
    send = delivery.next(0.0)
    assert isinstance(send, Send)
    with pytest.raises(ValueError, match="not sent"):
        delivery.batch_answered(send.batch, ["a-stranger"], now=0.0)
