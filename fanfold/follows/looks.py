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

from fanfold import names

# The outbox follows its table within moments, mostly a fraction of a second.
OUTBOX_LAG_MS = 1_000
# An order that has waited longer finds RELATE behind, as in a rush of follows. Then each follow
# brings a page's beginning: one in three, at a third of the time for each.
LATE_MS = 60_000
POSTS_WHEN_LATE = 10


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
    """
    return _look(posts, edge_by=sent_at, now=now, asks_first=redelivered or version > 1)


def second_look(posts: int, *, sent_at: int, now: int) -> Look:
    """The look for an order to settle, which was sent before the edge was put.

    It does not say with which delay. At the latest, the edge was put when PLAN had timed out.
    """
    return _look(posts, edge_by=sent_at + names.PLAN.seconds * 1000, now=now, asks_first=True)


def _look(posts: int, *, edge_by: int, now: int, asks_first: bool) -> Look:
    is_late = now > edge_by + LATE_MS
    wanted = min(posts, POSTS_WHEN_LATE) if is_late else posts
    return Look(wanted, edge_by + OUTBOX_LAG_MS, asks_first)
