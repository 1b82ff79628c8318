"""Which open fan-outs one run of SWEEP looks at, how much it sends, and what it measures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fanfold import times
from fanfold.fanout.row import DELIVERING, STALLED, Fanout, accepted_at, is_large
from fanfold.sweep import run_limits
from fanfold.sweep.oldest import Oldest, oldest
from fanfold.sweep.run_limits import Due, Key, next_ids, within_caps
from fanfold.sweep.silence import Remedy

NOW = 1_795_197_600_000
AT = times.to_text(NOW - 120_000)


def fanout(fanout_id: str = "post", *, pending: int = 0, segments: int = 4, age: int = 0) -> Fanout:
    return Fanout(
        fanout_id=fanout_id,
        publisher_id="ada",
        sort_key="",
        accepted_at=times.to_text(NOW - 1000 * age),
        expires_at=NOW,
        state=DELIVERING,
        segments=segments,
        pending=frozenset(range(pending)),
    )


def keys(*ids: str, age_ms: int = 120_001) -> list[Key]:
    return [Key(each, times.to_text(NOW - age_ms)) for each in ids]


@pytest.mark.parametrize(
    ("after", "expected"),
    [("", "abcd"), ("b", "cdab"), ("bb", "cdab"), ("d", "abcd"), ("zzz", "abcd")],
)
def test_a_run_goes_on_in_order_of_id_after_the_last_one_and_begins_again(
    after: str, expected: str
) -> None:
    found = next_ids(keys(*"dbca"), after=after, accepted_before=AT)
    assert "".join(found) == expected


def test_only_what_is_older_than_two_minutes_is_looked_at_or_tells_no_age() -> None:
    young, old, plain = keys("young", age_ms=120_000), keys("old"), Key("plain", "")
    found = next_ids([*young, *old, plain], after="", accepted_before=AT)
    assert found == ["old", "plain"]


def test_what_needs_no_message_is_always_done() -> None:
    ends: list[Due] = [
        (what, fanout(pending=4096)) for what in (Remedy.STALL, Remedy.COMPLETE, Remedy.EXPIRE)
    ]
    asks: list[Due] = [(Remedy.ASK_PLAN, fanout())] * (run_limits.MAX_PLAN_COMMANDS + 1)
    nothing: list[Due] = [(Remedy.NOTHING, fanout())]
    taken = within_caps([*nothing, *asks, *ends])
    assert taken == [*ends, *asks[: run_limits.MAX_PLAN_COMMANDS]]


def test_the_fewest_pending_go_first_and_the_last_one_may_exceed_the_cap() -> None:
    large = fanout("large", pending=run_limits.MAX_SEGMENT_COMMANDS - 10)
    huge = fanout("huge", pending=4096)
    small, tiny = fanout("small", pending=30), fanout("tiny", pending=1)
    due: list[Due] = [
        (Remedy.ROUND, huge),
        (Remedy.ROUND, large),
        (Remedy.ASK, small),  # ten orders
        (Remedy.ASK, tiny),
    ]
    assert [row.fanout_id for _, row in within_caps(due)] == ["tiny", "small", "large"]
    assert [row.fanout_id for _, row in within_caps(due[:1])] == ["huge"], "or it never has a turn"


def test_the_oldest_of_each_size_is_measured_and_what_is_unknown_counts_as_small() -> None:
    large = fanout("large", age=300, segments=2, pending=2)
    single = fanout("single", age=200, segments=1, pending=1)
    rows = {row.fanout_id: row for row in (large, single)}
    known = [*keys("large", age_ms=300_000), *keys("single", age_ms=200_000)]
    assert oldest([], {}, now_ms=NOW) == Oldest(0, 0)
    assert oldest(known, rows, now_ms=NOW) == Oldest(200, 300)
    assert oldest(known, {}, now_ms=NOW) == Oldest(300, 0)
    unread = keys("unread", age_ms=250_500)
    assert oldest([*known, *unread], rows, now_ms=NOW) == Oldest(250.5, 300)


def test_what_has_ended_while_the_index_lags_is_not_measured() -> None:
    rows = {"gone": None, "stalled": replace(fanout("stalled", age=500), state=STALLED)}
    assert oldest(keys("gone", "stalled"), rows, now_ms=NOW) == Oldest(0, 0)


@pytest.mark.parametrize("remedy", [Remedy.ASK_PLAN, Remedy.ASK])
def test_ten_thousand_lost_orders_are_sent_in_three_runs(remedy: Remedy) -> None:
    """Silence alone takes seven minutes of the ten in which they are to be sent again."""
    left: list[Due] = [(remedy, fanout(f"{n:05d}", pending=1, segments=1)) for n in range(10_000)]
    for _ in range(3):
        taken = {row.fanout_id for _, row in within_caps(left)}
        left = [each for each in left if each[1].fanout_id not in taken]
    assert not left


def test_a_fanout_whose_key_moves_while_the_index_is_read_is_looked_at_once() -> None:
    """DynamoDB refuses a batch that names a row twice, and its neighbours would go unread."""
    moved = [*keys("a", "b"), *(key._replace(is_large=True) for key in keys("a"))]
    assert next_ids(moved, after="", accepted_before=AT) == ["a", "b"]


def test_a_key_tells_that_an_unread_fanout_is_large() -> None:
    large = fanout("large", age=300, segments=2)
    key = Key("large", accepted_at(large.open_key), is_large(large.open_key))
    assert oldest([key], {}, now_ms=NOW) == Oldest(0, 300)
    ids = ("post", "large")
    assert key.accepted_at == times.to_text(NOW - 300_000)
    assert not any(is_large(fanout(each, segments=n).open_key) for each in ids for n in (0, 1))
    # The row decides, if it was read.
    assert oldest([key], {"large": replace(large, segments=1)}, now_ms=NOW) == Oldest(300, 0)
    assert oldest([key], {"large": None}, now_ms=NOW) == Oldest(0, 0)
