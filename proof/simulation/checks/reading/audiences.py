"""Checks of who may follow and read whom, by requests and answers alone.

Each answer, list, feed and post is a sighting of a relation, and some order of what the user and
the publisher have asked for must explain all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from fanfold import names
from proof.simulation.checks.evidence import Evidence
from proof.simulation.checks.reading.shown_publishers import is_excused
from proof.simulation.clients.audience import Look
from proof.simulation.clients.history import Pair
from proof.simulation.oracle.audience import privacy
from proof.simulation.oracle.follows import (
    FOLLOWED,
    OVERTAKEN_MS,
    RELATIONS,
    SHUT,
    Asked,
    Sighting,
    contradictions,
    surely,
)

UNSHUT = frozenset(each for each in RELATIONS if not each & SHUT)


def publishers_are_told_what_they_chose(found: Evidence) -> Iterator[str]:
    """Private or public is what was asked for last."""
    _ = found.seen  # reads after the run count, too
    audience = found.history.audience
    for publisher, told in audience.told.items():
        choices = audience.choices_of(publisher)
        for what in contradictions(choices, told, skew_ms=found.skew_ms):
            if isinstance(what, Sighting):
                is_private = "private" if what.follows else "public"
                yield f"{publisher} is told to be {is_private}, against its choices: {what}."


def all_is_shown_to_whom_publishers_let(found: Evidence) -> Iterator[str]:
    """Feeds, posts, lists and answers agree with what users and publishers asked for."""
    _ = found.seen  # reads after the run count, too
    seen: dict[Pair, list[Sighting]] = defaultdict(list)
    for each in (*_answered(found), *_listed(found), *_looked(found)):
        seen[each[0]].append(each[1])
    for pair, sightings in seen.items():
        if is_excused(found, pair):
            continue
        for what in contradictions(found.asked(pair), sightings, skew_ms=found.skew_ms):
            if isinstance(what, Sighting):
                yield f"By {what.what}, {pair[0]} is to {pair[1]} {what}, against the requests."


def _answered(found: Evidence) -> Iterator[tuple[Pair, Sighting]]:
    audience = found.history.audience
    for pair, sightings in audience.seen.items():
        yield from ((pair, each) for each in sightings)
    for pair, request, among in audience.answers:
        requests = found.history.relations[pair].requests
        margin = OVERTAKEN_MS - 2 * found.skew_ms - len(requests)
        # One that is overtaken is answered as if it had taken effect before.
        if not any(
            other is not request
            and other.begun <= request.ended
            and other.stamp >= request.stamp + margin
            for other in requests
        ):
            span = request.begun, request.ended
            yield pair, Sighting(*span, False, what="the answer to a request", among=among)


def _listed(found: Evidence) -> Iterator[tuple[Pair, Sighting]]:
    for each in found.history.audience.lists:
        place = 0 if each.is_of_user else 1
        known = {pair for pair in found.history.relations if pair[place] == each.owner}
        for pair in sorted(known | each.found):
            among = each.among if pair in each.found else RELATIONS - each.among
            span = each.begun_ms, each.ended_ms
            yield pair, Sighting(*span, False, what="a list", among=among)


def _looked(found: Evidence) -> Iterator[tuple[Pair, Sighting]]:
    for look in found.history.audience.looks:
        pair = look.user, look.publisher
        if not look.is_open and not all(_is_there(found, look, each) for each in look.refs):
            continue
        relation = found.history.relations.get(pair)
        requests = relation.requests if relation else []
        choices = found.history.audience.choices_of(look.publisher)
        during = Asked(False, look.begun_ms, look.ended_ms)
        is_private = privacy(requests, choices, during, skew_ms=found.skew_ms)
        if look.is_open:
            among = FOLLOWED | (frozenset() if is_private else UNSHUT)
        else:
            among = RELATIONS - FOLLOWED - (UNSHUT if is_private is False else frozenset())
        # What was shown had been posted before the relation was looked at.
        posted = [found.publishes[each].begun_ms for each in look.refs if look.is_open]
        begun_ms = min(max([look.begun_ms, *posted]), look.ended_ms)
        yield pair, Sighting(begun_ms, look.ended_ms, False, what=look.what, among=among)


def _is_there(found: Evidence, look: Look, ref_id: str) -> bool:
    """Whether a post is there for sure that was not shown."""
    return not found.history.tried_to_retract(ref_id) and any(
        each.answer and each.ended_ms <= look.begun_ms
        for each in found.history.of("publish", subject=ref_id)
    )


def lists_agree_with_relations(found: Evidence) -> Iterator[str]:
    """What waits and is not blocked is in a list, and each block; nothing else is.

    Nobody waits for a publisher who is public.
    """
    rows = {(row["user_id"]["S"], row["publisher_id"]["S"]): row for row in found.pairs}
    wanted = set()
    for (user, publisher), row in rows.items():
        if row["state"]["S"] == "requested" and "shut" not in row:
            wanted.add((f"{publisher}#requests", f"{row['requested_at']['S']}#{user}"))
        if "shuts" in row:
            wanted.add((f"{user}#blocks", publisher))
        if ("shut" in row) is not ("shuts" in rows.get((publisher, user), {})):
            yield f"{publisher} blocks {user} by one of their rows alone."
    listed = {(row["user_id"]["S"], row["publisher_id"]["S"]) for row in found.lists}
    if listed != wanted:
        yield f"Lists have {sorted(listed - wanted)} too many, and lack {sorted(wanted - listed)}."
    if any(queue is names.RELATION for queue, _ in found.world.dead_letters()):
        return
    at_ms = found.seen.at_ms
    for publisher, users in found.seen.requests.items():
        choices = found.history.audience.choices_of(publisher)
        is_private = surely(choices, at_ms, at_ms, skew_ms=found.skew_ms)
        if users and is_private is False:
            yield f"{users} wait for {publisher}, who is public."
