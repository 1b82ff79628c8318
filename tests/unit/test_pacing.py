"""How fast a worker writes: below its ceiling, as slow as the table wants it, and no slower."""

import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.fanout.pacing import (
    BURST_ENTRIES,
    BURST_SECONDS,
    CLEAN_SECONDS,
    DOUBLING_SECONDS,
    FIRST_SHARE,
    INCREASE_PER_SECOND,
    SLOWEST,
    SLOWEST_SHARE,
    WINDOW_SECONDS,
    Pace,
)

CHUNK = 25
START_SECONDS = 0.5
RECOVERY_SECONDS = 22.0

ceilings = st.sampled_from([1.0, 24.0, 25.0, 26.0, 500.0, 2_125.0, 10_000.0, 1_000_000.0])
# Of a machine just started, and of one that has run for thirty years.
beginnings = st.sampled_from([0.0, 0.05, 1e3, 1e9])


def burst(rate: float) -> float:
    """What goes at once after a rest."""
    return max(BURST_ENTRIES, rate * BURST_SECONDS)


def at_its_ceiling(ceiling: float, *, now: float) -> Pace:
    """A pace that has met no throttle, at the end of its start."""
    pace = Pace(ceiling)
    pace.may_send_at(CHUNK, now - START_SECONDS)
    pace.may_send_at(CHUNK, now)
    return pace


def at_its_slowest(ceiling: float, *, now: float) -> Pace:
    """A pace that has met nothing but throttles for long."""
    pace = Pace(ceiling)
    for _ in range(60):
        pace.answered(CHUNK, CHUNK, now)
        now += WINDOW_SECONDS
    return pace


def send(pace: Pace, now: float, entries: int = CHUNK) -> float:
    """Send so many as soon as the pace allows; when that is."""
    for _ in range(4):
        at = pace.may_send_at(entries, now)
        if at == now:
            pace.spend(entries)
            return now
        assert at > now
        now = at
    raise AssertionError("it asks for one more moment again and again")


def sent_at_once(pace: Pace, now: float, entries: int = CHUNK) -> int:
    """How many go while the clock stands still."""
    count = 0
    while pace.may_send_at(entries, now) == now:
        pace.spend(entries)
        count += entries
    return count


# Upwards: the ceiling


@given(
    ceiling=ceilings,
    begin=beginnings,
    seed=st.integers(0, 2**32),
    throttled=st.sampled_from([0.0, 0.1, 0.9]),
    pauses=st.sampled_from([0.0, 0.2]),
)
def test_no_more_is_sent_in_any_time_than_rate_and_burst_allow(
    ceiling: float, begin: float, seed: int, throttled: float, pauses: float
) -> None:
    chance = random.Random(seed)
    pace, now = Pace(ceiling), begin
    sent: list[tuple[float, int, float]] = []  # when, how many, at which rate
    for _ in range(120):
        if chance.random() < pauses:
            now += chance.random() * 2
        entries = chance.randint(1, CHUNK)
        now = send(pace, now, entries)
        assert min(SLOWEST, ceiling) <= pace.rate <= ceiling
        sent.append((now, entries, pace.rate))
        if chance.random() < throttled:
            pace.answered(entries, chance.randint(0, entries), now)
    for first, (begins, _, _) in enumerate(sent):
        total, fastest = 0, 0.0
        for ends, entries, rate in sent[first:]:
            total += entries
            fastest = max(fastest, rate)
            allowed = fastest * (ends - begins) + burst(fastest)
            assert total <= allowed + 1e-3 * CHUNK  # the clock's own grain, after thirty years


@pytest.mark.parametrize("ceiling", [25.0, 2_125.0, 10_000.0])
def test_a_worker_that_nobody_throttles_writes_at_its_ceiling(ceiling: float) -> None:
    begin = 1000.0
    pace, now, batches = at_its_ceiling(ceiling, now=begin), begin, 2000
    for _ in range(batches):
        now = send(pace, now)
        pace.answered(CHUNK, 0, now)
    assert pace.rate == ceiling
    assert now - begin == pytest.approx((batches * CHUNK - burst(ceiling)) / ceiling)


# The start


@given(ceiling=ceilings, begin=beginnings, looks=st.integers(1, 200))
def test_a_new_worker_begins_slowly_and_is_soon_at_its_ceiling_however_often_one_looks(
    ceiling: float, begin: float, looks: int
) -> None:
    pace = Pace(ceiling)
    pace.may_send_at(CHUNK, begin)
    first = max(min(SLOWEST, ceiling), ceiling * FIRST_SHARE)
    assert pace.rate == first
    for look in range(1, looks + 1):
        pace.may_send_at(CHUNK, begin + look / looks * 2 * DOUBLING_SECONDS)
    assert pace.rate == pytest.approx(min(ceiling, first * 4), rel=1e-5)
    pace.may_send_at(CHUNK, begin + START_SECONDS)
    assert pace.rate == ceiling


def test_a_new_worker_sends_no_more_than_its_slow_start_allows() -> None:
    pace, now, sent = Pace(10_000.0, burst=CHUNK), 1000.0, 0
    while (now := send(pace, now)) < 1000.0 + DOUBLING_SECONDS:
        sent += CHUNK
        pace.answered(CHUNK, 0, now)
    # It doubles meanwhile, and a chunk may have been on its way.
    assert sent <= 10_000 * FIRST_SHARE * (BURST_SECONDS + 2 * DOUBLING_SECONDS) + CHUNK


def test_the_first_throttle_ends_the_start_even_within_a_window() -> None:
    pace = Pace(10_000.0)
    pace.answered(CHUNK, 0, 5.0)
    pace.answered(CHUNK, 1, 5.01)
    first = pace.rate
    pace.may_send_at(CHUNK, 6.0)
    assert first <= pace.rate <= first + 10_000 * INCREASE_PER_SECOND


# Bursts


@pytest.mark.parametrize(("ceiling", "entries"), [(1.0, 250), (1_000.0, 250), (10_000.0, 1_000)])
@pytest.mark.parametrize("begin", [0.0, 1e9])
@pytest.mark.parametrize("rest", [0.0, 3600.0])
def test_after_any_rest_a_tenth_of_a_second_goes_at_once_and_at_least_250(
    ceiling: float, entries: int, begin: float, rest: float
) -> None:
    pace = at_its_ceiling(ceiling, now=begin)
    assert sent_at_once(pace, begin + rest) == entries


def test_a_lane_may_let_no_more_go_at_once_than_one_chunk() -> None:
    pace = Pace(100.0, burst=CHUNK)
    assert sent_at_once(pace, 6.0) == CHUNK


def test_while_the_clock_stands_still_nothing_more_goes_however_often_one_asks() -> None:
    pace = at_its_ceiling(1_000.0, now=5.0)
    sent_at_once(pace, 5.0)
    asked = {pace.may_send_at(CHUNK, 5.0) for _ in range(100)}
    assert asked == {5.0 + CHUNK / 1_000.0}


@pytest.mark.parametrize("ceiling", [0.5, 1.0, 10.0, 24.0])
def test_a_ceiling_below_a_chunk_a_second_still_lets_chunks_go(ceiling: float) -> None:
    pace = Pace(ceiling)
    sent_at_once(pace, 0.0)
    assert send(pace, 0.0) == pytest.approx(CHUNK / ceiling)
    assert send(pace, CHUNK / ceiling) == pytest.approx(2 * CHUNK / ceiling)


# Downwards: throttles


def test_what_is_throttled_takes_off_half_of_its_share_and_a_little() -> None:
    pace = at_its_ceiling(1_000.0, now=5.0)
    pace.answered(100, 10, 5.0)
    assert pace.rate == pytest.approx(1_000.0 * (1 - 0.1 * 1.1 / 2))


def test_where_half_is_throttled_the_rate_falls_once_a_window_and_not_once_a_batch() -> None:
    pace, kept = at_its_ceiling(10_000.0, now=5.0), 1 - 0.5 * 1.5 / 2
    for batch in range(64):
        pace.answered(24, 12, 5.0 + batch / 64 * WINDOW_SECONDS * 0.99)
    assert pace.rate == pytest.approx(10_000.0 * kept, rel=0.01)
    pace.answered(24, 12, 5.0 + WINDOW_SECONDS)
    assert pace.rate == pytest.approx(10_000.0 * kept**2, rel=0.02)  # it rises a little in between


def test_where_nearly_all_is_throttled_the_rate_falls_to_about_what_was_taken() -> None:
    pace = at_its_ceiling(10_000.0, now=5.0)
    pace.answered(100, 90, 5.0)
    assert 1_000.0 <= pace.rate <= 1_500.0
    pace = at_its_ceiling(10_000.0, now=5.0)
    pace.answered(100, 100, 5.0)
    assert pace.rate == 10_000.0 * SLOWEST_SHARE


def test_the_share_is_of_all_that_was_answered_in_the_window() -> None:
    pace = at_its_ceiling(1_000.0, now=5.0)
    pace.answered(CHUNK, 0, 5.0)
    pace.answered(CHUNK, CHUNK, 5.02)
    for _ in range(3):
        pace.answered(CHUNK, 0, 5.04)
    assert pace.rate == 1_000.0
    pace.answered(0, 0, 5.0 + WINDOW_SECONDS)
    assert pace.rate == pytest.approx(1_000.0 * (1 - 0.25 * 1.25 / 2))


def test_a_throttle_is_told_once() -> None:
    pace = at_its_ceiling(1_000.0, now=5.0)
    pace.answered(20, 10, 5.0)
    fallen = pace.rate
    for window in range(1, 5):
        pace.answered(CHUNK, 0, 5.0 + window * WINDOW_SECONDS)
    assert pace.rate >= fallen


def test_an_answer_that_tells_nothing_changes_nothing() -> None:
    pace = at_its_ceiling(1_000.0, now=5.0)
    pace.answered(0, 0, 5.0)
    pace.answered(0, 0, 6.0)
    assert pace.rate == 1_000.0


@pytest.mark.parametrize("ceiling", [1.0, 25.0, 10_000.0])
def test_the_slowest_pace_is_an_eighth_of_the_ceiling_or_a_chunk_a_second(ceiling: float) -> None:
    pace = at_its_slowest(ceiling, now=0.0)
    pace.answered(CHUNK, CHUNK, 6.0)
    slowest = max(min(SLOWEST, ceiling), ceiling * SLOWEST_SHARE)
    assert slowest <= pace.rate <= min(ceiling, slowest + ceiling / 100)


def test_what_was_saved_up_at_a_high_rate_is_not_kept_at_a_low_one() -> None:
    pace = at_its_slowest(10_000.0, now=0.0)
    assert sent_at_once(pace, 6.0) == BURST_ENTRIES


# Up again


@given(ceiling=ceilings, begin=beginnings, looks=st.integers(1, 200))
def test_the_ceiling_is_reached_again_soon_after_the_worst_however_often_one_looks(
    ceiling: float, begin: float, looks: int
) -> None:
    pace, worst = at_its_slowest(ceiling, now=begin), begin + 59 * WINDOW_SECONDS
    slowest, half = pace.rate, RECOVERY_SECONDS / 2
    for look in range(1, looks + 1):
        pace.may_send_at(CHUNK, worst + look / looks * half)
    # Who looks seldom takes the whole time for clean.
    least = slowest + ceiling * INCREASE_PER_SECOND * (half - CLEAN_SECONDS / 2)
    most = slowest + ceiling * INCREASE_PER_SECOND * half
    assert min(ceiling, least) * (1 - 1e-6) <= pace.rate <= min(ceiling, most) * (1 + 1e-6)
    pace.may_send_at(CHUNK, worst + RECOVERY_SECONDS)
    assert pace.rate == ceiling


def test_shortly_after_a_throttle_the_rate_creeps() -> None:
    pace, now = at_its_ceiling(10_000.0, now=5.0), 5.0
    pace.answered(100, 50, now)
    fallen = pace.rate
    for look in range(1, 201):
        pace.may_send_at(CHUNK, now + look / 200 * CLEAN_SECONDS / 10)
    # A tenth of the time at no more than a tenth of the speed.
    most = 10_000 * INCREASE_PER_SECOND * CLEAN_SECONDS / 100
    assert fallen < pace.rate <= fallen + most


def test_a_clock_that_goes_back_does_not_slow_a_worker_down() -> None:
    pace = at_its_ceiling(10_000.0, now=5.0)
    pace.answered(100, 50, 5.0)
    fallen = pace.rate
    for now in (1.0, 2.0):
        pace.may_send_at(CHUNK, now)
        assert pace.rate >= fallen


@dataclass
class Table:
    """Takes so many entries a second, and for a moment a few more."""

    rate: float
    room: float = 100.0
    at: float = 0.0

    def take(self, entries: int, now: float) -> int:
        """How many are throttled."""
        self.room = min(100.0, self.room + self.rate * (now - self.at))
        self.at = now
        taken = min(entries, int(self.room))
        self.room -= taken
        return entries - taken


# The rate rises by a share of the ceiling, so the further the table is below it, the more is tried
# in vain; but it creeps near the limit, so it is little.
@pytest.mark.parametrize(
    ("takes", "in_vain"), [(9_000.0, 0.002), (4_000.0, 0.004), (1_500.0, 0.02)]
)
def test_a_table_below_the_ceiling_is_used_well_and_seldom_throttles(
    takes: float, in_vain: float
) -> None:
    pace, table = Pace(10_000.0), Table(takes)
    now, sent, throttled = 0.0, 0, 0
    while now < 120.0:
        now = send(pace, now)
        lost = table.take(CHUNK, now)
        pace.answered(CHUNK, lost, now)
        if now > 20.0:  # settled
            sent, throttled = sent + CHUNK, throttled + lost
    assert sent - throttled >= 0.95 * takes * 100.0
    assert throttled <= in_vain * sent
