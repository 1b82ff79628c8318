"""The policy of DELIVER, driven by a table that fails in every way a table can."""

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
from fanfold.fanout.pacing import BURST_ENTRIES, SLOWEST, Pace
from fanfold.fanout.policy import (
    BACKOFF_BASE_SECONDS,
    MAX_IN_FLIGHT,
    MAX_STRAGGLERS,
    MAX_STRAGGLERS_PER_FANOUT,
    PATIENCE_SECONDS,
    RETRY_ENTRIES,
    RETRY_SHARE,
    Delivery,
    Done,
    Failed,
    HandBack,
    Send,
    Wait,
    max_stragglers_of,
)
from fanfold.fanout.segments import Resume
from fanfold.follows import ring
from fanfold.follows.ring import follower_of, position_of
from fanfold.follows.ring_reader import MAX_READS, Page, Read

PAGE = 60
# The first read of the whole ring of a publisher with one shard.
WHOLE = Read(0, 0, ring.START, ring.END)
UNHURRIED = 1e9


class Throttled(Exception):
    """The table takes nothing just now."""


class Lost(Exception):
    """Nobody answered."""


class Refused(Exception):
    """The table will never take this."""


def followers(count: int) -> list[str]:
    """Edges of so many followers, in ring order."""
    return sorted(ring.edge(f"follower-{number}") for number in range(count))


def crowded(count: int, *, spots: int, chance: random.Random) -> list[str]:
    """Edges that share so many positions; real hashes would do so once in a million lifetimes."""
    step = ring.RING_SIZE // spots
    return sorted(f"{chance.randrange(spots) * step:016x}#{number}" for number in range(count))


@dataclass
class World:
    """A table, a clock and a chance, which answer what is in flight in any order."""

    edges: list[str]
    chance: random.Random
    partial: float = 0.0  # of the entries, how many are left unprocessed
    throttled: float = 0.0  # of the batches, how many fail as a whole
    lost: float = 0.0  # the same, for another reason than a throttle
    applied: float = 0.0  # of the failed calls, how many had written after all
    unread: float = 0.0
    refused: float = 0.0
    stuck: dict[str, int] = field(default_factory=dict)  # refusals to come, by edge
    page: int = PAGE
    slowness: float = 0.01  # seconds that the next answer takes at most
    now: float = 1000.0
    written: Counter[str] = field(default_factory=Counter)
    batches: list[list[str]] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)  # of each batch
    most_in_flight: int = 0

    def run(self, delivery: Delivery) -> Done | HandBack | Failed:
        """Carry the delivery out, answering in random order, until it ends."""
        open_actions: list[Read | Send] = []
        calls = idle = 0
        for _ in range(100_000):
            match delivery.next(self.now):
                case Read() | Send() as action:
                    calls += 1
                    open_actions.append(action)
                    self.look_at(action)
                    sends = sum(isinstance(each, Send) for each in open_actions)
                    self.most_in_flight = max(self.most_in_flight, sends)
                case Wait(until):
                    assert until > self.now, "waits for a time that has come"
                    assert open_actions or until < float("inf"), "waits for nothing"
                    answered_at = self.now + self.chance.random() * self.slowness
                    if open_actions and answered_at <= until:
                        self.now = answered_at
                        action = open_actions.pop(self.chance.randrange(len(open_actions)))
                        self.answer(delivery, action)
                    else:
                        self.now = until
                        idle += 1
                case end:
                    assert not open_actions, "ended with calls in flight"
                    assert idle <= 2 * calls + 2, "woke up for nothing"
                    return end
        raise AssertionError("the delivery does not end")

    def look_at(self, action: Read | Send) -> None:
        if isinstance(action, Read):
            assert action.after < action.hi, "DynamoDB refuses such a range"
            return
        assert 1 <= len(action.edges) <= MAX_PUTS
        assert len(set(action.edges)) == len(action.edges), "a key twice in one batch"
        self.batches.append(list(action.edges))
        self.begins.append(self.now)

    def answer(self, delivery: Delivery, action: Read | Send) -> None:
        if isinstance(action, Read):
            self.read(delivery, action)
        else:
            self.send(delivery, action)

    def read(self, delivery: Delivery, action: Read) -> None:
        if self.chance.random() < self.unread:
            delivery.read_failed(action, Throttled(), retryable=True, now=self.now)
            return
        first, end = bisect_right(self.edges, action.after), bisect_left(self.edges, action.hi)
        last = min(end, first + self.page)
        delivery.page_read(action, Page(self.edges[first:last], more=last < end), now=self.now)

    def send(self, delivery: Delivery, action: Send) -> None:
        if self.chance.random() < self.refused:
            self.fail(delivery, action, Refused())
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
            retryable=not isinstance(error, Refused),
            throttled=isinstance(error, Throttled),
            now=self.now,
        )

    def leaves(self, edge: str) -> bool:
        """Whether an entry is left unprocessed this time."""
        if self.stuck.get(edge, 0) > 0:
            self.stuck[edge] -= 1
            return True
        return self.chance.random() < self.partial

    def calm(self) -> None:
        """Nothing fails any more."""
        self.partial = self.throttled = self.lost = self.unread = 0.0
        self.stuck.clear()

    @property
    def sent(self) -> int:
        """Entries, as often as they were sent."""
        return sum(map(len, self.batches))


def delivery_in(world: World, *, seconds: float = UNHURRIED, **options: Any) -> Delivery:
    """A delivery of the whole ring, unless told otherwise, that has so many seconds."""
    given = {"start": ring.START, "hi": ring.END, "pace": Pace(1e9), **options}
    return Delivery(stop_at=world.now + seconds, chance=world.chance.random, **given)


def deliver(
    world: World, *, seconds: float = UNHURRIED, **options: Any
) -> Done | HandBack | Failed:
    """Run one delivery over the world."""
    return world.run(delivery_in(world, seconds=seconds, **options))


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


def test_nobody_outside_the_range_is_written(calm: Callable[[int], World]) -> None:
    world = calm(1000)
    part = ring.segment_range(1, 4)
    inside = [edge for edge in world.edges if part.lo <= edge < part.hi]
    assert deliver(world, start=part.lo, hi=part.hi) == Done(len(inside))
    assert world.written == Counter(inside)


def test_unprocessed_entries_are_sent_again_by_key_and_no_others() -> None:
    world = World(followers(500), random.Random(2), partial=0.3)
    assert deliver(world) == Done(500)
    assert world.written == Counter(world.edges)  # none twice: what was written is not sent again


def test_a_whole_throttle_and_a_lost_answer_are_sent_again() -> None:
    world = World(
        followers(500), random.Random(3), throttled=0.3, lost=0.3, applied=0.5, unread=0.3
    )
    assert deliver(world) == Done(500)
    assert set(world.written) == set(world.edges)


def test_an_error_that_does_not_pass_ends_the_delivery_after_what_is_in_flight() -> None:
    world = World(followers(2000), random.Random(4), refused=0.1)
    end = deliver(world)
    assert isinstance(end, Failed)
    assert isinstance(end.error, Refused)


def test_an_error_in_reading_that_does_not_pass_ends_the_delivery(
    calm: Callable[[int], World],
) -> None:
    delivery = delivery_in(calm(0))
    delivery.next(0.0)
    delivery.read_failed(WHOLE, Refused(), retryable=False, now=0.0)
    end = delivery.next(0.0)
    assert isinstance(end, Failed)
    assert isinstance(end.error, Refused)


# Handing back: time, patience, and how much may be sent again


def test_a_throttle_that_lasts_is_handed_back_and_not_waited_for() -> None:
    world = World(followers(50), random.Random(5), throttled=1.0)
    begin = world.now
    assert isinstance(deliver(world), HandBack)
    assert PATIENCE_SECONDS <= world.now - begin < 2 * PATIENCE_SECONDS


def test_a_hand_back_that_got_no_further_says_so_and_where_it_began() -> None:
    world = World(followers(500), random.Random(5), throttled=1.0)
    start, late = position_of(world.edges[30]), (position_of(world.edges[7]),)
    end = deliver(world, start=start, already=29, stragglers=late)
    assert end == HandBack(start, 29, progress=False, stragglers=late)


def test_a_follower_list_that_cannot_be_read_is_handed_back_where_it_began() -> None:
    world = World(followers(500), random.Random(6), unread=1.0)
    assert deliver(world) == HandBack(ring.START, 0, progress=False)


def test_time_that_is_up_before_it_begins_hands_everything_back() -> None:
    world = World(followers(500), random.Random(7))
    assert deliver(world, seconds=0) == HandBack(ring.START, 0, progress=False)
    assert not world.batches


def test_nothing_is_sent_after_the_deadline() -> None:
    world = World(followers(5000), random.Random(8))
    stop_at = world.now + 0.1
    end = deliver(world, seconds=0.1)
    assert isinstance(end, HandBack)
    assert end.progress
    assert sum(world.written.values()) < 5000
    assert world.begins[-1] < stop_at


def test_a_slow_worker_does_not_sleep_through_the_deadline(calm: Callable[[int], World]) -> None:
    world = calm(500)
    begin = world.now
    assert isinstance(deliver(world, seconds=5.0, pace=Pace(1)), HandBack)
    assert world.now == begin + 5.0


def test_a_page_that_could_not_be_read_is_asked_for_again_in_a_moment(
    calm: Callable[[int], World],
) -> None:
    delivery, now, cap = delivery_in(calm(0)), 0.0, 0.05
    for _ in range(4):
        assert delivery.next(now) == WHOLE
        delivery.read_failed(WHOLE, Throttled(), retryable=True, now=now)
        wait = delivery.next(now)
        assert isinstance(wait, Wait)
        assert now < wait.until <= now + cap
        now, cap = wait.until, cap * 2


def test_a_table_that_throttles_much_is_given_time() -> None:
    world = World(followers(20_000), random.Random(9), partial=0.7, page=2500, slowness=0.0001)
    end = deliver(world)
    assert isinstance(end, HandBack)
    assert end.progress
    again = world.sent - sum(world.written.values())
    # What is in flight when it has had enough comes on top.
    assert RETRY_ENTRIES < again <= RETRY_ENTRIES + RETRY_SHARE * 20_000 + MAX_PUTS * MAX_IN_FLIGHT


def test_a_table_that_throttles_a_little_is_delivered_to_in_one_run() -> None:
    world = World(followers(20_000), random.Random(9), partial=0.1, page=2500, slowness=0.0001)
    assert deliver(world) == Done(20_000)
    assert world.sent - 20_000 > RETRY_ENTRIES  # the share is needed, and is enough


@given(begins=st.floats(0.0, 1e7), seed=st.integers(0, 2**32))
@example(begins=1.7637746189766141, seed=0)
def test_patience_ends_at_the_very_time_that_is_waited_for(begins: float, seed: int) -> None:
    # No sum of floats may fall short of it by rounding: the policy would wait for the present.
    world = World(followers(1), random.Random(seed), now=begins, unread=1.0, slowness=0.0)
    assert deliver(world) == HandBack(ring.START, 0, progress=False)
    assert world.now == begins + PATIENCE_SECONDS


def test_a_ring_of_many_shards_is_read_on_though_a_page_fails_now_and_then() -> None:
    # Nobody follows, and reading all shards takes longer than patience.
    delivery = Delivery(
        start=ring.START, hi=ring.END, level=6, pace=Pace(10_000), stop_at=1e9, chance=lambda: 0.0
    )
    now, reads = 0.0, 0
    while isinstance(action := delivery.next(now), Read):
        now += 1.0
        reads += 1
        if reads % 3:
            delivery.page_read(action, Page([], more=False), now=now)
        else:
            delivery.read_failed(action, Throttled(), retryable=True, now=now)
    assert action == Done(0)
    assert reads > 127


def test_pages_that_are_throttled_together_back_off_once() -> None:
    delivery = Delivery(
        start=ring.START, hi=ring.END, level=8, pace=Pace(10_000), stop_at=1e9, chance=lambda: 0.99
    )
    for read in reads_of(delivery, 0.0):
        delivery.page_read(read, Page([], more=False), now=0.0)
    waits, now = [], 0.0
    for _ in range(3):
        reads = reads_of(delivery, now)
        assert len(reads) == MAX_READS
        for read in reads:
            delivery.read_failed(read, Throttled(), retryable=True, now=now)
        action = delivery.next(now)
        assert isinstance(action, Wait)
        waits.append(action.until - now)
        now = action.until
    assert waits == pytest.approx([0.99 * BACKOFF_BASE_SECONDS * 2**each for each in range(3)])


def reads_of(delivery: Delivery, now: float) -> list[Read]:
    """All pages that are to be read now."""
    found = []
    while isinstance(action := delivery.next(now), Read):
        found.append(action)
    return found


# Pace


def warm(world: World, ceiling: float) -> Pace:
    """The pace of a worker that is through with its slow start."""
    pace = Pace(ceiling)
    pace.may_send_at(MAX_PUTS, world.now - 1.0)
    pace.may_send_at(MAX_PUTS, world.now)
    assert pace.rate == ceiling
    return pace


def test_a_worker_keeps_to_its_pace(calm: Callable[[int], World]) -> None:
    world = calm(5000)
    world.page, begin = 2500, world.now
    assert deliver(world, pace=warm(world, 1000)) == Done(5000)
    assert world.now - begin == pytest.approx((5000 - BURST_ENTRIES) / 1000, rel=0.02)


@pytest.mark.parametrize("ceiling", [1, 24, 25, 26])
def test_the_slowest_worker_delivers_too(calm: Callable[[int], World], ceiling: int) -> None:
    world = calm(400)
    begin = world.now
    assert deliver(world, pace=Pace(ceiling)) == Done(400)
    assert world.now - begin >= (400 - BURST_ENTRIES) / ceiling - 1e-6


def test_a_throttled_table_is_written_more_slowly_and_one_that_loses_answers_is_not() -> None:
    def rate(**failing: float) -> float:
        world = World(followers(500), random.Random(11), **failing)  # type: ignore[arg-type]
        pace = warm(world, 10_000)
        deliver(world, pace=pace)
        return pace.rate

    assert rate(throttled=0.5) < 8_000
    assert rate(partial=0.5) < 8_000
    assert rate(lost=0.5) == 10_000


@pytest.mark.parametrize("failing", [{"throttled": 1.0}, {"partial": 1.0}])
def test_the_third_throttle_of_a_follower_tells_no_more_about_the_table(
    failing: dict[str, float],
) -> None:
    world = World(followers(1), random.Random(12), **failing)  # type: ignore[arg-type]
    pace = warm(world, 10_000)
    assert isinstance(deliver(world, pace=pace), HandBack)
    assert len(world.batches) > 4
    assert pace.rate > 800, "rises since the second one"


def test_one_follower_that_is_always_throttled_does_not_slow_down_the_rest() -> None:
    world = World(followers(20_000), random.Random(12), page=2500, slowness=0.001)
    world.stuck = {world.edges[0]: 1000}
    pace, rates = warm(world, 2000), [2000.0]

    def seconds() -> float:
        rates.append(pace.rate)
        return 4.0

    ends = chain(world, seconds=seconds, rounds=40, pace=pace)
    assert ends[-1] == Done(20_000)
    tries = Counter(edge for batch in world.batches for edge in batch)[world.edges[0]]
    assert 2000 * 0.5**tries < SLOWEST, "too few to stand still, had each of them told"
    assert min(rates) > 0.9 * 2000


# Stragglers


@pytest.mark.parametrize(
    ("segments", "most"), [(0, 25), (1, 25), (128, 25), (256, 16), (512, 8), (4096, 1), (10**6, 0)]
)
def test_the_more_segments_the_fewer_stragglers_so_that_a_row_holds_them_all(
    segments: int, most: int
) -> None:
    assert max_stragglers_of(segments) == most
    assert most * segments <= MAX_STRAGGLERS_PER_FANOUT or segments == 0


def test_who_lags_behind_when_all_others_are_written_is_handed_back_alone() -> None:
    world = World(followers(500), random.Random(13))
    late = [world.edges[3], world.edges[499]]
    world.stuck = dict.fromkeys(late, 1000)
    end = deliver(world)
    positions = tuple(map(position_of, late))
    assert end == HandBack(ring.behind_all(ring.END), 498, progress=True, stragglers=positions)


def test_more_stragglers_than_may_travel_pull_the_position_back_to_the_first_too_many() -> None:
    world = World(followers(500), random.Random(14))
    late = world.edges[100:400:10]
    world.stuck = dict.fromkeys(late, 1000)
    end = deliver(world)
    assert end == HandBack(
        position_of(late[MAX_STRAGGLERS]),
        100 + 10 * MAX_STRAGGLERS - MAX_STRAGGLERS,
        progress=True,
        stragglers=tuple(map(position_of, late[:MAX_STRAGGLERS])),
    )


def test_stragglers_alone_are_read_and_written_and_nothing_else_is() -> None:
    world = World(followers(500), random.Random(15))
    late = [world.edges[3], world.edges[77]]
    end = deliver(
        world,
        start=ring.behind_all(ring.END),
        already=498,
        stragglers=[*map(position_of, reversed(late))],
    )
    assert end == Done(500)
    assert world.written == Counter(late)
    assert len(world.batches) == 1


def test_a_straggler_who_has_unfollowed_is_waited_for_no_longer() -> None:
    world = World(followers(10), random.Random(16))
    gone = position_of(world.edges.pop(4))
    start = ring.behind_all(ring.END)
    assert deliver(world, start=start, already=9, stragglers=[gone]) == Done(9)


def test_a_position_does_not_go_back_to_stragglers_of_before_however_few_may_be_added() -> None:
    world = World(followers(500), random.Random(16))
    late = [world.edges[each] for each in (3, 5, 77, 300, 400)]
    world.stuck = dict.fromkeys(late[1:], 1000)
    start = position_of(world.edges[100])
    end = deliver(
        world, start=start, already=97, stragglers=[*map(position_of, late[:3])], max_stragglers=1
    )
    behind = tuple(map(position_of, late[1:3]))
    # 97 of before, the one that was let through, and those up to the next that was not.
    assert end == HandBack(position_of(late[3]), 97 + 1 + 200, progress=True, stragglers=behind)


def test_stragglers_that_there_was_no_time_for_are_stragglers_again() -> None:
    one, two, three = (digit * ring.POSITION_DIGITS for digit in "123")
    edges = [f"{spot}#{number:03}" for spot in (one, two, three) for number in range(150)]
    start = ring.behind_all(ring.END)
    end = deliver(
        World(edges, random.Random(18)),
        seconds=5.0,
        start=start,
        stragglers=[one, two, three],
        pace=Pace(1),  # all of the first go at once, and some of the second
    )
    assert end == HandBack(start, 150, progress=True, stragglers=(two, three))


@pytest.mark.parametrize("spot", ["7" * 16, ring.START])
def test_of_two_followers_at_one_position_the_written_one_is_no_progress_twice(spot: str) -> None:
    # Else a follower that is never let through would be handed back for ever, unseen.
    edges = [f"{spot}#ada", f"{spot}#ben"]
    world = World(edges, random.Random(17), stuck={edges[1]: 1000})
    end = deliver(world)
    assert end == HandBack(ring.START, 0, progress=False)
    assert world.written[edges[0]] == 1


@pytest.mark.parametrize("stuck", [1, 2, MAX_PUTS - 1, MAX_PUTS])
@pytest.mark.parametrize("seconds", [0.05, UNHURRIED])
def test_nobody_behind_a_straggler_is_written_again(stuck: int, seconds: float) -> None:
    world = World(followers(1000), random.Random(stuck))
    late = world.chance.sample(world.edges, stuck)
    world.stuck = dict.fromkeys(late, 60)
    ends = chain(world, seconds=lambda: seconds, rounds=200)
    assert ends[-1] == Done(1000)
    assert len(ends) > 5
    # At a hand-back in the middle the last edge that was read may be written twice: a position
    # includes the edges on it.
    twice = sum(world.written.values()) - 1000
    assert twice <= (len(ends) if seconds < 1 else 0)
    assert max(world.written.values()) <= 2


def chain(
    world: World,
    *,
    seconds: Callable[[], float],
    rounds: int,
    begin: Resume | None = None,
    lo: str = ring.START,
    **options: Any,
) -> list[Done | HandBack | Failed]:
    """Feed each hand-back to the next delivery, through the ledger, until one is done.

    After so many rounds nothing fails, and there is time enough.
    """
    noted = (begin or Resume(lo, 0)).to_text()
    ends: list[Done | HandBack | Failed] = []
    for each in range(rounds + 1):
        left = seconds()
        if each == rounds:
            world.calm()
            left = UNHURRIED
        resume = Resume.from_text(noted)
        end = deliver(
            world,
            seconds=left,
            start=resume.position,
            already=resume.written,
            stragglers=resume.stragglers,
            **options,
        )
        ends.append(end)
        if not isinstance(end, HandBack):
            return ends
        check(world, resume, end, lo=lo, **options)
        if end.progress:
            text = Resume(end.position, end.written, end.stragglers).to_text()
            assert text > noted, "the ledger would refuse it"
            noted = text
    raise AssertionError("calm weather and time enough did not end it")


def check(
    world: World,
    resume: Resume,
    end: HandBack,
    *,
    lo: str,
    hi: str = ring.END,
    max_stragglers: int = MAX_STRAGGLERS,
    **_: Any,
) -> None:
    """Everybody is written, or lies where the hand-back says; and it says nothing untrue."""
    assert end.position >= resume.position
    promised = promised_by(world.edges, end.position, end.stragglers, lo=lo, hi=hi)
    assert promised <= set(world.written), "an unwritten follower is left out"
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
    """Who is written, by the word of a hand-back."""
    return {
        edge
        for edge in edges
        if lo <= edge < min(position, hi) and position_of(edge) not in stragglers
    }


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Any table, from friendly to hostile, with any followers."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    count = draw(st.sampled_from([0, 1, 24, 25, 26, 49, 50, 51]) | st.integers(0, 300))
    # Three positions for all, some for some each, or one for each.
    spots = draw(st.sampled_from([3, 50, 2**60]))
    edges = crowded(count, spots=spots, chance=chance)
    rates = st.sampled_from([0.0, 0.0, 0.1, 0.6, 1.0])
    return World(
        edges,
        chance,
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
    world=worlds(),
    longest=st.sampled_from([0.05, 1.0, 10.0]),
    ceiling=st.sampled_from([1.0, 24.0, 25.0, 400.0, 10_000.0]),
    max_stragglers=st.integers(0, 25),
    max_in_flight=st.integers(1, MAX_IN_FLIGHT),
    segment=st.sampled_from([(0, 1), (0, 2), (1, 2), (2, 4)]),
)
@settings(max_examples=300)
def test_every_follower_of_the_range_is_written_or_handed_back(
    world: World,
    longest: float,
    ceiling: float,
    max_stragglers: int,
    max_in_flight: int,
    segment: tuple[int, int],
) -> None:
    part = ring.segment_range(*segment)
    inside = {edge for edge in world.edges if part.lo <= edge < part.hi}
    paces = [Pace(ceiling), Pace(ceiling)]  # of two warm workers
    ends = chain(
        world,
        seconds=lambda: world.chance.random() * longest,
        rounds=12,
        lo=part.lo,
        pace=world.chance.choice(paces),
        hi=part.hi,
        max_stragglers=max_stragglers,
        max_in_flight=max_in_flight,
    )
    assert ends[-1] == Done(len(inside))
    assert set(world.written) == inside
    assert world.most_in_flight <= max_in_flight


@given(
    world=worlds(),
    begins_at=st.integers(0, 300),
    late=st.lists(st.integers(0, 300), max_size=25),
    strangers=st.lists(st.integers(0, ring.RING_SIZE - 1), max_size=3),
    longest=st.sampled_from([0.0, 0.05, 10.0]),
    max_stragglers=st.integers(0, 25),
    max_in_flight=st.sampled_from([1, 2, MAX_IN_FLIGHT]),
)
@settings(max_examples=300)
def test_a_delivery_that_others_began_reaches_everybody_they_left(
    world: World,
    begins_at: int,
    late: list[int],
    strangers: list[int],
    longest: float,
    max_stragglers: int,
    max_in_flight: int,
) -> None:
    """Stragglers may have unfollowed, or lie where the range begins, or be named twice."""
    positions = [*map(position_of, world.edges), ring.behind_all(ring.END)]
    start = positions[min(begins_at, len(world.edges))]
    stragglers = [positions[each] for each in late if each < len(world.edges)]
    stragglers += [f"{each:016x}" for each in strangers]
    known = promised_by(world.edges, start, stragglers, lo=ring.START, hi=ring.END)
    world.written.update(known)
    ends = chain(
        world,
        seconds=lambda: world.chance.random() * longest,
        rounds=6,
        begin=Resume(start, len(known), tuple(stragglers)),
        pace=Pace(10_000),
        max_stragglers=max_stragglers,
        max_in_flight=max_in_flight,
    )
    assert ends[-1] == Done(len(world.edges))
    assert set(world.written) == set(world.edges)
    if len(ends) == 1:
        assert all(world.written[edge] == 1 for edge in known), "who was written is left alone"


@given(world=worlds(), seed=st.integers(0, 2**32))
@settings(max_examples=100)
def test_nobody_is_written_twice_who_is_acknowledged_in_one_run(world: World, seed: int) -> None:
    world = replace(world, applied=0.0, chance=random.Random(seed))
    deliver(world)
    assert set(world.written.values()) <= {1}


# What no transport and no table should ever say


A, B, C = followers(3)


@pytest.mark.parametrize("page", [Page([B, A], False), Page([A, A, C], False), Page([], True)])
def test_a_page_that_is_not_in_ring_order_is_refused(
    calm: Callable[[int], World], page: Page
) -> None:
    delivery = delivery_in(calm(0))
    assert delivery.next(0.0) == WHOLE
    with pytest.raises(ValueError, match=r"[Ee]dges"):
        delivery.page_read(WHOLE, page, now=0.0)


def test_a_page_that_begins_before_the_last_one_ended_is_refused(
    calm: Callable[[int], World],
) -> None:
    delivery = delivery_in(calm(0))
    delivery.next(0.0)
    delivery.page_read(WHOLE, Page([A, B], more=True), now=0.0)
    second = delivery.next(0.0)
    assert second == Read(0, 0, B, ring.END)
    with pytest.raises(ValueError, match="ring order"):
        delivery.page_read(second, Page([B, C], more=False), now=0.0)


def test_unprocessed_entries_that_were_never_sent_are_refused(
    calm: Callable[[int], World],
) -> None:
    delivery = delivery_in(calm(0))
    delivery.next(0.0)
    delivery.page_read(WHOLE, Page(followers(3), more=False), now=0.0)
    send = delivery.next(0.0)
    assert isinstance(send, Send)
    with pytest.raises(ValueError, match="not sent"):
        delivery.batch_answered(send.batch, ["a-stranger"], now=0.0)


@settings(deadline=None)
@given(
    count=st.integers(0, 400),
    level=st.integers(0, 5),
    segments=st.sampled_from([1, 4, 64]),
    page=st.integers(1, 100),
    seed=st.integers(),
)
def test_followers_on_any_shards_of_any_levels_are_written_once(
    count: int, level: int, segments: int, page: int, seed: int
) -> None:
    chance = random.Random(seed)
    edges = followers(count)
    shards: dict[tuple[int, int], list[str]] = {}
    for edge in edges:
        for home in {chance.randint(0, level), chance.randint(0, level)}:
            shards.setdefault((home, ring.shard_of(ring.position_of(edge), home)), []).append(edge)
    written: list[str] = []
    for segment in range(segments):
        part = ring.segment_range(segment, segments)
        delivery = Delivery(
            start=part.lo,
            hi=part.hi,
            level=level,
            stop_at=float("inf"),
            chance=chance.random,
            pace=Pace(1e9),
        )
        under_way: list[Read | Send] = []
        while not isinstance(action := delivery.next(0.0), Done):
            if isinstance(action, Read | Send):
                under_way.append(action)
                continue
            assert isinstance(action, Wait)
            ended = under_way.pop(chance.randrange(len(under_way)))
            if isinstance(ended, Send):
                written += ended.edges
                delivery.batch_answered(ended.batch, (), now=0.0)
                continue
            shard = shards.get((ended.level, ended.shard), [])
            rest = [edge for edge in shard if ended.after < edge < ended.hi]
            delivery.page_read(ended, Page(rest[:page], more=len(rest) > page), now=0.0)
    assert sorted(written) == edges
