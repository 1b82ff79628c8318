"""The cache of posts in a warm container."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import pytest
from cachetools import TTLCache

from fanfold import clock
from fanfold.errors import TryLater
from fanfold.posts import Post
from fanfold.read import ATTEMPTS, CACHE_SECONDS, Hydration
from fanfold.timelines import Entry

AT = "2026-11-20T18:00:00.123Z"


@dataclass
class Posts:
    """Answers as BatchGetItem does; `leave` of the asked ids are left for another call."""

    posts: dict[str, Post]
    leave: int = 0
    asked: list[set[str]] = field(default_factory=list)

    def get(self, ref_ids: Collection[str]) -> tuple[dict[str, Post], set[str]]:
        assert 1 <= len(ref_ids) <= 100
        self.asked.append(set(ref_ids))
        left = set(sorted(ref_ids)[: self.leave])
        return {each: self.posts[each] for each in {*ref_ids} - left if each in self.posts}, left


def post(ref_id: str, *, deleted: bool = False) -> Post:
    return Post(
        ref_id=ref_id,
        publisher_id="ada",
        published_at=AT,
        accepted_at=AT,
        expires_at=1,
        deleted=deleted,
    )


def entries(names: str) -> list[Entry]:
    return [Entry(f"{AT}#{name}", "ada") for name in names]


def shown(found: list[tuple[Entry, Post | None]]) -> list[tuple[str, bool]]:
    return [(entry.ref_id, content is not None) for entry, content in found]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(clock, "sleep", lambda _seconds: None)
    return seconds


def hydration(posts: Posts) -> Hydration:
    return Hydration(posts)  # type: ignore[arg-type]


@pytest.mark.usefixtures("now")
def test_each_entry_has_its_post_in_order_or_none_if_it_is_deleted_or_gone() -> None:
    posts = Posts({"a": post("a"), "b": post("b", deleted=True), "d": post("d")})
    found = hydration(posts).hydrate(entries("dcba"))
    assert shown(found) == [("d", True), ("c", False), ("b", False), ("a", True)]


@pytest.mark.usefixtures("now")
def test_an_empty_page_reads_nothing() -> None:
    posts = Posts({})
    assert hydration(posts).hydrate([]) == []
    assert posts.asked == []


def test_a_post_is_read_again_when_the_cache_is_too_old(now: list[float]) -> None:
    posts = Posts({"a": post("a"), "b": post("b")})
    cached = hydration(posts)
    cached.hydrate(entries("a"))
    now[0] += CACHE_SECONDS / 2
    cached.hydrate(entries("ab"))
    assert posts.asked == [{"a"}, {"b"}]
    posts.posts["a"] = post("a", deleted=True)
    now[0] += CACHE_SECONDS / 2
    assert shown(cached.hydrate(entries("ab"))) == [("a", False), ("b", True)]
    assert posts.asked == [{"a"}, {"b"}, {"a"}]


@pytest.mark.parametrize("looks", range(12))
def test_a_post_that_leaves_the_cache_just_now_is_read_again(looks: int) -> None:
    """Between any two looks at the clock, the cached post may grow too old."""
    times: Iterator[float] = itertools.repeat(0.0)
    cache: TTLCache[str, Post | None] = TTLCache(10, CACHE_SECONDS, timer=lambda: next(times))
    posts = Posts({"a": post("a")})
    cached = Hydration(posts, cache)  # type: ignore[arg-type]
    cached.hydrate(entries("a"))
    times = itertools.chain([0.0] * looks, itertools.repeat(CACHE_SECONDS + 1.0))
    assert shown(cached.hydrate(entries("a"))) == [("a", True)]


@pytest.mark.usefixtures("now")
def test_what_is_left_is_asked_for_again_and_nothing_else() -> None:
    posts = Posts({name: post(name) for name in "abcd"}, leave=1)
    with pytest.raises(TryLater):
        hydration(posts).hydrate(entries("abcd"))
    assert posts.asked == [set("abcd"), *[{"a"}] * (ATTEMPTS - 1)]


@pytest.mark.usefixtures("now")
def test_what_was_left_is_not_taken_for_deleted_afterwards() -> None:
    posts = Posts({"a": post("a")}, leave=1)
    cached = hydration(posts)
    with pytest.raises(TryLater):
        cached.hydrate(entries("a"))
    posts.leave = 0
    assert shown(cached.hydrate(entries("a"))) == [("a", True)]
