"""Checks whose posts readers are shown, by requests and answers alone.

A page shows the state of one moment during its request: all entries of publishers who are followed
and not muted, and none of others. So each page is a sighting of these relations, and some order of
the requests must explain all sightings.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

from fanfold.ids import sort_key, split_sort_key
from proof.simulation.checks.evidence import Evidence, Landed
from proof.simulation.clients.history import Page, Pair
from proof.simulation.clients.reader_requests import TOO_MANY, is_overtaken
from proof.simulation.clients.readers import FOLLOWING, MUTED
from proof.simulation.oracle.follows import Asked, Sighting, contradictions, surely

# After this time, an entry is shown: the longest lag of reads, and how long a post is cached as
# missing.
LAG_MS = 5_000 + 5_000


@dataclass
class _Seen:
    """Observations of the follows and mutes of all users."""

    follows: dict[Pair, list[Sighting]] = field(default_factory=lambda: defaultdict(list))
    mutes: dict[Pair, list[Sighting]] = field(default_factory=lambda: defaultdict(list))


def readers_are_shown_whom_they_follow(found: Evidence) -> Iterator[str]:
    """Each page shows all of followed, unmuted publishers, and nothing of others; lists agree."""
    _ = found.seen  # reads after the run count, too
    seen = _Seen()
    _look_at_lists(found, seen)
    yield from _look_at_pages(found, seen)
    for pair, sightings in seen.follows.items():
        for each in _unexplained(follow_requests(found, pair), sightings, skew_ms=found.skew_ms):
            does = "follows" if each.follows else "does not follow"
            yield f"By {each.what}, {pair[0]} {does} {pair[1]}, against the requests: {each}."
    for pair, sightings in seen.mutes.items():
        for each in _unexplained(found.history.readers.mutes[pair], sightings, skew_ms=0):
            has = "has" if each.follows else "has not"
            yield f"By {each.what}, {pair[0]} {has} muted {pair[1]}, against the requests: {each}."


def mutes_are_bounded(found: Evidence) -> Iterator[str]:
    """A mute is refused only if the limit of mutes may have been reached; never above it."""
    _ = found.seen  # reads after the run count, too
    most, readers = found.world.max_muted, found.history.readers
    for each in readers.listings:
        if each.name == MUTED and len(each.publishers) > most:
            yield f"{each.user} has muted {len(each.publishers)} publishers, of {most} at most."
    for mute in found.history.of("mute"):
        if mute.status != TOO_MANY or is_overtaken(mute):
            continue
        others = [
            requests
            for (user, publisher), requests in readers.mutes.items()
            if user == mute.user and publisher != mute.subject
        ]
        ended_ms = min(mute.ended_ms, found.seen.at_ms)
        may = [surely(each, mute.begun_ms, ended_ms, skew_ms=0) is not False for each in others]
        if sum(may) < most:
            yield f"{mute.user} may not mute {mute.subject}, beside {sum(may)} others."


def follow_requests(found: Evidence, pair: Pair) -> list[Asked]:
    """The requests to follow and unfollow, as reads see them: before deliveries do."""
    return found.asked(pair)


def is_hidden(found: Evidence, pair: Pair, begun_ms: float, ended_ms: float) -> bool | None:
    """Whether a publisher is surely hidden throughout an interval; False if surely not; or None."""
    mutes = found.history.readers.mutes.get(pair, [])
    is_muted = surely(mutes, begun_ms, ended_ms, skew_ms=0) if mutes else False
    requests = follow_requests(found, pair)
    follows = surely(requests, begun_ms, ended_ms, skew_ms=found.skew_ms)
    if is_muted or follows is False:
        return True
    return False if follows and is_muted is False else None


def is_excused(found: Evidence, pair: Pair) -> bool:
    """Whether an accident or a restore changed edges or marks, and so what is shown."""
    damage = found.world.damage
    was_touched = damage.touches(pair, -math.inf, math.inf)
    return was_touched or pair in damage.undone or pair[0] in damage.unmarked


def due_entries(
    found: Evidence, user: str, is_headless: bool = False
) -> list[tuple[str, str, float]]:
    """Sort key and publisher of each lasting entry, and the time from which it must show.

    While the head is an old one (`is_headless`), those in channels need not.
    """
    own_ms = found.world.observer.landed_ms

    def due_ms(each: Landed) -> float:
        return own_ms.get((user, each.sort_key), math.inf) if is_headless else each.must_ms

    return [
        (each.sort_key, each.publisher, due_ms(each) + LAG_MS)
        for each in found.landed.get(user, ())
        if (user, each.ref_id) not in found.world.damage.lost_entries
        and not found.history.tried_to_retract(each.ref_id)
    ]


def _look_at_lists(found: Evidence, seen: _Seen) -> None:
    relations, mutes = found.history.relations, found.history.readers.mutes
    for each in found.history.readers.listings:
        pairs = relations if each.name == FOLLOWING else mutes
        known = {publisher for user, publisher in pairs if user == each.user}
        sightings = seen.follows if each.name == FOLLOWING else seen.mutes
        for publisher in sorted(known | each.publishers):
            if each.name == FOLLOWING and is_excused(found, (each.user, publisher)):
                continue
            is_there = publisher in each.publishers
            sightings[each.user, publisher].append(
                Sighting(each.begun_ms, each.ended_ms, is_there, what=f"the list {each.name}")
            )


def _look_at_pages(found: Evidence, seen: _Seen) -> Iterator[str]:
    due, damage = cache(partial(due_entries, found)), found.world.damage
    readings = (*found.history.readings, *found.history.readers.ids)
    for page in (page for pages in readings for page in pages):
        user, shown = page.user, {each["publisher_id"] for each in page.entries}
        left = _left_out(page, due(user, damage.is_headless(page.begun_ms, page.ended_ms)))
        for publisher in sorted(shown | left.keys()):
            pair = user, publisher
            if is_excused(found, pair):
                continue
            if publisher in shown and publisher in left:
                yield f"{user} is shown posts of {publisher} at once, but not {left[publisher]}."
                continue
            _look(found, seen, pair, page, is_shown=publisher in shown)


def _left_out(page: Page, due: Sequence[tuple[str, str, float]]) -> dict[str, str]:
    """By publisher: an entry that exists and is missing on the page."""
    keys = {sort_key(each["published_at"], each["ref_id"]) for each in page.entries}
    return {
        publisher: split_sort_key(key)[1]
        for key, publisher, at_ms in due
        if at_ms <= page.begun_ms and page.has_room_for(key) and key not in keys
    }


def _look(found: Evidence, seen: _Seen, pair: Pair, page: Page, *, is_shown: bool) -> None:
    """Note what a page says about a publisher: it shows all posts, or none."""
    span, what = (page.begun_ms, page.ended_ms), "a page"
    mutes = found.history.readers.mutes.get(pair)
    if is_shown:
        seen.follows[pair].append(Sighting(*span, follows=True, what=what))
        if mutes:
            seen.mutes[pair].append(Sighting(*span, follows=False, what=what))
    elif not mutes or surely(mutes, *span, skew_ms=0) is False:
        seen.follows[pair].append(Sighting(*span, follows=False, what=what))
    elif surely(follow_requests(found, pair), *span, skew_ms=found.skew_ms):
        seen.mutes[pair].append(Sighting(*span, follows=True, what=what))


def _unexplained(
    requests: Sequence[Asked], sightings: Sequence[Sighting], *, skew_ms: float
) -> Iterator[Sighting]:
    for what in contradictions(requests, sightings, skew_ms=skew_ms):
        if isinstance(what, Sighting):
            yield what
