"""The rate of posts of one publisher, on tables of the model."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from fanfold import clock
from fanfold.errors import TooOften
from fanfold.fanout.publishing.post_rate import PostCounts
from fanfold.fanout.publishing.publish import NewPost, Publishing
from fanfold.names import BULK, FANOUTS, POSTS, PUBLISHERS
from fanfold.rates import Rate, spoken
from fanfold.timeline.posts import Posts
from tests.service import AT_MS as AT
from tests.service import error
from tests.stores import Tables

RATE = Rate.a_minute(3)
MINUTE_MS = 60_000
ASKED_AGAIN_MS = 20
INTERVAL_MS = MINUTE_MS // RATE.limit


def new(number: int, publisher: str = "ada") -> NewPost:
    return NewPost(publisher_id=publisher, ref_id=f"{publisher}-{number}")


class World(Tables):
    def __init__(self) -> None:
        super().__init__(POSTS, PUBLISHERS)
        posts = Posts(self.client, POSTS.name)
        counts = PostCounts(self.client, PUBLISHERS.name, RATE)
        self.publishing = Publishing(posts, self.ledger, 30, counts)

    def publish(self, number: int, *, after_ms: int = 0, publisher: str = "ada") -> None:
        """Over HTTP."""
        post, at = new(number, publisher), AT + after_ms
        self.publishing.publish(post, accepted_at=at, plan_queue=self.commands)

    def accept(self, number: int, *, after_ms: int = 0) -> str:
        """By the queue; returns the lane of its fan-out, if it is fixed."""
        self.publishing.accept(new(number), accepted_at=AT, sent_at=AT + after_ms)
        return self.row_of(new(number).ref_id).lane

    def rows(self, table: Any) -> list[Any]:
        return list(self.client.scan(TableName=table.name)["Items"])

    def used_ms(self) -> int:
        (row,) = self.rows(PUBLISHERS)
        return int(row["posts_until_ns"]["N"]) // 1_000_000 - AT


@pytest.fixture
def world() -> World:
    return World()


def fill(world: World) -> None:
    for number in range(RATE.limit):
        world.publish(number)


def test_a_publisher_over_the_rate_is_told_when_to_come_back_and_leaves_nothing(
    world: World,
) -> None:
    fill(world)
    before = [world.rows(table) for table in (POSTS, FANOUTS, PUBLISHERS)]
    with pytest.raises(TooOften) as refused:
        world.publish(7, after_ms=5_000)
    assert refused.value.wait_ms == 15_000
    assert [world.rows(table) for table in (POSTS, FANOUTS, PUBLISHERS)] == before
    assert len(world.commands.sent) == RATE.limit
    world.publish(7, after_ms=5_000 + refused.value.wait_ms)
    with pytest.raises(TooOften):
        world.publish(8, after_ms=20_001)


def granted(rate: Rate, *, minutes: int) -> list[int]:
    """How many get through at once, and then in each minute, of one who never stops asking."""
    counts, used_until = [0] * (minutes + 1), 0
    for after_ms in range(0, minutes * MINUTE_MS + 1, ASKED_AGAIN_MS):
        while not rate.wait_ms(used_until, AT + after_ms):
            used_until = rate.after(used_until, AT + after_ms)
            counts[-(-after_ms // MINUTE_MS)] += 1
    return counts


@pytest.mark.parametrize("limit", [1, 7, 59_999, 60_000, 100_000])
def test_a_rate_grants_what_it_says_at_once_and_in_each_minute(limit: int) -> None:
    assert granted(Rate.a_minute(limit), minutes=3) == [limit] * 4


def test_a_repeated_publish_is_counted_once_and_never_refused(world: World) -> None:
    for _ in range(3):
        world.publish(0)
    assert world.used_ms() == INTERVAL_MS
    world.publish(0, after_ms=86_400_000)
    assert world.used_ms() == INTERVAL_MS
    fill(world)
    for number in range(RATE.limit):  # each, not the one alone that took the last place
        world.publish(number)


@pytest.mark.parametrize("number", [0, 1])
def test_a_count_whose_answer_was_lost_counts_once(
    world: World, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in range(number):
        world.publish(each)
    plain = world.client.update_item

    def twice(**request: Any) -> Any:
        plain(**request)
        return plain(**request)

    monkeypatch.setattr(world.client, "update_item", twice)
    world.publish(number)
    assert world.used_ms() == (number + 1) * INTERVAL_MS


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time by the worker's clock; to be changed."""
    at = [AT]
    monkeypatch.setattr(clock, "now_ms", lambda: at[0])
    return at


def test_a_message_that_was_overtaken_is_not_over_the_rate(world: World, now: list[int]) -> None:
    """It was retried, delayed or in a paused queue, while a later one was counted."""
    now[0] += 2 * RATE.period_ms
    assert world.accept(1, after_ms=2 * RATE.period_ms) == ""
    assert world.accept(0) == ""


def test_messages_of_a_flood_are_over_the_rate_however_late_they_are_handled(
    world: World, now: list[int]
) -> None:
    now[0] += 60 * RATE.period_ms
    lanes = [world.accept(number) for number in range(9)]
    assert lanes == [""] * 2 * RATE.limit + [BULK.lane] * (9 - 2 * RATE.limit)


@pytest.mark.parametrize("by", [World.publish, World.accept])
def test_a_fault_of_the_count_is_not_hidden(
    world: World, by: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = Mock(side_effect=error("AccessDeniedException"))
    monkeypatch.setattr(world.client, "update_item", refuse)
    with pytest.raises(Exception, match="AccessDenied"):
        by(world, 0)
    assert not world.rows(FANOUTS)


@pytest.mark.parametrize(
    ("wait_ms", "said"), [(1, "1 s"), (119_999, "120 s"), (120_000, "2 min"), (86_400_001, "25 h")]
)
def test_a_wait_is_told_in_words_and_never_shorter_than_it_is(wait_ms: int, said: str) -> None:
    assert spoken(wait_ms) == said
