"""Channels on the engine: PLAN promotes, an operator demotes, and readers page on meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fanfold.channels.known_head import HEAD_SECONDS
from fanfold_cli.local.home import Home
from fanfold_cli.stack import Deployment
from proof.hurt.building import load_edges
from tests.e2e import flips
from tests.e2e.clients import User, entries, eventually, made_up, operate
from tests.e2e.conftest import CHANNEL_THRESHOLD

Make = Callable[[str], User]

SEED = 19
FULL = flips.Size(readers=500, flipped=16, others=8, follows=6, posts=300, seconds=150)


def holders(stack: Deployment, ref_id: str) -> set[str]:
    """The timelines and channels that hold an entry of the post."""
    return {user for user, post in entries(stack) if post == ref_id}


def delivered_by(publisher: User, ref_id: str) -> str:
    """The way of a post, once it is delivered."""
    path = f"/v1/posts/{ref_id}/delivery"
    eventually(lambda: publisher.call("GET", path).content["state"] == "complete")
    return str(publisher.call("GET", path).content["by"])


def test_who_has_many_followers_gets_a_channel_by_a_post_and_followers_see_it_once(
    engine: Home, stack: Deployment, make: Make
) -> None:
    celebrity, follower, stranger = make("celebrity"), make("follower"), make("stranger")
    load_edges(stack, {celebrity.name: made_up(CHANNEL_THRESHOLD * 5 // 4)})
    follower.follow(celebrity)
    assert follower.ref_ids() == []  # a warm container that knows of no channel
    posts = [celebrity.publish()["ref_id"] for _ in range(2)]
    assert [delivered_by(celebrity, each) for each in posts] == ["channel"] * 2
    eventually(lambda: follower.ref_ids() == posts[::-1])
    # The backfill of so young a follow may have met a post before it was in its channel.
    assert all(holders(stack, each) - {follower.name} == {f"#{celebrity.name}"} for each in posts)
    assert stranger.ref_ids() == []
    (listed,) = [
        each
        for each in operate(engine, "channels", "list")["channels"]
        if each["publisher_id"] == celebrity.name
    ]
    assert (listed["state"], listed["posts_put"]) == ("active", 2)


def test_who_is_demoted_is_pushed_again_and_nothing_is_lost_or_repeated(
    engine: Home, stack: Deployment, make: Make
) -> None:
    publisher, follower = make("publisher"), make("follower")
    follower.follow(publisher)
    before = publisher.publish()["ref_id"]
    assert delivered_by(publisher, before) == "push"
    eventually(lambda: follower.ref_ids() == [before])
    cursor = follower.timeline()["previous"]
    operate(engine, "channels", "add", publisher.name, "--yes")
    time.sleep(HEAD_SECONDS)  # by then, PLAN does not go by the head of before
    between = publisher.publish()["ref_id"]
    assert delivered_by(publisher, between) == "channel"
    eventually(lambda: follower.ref_ids() == [between, before])
    operate(engine, "channels", "demote", publisher.name, "--yes")
    time.sleep(HEAD_SECONDS)
    after = publisher.publish()["ref_id"]
    assert delivered_by(publisher, after) == "push"
    assert holders(stack, after) == {follower.name}
    eventually(lambda: follower.ref_ids() == [after, between, before])
    time.sleep(HEAD_SECONDS)  # by then, no page goes by the head of before
    assert follower.ref_ids() == [after, between, before]
    page = follower.timeline(after=cursor)
    assert [each["ref_id"] for each in page["entries"]] == [after, between]
    follower.api.unfollow(publisher.name)
    assert follower.ref_ids() == []


@pytest.mark.slow
def test_readers_see_every_post_once_while_channels_are_flipped_and_plan_is_killed(
    tmp_path: Path, typescript_client: Path
) -> None:
    home, log = Home(tmp_path / "engine"), tmp_path / "workers.log"
    found = flips.run(home, FULL, SEED, log=log, client=typescript_client)
    assert not found.complaints, "\n".join(found.complaints[:20])
    assert found.flips["add"] > 2 * FULL.flipped
    assert found.flips["demote"] > 2 * FULL.flipped
    assert found.workers["killed"] > 0
    assert found.client_kills > 0
    assert min(found.ways["push"], found.ways["channel"]) > FULL.posts // 10
    assert found.owed > 1_000 * FULL.follows
