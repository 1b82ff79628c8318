"""How fast a worker writes: up to its ceiling, slower when the table throttles."""

import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.aws.items import MAX_PUTS
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

START_SECONDS = 0.5
RECOVERY_SECONDS = 22.0

ceilings = st.sampled_from([1.0, 24.0, 25.0, 26.0, 500.0, 2_125.0, 10_000.0, 1_000_000.0])
# Monotonic clocks of a machine just started, and of one that has run for thirty years.
beginnings = st.sampled_from([0.0, 0.05, 1e3, 1e9])


def burst(rate: float) -> float:
    """Entries that may go at once after a rest."""
    return max(BURST_ENTRIES, rate * BURST_SECONDS)


def at_its_ceiling(ceiling: float, *, now: float, burst: int = BURST_ENTRIES) -> Pace:
    """A pace that was never throttled, past its slow start."""
    pace = Pace(ceiling, burst)
    pace.may_send_at(MAX_PUTS, now - START_SECONDS)
    pace.may_send_at(MAX_PUTS, now)
    return pace


def at_its_slowest(ceiling: float, *, now: float) -> Pace:
    """A pace after six seconds of nothing but throttles."""
    pace = Pace(ceiling)
    for _ in range(60):
        pace.answered(MAX_PUTS, MAX_PUTS, now)
        now += WINDOW_SECONDS
    return pace


def send(pace: Pace, now: float, entries: int = MAX_PUTS) -> float:
    """Send `entries` as soon as the pace allows, and return that time."""
    for _ in range(4):
        at = pace.may_send_at(entries, now)
        if at == now:
            pace.spend(entries)
            return now
        assert at > now
        now = at
    raise AssertionError("the pace puts it off again and again")


def sent_at_once(pace: Pace, now: float, entries: int = MAX_PUTS) -> int:
    """How many entries the pace allows while the clock stands still."""
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
def test_rate_and_burst_bound_what_is_sent_in_any_interval(
    ceiling: float, begin: float, seed: int, throttled: float, pauses: float
) -> None:
    chance = random.Random(seed)
    pace, now = Pace(ceiling), begin
    sent: list[tuple[float, int, float]] = []  # when, how many, at which rate
    for _ in range(120):
        if chance.random() < pauses:
            now += chance.random() * 2
        entries = chance.randint(1, MAX_PUTS)
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
            assert total <= allowed + 1e-3 * MAX_PUTS  # a float's grain after thirty years


@pytest.mark.parametrize("ceiling", [25.0, 2_125.0, 10_000.0])
def test_a_worker_without_throttles_writes_at_its_ceiling(ceiling: float) -> None:
    begin = 1000.0
    pace, now, batches = at_its_ceiling(ceiling, now=begin), begin, 2000
    for _ in range(batches):
        now = send(pace, now)
        pace.answered(MAX_PUTS, 0, now)
    assert pace.rate == ceiling
    assert now - begin == pytest.approx((batches * MAX_PUTS - burst(ceiling)) / ceiling)


# The start


@given(ceiling=ceilings, begin=beginnings, asks=st.integers(1, 200))
def test_a_new_worker_doubles_up_to_its_ceiling_however_often_it_asks(
    ceiling: float, begin: float, asks: int
) -> None:
    pace = Pace(ceiling)
    pace.may_send_at(MAX_PUTS, begin)
    first = max(min(SLOWEST, ceiling), ceiling * FIRST_SHARE)
    assert pace.rate == first
    for ask in range(1, asks + 1):
        pace.may_send_at(MAX_PUTS, begin + ask / asks * 2 * DOUBLING_SECONDS)
    assert pace.rate == pytest.approx(min(ceiling, first * 4), rel=1e-5)
    pace.may_send_at(MAX_PUTS, begin + START_SECONDS)
    assert pace.rate == ceiling


def test_the_first_throttle_ends_the_slow_start_at_once() -> None:
    pace = Pace(10_000.0)
    pace.answered(MAX_PUTS, 0, 5.0)
    pace.answered(MAX_PUTS, 1, 5.01)
    first = pace.rate
    pace.may_send_at(MAX_PUTS, 6.0)
    assert first <= pace.rate <= first + 10_000 * INCREASE_PER_SECOND


# Bursts


@pytest.mark.parametrize(
    ("ceiling", "burst", "entries"),
    [(1.0, 250, 250), (1_000.0, 250, 250), (10_000.0, 250, 1_000), (100.0, MAX_PUTS, MAX_PUTS)],
)
@pytest.mark.parametrize("begin", [0.0, 1e9])
@pytest.mark.parametrize("rest", [0.0, 3600.0])
def test_after_a_rest_a_tenth_of_a_second_or_the_lanes_burst_may_go_at_once(
    ceiling: float, burst: int, entries: int, begin: float, rest: float
) -> None:
    pace = at_its_ceiling(ceiling, now=begin, burst=burst)
    assert sent_at_once(pace, begin + rest) == entries


# Downwards: throttles


@pytest.mark.parametrize(
    ("throttled", "rate"),
    [(0, 1.0), (10, 1 - 0.1 * 1.1 / 2), (90, 1 - 0.9 * 1.9 / 2), (100, SLOWEST_SHARE)],
)
def test_the_rate_falls_by_half_of_a_small_share_and_to_the_minimum_for_all(
    throttled: int, rate: float
) -> None:
    pace = at_its_ceiling(10_000.0, now=5.0)
    pace.answered(100, throttled, 5.0)
    assert pace.rate == pytest.approx(10_000.0 * rate)


def test_the_rate_falls_once_per_window_not_once_per_batch() -> None:
    pace, kept = at_its_ceiling(10_000.0, now=5.0), 1 - 0.5 * 1.5 / 2
    for batch in range(64):
        pace.answered(24, 12, 5.0 + batch / 64 * WINDOW_SECONDS * 0.99)
    assert pace.rate == pytest.approx(10_000.0 * kept, rel=0.01)
    pace.answered(24, 12, 5.0 + WINDOW_SECONDS)
    assert pace.rate == pytest.approx(10_000.0 * kept**2, rel=0.02)  # it rises a little between


# Up again


@given(ceiling=ceilings, begin=beginnings, asks=st.integers(1, 200))
def test_the_ceiling_is_reached_again_after_the_slowest_rate_however_often_it_asks(
    ceiling: float, begin: float, asks: int
) -> None:
    pace, worst = at_its_slowest(ceiling, now=begin), begin + 59 * WINDOW_SECONDS
    slowest, half = pace.rate, RECOVERY_SECONDS / 2
    for ask in range(1, asks + 1):
        pace.may_send_at(MAX_PUTS, worst + ask / asks * half)
    # A worker that asks seldom counts the whole interval as free of throttles.
    least = slowest + ceiling * INCREASE_PER_SECOND * (half - CLEAN_SECONDS / 2)
    most = slowest + ceiling * INCREASE_PER_SECOND * half
    assert min(ceiling, least) * (1 - 1e-6) <= pace.rate <= min(ceiling, most) * (1 + 1e-6)
    pace.may_send_at(MAX_PUTS, worst + RECOVERY_SECONDS)
    assert pace.rate == ceiling


def test_a_clock_that_goes_back_does_not_slow_a_worker_down() -> None:
    pace = at_its_ceiling(10_000.0, now=5.0)
    pace.answered(100, 50, 5.0)
    fallen = pace.rate
    for now in (1.0, 2.0):
        assert pace.may_send_at(MAX_PUTS, now) == now, "what was saved up is not lost"
        assert pace.rate >= fallen


@dataclass
class Table:
    """Accepts `rate` entries per second, and bursts of 100."""

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


# The rate rises by a share of the ceiling, so a table far below the ceiling throttles more; but not
# much more, because the rate creeps near the limit.
@pytest.mark.parametrize(
    ("accepts", "throttled_share"), [(9_000.0, 0.002), (4_000.0, 0.004), (1_500.0, 0.02)]
)
def test_a_table_slower_than_the_ceiling_is_used_well_and_seldom_throttles(
    accepts: float, throttled_share: float
) -> None:
    pace, table = Pace(10_000.0), Table(accepts)
    now, sent, throttled = 0.0, 0, 0
    while now < 120.0:
        now = send(pace, now)
        lost = table.take(MAX_PUTS, now)
        pace.answered(MAX_PUTS, lost, now)
        if now > 20.0:  # past the start
            sent, throttled = sent + MAX_PUTS, throttled + lost
    assert sent - throttled >= 0.95 * accepts * 100.0
    assert throttled <= throttled_share * sent


@pytest.mark.parametrize(
    ("given", "slowest"), [(100.0, 100.0), (1.0, 25.0), (1e9, 10_000.0), (None, 1_250.0)]
)
def test_a_lane_may_say_how_slow_its_workers_become(given: float | None, slowest: float) -> None:
    pace = Pace(10_000.0, slowest=given)
    now = 0.0
    for _ in range(200):
        pace.answered(MAX_PUTS, MAX_PUTS, now)
        now += WINDOW_SECONDS
    assert pace.rate == pytest.approx(slowest, rel=0.01)
