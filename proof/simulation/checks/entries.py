"""Who must have an entry and who must not, by the requests and answers alone.

The oracle is `proof/simulation/oracle/follows.py`: one order of the user's requests must explain
everything observed about a user and a publisher.
"""

from __future__ import annotations

from collections.abc import Iterator

from fanfold.aws.items import get_number
from proof.simulation.checks.evidence import Evidence
from proof.simulation.clients import requests
from proof.simulation.clients.history import Pair
from proof.simulation.oracle.follows import Sighting


def no_acknowledged_follower_is_missed(found: Evidence) -> Iterator[str]:
    """A user who surely follows during a delivery has its entry, if it was delivered.

    The delivery lasts from the start of the accepted request or message until `complete`.
    """
    for pair, sighting in _sightings(found, follows=False):
        yield f"{_told(found, pair, sighting)}, and has no entry of {sighting.what}."


def nobody_gets_what_they_do_not_follow(found: Evidence) -> Iterator[str]:
    """A user who surely does not follow has no entry, and nobody has one twice.

    An exception is an edge that was put late: it stays until its writer or RELATE reads the row.
    """
    for pair, sighting in _sightings(found, follows=True):
        yield f"{_told(found, pair, sighting)}, and has {sighting.what}."
    for (user, ref_id), count in found.entries.items():
        publish = found.publishes.get(ref_id)
        if publish is None:
            yield f"{user} has {ref_id}, which nobody has published."
        elif not found.may_follow((user, publish.publisher), publish):
            yield f"{user} has {ref_id}, and never asked to follow {publish.publisher}."
        if count > 1:
            yield f"{user} has {count} entries of {ref_id}."


def _sightings(found: Evidence, *, follows: bool) -> Iterator[tuple[Pair, Sighting]]:
    """The posts that contradict what users asked for."""
    for pair, what in found.contradictions:
        if isinstance(what, Sighting) and what.what and what.follows is follows:
            yield pair, what


def _told(found: Evidence, pair: Pair, sighting: Sighting) -> str:
    user, publisher = pair
    because = "surely" if found.is_sure(pair, sighting) else "by all that is seen"
    follows = "does not follow" if sighting.follows else "follows"
    return f"{user} {because} {follows} {publisher}"


def a_last_post_reaches_every_follower_once(found: Evidence) -> Iterator[str]:
    """Post once more when all is quiescent: it reaches all followers, and nobody else.

    The users' lists say who follows; a dead letter to RELATE excuses its own pair.
    """
    if not found.world.has_last_posts:
        return
    world, relations = found.world, found.history.relations
    wanted: dict[str, set[str]] = {publisher: set() for _, publisher in relations}
    unsettled = {pair for pair, relation in relations.items() if relation.is_unsettled()}
    for user, publishers in found.seen.following.items():
        for publisher in publishers:
            wanted[publisher].add(user)
    posts: dict[str, str] = {}

    def post_all() -> None:
        posts.update(
            {each: requests.by_http(world, each, f"{each}-last").subject for each in wanted}
        )

    world.run(lambda each: each.start_client("publisher", post_all))
    fresh = Evidence(world)
    for publisher, ref_id in posts.items():
        reached = {user for user, each in fresh.entries if each == ref_id}
        if is_shared := fresh.is_in_channel(ref_id):
            reached, wanted[publisher] = _shown(fresh, publisher, ref_id)
        wrong = {user for user in reached ^ wanted[publisher] if (user, publisher) not in unsettled}
        if wrong:
            yield f"{ref_id} reached {sorted(reached)}: wrong about {sorted(wrong)}."
        delivered = get_number(fresh.fanouts.get(ref_id, {}), "delivered")
        if delivered != len(reached) and not is_shared:
            yield f"{ref_id} was delivered {delivered} times to {len(reached)}."


def _shown(found: Evidence, publisher: str, ref_id: str) -> tuple[set[str], set[str]]:
    """The users who are shown a post, and those who should be."""
    seen = found.seen
    shown = {
        user
        for user, entries in seen.shown.items()
        if any(each["ref_id"] == ref_id for each in entries)
    }
    return shown, {user for user in seen.shown if publisher in seen.visible(user)}
