"""When a publisher grows: each rule by itself, and properties of all histories."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import TryLater
from fanfold.follows.publishers_table import FAR_WINDOWS, PublishersTable
from fanfold.follows.sharding import (
    LEAST_GAIN,
    NO_GAIN_PAUSE_MS,
    OWN_SHARE,
    PARTITION_WRITES,
    WINDOW_SECONDS,
    Growth,
    NotGrown,
    Shards,
    grown,
)
from fanfold.names import PUBLISHERS
from fanfold.settings import HIGHEST_LEVEL
from proof.model.clock import Clock
from tests.stores import client_of

WINDOW_MS = WINDOW_SECONDS * 1000
# A round number of windows since the epoch.
NOW = 1_795_197_600_000
COOLDOWN_MS = 10_000
MAX_LEVEL = 8


def rated(rate: float, *, now: int = NOW, **shards: Any) -> Shards:
    """Shards whose windows show this rate of accepted follows."""
    window = now // WINDOW_MS
    return Shards(
        window=window,
        follows=round(rate * (now % WINDOW_MS) / 1000),
        follows_before=round(rate * WINDOW_SECONDS),
        **shards,
    )


def grow(shards: Shards, *, now: int = NOW, max_level: int = MAX_LEVEL) -> Shards | NotGrown:
    return grown(shards, now_ms=now, max_level=max_level, cooldown_ms=COOLDOWN_MS)


def least(level: int) -> float:
    """The lowest rate at which a publisher of this level causes a throttle itself."""
    return OWN_SHARE * PARTITION_WRITES * 2**level


def stored(clock: Clock) -> PublishersTable:
    """The store of publishers, on a table of the model."""
    return PublishersTable(client_of(PUBLISHERS, clock=clock), PUBLISHERS.name)


# One growth


def test_a_publisher_without_a_row_grows_to_two_shards() -> None:
    assert grow(rated(1_000)) == replace(
        rated(1_000), level=1, version=1, last_updated=NOW, history=(Growth(1, NOW, 1_000),)
    )


# Reasons against a growth


def test_no_publisher_grows_beyond_the_highest_level() -> None:
    shards = rated(1e6, level=MAX_LEVEL)
    assert grow(shards) == NotGrown("the highest level is reached")
    assert isinstance(grow(shards, max_level=MAX_LEVEL + 1), Shards)
    assert grow(rated(1_000), max_level=0) == NotGrown("the highest level is reached")


@pytest.mark.parametrize(
    ("ago", "grows"), [(0, False), (9_999, False), (10_000, True), (-9_999, False), (-60_000, True)]
)
def test_no_publisher_grows_during_the_cooldown(ago: int, grows: bool) -> None:
    found = grow(rated(1_000, last_updated=NOW - ago))
    assert isinstance(found, Shards) is grows
    if not grows:
        assert found == NotGrown("the last growth is too short ago")


@pytest.mark.parametrize("level", [0, 1, 5])
def test_a_publisher_grows_only_if_its_own_follows_would_fill_a_quarter(level: int) -> None:
    assert isinstance(grow(rated(least(level), level=level)), Shards)
    found = grow(rated(least(level) - 1, level=level))
    assert found == NotGrown("its own follows are too few")


@pytest.mark.parametrize(("rate", "grows"), [(3_000, False), (3_149, False), (3_150, True)])
def test_two_growths_that_changed_nothing_stop_the_third(rate: int, grows: bool) -> None:
    history = (Growth(1, NOW - 20_000, 3_000), Growth(2, NOW - 10_000, 3_100))
    found = grow(rated(rate, level=2, last_updated=NOW - 10_000, history=history))
    assert isinstance(found, Shards) is grows
    if not grows:
        assert found == NotGrown("the last growth changed nothing")
    assert LEAST_GAIN * history[0].rate == 3_150


@pytest.mark.parametrize(
    ("ago", "grows"), [(NO_GAIN_PAUSE_MS - 1, False), (NO_GAIN_PAUSE_MS, True)]
)
def test_growths_are_no_evidence_after_ten_minutes(ago: int, grows: bool) -> None:
    history = (Growth(1, NOW - ago, 3_000), Growth(2, NOW - COOLDOWN_MS, 3_000))
    found = grow(rated(3_000, level=2, last_updated=NOW - COOLDOWN_MS, history=history))
    assert isinstance(found, Shards) is grows


# The rate of follows


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(-2 * WINDOW_MS, 10 * WINDOW_MS))
def test_a_rate_is_never_negative_and_never_more_than_was_counted(
    follows: int, before: int, late_ms: int
) -> None:
    # Also on a machine whose clock is behind the one that began the window.
    shards = Shards(window=NOW // WINDOW_MS, follows=follows, follows_before=before)
    assert 0 <= shards.rate(NOW + late_ms) <= (follows + before) / WINDOW_SECONDS + 1e-6


# Properties of all histories


@given(st.lists(st.tuples(st.integers(0, 2 * WINDOW_MS), st.integers(1, 256)), max_size=40))
def test_counted_follows_are_the_rate_of_the_last_windows(counted: list[tuple[int, int]]) -> None:
    clock = Clock()
    publishers = stored(clock)
    by_window: Counter[int] = Counter()
    for gap_ms, follows in counted:
        clock.advance(gap_ms / 1000)
        publishers.count("ada", follows, now_ms=clock.now_ms())
        by_window[clock.now_ms() // WINDOW_MS] += follows
    now = clock.now_ms()
    shards = publishers.shards("ada")
    last, before = by_window[now // WINDOW_MS], by_window[now // WINDOW_MS - 1]
    rest = 1 - (now % WINDOW_MS) / WINDOW_MS
    assert shards.rate(now) == pytest.approx((last + before * rest) / WINDOW_SECONDS)
    assert (shards.level, shards.version, shards.history) == (0, 0, ())


@pytest.mark.parametrize("late_ms", [1, WINDOW_MS, 2 * WINDOW_MS, FAR_WINDOWS * WINDOW_MS])
def test_a_count_in_a_window_that_is_over_is_left_out(late_ms: int) -> None:
    publishers = stored(Clock())
    publishers.count("ada", 16, now_ms=NOW)
    before = publishers.shards("ada")
    publishers.count("ada", 500, now_ms=NOW - late_ms)  # by a slower clock
    assert publishers.shards("ada") == before
    assert before.rate(NOW) == pytest.approx(16 / WINDOW_SECONDS)


def test_counts_by_a_clock_far_ahead_are_discarded() -> None:
    publishers = stored(Clock())
    publishers.count("ada", 5_000, now_ms=NOW + 3_600_000)
    assert publishers.shards("ada").rate(NOW) == 0.0
    publishers.count("ada", 16, now_ms=NOW)
    assert publishers.shards("ada").rate(NOW) == pytest.approx(16 / WINDOW_SECONDS)


def test_growing_and_counting_do_not_overwrite_each_other() -> None:
    publishers = stored(Clock())
    publishers.count("ada", 5_000, now_ms=NOW)
    seen = publishers.shards("ada")
    found = grow(seen)
    assert isinstance(found, Shards)
    publishers.count("ada", 16, now_ms=NOW)  # between the read and the growth
    assert publishers.update("ada", seen=seen, shards=found)
    assert not publishers.update("ada", seen=seen, shards=found)  # another container, too late
    after = publishers.shards("ada")
    assert after == replace(found, follows=5_016)
    assert after.rate(NOW) == pytest.approx(5_016 / WINDOW_SECONDS)


def test_a_publisher_without_a_row_has_no_shards_and_no_follows() -> None:
    never = stored(Clock()).shards("ada")
    assert never == Shards()
    assert (never.level, never.version, never.rate(NOW), never.history) == (0, 0, 0.0, ())


def test_the_static_level_is_told_once_it_is_set_and_never_beyond_the_highest() -> None:
    publishers = stored(Clock())
    assert publishers.static_level() is None
    for level, told in [(0, 0), (3, 3), (99, HIGHEST_LEVEL), (None, None)]:
        publishers.set_static_level(level)
        assert publishers.static_level() == told


def test_a_level_that_others_keep_changing_is_raised_later(monkeypatch: pytest.MonkeyPatch) -> None:
    publishers = stored(Clock())
    monkeypatch.setattr(PublishersTable, "update", lambda *_, **__: False)
    with pytest.raises(TryLater, match="level of 'ada' changed too often"):
        publishers.raise_to("ada", 3, now_ms=NOW)
