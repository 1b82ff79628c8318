"""Checks of readers who page upwards."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from fanfold.cursor import MAX_SEEN, hashed
from fanfold.ids import sort_key
from proof.simulation.checks.evidence import Evidence
from proof.simulation.clients.climbs import Climb

# The longest lag of reads in a run.
LAG_MS = 5_000


def readers_who_page_upwards_miss_nothing(found: Evidence) -> Iterator[str]:
    """Entries that land above a cursor's low mark are shown once, on full pages.

    A run has too few posts to reach a bound of a page.
    """
    _ = found.seen  # the readers read on until there is no more
    for climb in found.history.climbs:
        user = climb.user
        for poll in climb.polls:
            if "partial" in poll.page:
                yield f"{user} meets the bound of a page: {poll.page}."
            elif len(poll.page["entries"]) < poll.limit and poll.goes_on:
                yield f"{user} has a short page that is not the last one: {poll.page}."
        yield from _entries(found, climb)
        if len(climb.polls) > 1 and climb.polls[-1].page["entries"]:
            yield f"{user} is told that there is no more, and there is."


def _entries(found: Evidence, climb: Climb) -> Iterator[str]:
    user, times = (
        climb.user,
        Counter(
            sort_key(entry["published_at"], entry["ref_id"])
            for poll in climb.polls
            for entry in poll.page["entries"]
        ),
    )
    left = {key for (owner, _), each in found.sort_keys.items() if owner == user for key in each}
    landed = {
        each.sort_key: each
        for each in found.landed.get(user, ())
        if each.sort_key in left or each.ref_id in found.in_channels
    }
    keys = {key: each.ref_id for key, each in landed.items()}
    hashes = Counter(map(hashed, keys))
    asked_ms = [poll.begun_ms for poll in climb.polls if poll.after]
    low = _low_mark(climb, sorted(keys, reverse=True))
    # The mark may rise between two keys with the same hash.
    are_told_apart = len(hashes) == len(keys)
    for key, ref_id in keys.items():
        # Keys with the same hash may be shown again, and so may entries that a restore lost.
        if hashes[hashed(key)] > 1 or (user, ref_id) in found.world.damage.lost_entries:
            continue
        is_never_hidden = found.history.is_never_hidden(user, landed[key].publisher)
        # A hidden channel is not read, so its entries are new when it is shown again.
        may_come_again = ref_id in found.in_channels and not is_never_hidden
        if times[key] > 1 and not may_come_again:
            yield f"{user} pages upwards, and is shown {ref_id} {times[key]} times."
        landed_ms = landed[key].must_ms + LAG_MS
        if (user, key) not in found.world.observer.landed_ms:
            # From when on a user who never unfollows surely follows the publisher.
            asked = found.history.relations[user, landed[key].publisher].requests
            follows_ms = min((each.ended for each in asked if each.is_due), default=math.inf)
            landed_ms = max(landed_ms, follows_ms + LAG_MS)
        is_due = low <= key and any(landed_ms <= at_ms for at_ms in asked_ms)
        if (
            is_due
            and are_told_apart
            and not times[key]
            and is_never_hidden
            and not found.history.tried_to_retract(ref_id)
        ):
            yield f"{user} pages upwards, and is not shown {ref_id}."


def _low_mark(climb: Climb, keys: Sequence[str]) -> str:
    """A key below which a reader's cursors may miss late entries; `keys` are newest first.

    The first page remembers from its oldest entry, or from the start of the range if it shows all.
    Later pages forget what is below 50 newer keys: here at most all keys that ever existed.
    """
    first = climb.polls[0].page if climb.polls else {"entries": [], "next": None}
    shown = [sort_key(each["published_at"], each["ref_id"]) for each in first["entries"]]
    oldest = min(shown, default="") if first["next"] else ""
    return max(oldest, keys[MAX_SEEN - 1] if len(keys) > MAX_SEEN else "")
