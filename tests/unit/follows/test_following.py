"""Follow and unfollow over rows on the model: which edges are put, and what a reader is listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from fanfold import clock as product_clock
from fanfold import times
from fanfold.aws.retries import STEP
from fanfold.errors import Contended
from fanfold.follows import bulk_follow, follow, follows_table
from fanfold.follows.bulk_follow import BulkFollowing
from fanfold.follows.follow import Following
from fanfold.follows.follows_table import FollowsTable
from fanfold.follows.publisher.privacy import Privacies
from fanfold.names import FOLLOWING, PUBLISHERS, READERS
from fanfold.timeline.readers import Readers
from fanfold.times import OVERTAKEN_MS
from tests.stores import Queue, ask_again, client_of

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
class Ben:
    """A user, and what is noted of him."""

    following: Following
    edges: Edges
    queue: Queue

    def follow(self, publisher: str, at: int = 5, *, by_message: bool = False) -> Any:
        return self.following.follow("ben", publisher, asked_at=at, by_message=by_message)

    def unfollow(self, publisher: str, at: int = 6, *, by_message: bool = False) -> Any:
        return self.following.unfollow("ben", publisher, asked_at=at, by_message=by_message)

    def listed(self, limit: int) -> list[str]:
        found, _ = self.following.list("ben", limit=limit, after=None)
        return [each.publisher_id for each in found]


@pytest.fixture
def ben(monkeypatch: pytest.MonkeyPatch) -> Ben:
    return ben_at(NOW_MS, monkeypatch)


def ben_at(now_ms: int, monkeypatch: pytest.MonkeyPatch, **how: Any) -> Ben:
    monkeypatch.setattr(product_clock, "sleep", lambda _seconds: None)
    monkeypatch.setattr(product_clock, "now_ms", lambda: now_ms)
    client = client_of(FOLLOWING, PUBLISHERS, READERS)
    table = FollowsTable(client, FOLLOWING.name, Readers(client, READERS.name), 30)
    edges, queue = Edges(), Queue()
    stubs: tuple[Any, Any, Any] = (edges, Privacies(client, PUBLISHERS.name), queue)
    return Ben(Following(table, *stubs, 9, 10, **how), edges, queue)


def test_a_new_follow_puts_its_edge_and_a_repeated_one_looks_first(ben: Ben) -> None:
    assert ben.follow("ada").is_active
    ben.follow("ada")
    assert not ben.unfollow("ada").is_active
    assert ben.edges.calls == [("put", "ada", 1), ("ensure", "ada", 1), ("remove", "ada", 2)]
    assert [each.delay_seconds for each in ben.queue.sent] == [10, 10, 10]


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


def test_who_was_frozen_gives_way_to_what_was_asked_meanwhile(
    ben: Ben, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, later = ben.queue.send, NOW_MS + 60_000

    def frozen(message: Any) -> None:
        monkeypatch.setattr(ben.queue, "send", send)
        monkeypatch.setattr(product_clock, "now_ms", lambda: later)
        ben.unfollow("ada", at=later)
        send(message)

    monkeypatch.setattr(ben.queue, "send", frozen)
    assert not ben.follow("ada", at=NOW_MS).is_active


def test_nobody_gives_way_to_a_time_that_has_not_come(ben: Ben) -> None:
    ben.follow("ada", at=NOW_MS + 3_600_000)  # imported by a machine whose clock is wrong
    assert not ben.unfollow("ada", at=NOW_MS).is_active
    assert ben.follow("ada", at=NOW_MS + 1).is_active


@pytest.mark.parametrize("ahead_ms", [0, 2_000])
def test_an_import_leaves_ended_follows_unless_told_again(ben: Ben, ahead_ms: int) -> None:
    ben.unfollow("ada", at=NOW_MS + ahead_ms)
    assert BulkFollowing(ben.following).follow_all("ben", ["ada"]) == 0
    assert BulkFollowing(ben.following, again=True).follow_all("ben", ["ada"]) == 1
    found = ben.following.follows.get("ben", "ada")
    assert (found.is_active, found.followed_at) == (True, times.to_text(NOW_MS + ahead_ms))


def test_a_row_that_never_holds_still_is_contended(ben: Ben) -> None:
    rows = ben.following.follows
    ben.edges.then = lambda: ask_again(rows, rows.get("ben", "ada"), now_ms=1_000)
    with pytest.raises(Contended, match="'ben' to 'ada' changed too often"):
        ben.follow("ada")
    assert len(ben.edges.calls) == STEP.attempts


def test_a_list_leaves_out_tombstones_and_fills_its_pages_from_the_rows_behind(
    ben: Ben, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "PAGE", 2)
    for publisher in ("ada", "bea", "cleo", "dan", "eve", "fay", "gil"):
        ben.follow(publisher)
    for publisher in ("bea", "cleo", "fay"):
        ben.unfollow(publisher)
    active = ["ada", "dan", "eve", "gil"]
    assert [ben.listed(limit) for limit in (2, 3, 4)] == [active[:2], active[:3], active]


def test_many_follows_are_written_in_groups_and_a_second_time_not_at_all(
    ben: Ben, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_follow, "MAX_CHANGES", 2)
    monkeypatch.setattr(follows_table, "PAGE", 1)
    wanted = ["cleo", "ada", "bea", "eve", "dan", "ada"]
    every = BulkFollowing(ben.following)
    ben.follow("bea")
    ben.edges.calls.clear()
    assert every.follow_all("ben", wanted) == 4
    assert sorted(ben.edges.calls) == [
        ("ensure", "bea", 1),
        *(("put", each, 1) for each in ("ada", "cleo", "dan", "eve")),
    ]
    assert ben.listed(9) == ["ada", "bea", "cleo", "dan", "eve"]
    assert every.follow_all("ben", wanted) == 0
