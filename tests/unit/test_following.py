"""Follow and unfollow over rows on the model: which edges are put, and what a reader is listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from aws_model.clock import Clock
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.database import Database
from fanfold import clock as product_clock
from fanfold import times
from fanfold.errors import Contended, TryLater
from fanfold.follows import bulk_follow, follow
from fanfold.follows.bulk_follow import BulkFollowing
from fanfold.follows.follow import ATTEMPTS, Following
from fanfold.follows.follows_table import FollowsTable
from fanfold.messages import Message
from fanfold.names import FOLLOWING, READERS
from fanfold.timeline.readers import Readers
from fanfold.times import OVERTAKEN_MS
from simulation.schemas import schema_of

NOW_MS = 1_800_000_000_000


@dataclass
class Edges:
    """Notes what is done to the edges of Ben; `then` happens after each call."""

    calls: list[Any] = field(default_factory=list)
    then: Callable[[], object] = lambda: None

    def _noted(self, what: str, publisher: str, version: int) -> None:
        self.calls.append((what, publisher, version))
        self.then()

    def put(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        self._noted("put", publisher_id, version)

    def ensure(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        self._noted("ensure", publisher_id, version)

    def remove(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        self._noted("remove", publisher_id, version)

    def put_all(self, edges: Iterable[tuple[str, str, int]]) -> None:
        for publisher, _, version in edges:
            self._noted("put", publisher, version)

    def ensure_all(self, edges: Iterable[tuple[str, str, int]]) -> None:
        for publisher, _, version in edges:
            self._noted("ensure", publisher, version)


@dataclass
class Queue:
    sent: list[Message] = field(default_factory=list)

    def send(self, *messages: Message) -> None:
        self.sent += messages


@dataclass
class Ben:
    """A user, and what is noted of him."""

    following: Following
    edges: Edges
    queue: Queue

    def follow(self, publisher: str, at: int = 5, *, by_message: bool = False) -> Any:
        return self.following.follow("ben", publisher, asked_at=at, by_message=by_message)

    def unfollow(self, publisher: str, at: int = 6, *, by_message: bool = False) -> Any:
        return self.following.unfollow("ben", publisher, asked_at=at, by_message=by_message)

    def listed(self, limit: int) -> list[list[str]]:
        pages, after = [], None
        while True:
            found, after = self.following.list("ben", limit=limit, after=after)
            pages.append([each.publisher_id for each in found])
            if after is None:
                return pages


@pytest.fixture
def ben(monkeypatch: pytest.MonkeyPatch) -> Ben:
    monkeypatch.setattr(product_clock, "sleep", lambda _seconds: None)
    monkeypatch.setattr(product_clock, "now_ms", lambda: NOW_MS)
    database = Database(Clock())
    database.create(schema_of(FOLLOWING), schema_of(READERS))
    client: Any = dynamodb.Client(database)
    table = FollowsTable(client, FOLLOWING.name, Readers(client, READERS.name), 30)
    edges, queue = Edges(), Queue()
    stubs: tuple[Any, Any] = (edges, queue)
    return Ben(Following(table, *stubs, max_follows=9, reconcile_after_seconds=10), edges, queue)


def test_a_new_follow_puts_its_edge_and_a_repeated_one_looks_first(ben: Ben) -> None:
    assert ben.follow("ada").is_active
    ben.follow("ada")
    assert not ben.unfollow("ada").is_active
    assert ben.edges.calls == [("put", "ada", 1), ("ensure", "ada", 1), ("remove", "ada", 2)]
    assert [each.delay_seconds for each in ben.queue.sent] == [10, 10, 10]


def test_a_message_that_comes_late_changes_nothing_but_the_edge_is_looked_after(ben: Ben) -> None:
    ben.unfollow("ada", at=6)
    assert not ben.follow("ada", at=5, by_message=True).is_active
    assert ben.edges.calls == [("remove", "ada", 1), ("remove", "ada", 1)]


@pytest.mark.parametrize("late_ms", [OVERTAKEN_MS, OVERTAKEN_MS + 1])
@pytest.mark.parametrize("follows", [True, False])
def test_a_request_gives_way_to_what_was_asked_more_than_a_second_later(
    ben: Ben, follows: bool, late_ms: int
) -> None:
    late, last = (ben.follow, ben.unfollow) if follows else (ben.unfollow, ben.follow)
    late("ada", at=NOW_MS - 9_000)
    last("ada", at=NOW_MS)
    late("ada", at=NOW_MS - late_ms)
    is_followed = ben.following.follows.get("ben", "ada").is_active
    assert is_followed is (follows if late_ms == OVERTAKEN_MS else not follows)


def test_a_repeat_that_changes_nothing_is_given_way_to_as_well(ben: Ben) -> None:
    ben.follow("ada", at=NOW_MS - 9_000)
    ben.follow("ada", at=NOW_MS)
    assert ben.unfollow("ada", at=NOW_MS - 5_000).is_active


def test_nobody_gives_way_to_a_time_that_has_not_come(ben: Ben) -> None:
    ben.follow("ada", at=NOW_MS + 3_600_000)  # imported by a machine whose clock is wrong
    assert not ben.unfollow("ada", at=NOW_MS).is_active
    assert ben.follow("ada", at=NOW_MS + 1).is_active


@pytest.mark.parametrize("ahead_ms", [0, 2_000])
def test_an_import_leaves_what_has_ended_or_gives_way_to_nobody(ben: Ben, ahead_ms: int) -> None:
    ben.unfollow("ada", at=NOW_MS + ahead_ms)
    assert BulkFollowing(ben.following).follow_all("ben", ["ada"]) == 0
    assert BulkFollowing(ben.following, again=True).follow_all("ben", ["ada"]) == 1
    found = ben.following.follows.get("ben", "ada")
    assert (found.is_active, found.followed_at) == (True, times.to_text(NOW_MS + ahead_ms))


@pytest.mark.parametrize("by_message", [False, True])
def test_where_edges_cannot_be_put_now_a_message_is_left_to_relate(
    ben: Ben, by_message: bool
) -> None:
    def refuse() -> None:
        raise TryLater("not now")

    ben.edges.then = refuse
    if by_message:
        assert ben.follow("ada", by_message=True).is_active
    else:
        with pytest.raises(TryLater):
            ben.follow("ada")
    assert ben.following.follows.get("ben", "ada").is_active
    assert len(ben.queue.sent) == 1


def test_edges_are_reconciled_until_the_row_holds_still(ben: Ben) -> None:
    changes = iter([lambda: ben.following.follows.unfollow(row(ben), now_ms=1_000)])
    ben.edges.then = lambda: next(changes, lambda: None)()
    ben.follow("ada")
    assert ben.edges.calls == [("put", "ada", 1), ("remove", "ada", 2)]


def row(ben: Ben) -> Any:
    return ben.following.follows.get("ben", "ada")


def test_a_row_that_never_holds_still_is_contended(ben: Ben) -> None:
    ben.edges.then = lambda: ben.following.follows.ask_again(row(ben), now_ms=1_000)
    with pytest.raises(Contended, match="'ben' to 'ada' changed too often"):
        ben.follow("ada")
    assert len(ben.edges.calls) == ATTEMPTS


def test_a_list_leaves_out_tombstones_and_fills_its_pages_from_the_rows_behind(
    ben: Ben, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "PAGE", 2)
    for publisher in ("ada", "bea", "cleo", "dan", "eve", "fay", "gil"):
        ben.follow(publisher)
    for publisher in ("bea", "cleo", "fay"):
        ben.unfollow(publisher)
    assert ben.listed(2) == [["ada", "dan"], ["eve", "gil"]]
    assert ben.listed(3) == [["ada", "dan", "eve"], ["gil"]]
    assert ben.listed(4) == [["ada", "dan", "eve", "gil"]]


def test_too_many_tombstones_make_a_short_page_and_end_nothing(
    ben: Ben, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "PAGE", 1)
    monkeypatch.setattr(follow, "MAX_PAGES", 2)
    for publisher in ("ada", "bea", "cleo", "dan"):
        ben.follow(publisher)
    ben.unfollow("ada")
    ben.unfollow("bea")
    assert ben.listed(5) == [[], ["cleo", "dan"], []]


def test_many_follows_are_written_in_groups_and_a_second_time_not_at_all(
    ben: Ben, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_follow, "MAX_CHANGES", 2)
    monkeypatch.setattr(bulk_follow, "PAGE", 1)
    wanted = ["cleo", "ada", "bea", "eve", "dan", "ada"]
    every = BulkFollowing(ben.following)
    ben.follow("bea")
    ben.edges.calls.clear()
    assert every.follow_all("ben", wanted) == 4
    assert sorted(ben.edges.calls) == [
        ("ensure", "bea", 1),
        *(("put", each, 1) for each in ("ada", "cleo", "dan", "eve")),
    ]
    assert ben.listed(9) == [["ada", "bea", "cleo", "dan", "eve"]]
    assert every.follow_all("ben", wanted) == 0


def test_a_follow_that_changes_while_many_are_written_is_reconciled(ben: Ben) -> None:
    changes = iter([lambda: ben.following.follows.unfollow(row(ben), now_ms=1_000)])
    ben.edges.then = lambda: next(changes, lambda: None)()
    assert BulkFollowing(ben.following).follow_all("ben", ["ada", "bea"]) == 2
    assert ben.edges.calls == [("put", "ada", 1), ("put", "bea", 1), ("remove", "ada", 2)]
