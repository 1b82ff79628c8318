"""What must be in a timeline, and what must not be: the rule of `fanfold audit`. Pure.

A post must be in a reader's timeline if its fan-out is complete and the reader's edge was there
before the post was accepted. Each condition below keeps a sound stage from a false alarm: what is
slow, late, retracted or unfollowed is no finding. The order of the reads matters:

1. The row of the ledger. 2. The entry. 3. The rest. A little later, 2 and 3 again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fanfold import times
from fanfold.channels.head import partition_of
from fanfold.fanout.row import CHANNEL, COMPLETE, Fanout
from fanfold.follows.relation import Follow
from fanfold.names import PLAN, QUEUE_DAYS
from fanfold.timeline.entries import Entry
from fanfold.timeline.posts import Post

# For clocks that differ, and for a put or an entry that lands after its time.
MARGIN_MS = 60_000
# RELATE has no order left for a change that is older: 14 days in its queue, 14 more as a dead
# letter, and a day.
NO_ORDER_MS = (2 * QUEUE_DAYS + 1) * 24 * 3600 * 1000
# An entry that was read eventually, and missed, is read again after this long.
AGAIN_SECONDS = 2.0
# Until RELATE has settled what a door left, and 20 s for RELATE itself.
SETTLED_SECONDS = PLAN.settled_seconds + 20.0


class Finding(StrEnum):
    """What an audit finds of a post and a reader."""

    ENTRY_MISSING = "entry_missing"  # a post that the reader is owed, and does not have
    EDGE_MISSING = "edge_missing"  # the same, and the follow has no edge
    POST_MISSING = "post_missing"  # a delivered post without its row
    OVERLOOKED = "overlooked"  # a post in a channel that the reader's pages leave out
    ANOTHERS = "anothers"  # an entry whose `ref_id` is another post's
    UNFOLLOWED = "unfollowed"  # an entry that is shown without a follow
    BLOCKED = "blocked"  # a follow under a block, to which nothing is owed
    UNSURE = "unsure"  # a young follow without an edge, which may be on its way


# Found the same twice, this long apart; the others after `AGAIN_SECONDS`.
SLOW = frozenset({Finding.OVERLOOKED, Finding.ANOTHERS, Finding.UNFOLLOWED})


@dataclass(frozen=True, kw_only=True)
class Look:
    """What was read of one post and one reader; all but `fanout` after the entry."""

    fanout: Fanout
    is_there: bool  # the entry
    is_read: bool = True  # by the reader's pages; a channel may be overlooked
    row: Follow
    puts: Sequence[int | None] = ()  # the `at` of the reader's edge at each level where it lies
    post: Post | None
    now_ms: int

    @property
    def subject(self) -> tuple[str, str]:
        """The post and the reader."""
        return self.fanout.fanout_id, self.row.user_id


def claims(fanout: Fanout) -> bool:
    """Whether every follower of that time should have the post."""
    return fanout.state == COMPLETE


def owner_of(fanout: Fanout, user_id: str) -> str:
    """In whose timeline the entry for this reader lies: the reader's, or the channel's."""
    return partition_of(fanout.publisher_id) if fanout.by == CHANNEL else user_id


def judged(look: Look, *, updated_ms: float = math.inf) -> Finding | None:
    """What one look finds; None if nothing is owed, or the reader has it.

    `updated_ms` is when the stage was last deployed: what an earlier version wrote has no times,
    and counts as written then.
    """
    if look.is_there and look.is_read:
        return None
    fanout, row, post = look.fanout, look.row, look.post
    if not (claims(fanout) and row.is_active) or row.is_blocked:
        return None
    if look.now_ms + MARGIN_MS >= fanout.expires_at * 1000:
        return None
    if post is not None and post.deleted and post.publisher_id == fanout.publisher_id:
        return None
    if not _was_due(look, times.to_ms(fanout.accepted_at), updated_ms):
        return None
    if post is None or not _is_its(post, fanout):
        return Finding.POST_MISSING
    if not look.puts:
        is_old = (row.changed_at or updated_ms) + NO_ORDER_MS < times.to_ms(fanout.accepted_at)
        return Finding.EDGE_MISSING if is_old else Finding.UNSURE
    return Finding.OVERLOOKED if look.is_there else Finding.ENTRY_MISSING


def _was_due(look: Look, accepted_ms: int, updated_ms: float) -> bool:
    """Whether the follow, and its edge if it has one, were there when the post was accepted.

    By the edge's time and not by the follow's alone: a door that died leaves the edge to RELATE.
    Whatever its version, an edge that is there with that time has been there since.
    """
    puts_ms = [updated_ms if at is None else at * 1000 for at in look.puts]
    since_ms = max(look.row.changed_at or updated_ms, min(puts_ms, default=-math.inf))
    return since_ms + MARGIN_MS < accepted_ms


def confirmed(first: Look, second: Look, *, updated_ms: float = math.inf) -> Finding | None:
    """What two looks find alike, unless the follow changed between them."""
    finding = judged(first, updated_ms=updated_ms)
    is_same = first.row.version == second.row.version
    return finding if is_same and judged(second, updated_ms=updated_ms) is finding else None


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What was read of an entry in a timeline; whether marks hide it, after the follow's row."""

    entry: Entry
    post: Post | None
    row: Follow
    is_hidden: bool
    now_ms: int

    @property
    def subject(self) -> tuple[str, str]:
        """The post's sort key and the reader."""
        return self.entry.sort_key, self.row.user_id


def wrong(shown: Shown, *, since: str) -> Finding | None:
    """What is wrong with an entry; None for one that is due, hidden, or that no page shows.

    `since` is the time of the oldest post that is shown. Many entries are there without a follow:
    an unfollow leaves them, and TTL is late.
    """
    entry, post = shown.entry, shown.post
    is_over = shown.now_ms + MARGIN_MS >= entry.expires_at * 1000
    if is_over or entry.sort_key <= since:
        return None
    if post is None:
        return Finding.POST_MISSING
    if not post.is_of(entry.publisher_id, entry.sort_key):
        return Finding.ANOTHERS
    if post.deleted or shown.row.is_active or shown.is_hidden:
        return None
    return Finding.UNFOLLOWED


def _is_its(post: Post, fanout: Fanout) -> bool:
    is_same = post.is_of(fanout.publisher_id, fanout.sort_key)
    return is_same and post.accepted_at == fanout.accepted_at
