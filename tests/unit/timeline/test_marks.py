"""Marks: which are live, what a follow and an unfollow change, and whom a reader does not see."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from fanfold.timeline import marks
from fanfold.timeline.marks import DAY_SECONDS, Change, Marks, Reader, hash_of

NOW = 1_795_197_600_123
WEEK = marks.week_of(NOW)
DAYS = 30
AT: Any = {"now_ms": NOW, "retention_days": DAYS}
ADA, BEA = hash_of("ada"), hash_of("bea")


def left_out(reader: Reader, now_ms: int = NOW, days: int = DAYS) -> set[str]:
    return marks.left_out(reader, {"ada", "bea", "cleo"}, now_ms=now_ms, retention_days=days)


def spelled(*each: bytes) -> list[Marks]:
    """As boto3 answers them, and as the wire client does."""
    return [list(each), [b64encode(mark).decode() for mark in each]]


def test_a_mark_is_eight_bytes_and_always_the_same() -> None:
    assert ADA.hex() == "15b0da4321160527"
    assert ADA == hash_of("ada") != BEA


@pytest.mark.parametrize("days", [1, 30, 365])
def test_a_week_is_live_for_the_retention_and_eight_days_after_its_end(days: int) -> None:
    ends = (WEEK + 1) * marks.WEEK_MS + (days + 8) * DAY_SECONDS * 1000
    assert marks.is_live(WEEK, now_ms=ends - 1, retention_days=days)
    assert not marks.is_live(WEEK, now_ms=ends, retention_days=days)
    assert marks.is_live(WEEK + 1, now_ms=NOW, retention_days=days), "of a clock that is ahead"


@pytest.mark.parametrize(
    ("hidden", "muted"),
    list(zip(spelled(ADA), spelled(BEA), strict=True)),
    ids=["boto3", "libcurl"],
)
def test_what_is_hidden_or_muted_is_left_out(hidden: Marks, muted: Marks) -> None:
    assert left_out(Reader()) == set()
    assert left_out(Reader(hidden={WEEK: hidden})) == {"ada"}
    assert left_out(Reader(muted=muted)) == {"bea"}
    both = Reader(hidden={WEEK - 1: hidden, WEEK: muted}, muted=muted)
    assert left_out(both) == {"ada", "bea"}
    assert left_out(Reader(hidden={WEEK - 9: hidden}, muted=muted)) == {"bea"}
    assert left_out(Reader(hidden={WEEK - 9: hidden}), days=60) == {"ada"}, "present retention"


def test_an_unfollow_marks_its_week_and_removes_those_that_are_over() -> None:
    reader = Reader(hidden={WEEK - 9: [BEA], WEEK - 1: [BEA]})
    change = marks.unfollowed(reader, "ada", ended_at=NOW, **AT)
    assert change == Change(adds={WEEK: ADA}, expired=[WEEK - 9])


@pytest.mark.parametrize("both", spelled(ADA, BEA))
def test_a_follow_clears_every_week_that_holds_its_mark_whatever_the_clock_says(
    both: Marks,
) -> None:
    reader = Reader(hidden={WEEK - 9: both, WEEK - 1: both, WEEK: both[1:], WEEK + 1: both[:1]})
    assert marks.followed(reader, {"ada": 0, "cleo": 0}, **AT) == Change(
        deletes={WEEK - 1: [ADA], WEEK + 1: [ADA]}, expired=[WEEK - 9]
    )
    assert marks.followed(reader, {"ada": NOW - marks.WEEK_MS, "bea": 0}, **AT).deletes == {
        WEEK - 1: [ADA, BEA],
        WEEK: [BEA],
        WEEK + 1: [ADA],
    }


def test_a_follow_clears_the_week_in_which_a_repair_may_mark_meanwhile() -> None:
    reader = Reader(hidden={WEEK - 9: [BEA]})
    assert marks.followed(reader, {"ada": NOW}, **AT).deletes == {WEEK: [ADA]}
    in_an_expired_week = marks.followed(reader, {"ada": NOW - 9 * marks.WEEK_MS}, **AT)
    assert in_an_expired_week == Change(deletes={}, expired=[WEEK - 9])


def test_a_change_removes_fifty_weeks_at_most_and_clears_the_mark_in_the_others() -> None:
    reader = Reader(hidden={week: [ADA] for week in range(WEEK - 300, WEEK - 100)})
    change = marks.followed(reader, {"ada": 0}, **AT)
    assert sorted([*change.expired, *change.deletes]) == sorted(reader.hidden)
    assert len(change.expired) == 50


def test_a_tombstone_outlives_every_mark() -> None:
    """From the first moment of a week."""
    begin = WEEK * marks.WEEK_MS
    ends = begin + (DAYS + marks.LONGEST_DAYS) * DAY_SECONDS * 1000
    assert not marks.is_live(WEEK, now_ms=ends, retention_days=DAYS)
    assert marks.is_live(WEEK, now_ms=ends - 1, retention_days=DAYS)


def test_an_unfollow_of_the_retention_is_shown_wrongly_without_mark_or_verification() -> None:
    ago = NOW - DAYS * DAY_SECONDS * 1000
    over = NOW // 1000 + DAYS * DAY_SECONDS  # when all from before an unfollow of now is over

    def is_shown(reader: Reader, ended_at: int = NOW) -> bool:
        return marks.is_wrongly_shown(reader, "ada", ended_at=ended_at, **AT)

    assert is_shown(Reader())
    assert is_shown(Reader(), ago + 1_000)
    assert not is_shown(Reader(), ago), "what was posted before is over by itself"
    assert is_shown(Reader(hidden={WEEK: [BEA]}, muted=[ADA]))
    assert not is_shown(Reader(hidden={WEEK - 1: [ADA]}))
    assert is_shown(Reader(verify_until=over - 1))
    assert not is_shown(Reader(verify_until=over))


def test_only_a_live_mark_hides_a_follow_wrongly() -> None:
    def is_hidden(reader: Reader) -> bool:
        return marks.is_wrongly_hidden(reader, "ada", **AT)

    assert is_hidden(Reader(hidden={WEEK - 9: [ADA], WEEK: [ADA]}))
    assert not is_hidden(Reader(hidden={WEEK - 9: [ADA], WEEK: [BEA]}, muted=[ADA]))
