"""Private publishers, removals and blocks over rows on the model, with the edges noted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from fanfold import clock as product_clock
from fanfold import times
from fanfold.errors import (
    BadInput,
    BlockedByYou,
    NoRequest,
    TooManyBlocks,
    TooManyFollows,
    TooOften,
)
from fanfold.follows import follows_table
from fanfold.follows.follow import Following
from fanfold.follows.follows_table import FollowsTable, is_of_list
from fanfold.follows.publisher import audience as audience_module
from fanfold.follows.publisher.access import Access
from fanfold.follows.publisher.audience import Audience
from fanfold.follows.publisher.privacy import SECONDS, Privacies
from fanfold.follows.relation import BLOCKS, NEW_MS, REQUESTS, Follow
from fanfold.names import FOLLOWING, PUBLISHERS, READERS
from fanfold.rates import Rate
from fanfold.timeline.marks import weeks_of
from fanfold.timeline.readers import Readers
from fanfold.times import OVERTAKEN_MS
from tests.stores import Queue, client_of

NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


class Stopped(Exception):
    """The function has ended between two calls."""


@dataclass
class Edges:
    """The edges of all publishers, as pairs (user, publisher)."""

    of: set[tuple[str, str]] = field(default_factory=set)

    def put(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        self.of.add((follower_id, publisher_id))

    def ensure(self, publisher_id: str, follower_id: str, *, version: int) -> bool:
        is_missing = (follower_id, publisher_id) not in self.of
        self.put(publisher_id, follower_id, version=version)
        return is_missing

    def remove(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        self.of.discard((follower_id, publisher_id))


class Stage:
    """Two containers with a clock that stands still between requests."""

    def __init__(self, **how: Any) -> None:
        self.now_ms, self.edges, self.queue = NOW_MS, Edges(), Queue()
        self.client = client_of(FOLLOWING, PUBLISHERS, READERS)
        self.readers = Readers(self.client, READERS.name)
        self.table = FollowsTable(self.client, FOLLOWING.name, self.readers, 30)
        self.how: Any = {"max_follows": 9, "reconcile_after_seconds": 10, "backfills": True, **how}
        self.following, self.audience = self.container()

    def container(self) -> tuple[Following, Audience]:
        """One that remembers no privacy."""
        privacies = Privacies(self.client, PUBLISHERS.name)
        stubs: Any = self.table, self.edges, privacies, self.queue
        return Following(*stubs, **self.how), Audience(*stubs, **self.how)

    def later(self, ms: int) -> None:
        self.now_ms += ms

    # Ben asks, Ada decides

    def follow(self, user: str = "ben", **how: Any) -> Follow:
        return self.following.follow(user, "ada", **{"asked_at": self.now_ms, **how})

    def unfollow(self, user: str = "ben", **how: Any) -> Follow:
        return self.following.unfollow(user, "ada", **{"asked_at": self.now_ms, **how})

    def decide(self, verb: str, user: str = "ben", **how: Any) -> Any:
        return getattr(self.audience, verb)("ada", user, **{"asked_at": self.now_ms, **how})

    def choose(self, is_private: bool) -> None:
        self.audience.choose("ada", is_private=is_private, asked_at=self.now_ms)

    def backfills(self) -> int:
        """How many commands to backfill were sent."""
        return [each.content["type"] for each in self.queue.sent].count("relation.backfill")

    def settle_all(self) -> None:
        """Carry out what RELATE is told."""
        while self.queue.sent:
            content = self.queue.sent.pop(0).content
            if content["type"] == "relation.open":
                self.audience.open_all(content["publisher_id"], content["after"], stop_at=1e18)
            elif content["type"] == "relation.settle":
                self.following.settle(content["user_id"], content["publisher_id"])

    # What there is

    def row(self, user: str = "ben", publisher: str = "ada") -> Follow:
        return self.table.get(user, publisher)

    def state(self, user: str = "ben", publisher: str = "ada") -> str:
        """The state, after all promises about what lies beside a row were checked."""
        self.check()
        return self.row(user, publisher).state

    def requests(self) -> list[str]:
        return [each.user_id for each in self.audience.requests("ada", limit=50, after=None)[0]]

    def counts(self, user: str) -> tuple[int, int, int]:
        reader = self.readers.get(user)
        return reader.follows, reader.requests, reader.blocks

    def check(self) -> None:
        """Rows, lists, counts, marks and edges agree."""
        items = self.client.scan(TableName=FOLLOWING.name)["Items"]
        rows = [follows_table.follow_of(each) for each in items if not is_of_list(each)]
        keys = set(map(key_of, items))
        listed = {
            (f"{row.publisher_id}{REQUESTS}", f"{row.requested_at}#{row.user_id}")
            for row in rows
            if row.is_listed
        }
        blocks = {(f"{row.user_id}{BLOCKS}", row.publisher_id) for row in rows if row.shuts}
        assert keys == {(row.user_id, row.publisher_id) for row in rows} | listed | blocks
        by_pair = {(row.user_id, row.publisher_id): row for row in rows}
        expiring = {key_of(each) for each in items if "expires_at" in each}
        for pair, row in by_pair.items():
            is_over = row.state == "unfollowed" and not (row.shut or row.shuts)
            assert (pair in expiring) is is_over
            if row.shut:
                assert by_pair[pair[1], pair[0]].shuts
            assert (pair in self.edges.of) is row.is_active
            marks = weeks_of(self.readers.get(row.user_id), row.publisher_id)
            assert bool(marks) is (row.ended_at > 0)
        for user in {row.user_id for row in rows}:
            own = [row for row in rows if row.user_id == user]
            counted = ("has_place", "is_requested", "shuts")
            expected = tuple(sum(getattr(row, name) for row in own) for name in counted)
            assert self.counts(user) == expected, user


def key_of(item: Any) -> tuple[str, str]:
    return item["user_id"]["S"], item["publisher_id"]["S"]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return make(monkeypatch)


def make(monkeypatch: pytest.MonkeyPatch, **how: Any) -> Stage:
    stage = Stage(**how)
    monkeypatch.setattr(product_clock, "sleep", lambda _seconds: None)
    monkeypatch.setattr(product_clock, "now_ms", lambda: stage.now_ms)
    monkeypatch.setattr(product_clock, "monotonic", lambda: stage.now_ms / 1000)
    return stage


@contextmanager
def stopped_after(stage: Stage, calls: int) -> Iterator[None]:
    """Inside, the function ends after so many calls; the last one is applied."""
    left = [calls]

    def counted(make: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if not left[0]:
                raise Stopped
            left[0] -= 1
            return make(*args)

        return call

    with (
        patch.object(stage.client, "call", counted(stage.client.call)),
        patch.object(stage.queue, "send", counted(stage.queue.send)),
    ):
        yield


def lose_the_choice(stage: Stage) -> None:
    """Delete the publisher's row, as a restore to before its choice does."""
    key = {"publisher_id": {"S": "ada#privacy"}}
    stage.client.delete_item(TableName=PUBLISHERS.name, Key=key)


# Requests


def test_who_follows_a_private_publisher_asks_and_waits_for_approval(stage: Stage) -> None:
    stage.choose(True)
    asked = stage.follow()
    assert (asked.state, asked.requested_at) == ("requested", times.to_text(NOW_MS))
    assert (stage.state(), stage.requests(), stage.counts("ben")) == (
        "requested",
        ["ben"],
        (1, 1, 0),
    )
    stage.later(9)
    assert stage.follow().requested_at == times.to_text(NOW_MS), "it keeps its place"
    assert stage.decide("approve").followed_at == times.to_text(NOW_MS + 9)
    assert (stage.state(), stage.requests(), stage.counts("ben")) == ("followed", [], (1, 0, 0))
    assert stage.decide("approve").is_active, "again"


def test_an_approval_again_brings_posts_within_moments_of_the_first_alone(stage: Stage) -> None:
    stage.choose(True)
    stage.follow()
    found = []
    for later_ms in (1, NEW_MS, 1, 1):
        stage.later(later_ms)
        stage.decide("approve")
        found.append(stage.backfills())
    assert found == [1, 2, 2, 2]


@pytest.mark.parametrize("verb", ["unfollow", "remove"])
def test_a_request_ends_by_its_user_or_its_publisher(stage: Stage, verb: str) -> None:
    stage.choose(True)
    stage.follow()
    stage.later(1)
    stage.unfollow() if verb == "unfollow" else stage.decide(verb)
    assert (stage.state(), stage.requests(), stage.counts("ben")) == ("unfollowed", [], (0, 0, 0))
    with pytest.raises(NoRequest):
        stage.decide("approve")


def test_nobody_needs_approval_to_follow_their_own_posts(stage: Stage) -> None:
    stage.choose(True)
    assert stage.follow("ada").is_active
    for verb in ("approve", "remove", "block", "unblock"):
        with pytest.raises(BadInput):
            stage.decide(verb, "ada")


def test_a_request_takes_a_place_and_no_mark_away(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.follow()
    stage.later(1)
    stage.unfollow()
    stage.choose(True)
    stage.later((SECONDS + 1) * 1000)
    stage.follow()
    assert stage.state() == "requested"
    for number in range(8):
        stage.following.follow("ben", f"other-{number}", asked_at=stage.now_ms)
    with pytest.raises(TooManyFollows):
        stage.following.follow("ben", "one-more", asked_at=stage.now_ms)
    assert stage.decide("approve").is_active, "it has its place"
    stage.check()


def test_a_follower_stays_when_the_publisher_goes_private(stage: Stage) -> None:
    stage.follow()
    stage.choose(True)
    stage.later(9_000)
    assert stage.follow().is_active
    assert stage.state() == "followed"


# Privacy


def test_a_privacy_is_remembered_for_seconds_from_before_its_read(stage: Stage) -> None:
    stage.follow("eve")
    stage.choose(True)
    stage.later(SECONDS * 1000)
    assert stage.follow("ben").is_active
    stage.later(1)
    assert stage.follow("cid").is_requested


def test_a_slow_read_is_remembered_from_its_beginning(stage: Stage) -> None:
    plain = stage.client.call

    def call(operation: str, request: Any) -> Any:
        answer = plain(operation, request)
        if request.get("TableName") == PUBLISHERS.name:
            stage.later(2_000)
        return answer

    stage.client.call = call
    stage.following.privacies.known("ada")
    stage.client.call = plain
    stage.choose(True)
    stage.later(SECONDS * 1000 - 1_999)
    assert stage.follow().is_requested


def test_who_is_removed_after_going_private_must_ask_at_once(stage: Stage) -> None:
    stage.follow()
    stage.follow("eve")  # the container remembers that Ada is public
    _, another = stage.container()
    another.choose("ada", is_private=True, asked_at=stage.now_ms)
    stage.later(1)
    another.remove("ada", "ben", asked_at=stage.now_ms)
    stage.later(1)
    assert stage.follow().is_requested
    stage.check()


def test_a_stamp_above_the_privacy_of_a_publisher_counts_as_private(stage: Stage) -> None:
    stage.choose(True)
    stage.follow()
    stage.later(1)
    stage.unfollow()
    lose_the_choice(stage)
    following, _ = stage.container()
    assert following.follow("ben", "ada", asked_at=stage.now_ms + 1).is_requested
    assert not Access(stage.table, following.privacies).is_given("ben", "ada")


def test_a_late_choice_gives_way_and_a_later_one_counts(stage: Stage) -> None:
    for wanted, at, is_private in (
        (True, 3_000, True),
        (False, 1_999, True),
        (False, 2_000, False),
    ):
        found = stage.audience.choose("ada", is_private=wanted, asked_at=NOW_MS + at)
        assert found.is_private is is_private
        stage.later(1)


def test_a_choice_again_changes_nothing_of_its_version(stage: Stage) -> None:
    stage.choose(True)
    before = stage.audience.privacies.read("ada")
    stage.later(5)
    stage.choose(True)
    after = stage.audience.privacies.read("ada")
    assert (after.version, after.since) == (before.version, before.since)
    assert after.asked_at == before.asked_at + 5


def test_after_a_restore_no_version_comes_again(stage: Stage) -> None:
    stage.choose(True)
    before = stage.audience.privacies.read("ada").version
    lose_the_choice(stage)
    stage.later(1)
    stage.choose(True)
    assert stage.audience.privacies.read("ada").version > before


def test_a_stage_may_be_private_by_default(stage: Stage) -> None:
    private = Privacies(stage.client, PUBLISHERS.name, private_by_default=True)
    assert private.read("ada").is_private
    stage.choose(False)
    assert not private.read("ada").is_private, "it is chosen"


# Going public


def test_going_public_opens_what_waits_page_by_page(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audience_module, "PAGE", 2)
    stage.choose(True)
    for number in range(5):
        stage.later(1)
        stage.follow(f"user-{number}")
    stage.queue.sent.clear()
    stage.later(1)
    stage.choose(False)
    kinds = [(each.content["type"], each.delay_seconds) for each in stage.queue.sent]
    assert kinds == [("relation.open", 10), ("relation.open", 0)]
    stage.settle_all()
    assert {stage.state(f"user-{number}") for number in range(5)} == {"followed"}
    assert stage.requests() == []


def test_what_is_left_of_a_page_is_left_to_the_next_command(stage: Stage) -> None:
    stage.choose(True)
    for user in ("ben", "cid"):
        stage.follow(user)
    stage.choose(False)
    stage.queue.sent.clear()
    stage.audience.open_all("ada", "", stop_at=0)
    assert [each.content["type"] for each in stage.queue.sent] == ["relation.open"]
    stage.settle_all()


def test_a_request_decided_with_a_privacy_that_was_lost_keeps_no_other_waiting(
    stage: Stage,
) -> None:
    stage.choose(True)
    stage.follow("cid")
    stage.later(1)
    stage.choose(False)
    public = stage.client.scan(TableName=PUBLISHERS.name)["Items"]
    stage.later(1)
    stage.choose(True)
    stage.later((SECONDS + 1) * 1000)
    stage.follow("ben")
    for item in public:  # a restore
        stage.client.put_item(TableName=PUBLISHERS.name, Item=item)
    stage.audience.open_all("ada", "", stop_at=1e18)
    assert (stage.state("ben"), stage.state("cid")) == ("requested", "followed")


def test_settling_opens_a_request_of_a_public_publisher_and_no_other(stage: Stage) -> None:
    stage.choose(True)
    stage.follow()
    stage.settle_all()
    assert stage.state() == "requested"
    stage.later(1)
    stage.choose(False)
    stage.queue.sent.clear()
    stage.following.settle("ben", "ada")
    assert stage.state() == "followed"
    stage.settle_all()


def test_a_request_is_not_opened_by_a_privacy_that_changes_meanwhile(stage: Stage) -> None:
    stage.choose(True)
    stage.follow()
    stage.choose(False)
    plain, again = stage.client.call, [True]

    def call(operation: str, request: Any) -> Any:
        if operation == "TransactWriteItems" and again:
            again.clear()
            stage.later(1)
            stage.choose(True)
        return plain(operation, request)

    stage.client.call = call
    stage.following.open("ben", "ada")
    assert stage.state() == "requested"


def test_a_request_is_not_opened_because_the_choice_is_lost(stage: Stage) -> None:
    stage.choose(True)
    stage.follow()
    lose_the_choice(stage)
    stage.following.open("ben", "ada")
    assert stage.state() == "requested"
    stage.queue.sent.clear()
    stage.following.settle("ben", "ada")
    assert stage.queue.sent == [], "each order would send another, for ever"


def test_a_removal_of_before_an_opening_ends_the_follow(stage: Stage) -> None:
    stage.choose(True)
    stage.follow()
    stage.later(9)
    stage.choose(False)
    stage.settle_all()
    stage.decide("remove", asked_at=NOW_MS + 5, by_message=True)
    assert stage.state() == "unfollowed"


def test_a_place_that_is_none_is_refused(stage: Stage) -> None:
    for place in ("ben", "2026#ben", f"{times.to_text(NOW_MS)}#", f"{times.to_text(NOW_MS)}#b#n"):
        with pytest.raises(BadInput):
            stage.audience.open_all("ada", place, stop_at=1e18)


# Removals


def test_a_removed_follower_has_a_mark_and_may_ask_again(stage: Stage) -> None:
    stage.follow()
    stage.later(1)
    stage.decide("remove")
    assert (stage.state(), stage.edges.of) == ("unfollowed", set())
    stage.later(1)
    assert stage.follow().is_active


def test_what_was_sent_before_a_removal_is_late(stage: Stage) -> None:
    stage.later(5)
    stage.decide("remove")  # of who never followed
    assert not stage.follow(asked_at=NOW_MS, by_message=True).is_active
    assert stage.state() == "unfollowed"


@pytest.mark.parametrize("is_follower", [True, False])
def test_a_copy_of_a_removal_writes_nothing_and_a_later_one_its_time(
    stage: Stage, is_follower: bool
) -> None:
    if is_follower:
        stage.follow()
    for by_message in (False, True, True):
        stage.decide("remove", asked_at=NOW_MS + 5, by_message=by_message)
    version = stage.row().version
    assert version == 1 + is_follower
    stage.decide("remove", asked_at=NOW_MS + 6)
    assert stage.row().version == version + 1
    assert not stage.follow(asked_at=NOW_MS + 6, by_message=True, approves=True).is_active


def test_a_repeated_request_shields_nobody_from_a_removal(stage: Stage) -> None:
    stage.follow()
    stage.later(9 * OVERTAKEN_MS)
    stage.follow()
    stage.decide("remove", asked_at=NOW_MS + 1)
    assert stage.state() == "unfollowed"


@pytest.mark.parametrize("by_message", [False, True])
def test_a_removal_gives_way_to_a_later_approval(stage: Stage, by_message: bool) -> None:
    stage.choose(True)
    stage.follow()
    stage.later(5 * OVERTAKEN_MS)
    stage.decide("approve")
    stage.decide("remove", asked_at=NOW_MS + 1, by_message=by_message)
    assert stage.state() == "followed"


def test_an_old_message_of_a_removal_ends_no_newer_request(stage: Stage) -> None:
    stage.choose(True)
    stage.later(5)
    stage.follow()
    stage.decide("remove", asked_at=NOW_MS, by_message=True)
    assert stage.state() == "requested"
    stage.follow(asked_at=NOW_MS - 1, by_message=True, approves=True)
    assert stage.state() == "requested", "the removal was later than this approval"


@pytest.mark.parametrize("by_message", [False, True])
def test_an_approval_gives_way_to_a_later_end(stage: Stage, by_message: bool) -> None:
    stage.choose(True)
    stage.follow()
    stage.later(5 * OVERTAKEN_MS)
    stage.unfollow()
    stage.follow(asked_at=stage.now_ms + 1)
    approve = partial(stage.decide, "approve", asked_at=NOW_MS + 1, by_message=by_message)
    if by_message:
        approve()
    else:
        with pytest.raises(NoRequest):
            approve()
    assert stage.state() == "requested"


def test_an_approval_leaves_the_time_of_the_request(stage: Stage) -> None:
    stage.choose(True)
    stage.follow()
    stage.later(9)
    stage.decide("approve")
    stage.unfollow(asked_at=NOW_MS + 5, by_message=True)
    assert stage.state() == "unfollowed"


def test_a_repeated_request_shields_nobody_from_an_approval(stage: Stage) -> None:
    stage.choose(True)
    stage.follow()
    stage.later(9 * OVERTAKEN_MS)
    stage.follow()
    stage.decide("approve", asked_at=NOW_MS + 1)
    assert stage.state() == "followed"


def test_an_approval_may_come_with_its_follow(stage: Stage) -> None:
    stage.choose(True)
    assert stage.follow(by_message=True, approves=True).is_active
    stage.later(1)
    assert stage.follow("cid").is_requested
    assert stage.follow("cid", asked_at=NOW_MS, by_message=True, approves=True).is_active
    assert (stage.state(), stage.state("cid")) == ("followed", "followed")


def test_a_copy_of_an_approval_approves_no_other_request(stage: Stage) -> None:
    stage.choose(True)
    stage.follow(by_message=True)
    approve = partial(stage.decide, "approve", asked_at=NOW_MS + 3, by_message=True)
    approve()
    stage.unfollow(asked_at=NOW_MS + 2, by_message=True)
    stage.later(4)
    stage.follow()
    approve()
    assert stage.state() == "requested"


def test_an_approved_follow_is_late_only_after_an_end(stage: Stage) -> None:
    stage.follow()
    stage.decide("remove", asked_at=NOW_MS - 5)
    stage.follow(asked_at=NOW_MS, by_message=True, approves=True)
    assert stage.state() == "followed"
    stage.unfollow(asked_at=NOW_MS - 1)
    stage.follow(asked_at=NOW_MS, by_message=True, approves=True)
    assert stage.state() == "unfollowed", "it was a copy"


def test_an_approval_of_a_follow_is_noted(stage: Stage) -> None:
    stage.choose(True)
    stage.follow(by_message=True, approves=True)
    stage.later(9)
    stage.follow()
    stage.follow(asked_at=NOW_MS + 5, by_message=True, approves=True)
    stage.decide("remove", asked_at=NOW_MS + 4, by_message=True)
    assert stage.state() == "followed"


def test_an_approval_before_its_request_comes_again(stage: Stage) -> None:
    stage.choose(True)
    with pytest.raises(NoRequest):
        stage.decide("approve", by_message=True)
    stage.later(1)
    stage.follow()
    stage.unfollow(asked_at=stage.now_ms + 1)
    stage.decide("approve", asked_at=NOW_MS, by_message=True)  # it is over
    assert stage.state() == "unfollowed"


# Blocks


def test_a_block_ends_both_relations_and_keeps_them_from_beginning(stage: Stage) -> None:
    stage.follow()
    stage.following.follow("ada", "ben", asked_at=stage.now_ms)
    stage.later(1)
    stage.decide("block")
    assert {stage.state(), stage.state("ada", "ben")} == {"unfollowed"}
    assert stage.counts("ada") == (0, 0, 1)
    stage.later(1)
    assert stage.follow().is_requested, "as of a private publisher who never answers"
    assert (stage.state(), stage.requests()) == ("requested", [])
    with pytest.raises(BlockedByYou):
        stage.following.follow("ada", "ben", asked_at=stage.now_ms)
    with pytest.raises(NoRequest):
        stage.decide("approve")
    stage.settle_all()
    assert stage.follow(by_message=True, approves=True, asked_at=stage.now_ms + 1).is_requested
    stage.later(2)
    stage.decide("block")
    assert stage.state() == "requested", "a block again ends nothing"
    stage.decide("unblock")
    assert (stage.state(), stage.counts("ada"), stage.counts("ben")) == (
        "unfollowed",
        (0, 0, 0),
        (0, 0, 0),
    )
    stage.later(1)
    assert stage.follow().is_active


def test_two_users_may_block_each_other(stage: Stage) -> None:
    stage.decide("block")
    stage.audience.block("ben", "ada", asked_at=stage.now_ms)
    stage.later(1)
    stage.decide("unblock")
    with pytest.raises(BlockedByYou):
        stage.follow()
    stage.audience.unblock("ben", "ada", asked_at=stage.now_ms)
    assert stage.follow(asked_at=stage.now_ms + 1).is_active
    stage.check()


def test_a_late_block_or_unblock_gives_way(stage: Stage) -> None:
    stage.later(5)
    stage.decide("unblock")  # of whom nobody blocks
    stage.decide("block", asked_at=NOW_MS, by_message=True)
    assert not stage.row().shut
    stage.later(1)
    stage.decide("block", by_message=True)
    stage.later(1)
    stage.follow()
    stage.decide("unblock", asked_at=NOW_MS, by_message=True)
    assert stage.row().shut
    stage.check()


def test_a_block_that_was_undone_before_it_came_ends_the_follow(stage: Stage) -> None:
    stage.follow()
    stage.later(9)
    stage.decide("unblock", by_message=True)
    stage.decide("block", asked_at=NOW_MS + 1, by_message=True)
    assert (stage.row().shut, stage.state()) == (False, "unfollowed")


def test_a_block_and_its_end_have_a_follower_of_a_private_publisher_ask_at_once(
    stage: Stage,
) -> None:
    stage.follow()
    stage.follow("eve")  # the container remembers that Ada is public
    _, another = stage.container()
    another.choose("ada", is_private=True, asked_at=stage.now_ms)
    for verb in (another.block, another.unblock):
        stage.later(1)
        verb("ada", "ben", asked_at=stage.now_ms)
    stage.later(1)
    assert stage.follow().is_requested
    stage.check()


def test_an_unblock_has_who_was_blocked_before_going_private_ask_at_once(stage: Stage) -> None:
    stage.decide("block")
    stage.follow("eve")  # the container remembers that Ada is public
    _, another = stage.container()
    stage.later(1)
    another.choose("ada", is_private=True, asked_at=stage.now_ms)
    another.unblock("ada", "ben", asked_at=stage.now_ms)
    stage.later(1)
    assert stage.follow().is_requested
    stage.check()


def test_what_the_blocker_sent_under_the_block_is_late_after_it(stage: Stage) -> None:
    stage.decide("block")
    stage.later(9)
    stage.decide("unblock")
    stage.following.follow("ada", "ben", asked_at=NOW_MS + 5, by_message=True)
    assert stage.state("ada", "ben") == "unfollowed"


def test_a_blocked_user_must_ask_even_a_public_publisher(stage: Stage) -> None:
    assert not stage.following.must_ask(stage.row())
    stage.decide("block")
    assert stage.following.must_ask(stage.row())


def test_who_asks_a_publisher_that_went_public_needs_no_other_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = make(monkeypatch, max_follows=1, rate=Rate.a_day(1))
    stage.choose(True)
    stage.follow()
    stage.choose(False)
    stage.later((SECONDS + 1) * 1000)
    assert stage.follow().is_active
    assert stage.state() == "followed"


def test_a_request_shields_nobody_from_a_block(stage: Stage) -> None:
    stage.later(9 * OVERTAKEN_MS)
    stage.follow()
    stage.decide("block", asked_at=NOW_MS, by_message=True)
    assert (stage.row().shut, stage.state()) == (True, "unfollowed")


def test_one_blocks_so_many_and_no_more(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follows_table, "MAX_BLOCKS", 2)
    for user in ("ben", "cid", "ben"):
        stage.decide("block", user)
    with pytest.raises(TooManyBlocks):
        stage.decide("block", "dan")
    stage.later(1)
    stage.decide("unblock", "ben")
    stage.decide("block", "dan")
    found, more = stage.audience.blocks("ada", limit=1, after=None)
    assert (found, stage.audience.blocks("ada", limit=1, after=more)[0]) == (["cid"], ["dan"])
    stage.check()


@pytest.mark.parametrize("by_message", [False, True])
def test_a_block_that_ends_something_is_never_refused(
    monkeypatch: pytest.MonkeyPatch, by_message: bool
) -> None:
    stage = make(monkeypatch, rate=Rate.a_day(3))
    monkeypatch.setattr(follows_table, "MAX_BLOCKS", 1)
    block = partial(stage.decide, "block", by_message=by_message)
    block("dan")
    stage.follow("ben")
    stage.following.follow("ada", "eve", asked_at=stage.now_ms)
    stage.choose(True)
    stage.later((SECONDS + 1) * 1000)
    stage.follow("cid")
    for user in ("ben", "cid", "eve"):
        block(user, asked_at=stage.now_ms)
        assert stage.row(user).shut
    assert stage.counts("ada") == (0, 0, 4)
    for _ in range(2):
        with pytest.raises(TooManyBlocks):
            block("fay", asked_at=stage.now_ms)
        stage.later(DAY_MS)
        stage.decide("unblock", "ben")
    stage.check()


# Who sees


def test_only_approved_followers_see_what_is_private(stage: Stage) -> None:
    access = Access(stage.table, stage.following.privacies)
    assert access.is_given("ben", "ada")
    stage.choose(True)
    stage.later(9_000)
    assert [access.is_given(each, "ada") for each in ("ada", "ben")] == [True, False]
    stage.follow()
    assert not access.is_given("ben", "ada")
    stage.decide("approve")
    assert access.is_given("ben", "ada")
    stage.later(1)
    stage.decide("block")
    assert not access.is_given("ben", "ada")
    assert access.is_given("ada", "ben"), "who blocks may look"


# Rates


def test_requests_and_blocks_are_counted_and_what_ends_something_is_never_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = make(monkeypatch, rate=Rate.a_day(2))
    stage.choose(True)
    stage.follow()
    stage.later(1)
    stage.decide("remove")
    stage.later(1)
    stage.follow()
    with pytest.raises(TooOften):
        stage.following.follow("ben", "eve", asked_at=stage.now_ms)
    stage.following.follow("ada", "fay", asked_at=stage.now_ms)
    stage.following.follow("ada", "gil", asked_at=stage.now_ms)
    with pytest.raises(TooOften):
        stage.decide("block", "hal")
    stage.decide("remove", "hal")
    assert not stage.row("hal").version, "over the rate, it leaves no tombstone"
    stage.decide("approve")
    stage.later(1)
    stage.decide("block")  # which ends a follow
    stage.decide("unblock")
    stage.check()


# Races and crashes

VERBS: dict[str, Callable[[Stage], object]] = {
    "request": lambda stage: stage.follow("cid"),
    "cancel": lambda stage: stage.unfollow(),
    "approve": lambda stage: stage.decide("approve"),
    "remove": lambda stage: stage.decide("remove"),
    "block": lambda stage: stage.decide("block"),
    "block a friend": lambda stage: stage.decide("block", "fay"),
    "unblock": lambda stage: stage.decide("unblock", "eve"),
    "public": lambda stage: stage.choose(False),
}


def waiting(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Fay and Ada follow each other, Ben waits, and Eve is blocked."""
    stage = make(monkeypatch)
    stage.follow("fay")
    stage.following.follow("ada", "fay", asked_at=stage.now_ms)
    stage.choose(True)
    stage.later((SECONDS + 1) * 1000)
    stage.follow()
    stage.decide("block", "eve")
    stage.settle_all()
    stage.later(1)
    return stage


@pytest.mark.parametrize("verb", VERBS)
def test_wherever_a_function_stops_relate_completes_it_and_it_may_be_repeated(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for calls in range(1, 30):
        stage, has_stopped = waiting(monkeypatch), False
        with stopped_after(stage, calls):
            try:
                VERBS[verb](stage)
            except Stopped:
                has_stopped = True
        stage.settle_all()
        stage.check()
        assert not stage.requests() or stage.audience.privacies.read("ada").is_private
        VERBS[verb](stage)
        stage.settle_all()
        stage.check()
        if not has_stopped:
            return
    raise AssertionError("it never ends")


def test_wherever_an_approval_stops_its_repeat_brings_posts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for calls in range(1, 30):
        stage = waiting(monkeypatch)
        with stopped_after(stage, calls), suppress(Stopped):
            stage.decide("approve")
        stage.later(1)
        stage.decide("approve")
        assert stage.backfills()


@pytest.mark.parametrize("verb", VERBS)
def test_a_change_that_lost_a_race_is_decided_anew(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = waiting(monkeypatch)
    plain, others = stage.client.call, [True]

    def call(operation: str, request: Any) -> Any:
        if operation == "TransactWriteItems" and others:
            others.clear()
            for user in ("ben", "cid", "eve"):
                stage.follow(user, asked_at=stage.now_ms + 1)
        return plain(operation, request)

    stage.client.call = call
    VERBS[verb](stage)
    stage.client.call = plain
    stage.settle_all()
    stage.check()


# What it costs


def test_a_public_follow_reads_one_row_more_once_in_seconds(stage: Stage) -> None:
    plain, calls = stage.client.call, list[str]()

    def call(operation: str, request: Any) -> Any:
        calls.append(request.get("TableName", operation))
        return plain(operation, request)

    stage.client.call = call
    stage.follow("ben")
    stage.follow("cid")
    one = [FOLLOWING.name, READERS.name, "TransactWriteItems", FOLLOWING.name, FOLLOWING.name]
    assert calls == [one[0], PUBLISHERS.name, *one[1:], *one]


def test_pages_of_requests_have_each_once_newest_first(stage: Stage) -> None:
    stage.choose(True)
    for number in range(5):
        stage.later(1)
        stage.follow(f"user-{number}")
    found, after = list[str](), None
    for _ in range(3):
        page, after = stage.audience.requests("ada", limit=2, after=after)
        found += [each.user_id for each in page]
    assert (found, after) == ([f"user-{number}" for number in (4, 3, 2, 1, 0)], None)
