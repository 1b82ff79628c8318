"""What RELATE looks for when it backfills a follow. Pure.

A post is delivered by its fan-out if the edge was put before the post was accepted. One accepted
before the edge may be missed by its fan-out; it is in the outbox, a moment after its acceptance.
Therefore RELATE looks at the outbox twice: at once, so that a reader need not wait, and once more
when that moment has surely passed. And it believes no page of the outbox that was read too soon
after the edge, unless it reads that page now: the second look makes up for that.

Times are epoch milliseconds; those of SQS and of the workers differ by a few.
"""

from __future__ import annotations

from typing import NamedTuple

from fanfold import names, times
from fanfold.follows.wishes import Follow

# The outbox follows its table within moments, mostly a fraction of a second.
OUTBOX_LAG_MS = 1_000
# An order that has waited longer finds RELATE behind, as in a rush of follows. Then a follow brings
# ten posts, a page's beginning, in a third of the time.
LATE_MS = 60_000
POSTS_WHEN_LATE = 10
# The shortest delay of an order to settle.
SETTLE_MS = names.API.settled_seconds * 1000
# A follow that failed is tried again within this time, while its edge may still be missing.
NEW_MS = 120_000


class Look(NamedTuple):
    """One look at a publisher's newest posts: how many of them, and how."""

    posts: int
    # A page that a worker remembers is used if it was read at this time or later.
    remembered_from: int
    # Whether the timeline may hold some of the posts: then it is read first, because a write costs
    # ten times as much.
    asks_first: bool


def first_look(
    posts: int, *, sent_at: int, now: int, version: int, redelivered: bool = False
) -> Look:
    """The look for an order to backfill, sent at once by whoever had put the edge.

    `version` is that of the follow: nobody has entries of a publisher that they never followed.
    But where the order has waited, the one to settle may have come before it.
    """
    asks_first = redelivered or version > 1 or now - sent_at >= SETTLE_MS
    wanted = _posts(posts, is_late=now > sent_at + LATE_MS)
    return Look(wanted, sent_at + OUTBOX_LAG_MS, asks_first)


def second_look(posts: int, *, sent_at: int, now: int) -> Look:
    """The look for an order to settle, which was sent before the edge was put.

    It does not say with which delay. At the latest, the edge was put by PLAN. But
    it is late from the time on at which it would be with the shortest delay, or it would write what
    a late first look has left out.
    """
    edge_by = sent_at + names.PLAN.settled_seconds * 1000
    wanted = _posts(posts, is_late=now > sent_at + SETTLE_MS + LATE_MS)
    return Look(wanted, edge_by + OUTBOX_LAG_MS, asks_first=True)


def may_be_new(row: Follow, sent_at: int) -> bool:
    """Whether the edge of a follow may have been put for a wish of that time, or later.

    It was not if the follow had been there for long and was only asked for again. A late message
    may begin a follow long before its own edge, but then nobody has asked again.
    """
    return row.is_active and min(sent_at, row.asked_at) <= times.to_ms(row.followed_at) + NEW_MS


def _posts(posts: int, *, is_late: bool) -> int:
    return min(posts, POSTS_WHEN_LATE) if is_late else posts
