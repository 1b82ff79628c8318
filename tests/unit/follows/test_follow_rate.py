"""How often one user follows: what is refused, what it leaves, and how many tombstones can stay."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold import clock as product_clock
from fanfold.aws.items import get_number
from fanfold.errors import TooOften
from fanfold.follows.follows_table import TOMBSTONE_SECONDS, FollowsTable
from fanfold.names import FOLLOWING, READERS
from fanfold.rates import Rate
from tests.unit.follows.test_following import Ben, ben_at

AT = 1_795_197_600_123
DAY_MS = 86_400_000
RATE = Rate.a_day(4)
INTERVAL_MS = DAY_MS // RATE.limit


@pytest.fixture
def ben(monkeypatch: pytest.MonkeyPatch) -> Ben:
    return ben_at(AT, monkeypatch, rate=RATE)


def publishers(count: int, begin: int = 0) -> list[str]:
    return [f"publisher-{number}" for number in range(begin, begin + count)]


def fill(ben: Ben, at: int = AT) -> None:
    for each in publishers(RATE.limit):
        ben.follow(each, at)


def rows(ben: Ben, table: Any = FOLLOWING) -> list[Any]:
    return list(ben.following.follows.client.scan(TableName=table.name)["Items"])


def used_ms(ben: Ben) -> int:
    (row,) = rows(ben, READERS)
    return get_number(row, "follows_until_ns") // 1_000_000 - AT


def test_an_unfollow_is_never_refused_and_gives_no_follow_back(ben: Ben) -> None:
    fill(ben)
    for each in publishers(RATE.limit):
        assert not ben.unfollow(each, AT + 1).is_active
    with pytest.raises(TooOften):
        ben.follow("ada", AT + 2)


def test_what_is_followed_already_is_not_counted(ben: Ben) -> None:
    for _ in range(9):
        ben.follow("ada", AT)
    assert used_ms(ben) == INTERVAL_MS
    fill(ben, AT + INTERVAL_MS)
    assert ben.follow("ada", AT + INTERVAL_MS + 1).is_active


@pytest.mark.parametrize("before", [0, 1, RATE.limit - 1])
def test_follows_at_the_same_time_are_all_counted(
    ben: Ben, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in publishers(before):
        ben.follow(each, AT)
    plain, others = FollowsTable.write, [True]

    def write(table: FollowsTable, *args: Any, **how: Any) -> Any:
        if others:
            others.clear()
            ben.follow("bea", AT)
        return plain(table, *args, **how)

    monkeypatch.setattr(FollowsTable, "write", write)
    if before < RATE.limit - 1:
        assert ben.follow("ada", AT).is_active
    else:
        with pytest.raises(TooOften):
            ben.follow("ada", AT)
    assert used_ms(ben) == min(before + 2, RATE.limit) * INTERVAL_MS


def test_messages_are_neither_counted_nor_refused(ben: Ben) -> None:
    for each in publishers(RATE.limit + 1):
        assert ben.follow(each, AT, by_message=True).is_active
    fill(ben)
    assert "follows_until_ns" not in rows(ben, READERS)[0]
    for each in publishers(9):
        assert not ben.unfollow(each, AT + 1, by_message=True).is_active
    assert "follows_until_ns" not in rows(ben, READERS)[0]


def test_unfollows_without_a_follow_succeed_and_leave_a_bounded_number_of_rows(ben: Ben) -> None:
    for each in publishers(3 * RATE.limit):
        assert not ben.unfollow(each, AT).is_active
    assert len(rows(ben)) == len(ben.queue.sent) == RATE.limit
    before = used_ms(ben)
    ben.unfollow(publishers(1)[0], AT + 1)  # its tombstone is there
    assert used_ms(ben) == before


def test_the_tombstones_that_one_user_can_leave_are_bounded(
    ben: Ben, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever follows and unfollows others all day, and unfollows whom nobody followed."""
    kept_days = TOMBSTONE_SECONDS * 1000 // DAY_MS
    most = 0
    for day in range(kept_days + 5):
        now = AT + day * DAY_MS
        monkeypatch.setattr(product_clock, "now_ms", lambda now=now: now)
        for each in publishers(2 * RATE.limit, 1_000 * day):
            try:
                ben.follow(each, now)
            except TooOften:
                ben.unfollow(f"not-{each}", now)
            else:
                ben.unfollow(each, now + 1)
        most = max(most, sum(get_number(each, "expires_at") * 1000 > now for each in rows(ben)))
    assert kept_days * RATE.limit <= most <= (kept_days + 1) * RATE.limit
