"""The relation of a user to a publisher, after each request or message to follow or unfollow.

Pure. Two facts make it hard: messages come late and more than once, and the clocks that stamp
requests and messages differ. The rule for both:

* A request takes effect while it is being answered. Its client may have given it up meanwhile and
  sent another, so a request from more than `times.OVERTAKEN_MS` before the last one yields: it
  counts as having come before that one.
* A message takes effect once, after it was sent, or never, if a later one came before.

So `asked_at` never goes back, and a change moves it on. Once a message was handled, either the
state is what it asks for, or `asked_at` is later than the message, so that its copies are known to
be late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from fanfold import contract, times
from fanfold.errors import BlockedByYou

# A request from further ahead comes from an import on a machine with a wrong clock; nothing yields
# to it.
AHEAD_MS = 5_000

# A failed follow is retried within this time, while its edge may still be missing.
NEW_MS = 120_000

FOLLOWED, REQUESTED = contract.FOLLOWED, contract.REQUESTED
UNFOLLOWED = "unfollowed"
STATES = (FOLLOWED, REQUESTED, UNFOLLOWED)

# What follows a user's id in keys: of its lists of requests and of blocks in the following table,
# and of its choice in the publishers table.
SEPARATOR = "#"  # in no id
REQUESTS = f"{SEPARATOR}requests"
BLOCKS = f"{SEPARATOR}blocks"
PRIVACY = f"{SEPARATOR}privacy"


class Asked(NamedTuple):
    """When something was requested, and in which way; epoch milliseconds."""

    at: int
    now: int
    by_message: bool = False

    def is_late(self, last: int) -> bool:
        """Whether it yields to what was requested `last`."""
        late_ms = 0 if self.by_message else times.OVERTAKEN_MS
        return last - self.at > late_ms and last <= self.now + AHEAD_MS


class Privacy(NamedTuple):
    """Whether a publisher approves its followers; `version` rises with every change."""

    is_private: bool = False
    version: int = 0
    since: int = 0  # epoch milliseconds of the last change; 0 without one
    asked_at: int = 0


PUBLIC = Privacy()


@dataclass(frozen=True, kw_only=True)
class Follow:
    """The relation of one user to one publisher; `version` rises with every change.

    Without a row, it is unfollowed at version 0. Two people decide it, so one time does not tell
    what comes late: `left_at` is of the last end, `approved_at` of the publisher's last approval,
    `block_asked_at` of its last block or unblock; all are epoch milliseconds of requests.
    """

    user_id: str
    publisher_id: str
    state: str = UNFOLLOWED
    version: int = 0
    followed_at: str = ""
    requested_at: str = ""  # of the request that waits, or that became the follow
    asked_at: int = 0  # epoch milliseconds: a request of an earlier time that comes now is late
    ended_at: int = 0  # epoch milliseconds at which the follow ended; else 0
    changed_at: int = 0  # epoch milliseconds at which the state was written; 0 in older rows
    left_at: int = 0
    approved_at: int = 0
    block_asked_at: int = 0
    privacy: int = 0  # the version of the publisher's privacy that it was last decided with
    shut: bool = False  # the publisher blocks the user
    shuts: bool = False  # the user blocks the publisher

    @property
    def is_active(self) -> bool:
        return self.state == FOLLOWED

    @property
    def is_requested(self) -> bool:
        return self.state == REQUESTED

    @property
    def is_listed(self) -> bool:
        """Whether the publisher sees the request: not one of a user whom it blocks."""
        return self.is_requested and not self.shut

    @property
    def has_place(self) -> bool:
        """Whether it counts towards the most that a user may follow."""
        return self.state != UNFOLLOWED

    @property
    def is_blocked(self) -> bool:
        """Whether one of both blocks the other."""
        return self.shut or self.shuts

    @property
    def expires(self) -> bool:
        """Whether its row is a tombstone, which ends; a block ends only when it is undone."""
        return not (self.has_place or self.is_blocked)

    @property
    def needs_privacy(self) -> bool:
        """Whether the privacy of the publisher decides what the user may do."""
        return not (self.is_active or self.shut or self.user_id == self.publisher_id)

    def must_wait(self, privacy: Privacy) -> bool:
        """Whether its request waits for approval; an older privacy than its own was restored."""
        return privacy.is_private or privacy.version < self.privacy


# A relation as it was read, and as it shall be.
Move: TypeAlias = tuple[Follow, Follow]


def granted(
    seen: Follow,
    wanted: bool,
    asked: Asked,
    *,
    privacy_of: Callable[[Follow], Privacy] = lambda _: PUBLIC,
    approves: bool = False,
) -> Follow:
    """The relation after the user's request to follow, or not to follow any more.

    `seen` itself if nothing is to be written. `privacy_of` is asked if `seen.needs_privacy`. Who
    `approves` asks for both, so that it is not. Raises `BlockedByYou`.
    """
    if approves and (seen.is_active or seen.is_listed):
        follow = approved(seen, asked)
        return replace(follow, asked_at=asked.at) if asked.at > seen.asked_at else follow
    # What has ended a follow may have raised `asked_at` beyond a later approval.
    is_over = asked.at <= max(seen.left_at, seen.approved_at)
    if is_over if approves else asked.is_late(seen.asked_at):
        return seen
    if wanted and seen.shuts:
        who = f"'{seen.publisher_id}'"
        raise BlockedByYou(f"You block {who}; unblock first, then follow.", quoted=who)
    privacy = privacy_of(seen) if wanted and seen.needs_privacy and not approves else PUBLIC
    is_request = wanted and not seen.is_active and (seen.shut or privacy.is_private)
    state = REQUESTED if is_request else FOLLOWED if wanted else UNFOLLOWED
    if not wanted and seen.has_place:
        return _ended(seen, asked)
    noted = replace(
        seen,
        asked_at=max(asked.at, seen.asked_at),
        left_at=seen.left_at if wanted else max(asked.at, seen.left_at),
        approved_at=max(asked.at, seen.approved_at) if approves else seen.approved_at,
        privacy=max(seen.privacy, privacy.version),
    )
    if state == seen.state:
        is_later = asked.at > seen.asked_at or noted.approved_at > seen.approved_at
        return noted if is_later else seen
    if seen.is_requested:
        return opened(noted, asked.at)
    at = times.to_text(asked.at)
    begun = replace(noted, state=state, asked_at=max(asked.at, seen.asked_at + 1))
    return replace(begun, requested_at=at) if is_request else replace(begun, followed_at=at)


def approved(seen: Follow, asked: Asked) -> Follow:
    """The relation after its publisher's approval; `seen` itself if nothing is to be written.

    `asked_at` stays: a late message of the user is told by it. A copy of a message that has
    approved an earlier request approves no other.
    """
    is_copy = asked.by_message and asked.at <= seen.approved_at
    if not (seen.is_active or seen.is_listed) or asked.is_late(seen.left_at) or is_copy:
        return seen
    follow = opened(seen, asked.at)
    return replace(follow, approved_at=asked.at) if asked.at > seen.approved_at else follow


def opened(seen: Follow, at: int) -> Follow:
    """The relation after its publisher went public; `seen` itself if no request waits."""
    if not seen.is_listed:
        return seen
    return replace(seen, state=FOLLOWED, followed_at=times.to_text(at))


def removed(seen: Follow, asked: Asked, *, privacy: int) -> Follow:
    """The relation after its publisher denied a request, or removed a follower, or anybody else.

    `privacy` is the version of the publisher's now. It does not yield to a repeated request of the
    user, who would be shielded by it. One that came late is noted: an earlier approval may follow.
    After a later end, and after its own, a message ends nothing that has begun since.
    """
    begun = times.to_ms(seen.requested_at or seen.followed_at) if seen.has_place else 0
    is_older = asked.is_late(begun) or asked.at <= seen.left_at
    if asked.by_message and seen.has_place and is_older:
        return replace(seen, left_at=asked.at) if asked.at > seen.left_at else seen
    if asked.is_late(seen.approved_at):
        return seen
    return _ended(seen, asked, privacy)


def blocked(theirs: Follow, mine: Follow, asked: Asked, *, privacy: int) -> tuple[Follow, Follow]:
    """Both relations of two users after one blocks the other; `theirs` is the blocked user's."""
    return _shut(theirs, mine, asked, privacy, shut=True)


def unblocked(theirs: Follow, mine: Follow, asked: Asked, *, privacy: int) -> tuple[Follow, Follow]:
    """Both relations after a block is undone; a request made meanwhile ends."""
    return _shut(theirs, mine, asked, privacy, shut=False)


def chosen(seen: Privacy, is_private: bool, asked: Asked) -> Privacy:
    """The privacy after its publisher's choice; `seen` itself if nothing is to be written.

    A version follows the clock: after a restore, none comes again.
    """
    is_same = seen.is_private is is_private
    if asked.is_late(seen.asked_at) or (is_same and asked.at <= seen.asked_at):
        return seen
    if is_same and seen.version:
        return seen._replace(asked_at=asked.at)
    version, at = max(seen.version + 1, asked.now), max(asked.at, seen.asked_at)
    return Privacy(is_private, version, since=asked.now, asked_at=at)


def is_counted(moves: Sequence[Move]) -> bool:
    """Whether a change counts against a rate: only if it makes a row that stays, and ends nothing.

    That is a follow, a request, a block, or a tombstone of what was never followed. Follows pay for
    other tombstones.
    """
    is_new = any(not seen.version and target != seen for seen, target in moves)
    return (is_new or is_begun(moves)) and not is_ended(moves)


def is_ended(moves: Sequence[Move]) -> bool:
    """Whether a change ends a follow or a request; such a change is never refused."""
    return any(seen.has_place and not target.has_place for seen, target in moves)


def is_begun(moves: Sequence[Move]) -> bool:
    """Whether a change begins a follow, a request or a block; such a change may be refused."""
    return any(
        target.has_place > seen.has_place or target.shuts > seen.shuts for seen, target in moves
    )


def _shut(
    theirs: Follow, mine: Follow, asked: Asked, privacy: int, *, shut: bool
) -> tuple[Follow, Follow]:
    last = theirs.block_asked_at
    if asked.is_late(last):
        ends = shut and not theirs.shut  # it was undone since, but it ended a follow before
        return removed(theirs, asked, privacy=privacy) if ends else theirs, mine
    if theirs.shut is mine.shuts is shut:
        return (replace(theirs, block_asked_at=asked.at) if asked.at > last else theirs), mine
    # Later than all before, as `asked_at`, so that copies of an earlier message are late.
    theirs = replace(_ended(theirs, asked, privacy), block_asked_at=max(asked.at, last + 1))
    return replace(theirs, shut=shut), replace(_ended(mine, asked), shuts=shut)


def _ended(seen: Follow, asked: Asked, privacy: int = 0) -> Follow:
    """What was requested before is late from now on.

    So an end again, of a later time, is written too; `seen` itself is what a copy leaves.
    """
    ended = replace(
        seen,
        state=UNFOLLOWED,
        requested_at="",
        asked_at=max(asked.at, seen.asked_at + seen.has_place),
        left_at=max(asked.at, seen.left_at),
        privacy=max(privacy, seen.privacy),
    )
    return seen if ended == seen else ended


def may_be_new(row: Follow, sent_at: int) -> bool:
    """Whether the edge of a follow may have been put for a request of that time, or later.

    Not if the follow had been there for long and was only requested or approved again.
    """
    return row.is_active and sent_at <= times.to_ms(row.followed_at) + NEW_MS
