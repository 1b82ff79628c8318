"""Worlds that are spoiled in what readers are shown: of follows, mutes, markers and backfills."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from fanfold import names
from fanfold.follows.follows_table import FollowsTable
from fanfold.timeline.unread import UnreadCount
from proof.simulation.checks import backfills
from proof.simulation.checks.reading import markers, shown_publishers
from proof.simulation.clients import reader_requests, requests
from proof.simulation.clients.history import BackfillPass
from proof.simulation.clients.readers import MUTED, Listing, Marking
from proof.simulation.world.world import World
from tests.simulation.spoilings import (
    POST,
    PUBLISHER,
    SENT,
    Spoil,
    acting,
    changed,
    spoil_for,
    spoils,
    with_newest,
)

LATE, EARLY = "2026-11-20T19:00:00.000Z#late", "2026-11-20T17:00:00.000Z#early"


@spoils(shown_publishers.readers_are_shown_whom_they_follow, "By a page, eve follows p0")
def a_mark_that_is_gone(world: World) -> None:
    acting(world, "eve", lambda: requests.relate(world, "unfollow", "eve", PUBLISHER))
    (row,) = [row for row in world.rows(names.READERS) if row["user_id"]["S"] == "eve"]
    marks = dict.fromkeys(name for name in row if name.startswith("hidden_"))
    assert marks
    changed(world, names.READERS, {"user_id": "eve"}, **marks)


def _listed_as_muted(world: World) -> None:
    now_ms = world.clock.now_ms()
    listing = Listing("ann", MUTED, now_ms, now_ms, frozenset({PUBLISHER}))
    world.history.readers.listings.append(listing)


def _muted(world: World) -> None:
    acting(world, "ann", lambda: reader_requests.mute(world, "mute", "ann", PUBLISHER))


@spoils(shown_publishers.readers_are_shown_whom_they_follow, "By a page, ann has not muted p0")
def a_mute_that_is_gone(world: World) -> None:
    _muted(world)
    changed(world, names.READERS, {"user_id": "ann"}, muted=None)


spoil_for(
    shown_publishers.readers_are_shown_whom_they_follow,
    {
        "By a page, ann does not follow p0": lambda _: with_newest(lambda _found: []),
        f"posts of {PUBLISHER} at once, but not {POST}": lambda _: with_newest(
            lambda found: [each for each in found if not each.sort_key.endswith(POST)]
        ),
        "By the list following, ann does not follow p0": lambda _: patch.object(
            FollowsTable, "page", lambda *_, **__: ([], False)
        ),
        "By the list muted, ann has muted p0": _listed_as_muted,
    },
)


@spoils(shown_publishers.mutes_are_bounded, "ann has muted 1 publishers, of 0 at most")
def more_mutes_than_there_is_room_for(world: World) -> None:
    _muted(world)
    world.max_muted = 0


@spoils(shown_publishers.mutes_are_bounded, "ann may not mute p0, beside 0 others")
def a_mute_that_is_refused_without_reason(world: World) -> None:
    _muted(world)
    (mute,) = world.history.of("mute")
    mute.status = reader_requests.TOO_MANY


# Markers


def _marks(*asked_and_told: tuple[str, str]) -> Spoil:
    def spoil(world: World) -> None:
        for asked, told in asked_and_told:
            world.clock.advance(1.0)
            now_ms = world.clock.now_ms()
            world.history.readers.markings.append(Marking("ann", now_ms, asked, told, now_ms))

    return spoil


spoil_for(
    markers.markers_only_move_up,
    {
        f"is told the marker {EARLY}, after {LATE}": _marks((LATE, LATE), (EARLY, EARLY)),
        "which nobody asked for": _marks(("", EARLY)),
        f"moves the marker to {LATE}, and is told {EARLY}": _marks((EARLY, EARLY), (LATE, EARLY)),
    },
)


@spoils(markers.what_is_unread_is_counted, "that 9 are unread, and", "that 9 are unread, not")
def a_count_that_is_wrong(world: World) -> Any:
    acting(world, "ann", lambda: reader_requests.move_marker(world, "ann", EARLY))
    return patch.object(UnreadCount, "count", lambda *_: {"unread": 9, "more": False})


# Backfills


@spoils(backfills.a_new_follow_brings_the_newest_posts, "first pass for bob at p0 has missed")
@spoils(backfills.a_new_follow_brings_the_newest_posts, "second pass for bob at p0 has missed")
def a_look_that_brings_nothing(world: World) -> None:
    world.backfill = 5
    now_ms = world.clock.now_ms() + 60_000
    for is_second in (False, True):
        done = BackfillPass("bob", PUBLISHER, now_ms, now_ms, now_ms, is_second)
        world.history.backfills.append(done)
    for user, key in [*world.observer.landed_ms]:
        if user == "bob" and key.endswith(SENT):
            del world.observer.landed_ms[user, key]


@spoils(backfills.nothing_else_is_filled_in, "and nothing should have brought it")
def an_entry_that_nothing_should_have_brought(world: World) -> None:
    world.backfill = 0
    acting(world, "bob", lambda: requests.read(world, "bob"))
    (key,) = [key for user, key in world.observer.written if user == "bob" and key.endswith(SENT)]
    del world.observer.written["bob", key]
    world.observer.filled["bob", key] = 1
