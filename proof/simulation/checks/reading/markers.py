"""Checks of read markers and of counts of unread entries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

from fanfold import times
from fanfold.ids import split_sort_key
from proof.simulation.checks.evidence import ROUNDING_MS, Evidence
from proof.simulation.checks.reading.shown_publishers import due_entries, is_excused, is_hidden
from proof.simulation.clients.readers import Marking, UnreadAnswer

# An answer counts at most this many.
MOST_UNREAD = 100


def markers_only_move_up(found: Evidence) -> Iterator[str]:
    """An answered marker was requested, and is not below an earlier answer or granted move."""
    _ = found.seen  # reads after the run count, too
    by_user = attrgetter("user")
    for user, each_of in groupby(sorted(found.history.readers.markings, key=by_user), by_user):
        markings = list(each_of)
        for each in markings:
            if each.told is None:
                continue
            before = [other.told for other in markings if other.ended_ms < each.begun_ms]
            if each.told < (lowest := max((told for told in before if told), default="")):
                yield f"{user} is told the marker {each.told}, after {lowest}."
            asked = [other for other in markings if other.asked and other.begun_ms <= each.ended_ms]
            if each.told and not any(_may_be(found, each.told, other) for other in asked):
                yield f"{user} is told the marker {each.told}, which nobody asked for."
            # No request leaves less than it asked for, but for what is beyond its time.
            own = times.to_text(int(each.begun_ms - found.skew_ms - ROUNDING_MS))
            if each.asked and each.told < min(each.asked, own):
                yield f"{user} moves the marker to {each.asked}, and is told {each.told}."


def what_is_unread_is_counted(found: Evidence) -> Iterator[str]:
    """Counts include entries above the marker of followed, unmuted publishers, exactly if calm."""
    for user, (unread, marker, keys) in found.seen.unread.items():
        above = sum(key > marker for key in keys)
        if (unread.count, unread.has_more) != (min(above, MOST_UNREAD), above > MOST_UNREAD):
            yield f"{user} is told that {unread.count} are unread, and {above} are."
    for each in found.history.readers.unread:
        least, most = _bounds(found, each)
        if not min(least, MOST_UNREAD) <= each.count <= most:
            yield f"{each.user} is told that {each.count} are unread, not {least} to {most}."


def _may_be(found: Evidence, told: str, marking: Marking) -> bool:
    """Whether a marker may come from a request, which does not count beyond its own time."""
    if told == marking.asked:
        return True
    at_ms, margin = times.to_ms(split_sort_key(told)[0]), found.skew_ms + ROUNDING_MS
    is_its_time = marking.begun_ms - margin <= at_ms <= marking.ended_ms + margin
    return is_its_time and told < marking.asked


def _bounds(found: Evidence, unread: UnreadAnswer) -> tuple[int, int]:
    """How many entries may have been unread during the request: least and most."""
    markings = [each for each in found.history.readers.markings if each.user == unread.user]
    lowest = max(
        (each.told for each in markings if each.told and each.ended_ms < unread.begun_ms),
        default="",
    )
    highest = max(
        (each.asked for each in markings if each.asked and each.begun_ms <= unread.ended_ms),
        default="",
    )
    is_headless = found.world.damage.is_headless(unread.begun_ms, unread.ended_ms)
    hidden: dict[str, bool | None] = {}

    def is_out(publisher: str) -> bool | None:
        pair = unread.user, publisher
        if publisher not in hidden:
            span = unread.begun_ms, unread.ended_ms
            hidden[publisher] = None if is_excused(found, pair) else is_hidden(found, pair, *span)
        return hidden[publisher]

    sure = sum(
        at_ms <= unread.begun_ms and key > highest and is_out(publisher) is False
        for key, publisher, at_ms in due_entries(found, unread.user, is_headless)
    )
    possible = sum(
        each.may_ms <= unread.ended_ms
        and each.sort_key > lowest
        and is_out(each.publisher) is not True
        for each in found.landed.get(unread.user, ())
    )
    return sure, possible
