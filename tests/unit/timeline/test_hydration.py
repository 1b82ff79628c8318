"""The cache of posts in a warm container."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import pytest
from cachetools import TTLCache

from fanfold import clock
from fanfold.aws.retries import STEP
from fanfold.errors import TryLater
from fanfold.ids import split_sort_key
from fanfold.timeline.entries import Entry
from fanfold.timeline.page_reads import MAX_POSTS
from fanfold.timeline.post_cache import CACHE_RETRACTED, CACHE_SECONDS, Hydration
from fanfold.timeline.posts import Post

AT = "2026-11-20T18:00:00.123Z"
LATER = "2026-12-30T18:00:00.123Z"


@dataclass
class Posts:
    """Leaves the first of the ids unprocessed, in the first `partial` calls."""

    posts: dict[str, Post]
    partial: int = 0
    asked: list[set[str]] = field(default_factory=list)

    def get(self, ref_ids: Collection[str]) -> tuple[dict[str, Post], set[str]]:
        assert 1 <= len(ref_ids) <= 100
        self.asked.append(set(ref_ids))
        left = {min(ref_ids)} if len(self.asked) <= self.partial else set()
        return {each: self.posts[each] for each in {*ref_ids} - left if each in self.posts}, left


def entry(ref_id: str) -> Entry:
    return Entry(f"{AT}#{ref_id}", "ada")


def shown(hydration: Hydration, refs: str, *more: Entry) -> dict[str, object]:
    """The bodies of ada's entries of these ids, and of others, by `ref_id`."""
    shown = hydration.show([*map(entry, refs), *more], MAX_POSTS).contents
    return {split_sort_key(key)[1]: json.loads(each["body"].text) for key, each in shown.items()}


def post(ref_id: str, *, deleted: bool = False) -> Post:
    return Post(
        ref_id=ref_id,
        publisher_id="ada",
        published_at=AT,
        accepted_at=AT,
        expires_at=4_000_000_000,
        body=f'"{ref_id}!"',
        deleted=deleted,
    )


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(clock, "sleep", lambda _seconds: None)
    return seconds


def hydration(posts: Posts) -> Hydration:
    return Hydration(posts)  # type: ignore[arg-type]


@pytest.mark.parametrize(("ends_in", "is_shown"), [(1, True), (0, False)])
def test_a_post_whose_ref_id_is_free_again_is_not_shown_though_its_row_is_still_there(
    monkeypatch: pytest.MonkeyPatch, ends_in: int, is_shown: bool
) -> None:
    """A backfill after the retention was raised writes entries that outlive their posts."""
    monkeypatch.setattr(clock, "now_ms", lambda: 1_800_000_000_000)
    posts = Posts({"a": replace(post("a"), expires_at=1_800_000_000 + ends_in)})
    assert shown(hydration(posts), "a") == ({"a": "a!"} if is_shown else {})


@pytest.mark.parametrize(
    ("publisher", "published_at", "is_its"),
    [("ada", AT, True), ("eve", AT, False), ("ada", LATER, False)],
)
@pytest.mark.parametrize("deleted", [False, True])
def test_a_post_is_shown_beside_its_own_entry_alone(
    publisher: str, published_at: str, is_its: bool, deleted: bool
) -> None:
    stored = replace(post("a", deleted=deleted), publisher_id=publisher, published_at=published_at)
    cached = hydration(Posts({"a": stored}))
    for _ in range(2):
        assert shown(cached, "a") == ({"a": "a!"} if is_its and not deleted else {})


def test_what_is_cached_for_one_publisher_is_not_shown_beside_the_entry_of_another() -> None:
    cached = hydration(Posts({"a": post("a")}))
    others = Entry(f"{AT}#a", "eve")
    for _ in range(2):
        assert shown(cached, "a") == {"a": "a!"}
        assert shown(cached, "", others) == {}


def test_a_post_that_takes_the_id_of_a_cached_one_is_shown_at_once() -> None:
    posts = Posts({"a": post("a")})
    cached = hydration(posts)
    assert shown(cached, "a") == {"a": "a!"}
    posts.posts["a"] = replace(post("a"), published_at=LATER, body='"new"')
    new = Entry(f"{LATER}#a", "ada")
    assert cached.show([new], MAX_POSTS).contents[new.sort_key]["body"].text == '"new"'


def test_a_post_that_expires_during_the_lookup_is_read_again() -> None:
    times: Iterator[float]
    cache: TTLCache[str, object] = TTLCache(10, CACHE_SECONDS, timer=lambda: next(times))
    cached = Hydration(Posts({"a": post("a")}), cache)  # type: ignore[arg-type]
    for reads_of_clock in range(12):
        times = itertools.repeat(0.0)
        cache.clear()
        shown(cached, "a")
        times = itertools.chain([0.0] * reads_of_clock, itertools.repeat(CACHE_SECONDS + 1.0))
        assert shown(cached, "a") == {"a": "a!"}


@pytest.mark.parametrize("partial", [STEP.attempts - 1, STEP.attempts])
def test_only_unprocessed_posts_are_asked_for_again_and_not_taken_for_deleted(partial: int) -> None:
    posts = Posts({name: post(name) for name in "ab"}, partial)
    cached = hydration(posts)
    with pytest.raises(TryLater) if partial == STEP.attempts else nullcontext():
        assert shown(cached, "ab") == {"a": "a!", "b": "b!"}
    assert posts.asked == [set("ab"), *[{"a"}] * (STEP.attempts - 1)]
    assert shown(cached, "ab") == {"a": "a!", "b": "b!"}


def test_a_retracted_post_is_remembered_for_the_containers_life(now: list[float]) -> None:
    posts = Posts({"a": post("a", deleted=True), "b": post("b")})
    cached = hydration(posts)
    for _ in range(3):
        assert shown(cached, "ab") == {"b": "b!"}
        now[0] += 3600
    assert posts.asked == [{"a", "b"}, {"b"}, {"b"}]


def test_a_missing_post_is_looked_for_again_after_five_seconds(now: list[float]) -> None:
    posts = Posts({})
    cached = hydration(posts)
    assert shown(cached, "a") == {}
    posts.posts["a"] = post("a")
    now[0] += CACHE_SECONDS - 0.001
    assert shown(cached, "a") == {}
    now[0] += 0.001
    assert shown(cached, "a") == {"a": "a!"}
    assert posts.asked == [{"a"}, {"a"}]


def test_the_retraction_of_one_publisher_hides_no_entry_of_another() -> None:
    posts = Posts({"a": post("a", deleted=True)})
    cached = hydration(posts)
    assert shown(cached, "a") == {}
    posts.posts["a"] = replace(post("a"), publisher_id="eve")
    assert shown(cached, "", Entry(f"{AT}#a", "eve")) == {"a": "a!"}


def test_retractions_that_are_remembered_are_bounded() -> None:
    retracted = hydration(Posts({})).retracted
    for number in range(CACHE_RETRACTED + 10):
        retracted[f"{AT}#{number}"] = "ada"
    assert len(retracted) == CACHE_RETRACTED


def test_entries_are_not_examined_beyond_the_bound_of_posts() -> None:
    posts = Posts({name: post(name) for name in "abcde"})
    cached = hydration(posts)
    shown(cached, "ac")
    found = cached.show([entry(name) for name in "abcde"], 1)
    assert [split_sort_key(key)[1] for key in found.contents] == ["a", "c", "b"]
    assert (found.looked_at, found.read) == (3, 1)
    assert cached.show([entry("d")], 0) == ({}, 0, 0)
    assert posts.asked == [{"a", "c"}, {"b"}]
