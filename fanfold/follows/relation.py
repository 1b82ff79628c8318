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

from dataclasses import dataclass, replace

from fanfold import times

# A request from further ahead comes from an import on a machine with a wrong clock; nothing yields
# to it.
AHEAD_MS = 5_000

# A failed follow is retried within this time, while its edge may still be missing.
NEW_MS = 120_000

FOLLOWED = "followed"
UNFOLLOWED = "unfollowed"


@dataclass(frozen=True, kw_only=True)
class Follow:
    """The relation of one user to one publisher; `version` rises with every change.

    Without a row, it is unfollowed at version 0.
    """

    user_id: str
    publisher_id: str
    state: str = UNFOLLOWED
    version: int = 0
    followed_at: str = ""
    asked_at: int = 0  # epoch milliseconds: a request of an earlier time that comes now is late
    ended_at: int = 0  # epoch milliseconds at which the follow ended; else 0
    changed_at: int = 0  # epoch milliseconds at which the state was written; 0 in older rows

    @property
    def is_active(self) -> bool:
        return self.state == FOLLOWED


def granted(seen: Follow, wanted: bool, *, asked_at: int, by_message: bool, now: int) -> Follow:
    """The relation after a request of `asked_at`; `seen` itself if nothing is to be written."""
    later_ms = seen.asked_at - asked_at
    if later_ms > (0 if by_message else times.OVERTAKEN_MS) and seen.asked_at <= now + AHEAD_MS:
        return seen
    if seen.is_active is wanted:
        return replace(seen, asked_at=asked_at) if asked_at > seen.asked_at else seen
    return replace(
        seen,
        state=FOLLOWED if wanted else UNFOLLOWED,
        followed_at=times.to_text(asked_at) if wanted else seen.followed_at,
        asked_at=max(asked_at, seen.asked_at + 1),
    )


def may_be_new(row: Follow, sent_at: int) -> bool:
    """Whether the edge of a follow may have been put for a request of that time, or later.

    Not if the follow had been there for long and was only requested again. A late message may begin
    a follow long before its own edge, but then nobody has requested it again.
    """
    return row.is_active and min(sent_at, row.asked_at) <= times.to_ms(row.followed_at) + NEW_MS
