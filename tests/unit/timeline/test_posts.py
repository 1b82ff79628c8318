"""The posts table on the model: which post has an id, and who may edit or retract it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fanfold import times
from fanfold.errors import EditOvertaken, FanfoldError, NoPost, PostRetracted, RefIdTaken
from fanfold.names import POSTS
from fanfold.timeline.outbox import Outbox
from fanfold.timeline.page_reads import Range
from fanfold.timeline.posts import MAX_SKEW_MS, Post, Posts
from proof.model.dynamodb.capacity import READ, Meter
from tests.stores import client_of

AT = 1_795_197_600_123
SECOND = AT // 1000
POST = Post(
    ref_id="post-1",
    publisher_id="ada",
    published_at=times.to_text(AT),
    accepted_at=times.to_text(AT),
    expires_at=SECOND + 100,
    body='{"text": "first"}',
)
OTHER = replace(POST, publisher_id="bea", body='{"text": "second"}')


@pytest.fixture
def posts() -> Posts:
    return Posts(client_of(POSTS), POSTS.name)


def read(posts: Posts) -> Post | None:
    found, left = posts.get(["post-1", "post-2"])
    assert not left
    return found.get("post-1")


def retract(posts: Posts, publisher: str = "ada", at: int = AT) -> None:
    posts.retract("post-1", publisher, retracted_at=at, expires_at=SECOND + 900)


def test_the_first_post_with_an_id_wins_until_it_expires(posts: Posts) -> None:
    assert posts.add(POST, now=SECOND) == read(posts) == POST
    again = replace(POST, body="")
    assert posts.add(again, now=SECOND + 99) == POST
    assert posts.add(again, now=SECOND + 100) == read(posts) == again


def test_an_id_of_somebody_else_is_taken_until_it_expires(posts: Posts) -> None:
    posts.add(POST, now=SECOND)
    with pytest.raises(RefIdTaken, match="'post-1' belongs to another publisher"):
        posts.add(OTHER, now=SECOND + 99)
    with pytest.raises(RefIdTaken):
        retract(posts, "bea", at=AT + 99_000)
    assert read(posts) == POST
    assert posts.add(OTHER, now=SECOND + 100) == read(posts) == OTHER


def test_a_second_retraction_changes_nothing(posts: Posts) -> None:
    """Or copies of a message would keep the id taken for ever."""
    retract(posts)
    stone = read(posts)
    assert stone
    assert (stone.deleted, stone.publisher_id, stone.expires_at) == (True, "ada", SECOND + 900)
    posts.retract("post-1", "ada", retracted_at=AT + 1_000, expires_at=SECOND + 999)
    assert read(posts) == stone


def test_a_publisher_retracts_its_own_post_alone(posts: Posts) -> None:
    with pytest.raises(NoPost):
        posts.retract_own("post-1", "ada", now_ms=AT)
    assert read(posts) is None, "nothing is left where nothing was"
    posts.add(POST, now=SECOND)
    for publisher, at in [("bea", AT), ("ada", AT + 100_000)]:
        with pytest.raises(NoPost):
            posts.retract_own("post-1", publisher, now_ms=at)
        assert read(posts) == POST
    for _ in range(2):
        posts.retract_own("post-1", "ada", now_ms=AT)
        stone = read(posts)
        assert stone
        assert (stone.deleted, stone.expires_at) == (True, POST.expires_at)


def test_a_retraction_that_was_asked_for_before_the_post_was_accepted_leaves_it(
    posts: Posts,
) -> None:
    """Its caller was answered 404 when it asked again, and has published since."""
    posts.add(POST, now=SECOND)
    with pytest.raises(NoPost):
        posts.retract_own("post-1", "ada", now_ms=AT - MAX_SKEW_MS - 1)
    assert read(posts) == POST
    posts.retract_own("post-1", "ada", now_ms=AT - MAX_SKEW_MS)
    posts.retract_own("post-1", "ada", now_ms=AT - MAX_SKEW_MS - 1)  # what it asks for is done


def edit(posts: Posts, body: str, at: int = AT, publisher: str = "ada") -> None:
    posts.edit("post-1", publisher, body=body, edited_at=at)


def test_the_latest_edit_stays(posts: Posts) -> None:
    posts.add(POST, now=SECOND)
    edit(posts, "2", AT + 2)
    for older in (AT + 1, AT + 2):
        with pytest.raises(EditOvertaken, match=f"equally new edit, of {times.to_text(AT + 2)}"):
            edit(posts, "1", older)
    edit(posts, "2", AT + 2)  # the same again
    assert read(posts) == replace(POST, body="2", edited_at=times.to_text(AT + 2))
    edit(posts, "2", AT + 3)
    assert read(posts) == replace(POST, body="2", edited_at=times.to_text(AT + 3))


@pytest.mark.parametrize(
    ("publisher", "at", "retracted", "refusal"),
    [
        ("ada", AT + 100_000, False, NoPost),
        ("bea", AT + 100_000, False, NoPost),
        ("bea", AT, False, RefIdTaken),
        ("bea", AT, True, RefIdTaken),
        ("ada", AT, True, PostRetracted),
    ],
)
def test_a_publisher_edits_its_own_living_post_alone(
    posts: Posts, publisher: str, at: int, retracted: bool, refusal: type[FanfoldError]
) -> None:
    with pytest.raises(NoPost):
        edit(posts, "2", at, publisher)
    assert read(posts) is None, "nothing is left where nothing was"
    posts.add(POST, now=SECOND)
    if retracted:
        posts.retract_own("post-1", "ada", now_ms=AT)
    before = read(posts)
    with pytest.raises(refusal):
        edit(posts, "2", at, publisher)
    assert read(posts) == before


def test_an_edit_costs_its_larger_body_and_a_page_of_a_feed_one_unit() -> None:
    meter = Meter()
    client = client_of(POSTS, meter=meter)
    posts, outbox = Posts(client, POSTS.name), Outbox(client, POSTS.name)
    for number in range(51):
        at = times.to_text(AT + number)
        posts.add(replace(POST, ref_id=f"{number:032}", published_at=at), now=SECOND)
    meter.units.clear()
    posts.edit(f"{0:032}", "ada", body="x" * 700, edited_at=AT)
    assert (meter.of(POSTS.name), meter.of(POSTS.name, index="outbox")) == (1, 0)
    posts.edit(f"{0:032}", "ada", body="x" * 1_700, edited_at=AT + 1)
    posts.edit(f"{0:032}", "ada", body="", edited_at=AT + 2)
    assert meter.of(POSTS.name) == 1 + 2 + 2
    outbox.newest("ada", Range("2026"), before=None, limit=51)
    assert meter.of(POSTS.name, READ, index="outbox") == 1
    posts.one(f"{0:032}")
    assert meter.of(POSTS.name, READ) == 1


def test_an_entry_is_of_the_post_with_its_publisher_and_its_time() -> None:
    assert POST.is_of("ada", POST.sort_key)
    assert not POST.is_of("bea", POST.sort_key)
    assert not POST.is_of("ada", replace(POST, published_at=times.to_text(AT + 1)).sort_key)
    stone = replace(POST, published_at="", deleted=True)
    assert stone.is_of("ada", POST.sort_key)
    assert not stone.is_of("bea", POST.sort_key)
