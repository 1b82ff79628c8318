"""Publishing on tables of the model: what a repetition finds, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from fanfold import clock, times
from fanfold.errors import KeyReused, PostRetracted, TryLater, Unsent
from fanfold.fanout.publishing.publish import JOINED_MS, SILENT_MS, NewPost, Published, Publishing
from fanfold.fanout.row import QUEUED, VOID, VOID_MS
from fanfold.names import FANOUTS, POSTS
from fanfold.timeline.posts import OUTLIVES_SECONDS, Posts
from functions._intake import body_of
from tests.service import AT_MS as AT
from tests.stores import Tables

DAY = 24 * 60 * 60
NEW = NewPost(publisher_id="ada", ref_id="post-1", body=body_of({"a": 1, "b": 2}))


class World(Tables):
    now_ms = AT

    def __init__(self) -> None:
        super().__init__(POSTS)
        posts = Posts(self.client, POSTS.name)
        self.publishing = Publishing(posts, self.ledger, retention_days=90)

    def publish(self, new: NewPost = NEW, at: int = AT) -> Published:
        self.now_ms = at
        return self.publishing.publish(new, accepted_at=at, plan_queue=self.commands)

    def fail_to_store(self, new: NewPost = NEW, at: int = AT) -> None:
        """The door dies, or the table is throttled, before the post is stored."""
        plain = self.client.put_item

        def put(**request: Any) -> Any:
            if request["TableName"] == POSTS.name:
                raise ZeroDivisionError
            return plain(**request)

        with patch.object(self.client, "put_item", put), pytest.raises(ZeroDivisionError):
            self.publish(new, at)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(clock, "now_ms", lambda: world.now_ms)
    return world


def test_a_post_and_its_fanout_end_with_the_retention(world: World) -> None:
    post = world.publish().post
    assert post.expires_at == AT // 1000 + 90 * DAY + OUTLIVES_SECONDS
    assert world.row.expires_at == AT // 1000 + 90 * DAY
    assert (world.row.accepted_at, world.row.sort_key) == (times.to_text(AT), post.sort_key)
    (command,) = world.commands.sent
    assert (command.content["fanout_id"], command.group) == ("post-1", "ada")


def test_a_key_is_answered_again_for_the_same_post_whatever_the_order_of_members(
    world: World,
) -> None:
    first = world.publish()
    again = replace(NEW, body=body_of({"b": 2, "a": 1}))
    assert world.publish(again, AT + 5_000) == first
    for other in ({"a": 1, "b": 3}, {"a": 1, "b": 2.0}, None):
        with pytest.raises(KeyReused):
            world.publish(replace(NEW, body=body_of(other)))


def test_a_key_stands_for_the_body_that_was_published_whatever_became_of_it(world: World) -> None:
    first = world.publish()
    world.publishing.edit("post-1", publisher_id="ada", body='{"a": 2}', edited_at=AT + 1)
    assert world.publish(replace(NEW, body=body_of({"b": 2, "a": 1}))).post.published_at == (
        first.post.published_at
    )
    with pytest.raises(KeyReused):
        world.publish(replace(NEW, body=body_of({"a": 2})))
    with pytest.raises(KeyReused):
        world.publish(replace(NEW, published_at=times.to_text(AT - 1)))


def test_a_queue_that_does_not_answer_leaves_the_command_to_sweep(world: World) -> None:
    world.commands.error = Unsent("1 of 1")
    assert not world.publish().command_sent
    assert world.ledger.get("post-1")
    world.commands.error = PermissionError()
    with pytest.raises(PermissionError):
        world.publish(replace(NEW, ref_id="post-2"))


@pytest.mark.parametrize(("seconds", "is_stored"), [(59, True), (60, False)])
def test_a_door_that_was_frozen_stores_no_post_whose_row_may_be_void(
    world: World, seconds: int, is_stored: bool
) -> None:
    plain = world.client.put_item

    def put(**request: Any) -> Any:
        answer = plain(**request)
        if request["TableName"] == FANOUTS.name:
            world.now_ms += seconds * 1000
        return answer

    with patch.object(world.client, "put_item", put), suppress(TryLater):
        world.publish()
    assert (world.publishing.posts.one("post-1") is not None) is is_stored
    assert len(world.commands.sent) == is_stored
    assert world.publish(at=AT + VOID_MS).post.accepted_at == times.to_text(
        AT if is_stored else AT + VOID_MS
    )


@pytest.mark.parametrize("after_ms", [JOINED_MS - 1, JOINED_MS, VOID_MS - 1])
def test_a_repeat_stores_the_post_of_the_row_while_its_first_attempt_may_do_so(
    world: World, after_ms: int
) -> None:
    world.fail_to_store()
    other = replace(NEW, body=body_of({"a": 3}))
    post = world.publish(other, AT + after_ms).post
    assert (post.accepted_at, post.published_at) == (times.to_text(AT),) * 2
    assert world.publishing.posts.one("post-1") == post
    assert (world.row.sort_key, world.row.expires_at) == (post.sort_key, post.entries_expire_at)
    assert len(world.commands.sent) == 1
    # Whoever takes up an older row has as much time again.
    is_anew = after_ms >= JOINED_MS
    assert world.row.changed_ms == AT + is_anew * after_ms
    with pytest.raises(KeyReused):
        world.publish(NEW, AT + after_ms)


@pytest.mark.parametrize(
    ("first", "other", "after_ms"),
    [(None, times.to_text(AT - 1), 0), (times.to_text(AT - 1), None, VOID_MS - 1)],
)
def test_a_post_of_another_time_than_the_row_is_refused_before_it_is_stored(
    world: World, first: str | None, other: str | None, after_ms: int
) -> None:
    world.fail_to_store(replace(NEW, published_at=first))
    row, others = world.row, replace(NEW, body=body_of({"a": 3}), published_at=other)
    with pytest.raises(KeyReused):
        world.publish(others, AT + after_ms)
    assert world.publishing.posts.one("post-1") is None
    assert (world.row, world.commands.sent) == (row, [])
    # A message has no key, and is the same publish.
    post = world.publishing.accept(others, accepted_at=AT + after_ms)
    assert post.sort_key == row.sort_key


@pytest.mark.parametrize("is_void", [False, True])
def test_a_later_repeat_takes_its_own_time(world: World, is_void: bool) -> None:
    world.fail_to_store()
    if is_void:
        world.ledger.void(world.row, now=times.to_text(AT + 1))
    post = world.publish(at=AT + VOID_MS).post
    assert post.accepted_at == times.to_text(AT + VOID_MS)
    assert (world.row.sort_key, world.row.state) == (post.sort_key, QUEUED)
    assert len(world.commands.sent) == 1


def test_a_row_of_somebody_else_is_waited_for(world: World) -> None:
    world.fail_to_store()
    others = replace(NEW, publisher_id="bea")
    with pytest.raises(TryLater):
        world.publish(others, AT + VOID_MS - 1)
    assert world.publish(others, AT + VOID_MS).post.publisher_id == "bea"


def test_of_two_who_take_up_a_row_one_comes_again(world: World) -> None:
    world.fail_to_store()
    seen = world.row
    plain = world.client.get_item

    def end_after(**request: Any) -> Any:
        answer = plain(**request)
        world.ledger.void(seen, now=times.to_text(AT + 1))
        return answer

    with patch.object(world.client, "get_item", end_after), pytest.raises(TryLater):
        world.publish(at=AT + JOINED_MS)
    assert world.publish(at=AT + JOINED_MS).post.accepted_at == times.to_text(AT + JOINED_MS)


@pytest.mark.parametrize("after_ms", [JOINED_MS, VOID_MS])
def test_of_two_who_take_up_a_row_at_once_the_later_joins_the_earlier(
    world: World, after_ms: int
) -> None:
    world.fail_to_store()
    plain, earlier = world.client.get_item, list[Published]()

    def overtake(**request: Any) -> Any:
        answer = plain(**request)
        with patch.object(world.client, "get_item", plain):
            earlier.append(world.publish(at=AT + after_ms))
        world.now_ms += 1
        return answer

    with patch.object(world.client, "get_item", overtake):
        later = world.publish(at=AT + after_ms)
    assert [later] == earlier
    assert world.row.changed_ms == AT + after_ms
    assert len(world.commands.sent) == 1


def test_a_repeat_that_sweep_overtakes_comes_again_to_mend_the_row(world: World) -> None:
    first = world.publish()
    others = replace(world.row, sort_key=f"{times.to_text(AT - 1)}#post-1")
    assert world.ledger.open(others, over=world.row) is None
    plain = world.client.get_item

    def ask_after(**request: Any) -> Any:
        world.open.note_question(others, now_ms=AT + 1)
        return plain(**request)

    with patch.object(world.client, "get_item", ask_after), pytest.raises(TryLater):
        world.publish(at=AT + 2)
    assert world.publish(at=AT + 2) == first
    assert world.row.sort_key == first.post.sort_key


@pytest.mark.parametrize(("state", "published_at"), [("", times.to_text(AT - 1)), (VOID, None)])
def test_a_repeat_mends_the_row_that_the_ledger_has_lost(
    world: World, state: str, published_at: str | None
) -> None:
    new = replace(NEW, published_at=published_at)
    first = world.publish(new)
    if state:
        world.ledger.void(world.row, now=times.to_text(AT))
    else:
        world.client.delete_item(TableName=FANOUTS.name, Key={"fanout_id": {"S": "post-1"}})
    assert world.publish(new, at=AT + 1) == first
    assert (world.row.sort_key, world.row.state) == (first.post.sort_key, QUEUED)
    assert world.row.accepted_at == first.post.accepted_at
    assert len(world.commands.sent) == 2


def test_a_refused_post_leaves_a_row_that_is_void(world: World) -> None:
    world.publishing.retract("post-1", publisher_id="ada", retracted_at=AT)
    for _ in range(2):
        with pytest.raises(PostRetracted):
            world.publish()
        assert world.row.state == VOID


def test_repeats_send_no_second_command_while_the_first_may_be_on_its_way(world: World) -> None:
    world.publish()
    for after_ms, sent in [(1, 1), (SILENT_MS - 1, 1), (SILENT_MS, 2)]:
        assert world.publish(at=AT + after_ms).command_sent
        assert len(world.commands.sent) == sent
    world.ledger.complete_at_once("post-1", followers=1, now=times.to_text(AT))
    world.publish(at=AT + SILENT_MS)
    assert len(world.commands.sent) == 2
