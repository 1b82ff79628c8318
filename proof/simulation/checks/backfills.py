"""What a new follow brings: the newest posts of its publisher, in two passes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fanfold import names
from fanfold.follows.backfill import OUTBOX_LAG_MS
from proof.simulation.checks.evidence import ROUNDING_MS, Evidence
from proof.simulation.checks.reading.shown_publishers import follow_requests, is_excused
from proof.simulation.clients.history import BackfillPass
from proof.simulation.faults.faults import MAX_SKEW_MS
from proof.simulation.oracle.follows import surely


def a_new_follow_brings_the_newest_posts(found: Evidence) -> Iterator[str]:
    """After each pass, a user who surely follows has the publisher's newest posts.

    These are the posts that were in the lagging index when the follow had its edge, or, for the
    second pass, when that began.
    """
    most = found.world.backfill
    for done in found.history.backfills if most else ():
        pair = done.user, done.publisher
        if is_excused(found, pair):
            continue
        missing = [each for each in _newest(found, done, most) if _is_missing(found, done, *each)]
        if missing and _is_owed(found, done):  # last, and once, because it takes longest
            which = "second" if done.is_second else "first"
            for _, ref_id in missing:
                yield f"The {which} pass for {done.user} at {done.publisher} has missed {ref_id}."


def nothing_else_is_filled_in(found: Evidence) -> Iterator[str]:
    """Only follows that users requested bring posts from before them."""
    for user, ref_id in sorted(found.only_filled):
        relation = found.history.relations.get((user, found.publishers_of[ref_id]))
        requests = relation.requests if relation else []
        # Even an unfollow sends a command to reconcile, which may find a follow of an import.
        if not found.world.backfill or all(request.is_import for request in requests):
            yield f"{user} has {ref_id} of before, and nothing should have brought it."


def _known_by_ms(found: Evidence, done: BackfillPass) -> float:
    """Until when a post must have been stored to be in the page that a pass uses."""
    skew_ms = MAX_SKEW_MS if "skewed" in found.world.faults.injected else 0
    # A cached page is at least this new, by the clock of its reader.
    first_ms = done.sent_ms + OUTBOX_LAG_MS
    if done.is_second:
        first_ms += names.PLAN.settled_seconds * 1000
    lag_ms = 1000 * found.world.max_index_lag + ROUNDING_MS
    return min(done.begun_ms, first_ms - skew_ms) - lag_ms


def _is_missing(found: Evidence, done: BackfillPass, key: str, ref_id: str) -> bool:
    # Entries in a channel are there for this follower, too.
    own_ms = found.world.observer.landed_ms.get((done.user, key), math.inf)
    landed_ms = min(own_ms, found.world.channels.put_ms.get(key, math.inf))
    is_due = found.world.observer.posted_ms[ref_id] <= _known_by_ms(found, done)
    return is_due and landed_ms > done.ended_ms


def _is_owed(found: Evidence, done: BackfillPass) -> bool:
    requests = follow_requests(found, (done.user, done.publisher))
    if any(request.is_import for request in requests):
        return False
    span = done.begun_ms, done.ended_ms
    return surely(requests, *span, skew_ms=found.skew_ms) is True


def _newest(found: Evidence, done: BackfillPass, most: int) -> list[tuple[str, str]]:
    """Key and id of the posts that are surely among the newest of all possible ones."""
    posted = found.world.observer.posted_ms
    may = [
        ref_id
        for ref_id in found.publishes
        if found.publishes[ref_id].publisher == done.publisher
        and posted.get(ref_id, done.ended_ms) < done.ended_ms
    ]
    # A retracted post may have been among them; its place is no longer known.
    gone = [ref_id for ref_id in may if "sort_key" not in found.posts.get(ref_id, {})]
    keys = {found.posts[ref_id]["sort_key"]["S"]: ref_id for ref_id in may if ref_id not in gone}
    return sorted(keys.items(), reverse=True)[: max(0, most - len(gone))]
