"""What becomes of two users' relations by messages that come in any order, and more than once."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BlockedByYou
from fanfold.follows.relation import (
    Asked,
    Follow,
    Privacy,
    approved,
    blocked,
    granted,
    removed,
    unblocked,
)

SENT = 1_800_000_000_000
PRIVACIES = Privacy(), Privacy(is_private=True, version=1)
KINDS = "follow", "approved follow", "unfollow", "approve", "remove", "block", "unblock"
Pair = tuple[Follow, Follow]


def after(pair: Pair, kind: str, at: int, privacy: Privacy) -> Pair:
    """Both relations after a message of Ben's about Ada, or of Ada's about him."""
    theirs, mine = pair
    asked, version = Asked(SENT + at, SENT + 1_000, by_message=True), privacy.version
    match kind:
        case "follow" | "approved follow":
            with suppress(BlockedByYou):
                approves = kind != "follow"
                theirs = granted(theirs, True, asked, privacy=privacy, approves=approves)
        case "unfollow":
            theirs = granted(theirs, False, asked)
        case "approve":
            theirs = approved(theirs, asked)
        case "remove":
            theirs = removed(theirs, asked, privacy=version)
        case "block":
            return blocked(theirs, mine, asked, privacy=version)
        case "unblock":
            return unblocked(theirs, mine, asked, privacy=version)
    return theirs, mine


@given(
    st.sampled_from(PRIVACIES),
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), max_size=12),
)
def test_a_copy_of_a_message_changes_nothing_and_a_block_lets_nobody_follow(
    privacy: Privacy, sent: list[str], received: list[int]
) -> None:
    ben = Follow(user_id="ben", publisher_id="ada"), Follow(user_id="ada", publisher_id="ben")
    handled: set[int] = set()
    for at in (each % len(sent) for each in received):
        kind = sent[at]
        before, ben = ben, after(ben, kind, at, privacy)
        theirs, mine = ben
        if at in handled:
            assert (theirs.state, theirs.shut) == (before[0].state, before[0].shut)
        assert theirs.asked_at >= before[0].asked_at
        assert theirs.shut is mine.shuts
        assert not (theirs.is_active and theirs.shut)
        # An approval that comes before its request comes again.
        if kind != "approve" or before[0].has_place:
            handled.add(at)
