"""A publisher's followers, listed page by page and counted, over edges at any levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold import clock, names
from fanfold.contract import MAX_CURSOR_CHARS
from fanfold.errors import FollowersClosed
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.publisher import followers
from fanfold.follows.publisher.followers import COUNT_READS, PAGE_READS, Followers
from fanfold.follows.ring_reader import MAX_READS, EdgePage, Read
from fanfold.follows.sharding import Shards

MAX_PAGE_READS = PAGE_READS + MAX_READS - 1


@dataclass
class Publisher:
    """Ada's edges at all levels up to her own, in the pages that the tables would answer."""

    placements: Sequence[tuple[str, int]] = ()  # followers, each at a level
    level: int = 0
    reads: list[Read] = field(default_factory=list)

    def page(self, publisher_id: str, read: Read, limit: int | None = None) -> EdgePage:
        assert publisher_id == "ada"
        self.reads.append(read)
        edges = sorted(
            edge
            for edge, level in {(ring.edge(user), level) for user, level in self.placements}
            if level == read.level
            and ring.shard_of(ring.position_of(edge), level) == read.shard
            and read.after < edge < read.hi
        )
        return EdgePage(edges[:limit], more=len(edges) >= (limit or 0))

    def shards(self, publisher_id: str) -> Shards:
        assert publisher_id == "ada"
        return Shards(level=self.level)


class Edges(EdgesTable):
    """The followers table with one publisher in it."""

    def __init__(self, publisher: Publisher) -> None:
        object.__setattr__(self, "publisher", publisher)

    def page(self, publisher_id: str, read: Read, limit: int | None = None) -> EdgePage:
        page: EdgePage = self.publisher.page(publisher_id, read, limit)  # type: ignore[attr-defined]
        return page


def followers_of(publisher: Publisher, readers: str = names.PUBLISHER) -> Followers:
    shards: Any = publisher
    access: Any = SimpleNamespace(is_given=lambda *_: True)
    return Followers(Edges(publisher), shards, readers, access)


def pages(publisher: Publisher, limit: int) -> list[list[str]]:
    """All pages of Ada's followers; none may take more reads than it may."""
    found, after = [], None
    here = followers_of(publisher)
    for _ in range(1_000):
        publisher.reads.clear()
        page, after = here.list("ada", "ada", limit=limit, after=after)
        assert len(publisher.reads) <= MAX_PAGE_READS
        assert len(page) <= limit
        found.append(page)
        if after is None:
            return found
        assert len(after) <= MAX_CURSOR_CHARS
    raise AssertionError("The pages do not end.")


users = st.integers(0, 40).map("user-{}".format)


@given(
    st.integers(0, 7).flatmap(
        lambda level: st.tuples(
            st.lists(st.tuples(users, st.integers(0, level)), max_size=60), st.just(level)
        )
    ),
    st.sampled_from([1, 2, 3, 10, 100]),
)
def test_pages_have_each_follower_once_in_the_order_of_the_hashes(
    placed: tuple[list[tuple[str, int]], int], limit: int
) -> None:
    placements, level = placed
    publisher = Publisher(placements, level)
    listed = [user for page in pages(publisher, limit) for user in page]
    assert listed == sorted({user for user, _ in placements}, key=ring.edge)


@pytest.mark.parametrize(("count", "sizes"), [(5, [3, 2]), (6, [3, 3]), (7, [3, 3, 1])])
def test_pages_of_a_publisher_with_one_shard_are_full_and_each_is_one_read(
    count: int, sizes: list[int]
) -> None:
    publisher = Publisher([(f"user-{number}", 0) for number in range(count)])
    assert [len(page) for page in pages(publisher, 3)] == sizes
    assert len(publisher.reads) == 1


@pytest.mark.parametrize("count", [0, 1, 3])
def test_few_followers_in_511_shards_come_on_short_pages_of_bounded_reads(count: int) -> None:
    publisher = Publisher([(f"user-{number}", 8) for number in range(count)], level=8)
    found = pages(publisher, 50)
    assert len(found) == 511 // PAGE_READS + 1
    assert sum(map(len, found)) == count


def test_followers_are_their_publishers_alone_unless_the_stage_shows_them_to_users() -> None:
    publisher = Publisher([("bob", 0)])
    closed, opened = followers_of(publisher), followers_of(publisher, names.USERS)
    for here, user in ((closed, "ada"), (opened, "ada"), (opened, "eve")):
        assert here.list(user, "ada", limit=5, after=None) == (["bob"], None)
        assert here.count(user, "ada") == (1, True)
    reads = len(publisher.reads)
    with pytest.raises(FollowersClosed):
        closed.list("eve", "ada", limit=5, after=None)
    with pytest.raises(FollowersClosed):
        closed.count("eve", "ada")  # though it is cached
    assert len(publisher.reads) == reads


@pytest.mark.parametrize("given", [[False], [True, False]])
@pytest.mark.parametrize("what", ["list", "count"])
def test_access_is_checked_before_many_reads_and_after_them(what: str, given: list[bool]) -> None:
    publisher, answers = Publisher([("bob", 0)]), list(given)
    access: Any = SimpleNamespace(is_given=lambda *_: answers.pop(0))
    here = replace(followers_of(publisher, names.USERS), access=access)
    with pytest.raises(FollowersClosed):
        here.count("eve", "ada") if what == "count" else here.list(
            "eve", "ada", limit=5, after=None
        )
    assert (answers, bool(publisher.reads)) == ([], given[0])


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_count_is_read_again_after_a_minute(
    monkeypatch: pytest.MonkeyPatch, is_frozen: bool
) -> None:
    now = begun = 1_000.0
    monkeypatch.setattr(clock, "monotonic", lambda: begun if is_frozen else now)
    monkeypatch.setattr(clock, "now_ms", lambda: int(1000 * now))
    publisher = Publisher([("bob", 0)])
    here = followers_of(publisher)
    assert here.count("ada", "ada").followers == 1
    publisher.placements = [("bob", 0), ("eve", 0)]
    now += followers.COUNT_SECONDS - 1
    assert here.count("ada", "ada").followers == 1
    now += 1
    assert here.count("ada", "ada").followers == 2
    here.forget()
    assert here.count("ada", "ada").followers == 2


def test_a_count_of_more_shards_than_may_be_read_is_an_estimate() -> None:
    publisher = Publisher([(f"user-{number}", 10) for number in range(400)], level=10)
    found = followers_of(publisher).count("ada", "ada")
    assert COUNT_READS <= len(publisher.reads) < COUNT_READS + MAX_READS
    assert not found.exact
    assert found.followers == pytest.approx(400, rel=0.2)
