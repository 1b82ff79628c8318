"""Pages in both directions, over a source of keys in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import pytest

from fanfold import cursor, times
from fanfold.cursor import HASH_BYTES, MAX_SEEN, Cursor, hashed
from fanfold.errors import BadInput
from fanfold.timeline import late, paging
from fanfold.timeline.page_reads import MAX_LOOKED_AT, MAX_POSTS, MAX_QUERIES, Range, Shown, Source
from fanfold.timeline.paging import Asked, Page, asked

FLOOR, NOW = times.to_text(1_000), times.to_text(100_000)


class Entry(NamedTuple):
    sort_key: str


def key(ms: int, name: object = "post") -> str:
    return f"{times.to_text(ms)}#{name}"


class Keys:
    """Keys, of which some are hidden, and some not yet seen by eventual reads."""

    def __init__(self, *keys: str, seed: int = 0) -> None:
        self.keys, self.hidden, self.lagging = set(keys), set[str](), set[str]()
        self.marked = set[str]()  # hidden as well, and known to be before posts are read
        self.random = Random(seed)
        self.queries: list[tuple[int, bool]] = []  # entries, and whether consistently
        self.posts = self.calls = 0  # posts that were read, and the calls for them
        self.are_cached = False
        self.floor = FLOOR

    def page(self, limit: int = 50, **about: Any) -> Page[Entry]:
        self.queries, self.posts, self.calls = [], 0, 0
        source = Source(self.newest, self.oldest)
        found = paging.page(
            source,
            self.show,
            Asked(limit, **about),
            floor=self.floor,
            now=NOW,
            visible=self.visible,
        )
        assert len(self.queries) <= MAX_QUERIES
        assert sum(entries for entries, _ in self.queries) <= MAX_LOOKED_AT
        assert self.posts <= MAX_POSTS
        shown = [entry.sort_key for entry in found.entries]
        assert shown == sorted(set(shown), reverse=True)
        assert shown == [each for each in shown if each in found.contents]
        goes_on = found.has_more if "after" in about else found.next is not None
        assert len(shown) == limit or found.is_partial or not goes_on
        for each in (found.previous, *([found.next] if found.next else ())):
            text = cursor.encode(each)
            query = {"before": text}
            assert asked(query, limit).before == each
        return found

    def climb(self, here: Cursor, limit: int, **bounds: Any) -> tuple[list[str], Cursor]:
        """Page upwards to the end: what is shown, in pages, and the last place."""
        found: list[str] = []
        for _ in range(500):
            page = self.page(limit, after=here, **bounds)
            found += shown(page)
            assert page.previous != here or not page.has_more
            here = page.previous
            assert len(here.seen) <= MAX_SEEN
            if not page.has_more:
                return found, here
        raise AssertionError("The pages do not end.")

    def newest(
        self, within: Range, *, before: str | None, limit: int
    ) -> tuple[Sequence[Entry], bool]:
        return self._query(within, before, limit, is_up=False, is_consistent=False)

    def oldest(
        self, within: Range, *, after: str | None, limit: int, is_consistent: bool
    ) -> tuple[Sequence[Entry], bool]:
        return self._query(within, after, limit, is_up=True, is_consistent=is_consistent)

    def _query(
        self, within: Range, start: str | None, limit: int, *, is_up: bool, is_consistent: bool
    ) -> tuple[Sequence[Entry], bool]:
        until = within.until or "9"
        assert limit >= 1
        assert within.since <= until
        assert start is None or within.since < start < until  # DynamoDB refuses any other
        is_old = not is_consistent and self.random.random() < 0.5
        visible = self.keys - self.lagging if is_old else self.keys
        found = sorted(
            (
                each
                for each in visible
                if within.since < each < until
                and (start is None or (each > start if is_up else each < start))
            ),
            reverse=not is_up,
        )
        self.queries.append((min(limit, len(found)), is_consistent))
        return [Entry(each) for each in found[:limit]], len(found) >= limit

    def visible(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        return [each for each in entries if each.sort_key not in self.marked]

    def show(self, entries: Sequence[Entry], max_posts: int) -> Shown:
        some = entries if self.are_cached else entries[:max_posts]
        read = 0 if self.are_cached else len(some)
        self.posts += read
        self.calls += 1
        contents: dict[str, Mapping[str, Any]] = {
            each.sort_key: {} for each in some if each.sort_key not in self.hidden
        }
        return Shown(contents, len(some), read)


def shown(page: Page[Entry]) -> list[str]:
    return [entry.sort_key for entry in page.entries]


# Whatever comes


COURSES = pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 150), marks=pytest.mark.thorough)], ids=len
)


@COURSES
@pytest.mark.parametrize("lags", [False, True])
def test_what_lands_above_the_low_mark_is_shown_once_whatever_comes(
    seeds: range, lags: bool
) -> None:
    for seed in seeds:
        follow_a_course(seed, lags=lags)


@COURSES
@pytest.mark.parametrize("hashes", [1_000, 2**16])
def test_the_same_holds_while_the_retention_moves_and_with_few_hashes(
    seeds: range, hashes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_few(key: str) -> bytes:
        return (int.from_bytes(hashed(key), "big") % hashes).to_bytes(HASH_BYTES, "big")

    monkeypatch.setattr(late, "hashed", of_few)
    for seed in seeds:
        follow_a_course(seed, floor_moves=True, hashed=of_few)


def follow_a_course(
    seed: int,
    *,
    lags: bool = False,
    floor_moves: bool = False,
    hashed: Callable[[str], bytes] = hashed,
) -> None:
    """Page upwards while keys come and go; of two with one hash, one may be missed or repeated."""
    random = Random(seed)
    keys = Keys(seed=seed)
    span, hidden = random.choice((30, 200, 2_000)), random.choice((0, 0, 0.1, 0.5, 0.95))
    number, all_keys = 0, set[str]()

    def add(ms: int) -> str:
        nonlocal number
        number += 1
        added = key(10_000 + ms, number)
        keys.keys.add(added)
        all_keys.add(added)
        if random.random() < hidden:
            keys.hidden.add(added)
        return added

    for _ in range(random.choice((0, 3, 60, 500))):
        add(random.randrange(span))
    limit = random.choice((1, 2, 5, 20, 100))
    page = keys.page(limit)
    here, times_shown = page.previous, Counter(shown(page))
    owed = {each for each in keys.keys if each > here.position}
    for step in range(random.choice((5, 40))):
        keys.lagging.clear()
        for _ in range(random.choice((0, 0, 1, 3, 30))):
            new_ms = span + step * 10 + random.randrange(9)
            added = add(random.randrange(span) if random.random() < 0.5 else new_ms)
            if lags and random.random() < 0.2:
                keys.lagging.add(added)
            if added > here.low:
                owed.add(added)
        if random.random() < 0.1 and keys.keys:
            gone = random.choice(sorted(keys.keys))
            keys.keys.discard(gone)
            owed.discard(gone)
        if floor_moves and random.random() < 0.4:
            floor_ms = 10_000 + random.randrange(-50, span // 2 + step * 3)
            keys.floor = max(keys.floor, times.to_text(floor_ms))
        page = keys.page(random.choice((limit, random.randint(1, 100))), after=here)
        times_shown.update(shown(page))
        # One that an eventual read has missed, and the low mark has passed.
        owed -= {each for each in keys.lagging if each <= page.previous.low}
        here = page.previous
    keys.lagging.clear()
    found, here = keys.climb(here, limit)
    times_shown.update(found)
    hashes = Counter(map(hashed, all_keys))
    lost = {each for each in owed - keys.hidden if not times_shown[each] and each > keys.floor}
    # One that is gone has left its hash, which hides a late one in its place.
    assert not {each for each in lost if not floor_moves or hashes[hashed(each)] == 1}
    assert [each for each, n in times_shown.items() if n > 1 and hashes[hashed(each)] == 1] == []
    idle = keys.page(limit, after=here)
    assert (shown(idle), idle.previous, len(keys.queries)) == ([], here, 1)


def test_pages_in_both_directions_are_the_range() -> None:
    for seed in range(60):
        page_through_a_range(Random(seed))


def page_through_a_range(random: Random) -> None:
    count = random.choice((0, 9, 300))
    keys = Keys(*(key(10_000 + random.randrange(300), each) for each in range(count)))
    keys.hidden = {each for each in keys.keys if random.random() < random.choice((0, 0.5))}
    share = random.choice((0, 0.2, 0.7))
    keys.marked = {each for each in keys.keys if random.random() < share}
    ends = sorted(times.to_text(10_000 + random.randrange(300)) for _ in range(2))
    bounds: dict[str, Any] = random.choice(({}, {"since": ends[0], "until": ends[1]}))
    within = {each for each in keys.keys if not bounds or ends[0] <= each < ends[1]}
    wanted = sorted(within - keys.hidden - keys.marked, reverse=True)
    limit = random.choice((1, 3, 50, 100))
    page = keys.page(limit, **bounds)
    down = shown(page)
    while page.next:
        page = keys.page(limit, **bounds, before=page.next)
        down += shown(page)
    assert down == wanted
    up, _ = keys.climb(Cursor.at(bounds.get("since", FLOOR)), limit, **bounds)
    assert sorted(up, reverse=True) == wanted


# Late entries


def of_one_hash() -> tuple[str, str]:
    """Two keys that cannot be told apart, by bytes that a cursor remembers."""
    seen: dict[bytes, str] = {}
    for number in range(100_000):
        each = key(20_000, number**3)  # of close ones, all hashes differ
        other = seen.setdefault(hashed(each), each)
        if other != each:
            return other, each
    raise AssertionError("unreachable")


@pytest.mark.parametrize("limit", [1, 2, 50])
@pytest.mark.parametrize("is_first_late", [False, True])
def test_of_two_entries_with_one_hash_the_late_one_is_shown_and_pages_end(
    limit: int, is_first_late: bool
) -> None:
    known, added = of_one_hash()[:: -1 if is_first_late else 1]
    for between in (set[str](), {f"{min(known, added)}-{each}" for each in range(limit)}):
        keys = Keys(key(10_000), known, key(30_000))
        here = keys.page().previous
        new = {added, key(40_000), *between}
        keys.keys |= new
        found, _ = keys.climb(here, limit)
        assert new <= set(found) <= {known, *new}


def test_a_new_entry_with_the_hash_of_a_known_one_does_not_show_that_one_again() -> None:
    known, new = sorted(of_one_hash())
    cursor = late.above([known], known, is_end=True)
    assert late.Match(cursor, [known, new]).fresh == [new]


def test_a_key_that_is_gone_is_looked_for_once_and_then_forgotten() -> None:
    keys = Keys(key(10_000), key(20_000), key(30_000))
    here = keys.page().previous
    keys.keys.discard(key(20_000))
    page = keys.page(after=here)
    assert [is_consistent for _, is_consistent in keys.queries] == [False, True]
    assert (shown(page), page.previous.position) == ([], here.position)
    keys.page(after=page.previous)
    assert len(keys.queries) == 1


def test_what_lies_beyond_a_second_look_is_not_forgotten() -> None:
    names = [key(10_000 + 10 * each) for each in range(50)]
    keys = Keys(*names)
    here = keys.page().previous
    added = {key(10_005, each) for each in range(60)}
    keys.keys |= added
    keys.lagging = {*added, names[40]}
    keys.random = Random(1)  # the first read of the page is an old one
    page = keys.page(5, after=here)
    keys.lagging.clear()
    found, _ = keys.climb(page.previous, 5)
    assert sorted(shown(page) + found) == sorted(added)


def test_what_is_remembered_below_a_later_begin_of_the_range_is_not_shown_again() -> None:
    keys = Keys(*(key(10_000 + each) for each in range(5)))
    here = keys.page().previous
    part = keys.page(after=here, since=times.to_text(10_003))
    assert shown(part) == []
    assert shown(keys.page(after=part.previous)) == []


def test_a_first_page_remembers_the_last_entries_above_the_next_one() -> None:
    names = [key(10_000 + each) for each in range(120)]
    keys = Keys(*names)
    few, many = keys.page(10).previous, keys.page(100).previous
    assert (few.position, few.low, len(few.seen)) == (names[-1], names[-11], 10)
    assert (many.position, many.low, len(many.seen)) == (names[-1], names[-51], MAX_SEEN)
    whole = Keys(*names[:5]).page(10).previous
    assert (whole.low, len(whole.seen)) == (FLOOR, 5)


def test_a_low_mark_stays_below_the_remaining_keys() -> None:
    names = [key(10_000 + each) for each in range(60)]
    here = Cursor(names[-1], FLOOR, tuple(map(hashed, names[10:])))
    match = late.Match(here, names)
    moved = late.moved(here, names, match, looked_at=names[:2], still_missing=[])
    assert moved.low == names[1]
    assert late.Match(moved, names[2:]).fresh == names[2:10]


def test_a_cursor_remembers_no_more_than_it_may_whatever_is_left() -> None:
    names = [key(10_000 + each) for each in range(60)]
    here = Cursor(names[-1], FLOOR, tuple(map(hashed, names[10:])))
    moved = late.moved(here, names, late.Match(here, names), names[1:10], still_missing=[])
    assert (moved.low, moved.seen) == (FLOOR, here.seen)


# Where pages end


def test_who_polls_from_an_empty_range_of_the_future_misses_nothing() -> None:
    keys = Keys(key(10_000))
    page = keys.page(since=times.to_text(200_000))
    assert (shown(page), page.previous) == ([], Cursor.at(NOW))
    keys.keys |= {key(150_000), key(250_000)}
    assert shown(keys.page(after=page.previous)) == [key(250_000), key(150_000)]
    part = keys.page(after=page.previous, since=times.to_text(200_000))
    assert shown(part) == [key(250_000)]


@pytest.mark.parametrize("direction", ["before", "after"])
@pytest.mark.parametrize("place", [Cursor.at(key(500)), Cursor.at(FLOOR)])
def test_an_empty_page_gives_the_cursor_that_was_sent_or_where_its_range_begins(
    direction: str, place: Cursor
) -> None:
    about: dict[str, Any] = {direction: place}
    page = Keys().page(**about)
    assert (shown(page), page.next, page.previous) == ([], None, place)
    since = times.to_text(5_000)
    assert Keys().page(since=since).previous == Cursor.at(since)


def test_a_page_that_meets_its_end_makes_no_query() -> None:
    keys = Keys(key(10_000))
    ends = times.to_text(10_000)
    for about in (
        {"before": Cursor.at(key(500))},
        {"until": FLOOR},
        {"until": times.to_text(500)},
        {"since": ends, "until": ends},
        {"after": Cursor.at(key(10_000)), "until": ends},
    ):
        page = keys.page(**about)
        assert (shown(page), keys.queries, page.has_more) == ([], [], False)


def test_a_cursor_outside_the_range_begins_at_its_edge() -> None:
    keys = Keys(*(key(each) for each in (10_000, 20_000, 30_000, 40_000)))
    since, until = times.to_text(15_000), times.to_text(35_000)
    inside = [key(30_000), key(20_000)]
    above, below = Cursor.at(key(50_000)), Cursor.at(key(500))
    assert shown(keys.page(before=above, since=since, until=until)) == inside
    assert shown(keys.page(after=below, since=since, until=until)) == inside
    assert shown(keys.page(after=below)) == [key(each) for each in (40_000, 30_000, 20_000, 10_000)]


def test_what_is_below_a_page_upwards_is_below_its_oldest_new_entry() -> None:
    keys = Keys(key(10_000), key(30_000))
    here = keys.page().previous
    keys.keys |= {key(20_000), key(40_000)}
    page = keys.page(after=here)
    assert shown(page) == [key(40_000), key(20_000)]
    assert page.next == Cursor.at(key(40_000))
    down = [key(30_000), key(20_000), key(10_000)]
    assert shown(keys.page(before=page.next)) == down, "what came from below is shown again"
    assert keys.page(after=Cursor.at(FLOOR)).next is None


# Bounds


@pytest.mark.parametrize(("limit", "looked_at"), [(5, 306), (50, 351), (100, 400)])
def test_a_page_of_hidden_entries_ends_at_its_bound_and_goes_on_behind_it(
    limit: int, looked_at: int
) -> None:
    names = [key(10_000 + each) for each in range(1_000)]
    keys = Keys(*names)
    keys.hidden = set(names[1:])
    keys.are_cached = True
    page = keys.page(limit)
    assert (shown(page), page.is_partial) == ([], True)
    assert page.next == Cursor.at(names[-looked_at])
    pages = 1
    while page.next:
        page = keys.page(limit, before=page.next)
        pages += 1
    assert (shown(page), page.is_partial, pages) == ([names[0]], False, -(-1_000 // looked_at))


@pytest.mark.parametrize("is_up", [False, True])
def test_a_page_reads_200_posts_at_most(is_up: bool) -> None:
    names = [key(10_000 + each) for each in range(450)]
    keys = Keys(*names)
    keys.hidden = set(names)
    about: dict[str, Any] = {"after": Cursor.at(FLOOR)} if is_up else {}
    page = keys.page(50, **about)
    assert (shown(page), page.is_partial, keys.posts) == ([], True, MAX_POSTS)
    if is_up:
        assert (page.previous.position, page.has_more) == (names[199], True)
    else:
        assert page.next == Cursor.at(names[-200])


def test_many_posts_in_a_row_that_are_left_out_are_read_in_few_calls() -> None:
    names = [key(10_000 + each) for each in range(150)]
    keys = Keys(*names)
    keys.hidden = set(names[1:])
    assert shown(keys.page(1)) == [names[0]]
    assert keys.calls <= 10  # of 1, 1, 2, 4, …, as far as each query reaches
    assert keys.posts == 150


# Second looks


def test_a_second_look_has_room_for_what_another_part_hid_from_the_first() -> None:
    names = [key(10_000 + each) for each in range(5)]

    def oldest(_within: Range, *, limit: int, is_consistent: bool, **_: object) -> Any:
        found = names if is_consistent else names[:1]
        return [Entry(each) for each in found[:limit]], len(found) > limit

    keys = Keys(*names)
    here = Cursor(names[-1], FLOOR, tuple(map(hashed, names[:2])))
    source = Source(keys.newest, oldest, hidden=3)
    page = paging.page(source, keys.show, Asked(5, after=here), floor=FLOOR, now=NOW)
    assert shown(page) == names[:1:-1]


def test_a_look_that_ends_at_the_cursors_position_is_looked_at_again_for_what_is_missing() -> None:
    names = [key(10_000 + each) for each in range(6)]
    looks: list[bool] = []

    def oldest(_within: Range, *, limit: int, is_consistent: bool, **_: object) -> Any:
        looks.append(is_consistent)
        found = names if is_consistent else names[1:]
        return [Entry(each) for each in found[:limit]], len(found) > limit

    keys = Keys(*names)
    here = Cursor(names[4], FLOOR, (hashed(names[0]), hashed(names[4])))
    source = Source(keys.newest, oldest)
    page = paging.page(source, keys.show, Asked(1, after=here), floor=FLOOR, now=NOW)
    assert (shown(page), looks) == ([names[1]], [False, True])


# Parameters


def test_a_page_is_asked_for_by_instants_or_dates() -> None:
    found = asked({"from": "2026-11-20", "to": "2026-11-20T20:00:00.5+02:00"}, 7)
    assert (found.since, found.until) == ("2026-11-20T00:00:00.000Z", "2026-11-20T18:00:00.500Z")
    assert (found.limit, found.before, found.after) == (7, None, None)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"before": "x", "after": "x"}, "not both"),
        ({"from": "2026-11-21", "to": "2026-11-20"}, "'from' must not be later than 'to'"),
        ({"from": "2026-11-31"}, "'from' is neither a time of RFC 3339 nor a date"),
        ({"to": ""}, "'to' is neither a time"),
        ({"after": "x"}, "take 'next' or 'previous'"),
    ],
)
def test_a_page_that_is_asked_for_wrongly_is_refused(query: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        asked(query, 50)
