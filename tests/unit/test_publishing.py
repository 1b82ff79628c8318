"""Publishing on tables of the model: what a repetition finds, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from aws_model.clock import Clock
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.database import Database
from fanfold import times
from fanfold.errors import BadInput, KeyReused, NoPost, PostRetracted, RefIdTaken, Unsent
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.publish import NewPost, Published, Publishing, is_repeat
from fanfold.messages import Message
from fanfold.names import FANOUTS, POSTS
from fanfold.timeline.posts import OUTLIVES_SECONDS, Posts
from simulation.schemas import schema_of

AT = 1_795_197_600_123
DAY = 24 * 60 * 60
NEW = NewPost(publisher_id="ada", ref_id="post-1", body='{"a": 1, "b": 2}')


@dataclass
class Queue:
    error: Exception | None = None
    sent: list[Message] = field(default_factory=list)

    def send(self, *messages: Message) -> None:
        if self.error:
            raise self.error
        self.sent += messages


@dataclass
class World:
    publishing: Publishing
    queue: Queue = field(default_factory=Queue)

    def publish(self, new: NewPost = NEW, at: int = AT) -> Published:
        queue: Any = self.queue
        return self.publishing.publish(new, accepted_at=at, plan_queue=queue)


@pytest.fixture
def world() -> World:
    database = Database(Clock())
    database.create(schema_of(POSTS), schema_of(FANOUTS))
    client: Any = dynamodb.Client(database)
    posts, ledger = Posts(client, POSTS.name), Ledger(client, FANOUTS.name)
    return World(Publishing(posts, ledger, retention_days=90))


def test_a_post_and_its_fanout_end_with_the_retention(world: World) -> None:
    post = world.publish().post
    assert post.expires_at == AT // 1000 + 90 * DAY + OUTLIVES_SECONDS
    fanout = world.publishing.ledger.get("post-1")
    assert fanout
    assert fanout.expires_at == AT // 1000 + 90 * DAY
    assert (fanout.accepted_at, fanout.sort_key) == (times.to_text(AT), post.sort_key)
    (command,) = world.queue.sent
    assert (command.content["fanout_id"], command.group) == ("post-1", "ada")


def test_a_key_is_answered_again_for_the_same_post_whatever_the_order_of_members(
    world: World,
) -> None:
    first = world.publish()
    again = replace(NEW, body='{"b": 2, "a": 1}')
    assert world.publish(again, AT + 5_000) == first
    for other in ('{"a": 1, "b": 3}', '{"a": 1, "b": 2.0}', ""):
        with pytest.raises(KeyReused):
            world.publish(replace(NEW, body=other))


def test_a_key_stands_for_the_body_that_was_published_whatever_became_of_it(world: World) -> None:
    first = world.publish()
    world.publishing.edit("post-1", publisher_id="ada", body='{"a": 2}', edited_at=AT + 1)
    assert world.publish(replace(NEW, body='{"b": 2, "a": 1}')).post.published_at == (
        first.post.published_at
    )
    with pytest.raises(KeyReused):
        world.publish(replace(NEW, body='{"a": 2}'))
    with pytest.raises(KeyReused):
        world.publish(replace(NEW, published_at=times.to_text(AT - 1)))


@pytest.mark.parametrize("edited_at", ["", times.to_text(AT + 1)])
def test_a_post_stored_without_the_hash_of_its_body_is_compared_until_it_is_edited(
    world: World, edited_at: str
) -> None:
    stored = replace(world.publish().post, first_body_hash="", edited_at=edited_at)
    assert is_repeat(NEW, stored)
    assert is_repeat(replace(NEW, body='{"a": 2}'), stored) == bool(edited_at)
    assert not is_repeat(replace(NEW, published_at=times.to_text(AT - 1)), stored)


def test_a_user_is_not_told_whether_somebody_else_has_a_post(world: World) -> None:
    world.publish()
    told = []
    for ref_id in ("post-1", "post-2"):
        with pytest.raises(NoPost) as refused:
            world.publishing.edit_own(ref_id, publisher_id="eve", body="{}", edited_at=AT)
        told.append(refused.value.sentence.replace(ref_id, "REF_ID"))
    assert told[0] == told[1]
    with pytest.raises(RefIdTaken):
        world.publishing.edit("post-1", publisher_id="eve", body="{}", edited_at=AT)


def test_a_published_at_in_the_future_is_now(world: World) -> None:
    early = replace(NEW, published_at=times.to_text(AT - 5_000))
    late = replace(NEW, ref_id="post-2", published_at=times.to_text(AT + 5_000))
    assert world.publish(early).post.published_at == times.to_text(AT - 5_000)
    assert world.publish(late).post.published_at == times.to_text(AT)


def test_a_queue_that_does_not_answer_leaves_the_command_to_sweep(world: World) -> None:
    world.queue.error = Unsent("1 of 1")
    assert not world.publish().command_sent
    assert world.publishing.ledger.get("post-1")
    world.queue.error = PermissionError()
    with pytest.raises(PermissionError):
        world.publish()


@pytest.mark.parametrize(("second", "is_refused"), [(-1, False), (0, True)])
def test_a_post_older_than_the_retention_is_refused(
    world: World, second: int, is_refused: bool
) -> None:
    at = (AT // 1000 + 90 * DAY + second) * 1000
    old = replace(NEW, published_at=times.to_text(AT))
    if not is_refused:
        assert world.publish(old, at).command_sent
        return
    with pytest.raises(BadInput, match="more than 90 days ago"):
        world.publish(old, at)


@pytest.mark.parametrize("days", [90, 103])
def test_the_id_of_a_post_that_has_expired_is_not_free_for_two_weeks(
    world: World, days: int
) -> None:
    world.publish()
    with pytest.raises(BadInput, match="'post-1' has expired, and its ref_id is not free"):
        world.publish(at=AT + days * DAY * 1000)
    free = world.publish(at=AT + 105 * DAY * 1000)
    assert free.post.accepted_at == times.to_text(AT + 105 * DAY * 1000)


def test_a_retracted_post_is_not_published_again(world: World) -> None:
    world.publish()
    world.publishing.retract_own("post-1", publisher_id="ada", retracted_at=AT)
    with pytest.raises(PostRetracted, match="'post-1' was retracted"):
        world.publish()
