"""Rows, edges, lists and counts of follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fanfold import contract, names, times
from fanfold.aws.items import get_number
from fanfold.errors import FollowersClosed
from fanfold.follows.relation import FOLLOWED
from fanfold.timeline import marks
from fanfold.timeline.readers import reader_of
from proof.simulation.checks.evidence import ROUNDING_MS, Evidence
from proof.simulation.checks.reading.shown_publishers import follow_requests, is_excused
from proof.simulation.clients import requests
from proof.simulation.clients.history import Pair
from proof.simulation.clients.readers import FOLLOWING
from proof.simulation.faults.faults import MAX_SKEW_MS
from proof.simulation.observed.observers import pair_of
from proof.simulation.oracle.follows import Sighting, Verb, contradictions, sightings_of, surely


def follows_change_as_they_were_asked_to(found: Evidence) -> Iterator[str]:
    """Requests are linearizable; a message has one effect, or none after a later request.

    The requests must explain every change of a row, and each request that is due must take effect.
    """
    for user, publisher in found.history.relations:
        changes = sightings_of(found.world.observer.changes[user, publisher])
        # The row changes while a request is open, even if deliveries see that later.
        asked = found.asked((user, publisher))
        for what in contradictions(asked, [*changes], skew_ms=found.skew_ms):
            yield f"{user} at {publisher}: no order of the requests explains: {what}."


def lists_of_follows_are_what_was_asked_for(found: Evidence) -> Iterator[str]:
    """At the end, the list of follows over HTTP agrees with the requests and the posts."""
    for (user, publisher), what in found.contradictions:
        if isinstance(what, Sighting) and not what.what:
            listed = "is" if what.follows else "is not"
            yield f"{publisher} {listed} in the list of {user}, against the requests."


def edges_agree_with_the_lists_of_follows(found: Evidence) -> Iterator[str]:
    """Who is in a list has a row and an edge of its version, and nobody else has.

    A dead letter to RELATE excuses its own pair, until the edge is reconciled.
    """
    world, relations = found.world, found.history.relations
    listed = {(user, each) for user, follows in found.seen.following.items() for each in follows}
    rows: dict[Pair, int] = {}
    for row in found.pairs:
        pair = row["user_id"]["S"], row["publisher_id"]["S"]
        if (row["state"]["S"] == FOLLOWED) is not (pair in listed):
            yield f"The row of {pair} does not agree with the list."
        rows[pair] = int(row["version"]["N"])
    edges: dict[Pair, int] = {}
    for row in world.rows(names.FOLLOWERS):
        pair = pair_of(row)
        edges[pair] = max(edges.get(pair, 0), int(row["version"]["N"]))
    for pair in sorted(listed | edges.keys()):
        wanted = rows.get(pair, -1) if pair in listed else None
        if edges.get(pair) != wanted and not relations[pair].is_unsettled():
            yield f"{pair} has an edge of version {edges.get(pair)}, in the place of {wanted}."
    for row in found.world.rows(names.READERS):
        user = row["user_id"]["S"]
        waiting = len(found.seen.requested.get(user, ()))
        # After a restore, they are off by what was undone, until the doctor has counted.
        damage = found.world.damage
        is_off = user in damage.miscounted_ms
        off = damage.miscounted[user] if is_off else 0
        count = len(found.seen.following.get(user, ())) + waiting + off
        if get_number(row, "follows") != count:
            yield f"The count of follows of {user} is not {count}."
        if get_number(row, "requests") != waiting and not is_off:
            yield f"The count of requests of {user} is not {waiting}."
        blocks = len(found.seen.blocks.get(user, ()))
        if get_number(row, "blocks") != blocks and not is_off:
            yield f"The count of blocks of {user} is not {blocks}."


def follows_are_counted(found: Evidence) -> Iterator[str]:
    """A list says how many are followed: exactly if calm, else between the sure and the possible.

    After a restore, it is off by what was undone, until the doctor has counted.
    """
    relations, calm_ms = found.history.relations, found.seen.begun_ms
    for each in found.history.readers.listings:
        if each.name != FOLLOWING:
            continue
        damage, span = found.world.damage, (each.begun_ms, each.ended_ms)
        off = damage.miscounted[each.user]
        is_off = each.user in damage.miscounted_ms
        least = most = len(each.publishers) + (off if is_off else 0)
        if each.begun_ms < calm_ms:
            pairs = [pair for pair in relations if pair[0] == each.user]
            asked = [follow_requests(found, pair) for pair in pairs]
            does = [surely(requests, *span, skew_ms=found.skew_ms) for requests in asked]
            least = does.count(True) + min(off, 0)
            most = len(does) - does.count(False) + max(off, 0)
        if not max(least, 0) <= each.count <= max(most, 0):
            yield f"{each.user} is told to follow {each.count} publishers, not {least} to {most}."


def readers_know_the_channels_of_whom_they_follow(found: Evidence) -> Iterator[str]:
    """A reader's row has a mark of each followed channel up to its version, and of no other.

    It is complete to no later version than the head's.
    """
    head = found.head
    followed = {
        (row["user_id"]["S"], row["publisher_id"]["S"])
        for row in found.pairs
        if row["state"]["S"] == FOLLOWED
    }
    for row in found.readers:
        user, reader = row["user_id"]["S"], reader_of(row)
        if reader.channels_seen > head.version:
            yield f"{user} knows channels up to {reader.channels_seen}, of {head.version}."
        for channel in head.channels.values():
            pair = user, channel.publisher_id
            relation = found.history.relations.get(pair)
            is_marked = marks.holds(reader.channels, channel.publisher_id)
            is_covered = channel.version <= reader.channels_seen
            if is_excused(found, pair) or (relation and relation.is_unsettled()):
                continue
            if is_marked and pair not in followed:
                yield f"{user} has a mark of the channel of {pair[1]}, and does not follow."
            elif is_covered and pair in followed and not is_marked:
                yield f"{user} follows {pair[1]}, and has no mark of the channel."


def follows_are_listed_with_their_time(found: Evidence) -> Iterator[str]:
    """A list says since when a follow is: since one of the requests for it."""
    margin = found.skew_ms + ROUNDING_MS
    for user, lines in found.seen.following.items():
        for publisher, at in lines.items():
            asked = [each for each in found.asked((user, publisher)) if each.follows]
            at_ms = times.to_ms(at)
            is_told = any(
                each.is_import
                or min(each.begun, each.stamp) - margin <= at_ms <= each.ended + margin
                # RELATE's clock says when it was opened.
                or (each.verb is Verb.OPEN and each.begun - MAX_SKEW_MS <= at_ms)
                for each in asked
            )
            if not is_told:
                yield f"{user} is told to follow {publisher} since {at}, when nobody asked for it."


def publishers_are_told_who_follows_them(found: Evidence) -> Iterator[str]:
    """A publisher lists and counts exactly those in whose lists it is; others are refused.

    It asks after all other checks have, which so see the same world as without it.
    """
    world, following = found.world, found.seen.following
    told: dict[str, tuple[list[str], dict[str, Any] | None]] = {}
    refused: set[int] = set()

    def ask() -> None:
        for publisher in sorted({publisher for _, publisher in found.history.relations}):
            told[publisher] = requests.followers(world, publisher)
            path = {"publisher_id": publisher}
            if not world.has_audiences:  # there, anybody may ask
                refused.update(
                    requests.call(world, "reader", route, path=path)[0]
                    for route in (contract.LIST_FOLLOWERS, contract.COUNT_FOLLOWERS)
                )

    world.run(lambda each: each.start_client("publisher", ask))
    for publisher, (users, count) in told.items():
        wanted = {user for user, listed in following.items() if publisher in listed}
        unsettled = {
            user
            for (user, each), relation in found.history.relations.items()
            if each == publisher and relation.is_unsettled()
        }
        if len(users) != len(set(users)) or ({*users} ^ wanted) - unsettled:
            yield f"{publisher} is told the followers {users}, and has {sorted(wanted)}."
        # Of more than are read, the number is an estimate.
        may_estimate = len(users) >= world.sample_edges
        is_right = count and (count["followers"] == len(users) if count["exact"] else may_estimate)
        if not is_right:
            yield f"{publisher} is told the count {count}, of {len(users)}."
    if refused - {FollowersClosed.status}:
        yield f"Who asks for the followers of another is answered {sorted(refused)}."
