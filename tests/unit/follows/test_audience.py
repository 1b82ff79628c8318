"""Private publishers, removals and blocks over rows on the model, with the edges noted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
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
    TryLater,
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
from tests.stores import Queue, client_of

NOW_MS = 1_800_000_000_000
DAY_MS = 24 * 60 * 60_000

# What is done in which millisecond, `of` which one it is if it comes late, and how all ends. Who is
# admitted follows by a message that has the approval.
COURSES = {
    "a follower stays when the publisher goes private": (
        "0 follow, 0 private, 9000 follow: followed"
    ),
    "a removal of before an opening ends the follow": (
        "0 private, 0 follow, 9 public, 9 settle, 9 remove of 5 by message: unfollowed"
    ),
    "a removed follower may ask again": "0 follow, 1 remove, 2 follow: followed",
    "what was sent before a removal is late": "5 remove, 5 follow of 0 by message: unfollowed",
    "a removal gives way to a later approval": (
        "0 private, 0 follow, 5000 approve, 5000 remove of 1: followed"
    ),
    "a message of a removal gives way to a later approval": (
        "0 private, 0 follow, 5000 approve, 5000 remove of 1 by message: followed"
    ),
    "an old message of a removal ends no newer request": (
        "0 private, 5 follow, 5 remove of 0 by message: requested"
    ),
    "an approval of before a removal is late": (
        "0 private, 5 follow, 5 remove of 0 by message, 5 admit of -1 by message: requested"
    ),
    "an approval gives way to a later end": (
        "0 private, 0 follow, 5000 unfollow, 5001 follow, 5001 approve of 1 in vain: requested"
    ),
    "a message of an approval gives way to a later end": (
        "0 private, 0 follow, 5000 unfollow, 5001 follow, 5001 approve of 1 by message: requested"
    ),
    "an approval leaves the time of the request": (
        "0 private, 0 follow, 9 approve, 9 unfollow of 5 by message: unfollowed"
    ),
    "a repeated request shields nobody from an approval": (
        "0 private, 0 follow, 9000 follow, 9000 approve of 1: followed"
    ),
    "an approval may come with its follow": "0 private, 0 admit by message: followed",
    "an approval that comes with its follow may come late": (
        "0 private, 1 follow, 1 admit of 0 by message: followed"
    ),
    "an approved follow is not late after a removal alone": (
        "0 follow, 0 remove of -5, 0 admit by message: followed"
    ),
    "a copy of an approved follow is late after an end": (
        "0 follow, 0 remove of -5, 0 admit by message, 0 unfollow of -1, 0 admit by message:"
        " unfollowed"
    ),
    "an approval of a follow is noted": (
        "0 private, 0 admit by message, 9000 follow, 9000 admit of 5000 by message,"
        " 9000 remove of 1: followed"
    ),
    "an approval before its request comes again until that is over": (
        "0 private, 0 approve by message in vain, 1 follow, 2 unfollow, 2 approve of 0 by message:"
        " unfollowed"
    ),
    "a late block gives way": "5 unblock, 5 block of 0 by message: unfollowed",
    "a late unblock gives way": (
        "6 block by message, 7 follow, 7 unblock of 0 by message: requested and shut"
    ),
    "a block that was undone before it came ends the follow": (
        "0 follow, 9 unblock by message, 9 block of 1 by message: unfollowed"
    ),
}
ACT = re.compile(r"(\d+) (\w+)(?: of (-?\d+))?( by message)?( in vain)?")


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

    def play(self, acts: str) -> None:
        """Carry out acts that are written as in `COURSES`."""
        for act in acts.split(", "):
            found = ACT.fullmatch(act)
            assert found, act
            at, verb, asked, by_message, in_vain = found.groups()
            self.now_ms = NOW_MS + int(at)
            how = {"asked_at": NOW_MS + int(asked or at), "by_message": bool(by_message)}
            with pytest.raises(NoRequest) if in_vain else nullcontext():
                self._act(verb, how)

    def _act(self, verb: str, how: dict[str, Any]) -> None:
        match verb:
            case "private" | "public":
                self.choose(verb == "private")
            case "settle":
                self.settle_all()
            case "follow" | "admit":
                self.follow(approves=verb == "admit", **how)
            case "unfollow":
                self.unfollow(**how)
            case _:
                self.decide(verb, **how)

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


@contextmanager
def looked_at(stage: Stage, look: Callable[[str, Any], object]) -> Iterator[None]:
    """Inside, `look` sees each call before it is made."""
    plain = stage.client.call

    def call(operation: str, request: Any) -> Any:
        look(operation, request)
        return plain(operation, request)

    with patch.object(stage.client, "call", call):
        yield


@contextmanager
def overtaken(stage: Stage, act: Callable[[], None]) -> Iterator[None]:
    """Inside, somebody acts just before the first transaction."""
    left = [act]

    def look(operation: str, _request: Any) -> None:
        if operation == "TransactWriteItems" and left:
            left.pop()()

    with looked_at(stage, look):
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
    stage.play(f"0 private, 0 follow, 1 {verb}")
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
    stage.play("0 follow, 1 unfollow, 1 private, 6001 follow")
    assert stage.state() == "requested"
    for number in range(8):
        stage.following.follow("ben", f"other-{number}", asked_at=stage.now_ms)
    with pytest.raises(TooManyFollows):
        stage.following.follow("ben", "one-more", asked_at=stage.now_ms)
    assert stage.decide("approve").is_active, "it has its place"
    stage.check()


# Privacy


def test_a_privacy_is_remembered_for_seconds_from_before_its_read(stage: Stage) -> None:
    stage.follow("eve")
    stage.choose(True)
    stage.later(SECONDS * 1000)
    assert stage.follow("ben").is_active
    stage.later(1)
    assert stage.follow("cid").is_requested


def test_a_slow_read_is_remembered_from_its_beginning(stage: Stage) -> None:
    with looked_at(stage, lambda _operation, _request: stage.later(2_000)):
        stage.following.privacies.known("ada")
    stage.choose(True)
    stage.later(SECONDS * 1000 - 1_999)
    assert stage.follow().is_requested


@pytest.mark.parametrize(
    ("before", "verbs"),
    [("follow", ["remove"]), ("follow", ["block", "unblock"]), ("block", ["unblock"])],
    ids=["remove", "block and unblock", "unblock"],
)
def test_who_is_removed_after_going_private_must_ask_at_once(
    stage: Stage, before: str, verbs: list[str]
) -> None:
    """Or blocked and unblocked, or unblocked alone."""
    stage.play(f"0 {before}")
    stage.follow("eve")  # the container remembers that Ada is public
    _, stage.audience = stage.container()
    stage.choose(True)
    for verb in verbs:
        stage.later(1)
        stage.decide(verb)
    stage.later(1)
    assert stage.follow().is_requested
    stage.check()


def test_a_stamp_above_the_privacy_of_a_publisher_counts_as_private(stage: Stage) -> None:
    stage.play("0 private, 0 follow, 1 unfollow")
    lose_the_choice(stage)
    following, _ = stage.container()
    assert following.follow("ben", "ada", asked_at=stage.now_ms + 1).is_requested
    assert not Access(stage.table, following.privacies).is_given("ben", "ada")


def test_a_late_choice_gives_way_and_a_later_one_counts(stage: Stage) -> None:
    for wanted, at, is_private in ((True, 3000, True), (False, 1999, True), (False, 2000, False)):
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


@pytest.mark.parametrize("by_default", [False, True])
def test_relate_is_told_to_open_by_a_change_alone(stage: Stage, by_default: bool) -> None:
    privacies = replace(stage.audience.privacies, private_by_default=by_default)
    audience, sent = replace(stage.audience, privacies=privacies), list[int]()
    for is_private in (False, False, True, True, False, False):
        stage.later(1)
        audience.choose("ada", is_private=is_private, asked_at=stage.now_ms)
        sent.append(len(stage.queue.sent))
    assert sent == [2, 2, 2, 2, 4, 4]


def test_a_choice_that_lost_a_race_tells_relate_as_often(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, others = Privacies.replace, [False, False]
    monkeypatch.setattr(
        Privacies, "replace", lambda *args: others.pop() if others else plain(*args)
    )
    stage.choose(False)
    assert [each.delay_seconds for each in stage.queue.sent] == [10, 0]


@pytest.mark.parametrize("is_contended", [False, True])
def test_a_request_that_cannot_be_opened_now_keeps_no_other_waiting(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, is_contended: bool
) -> None:
    stage.choose(True)
    stage.follow("cid")
    stage.later(1)
    stage.follow("ben")
    stage.choose(False)
    stage.queue.sent.clear()
    plain_put, plain = stage.edges.put, stage.client.call

    def put(publisher_id: str, follower_id: str, *, version: int) -> None:
        if follower_id == "ben":
            raise TryLater("throttled")
        plain_put(publisher_id, follower_id, version=version)

    def call(operation: str, request: Any) -> Any:
        if operation == "TransactWriteItems" and "'ben'" in str(request):
            stage.later(1)
            stage.follow("ben", by_message=True)
        return plain(operation, request)

    with monkeypatch.context() as patched:
        patched.setattr(
            *(stage.client, "call", call) if is_contended else (stage.edges, "put", put)
        )
        stage.audience.open_all("ada", "", stop_at=1e18)
        assert stage.row("cid").is_active
        if is_contended:
            stage.following.settle("ben", "ada")  # failing, it would come again, besides another
    assert {each.content["type"] for each in stage.queue.sent} <= {
        "relation.settle", "relation.backfill"
    }  # fmt: skip
    assert ("ben", "ada") not in stage.edges.of
    stage.settle_all()
    assert (stage.state("ben"), stage.state("cid")) == ("followed", "followed")


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
    stage.play("0 private, 0 follow, 0 settle")
    assert stage.state() == "requested"
    stage.play("1 public")
    stage.queue.sent.clear()
    stage.following.settle("ben", "ada")
    assert stage.state() == "followed"
    stage.settle_all()


def test_a_request_is_not_opened_by_a_privacy_that_changes_meanwhile(stage: Stage) -> None:
    stage.play("0 private, 0 follow, 0 public")
    with overtaken(stage, lambda: stage.play("1 private")):
        stage.following.open("ben", "ada")
    assert stage.state() == "requested"


def test_a_request_is_not_opened_because_the_choice_is_lost(stage: Stage) -> None:
    stage.play("0 private, 0 follow")
    lose_the_choice(stage)
    stage.following.open("ben", "ada")
    assert stage.state() == "requested"
    stage.queue.sent.clear()
    stage.following.settle("ben", "ada")
    assert stage.queue.sent == [], "each order would send another, for ever"


def test_a_place_that_is_none_is_refused(stage: Stage) -> None:
    for place in ("ben", "2026#ben", f"{times.to_text(NOW_MS)}#", f"{times.to_text(NOW_MS)}#b#n"):
        with pytest.raises(BadInput):
            stage.audience.open_all("ada", place, stop_at=1e18)


# What comes late, or again


@pytest.mark.parametrize("course", COURSES)
def test_a_course_ends_as_it_should(stage: Stage, course: str) -> None:
    acts, end = COURSES[course].split(": ")
    stage.play(acts)
    assert f"{stage.state()}{' and shut' if stage.row().shut else ''}" == end


def test_an_approval_that_came_late_says_that_the_user_has_asked_anew(stage: Stage) -> None:
    stage.choose(True)
    stage.follow()
    stage.later(5 * times.OVERTAKEN_MS)
    stage.unfollow()
    stage.follow(asked_at=stage.now_ms + 1)
    with pytest.raises(NoRequest, match="asked anew since; approve again"):
        stage.decide("approve", asked_at=NOW_MS + 1)


def test_a_removal_ends_a_follow_of_a_clock_far_ahead(stage: Stage) -> None:
    stage.later(3_600_000)
    stage.follow()  # as an import does
    stage.later(-3_500_000)
    stage.decide("remove", by_message=True)
    assert stage.state() == "unfollowed"


def test_a_repeated_request_shields_nobody_from_a_removal(stage: Stage) -> None:
    stage.play("0 follow, 9000 follow, 9000 remove of 1")
    assert stage.state() == "unfollowed"


def test_a_request_shields_nobody_from_a_block(stage: Stage) -> None:
    stage.play("9000 follow, 9000 block of 0 by message")
    assert (stage.row().shut, stage.state()) == (True, "unfollowed")


def test_a_copy_of_an_approval_approves_no_other_request(stage: Stage) -> None:
    approval = "approve of 3 by message"
    stage.play(f"0 private, 0 follow by message, 0 {approval}, 0 unfollow of 2 by message")
    stage.play(f"4 follow, 4 {approval}")
    assert stage.state() == "requested"


# Removals


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


def test_what_the_blocker_sent_under_the_block_is_late_after_it(stage: Stage) -> None:
    stage.play("0 block, 9 unblock")
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
    stage.play("0 private, 0 follow, 0 public, 6000 follow")
    assert stage.state() == "followed"


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
    stage.play("0 private, 0 follow, 1 remove, 2 follow")
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

    def follow() -> None:
        for user in ("ben", "cid", "eve"):
            stage.follow(user, asked_at=stage.now_ms + 1)

    with overtaken(stage, follow):
        VERBS[verb](stage)
    stage.settle_all()
    stage.check()


# What it costs


def test_a_public_follow_reads_one_row_more_once_in_seconds(stage: Stage) -> None:
    calls = list[str]()
    with looked_at(stage, lambda made, request: calls.append(request.get("TableName", made))):
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
