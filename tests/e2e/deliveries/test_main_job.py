"""The main job, as clients see it: publish, fan out and read, with real tokens and queues."""

import uuid
from collections.abc import Callable

import pytest

from fanfold import contract
from fanfold_cli.stack import Deployment
from fanfold_client import Refused
from tests.e2e.clients import User, eventually, send

Make = Callable[[str], User]


def test_a_post_by_http_reaches_the_follower_and_nobody_else(make: Make) -> None:
    publisher, follower, stranger = make("publisher"), make("follower"), make("stranger")
    follower.follow(publisher)
    accepted = publisher.publish(body={"title": "Hello"})
    eventually(lambda: follower.ref_ids() == [accepted["ref_id"]])
    assert follower.timeline()["entries"] == [
        {
            "ref_id": accepted["ref_id"],
            "publisher_id": publisher.name,
            "published_at": accepted["published_at"],
            "edited_at": None,
            "body": {"title": "Hello"},
        }
    ]
    assert stranger.ref_ids() == []


def test_the_same_idempotency_key_of_the_same_user_is_the_same_post(make: Make) -> None:
    publisher, other, follower = make("publisher"), make("other"), make("follower")
    follower.follow(publisher)
    first, again, different, others = (
        user.publish(key=key, body={"title": "Hello"})
        for user, key in ((publisher, "a"), (publisher, "a"), (publisher, "b"), (other, "a"))
    )
    assert first == again
    assert len({each["ref_id"] for each in (first, different, others)}) == 3
    with pytest.raises(Refused) as refused:
        publisher.publish(key="a", body={})
    assert (refused.value.status, refused.value.type) == (422, "key-reused")
    eventually(lambda: sorted(follower.ref_ids()) == sorted([different["ref_id"], first["ref_id"]]))


def test_nobody_takes_a_ref_id_that_is_not_theirs(stack: Deployment, make: Make) -> None:
    publisher, follower, squatter = make("publisher"), make("follower"), make("squatter")
    follower.follow(publisher)
    ref_id = uuid.uuid4().hex
    assert squatter.call("POST", "/v1/posts", {"ref_id": ref_id}).status == 400
    unused = squatter.call("DELETE", f"/v1/posts/{ref_id}")
    send(stack, {"type": "post.published", "publisher_id": publisher.name, "ref_id": ref_id})
    eventually(lambda: follower.ref_ids() == [ref_id])
    taken = squatter.call("DELETE", f"/v1/posts/{ref_id}")
    assert (unused.status, unused.content["type"]) == (404, f"{contract.PROBLEMS_PAGE}#no-post")
    assert taken == unused
    assert follower.ref_ids() == [ref_id]


def test_a_timeline_is_paged_newest_first_with_every_entry_once(make: Make) -> None:
    publishers, follower = [make("publisher"), make("publisher")], make("follower")
    for publisher in publishers:
        follower.follow(publisher)
    accepted = [publishers[number % 2].publish()["ref_id"] for number in range(7)]
    eventually(lambda: len(follower.ref_ids()) == 7)
    entries = list(follower.api.timeline.older(limit=3))
    assert [entry["ref_id"] for entry in entries] == accepted[::-1]
    first = follower.timeline(limit=3)
    assert [entry["ref_id"] for entry in first["entries"]] == accepted[:3:-1]
    # And upwards, from where the timeline begins.
    bottom = follower.timeline(since="2020-01-01", until="2020-01-01")["previous"]
    pages = list(follower.api.timeline.newer(bottom, limit=3))
    assert [len(page["entries"]) for page in pages] == [3, 3, 1]
    upwards = [entry["ref_id"] for page in pages[::-1] for entry in page["entries"]]
    assert upwards == accepted[::-1]
    assert follower.timeline(after=pages[-1]["previous"])["entries"] == []
    bounds = {"since": "2020-01-01", "until": entries[2]["published_at"]}
    assert len(follower.timeline(**bounds)["entries"]) == 4
    assert len(list(follower.api.timeline.older(limit=3, **bounds))) == 4


def test_a_new_follow_brings_what_was_posted_before(stack: Deployment, make: Make) -> None:
    publisher, by_http, by_queue = make("publisher"), make("http"), make("queue")
    posts = [publisher.publish()["ref_id"] for _ in range(3)]
    by_http.follow(publisher)
    pair = {"user_id": by_queue.name, "publisher_id": publisher.name}
    send(stack, {"type": "follow.added", **pair})
    eventually(lambda: by_http.ref_ids() == posts[::-1])
    eventually(lambda: by_queue.ref_ids() == posts[::-1])
    newer = publisher.publish()["ref_id"]
    eventually(lambda: by_http.ref_ids() == [newer, *posts[::-1]])


def test_an_unfollow_ends_the_delivery_of_new_posts(make: Make) -> None:
    publisher, leaver, stayer = make("publisher"), make("leaver"), make("stayer")
    for follower in (leaver, stayer):
        follower.follow(publisher)
    leaver.api.unfollow(publisher.name)
    accepted = publisher.publish()
    eventually(lambda: stayer.ref_ids() == [accepted["ref_id"]])
    assert leaver.ref_ids() == []
    assert list(leaver.api.following()) == []


def test_a_retracted_post_is_left_out(make: Make) -> None:
    publisher, follower = make("publisher"), make("follower")
    follower.follow(publisher)
    kept, retracted = publisher.publish()["ref_id"], publisher.publish()["ref_id"]
    for _ in range(2):  # the second time for a lost answer
        publisher.api.retract(retracted)
    # A warm container may answer from its cache for five seconds.
    eventually(lambda: follower.ref_ids() == [kept])


def test_a_follow_by_queue_message_takes_effect(stack: Deployment, make: Make) -> None:
    publisher, follower = make("publisher"), make("follower")
    relation = {"user_id": follower.name, "publisher_id": publisher.name}
    send(stack, {"type": "follow.added", **relation})
    eventually(lambda: bool(list(follower.api.following())))
    accepted = publisher.publish()
    eventually(lambda: follower.ref_ids() == [accepted["ref_id"]])
    send(stack, {"type": "follow.removed", **relation})
    eventually(lambda: not list(follower.api.following()))


def test_a_post_by_queue_message_reaches_the_follower_whatever_characters_ids_have(
    stack: Deployment, make: Make
) -> None:
    publisher, follower = make("a_b.c:d|e@f+g=h-i"), make("follower")
    follower.follow(publisher)
    ref_id = f"r_.:|@+=-{uuid.uuid4().hex}"
    send(stack, {"type": "post.published", "publisher_id": publisher.name, "ref_id": ref_id})
    eventually(lambda: follower.ref_ids() == [ref_id])
    assert publisher.api.delivery(ref_id)["ref_id"] == ref_id


def test_every_route_is_a_method_of_the_client_and_answers_as_it_is_documented(make: Make) -> None:
    publisher, reader = make("publisher"), make("reader")
    assert reader.api.follow(publisher.name)["publisher_id"] == publisher.name
    ref_id = publisher.publish(body={"title": "Hello"})["ref_id"]
    eventually(lambda: publisher.api.delivery(ref_id)["state"] == "complete")
    eventually(lambda: reader.ref_ids() == [ref_id])
    assert publisher.api.edit(ref_id, {"title": "Hello again"})["ref_id"] == ref_id
    assert reader.api.post(ref_id)["body"] == {"title": "Hello again"}
    assert [post["ref_id"] for post in reader.api.feed(publisher.name).older()] == [ref_id]
    assert [each["user_id"] for each in publisher.api.followers(publisher.name)] == [reader.name]
    assert publisher.api.count_followers(publisher.name) == {"followers": 1, "exact": True}
    with pytest.raises(Refused) as refused:
        reader.api.count_followers(publisher.name)
    assert refused.value.type == "followers-closed"
    assert reader.api.unread() == {"unread": 1, "more": False}
    assert reader.api.marker() == {"published_at": None, "ref_id": None}
    published_at = reader.timeline()["entries"][0]["published_at"]
    moved = reader.api.move_marker(published_at, ref_id)
    assert reader.api.marker() == moved == {"published_at": published_at, "ref_id": ref_id}
    assert reader.api.unread()["unread"] == 0
    reader.api.mute(publisher.name)
    assert list(reader.api.muted()) == [{"publisher_id": publisher.name}]
    assert reader.ref_ids() == []
    reader.api.unmute(publisher.name)
    assert (list(reader.api.muted()), reader.ref_ids()) == ([], [ref_id])


def test_a_private_publisher_is_read_by_whom_it_approves_until_it_blocks_them(make: Make) -> None:
    publisher, user = make("private"), make("user")
    me = publisher.api.set_private(True)
    assert publisher.api.me() == me
    ref_id = publisher.publish()["ref_id"]
    asked = user.api.follow(publisher.name)
    assert asked == user.api.relation(publisher.name)
    assert "state" in asked, "no follow"
    assert list(user.api.sent_requests()) == [asked]
    (waiting,) = publisher.api.requests()
    assert waiting == {"user_id": user.name, "requested_at": asked["requested_at"]}

    def feed() -> list[str]:
        return [post["ref_id"] for post in user.api.feed(publisher.name).older()]

    with pytest.raises(Refused, match="a private one has to approve you"):
        feed()
    followed_at = publisher.api.approve(user.name)["followed_at"]
    pair = {"publisher_id": publisher.name, "followed_at": followed_at}
    assert list(user.api.following()) == [pair]
    assert feed() == [ref_id]
    eventually(lambda: user.ref_ids() == [ref_id])
    publisher.api.remove(user.name)
    assert user.ref_ids() == []
    publisher.api.block(user.name)
    assert list(publisher.api.blocked()) == [{"user_id": user.name}]
    assert "state" in user.api.follow(publisher.name)
    assert list(publisher.api.requests()) == []
    with pytest.raises(Refused, match="a private one has to approve you"):
        feed()
    publisher.api.unblock(user.name)
    assert list(publisher.api.blocked()) == []
