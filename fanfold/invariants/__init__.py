"""What can never be, and what becomes of it where it is: it is reported, and nothing fails.

Each check is on values that were read anyway. Faults that the promise covers (docs/reliability.md)
break none: an invariant is of one row, one answer or one page, or has a day for clocks.
"""

from collections.abc import Callable, Mapping

# The clocks of AWS are within milliseconds, and the promise covers wrong ones. A time further ahead
# than a day is no clock's.
AHEAD_MS = 24 * 60 * 60 * 1000

# What always holds, by the name in logs.
INVARIANTS: Mapping[str, str] = {
    "fanout_state": "A fan-out has a known state.",
    "fanout_key": "The sort key of a fan-out ends with its id.",
    "fanout_times": "Nothing was sent or asked for a fan-out more than a day from now.",
    "queued_unplanned": "A queued fan-out has no segments.",
    "delivering_planned": "A fan-out under delivery has segments.",
    "complete_pending": "A complete fan-out has nothing pending.",
    "complete_since": "A complete fan-out says since when.",
    "pending_in_plan": "A pending segment is in the plan.",
    "resume_pending": "A segment that was handed back is pending.",
    "resume_in_segment": "A segment is resumed within its part of the ring.",
    "stragglers_behind": "Stragglers lie before the position of their segment.",
    "hand_back_forward": "A worker hands back at the place where it began, or further on.",
    "plan_level": "The level of a plan is one that publishers reach.",
    "publisher_level": "The level of a publisher is one that publishers reach.",
    "level_history": "The level of a publisher is that of its last growth.",
    "edges_in_range": "Edges lie in the range that was read.",
    "edge_position": "An edge lies at its follower's hash. The first of each page is checked.",
    "post_key": "The sort key of a post ends with its `ref_id`.",
    "post_tombstone": "A retracted post has no body.",
    "entry_key": "The key of an entry is a time and an id.",
    "entries_in_order": "Entries come in order, each once.",
    "entries_in_range": "Entries lie in the range that was read.",
    "page_in_order": "A page is newest first, each entry once.",
    "page_cursors": "The cursors of a page lie around its entries.",
    "reader_marks": "Marks in a reader's row have 8 bytes.",
    "reader_mutes": "A reader's row has no more mutes than it may have.",
    "reader_weeks": "No unfollow is marked in a week that has not begun.",
    "reader_marker": "A read marker is a key, and no more than a day ahead.",
    "reader_rate": "A user's follows use up the rate for a day at most.",
    "reader_verified": "A reader's row is not verified for longer than a retention may be.",
    "marker_kept": "A read marker that is not moved is already further up.",
    "channels_seen": "A reader's row knows no channels of the future.",
    "follow_state": "A relation has a known state.",
    "follow_version": "A follow has a version, and says since when.",
    "follow_ended": "A follow has not ended.",
    "follow_blocked": "Nobody follows under a block.",
    "follow_requested": "A request says since when; what has ended does not.",
    "follow_expires": "Only the row of what has ended expires.",
    "channel_key": "A channel is in the head under its publisher's hash.",
    "channel_version": "No channel is newer than the head.",
    "channel_last": "The head tells of no post in a channel that it has not counted.",
    "channel_entry": "The entries in a channel are its publisher's.",
    "channel_until": "A channel stays for eight days after its newest entry.",
}


def _unheard(_name: str, _ids: Mapping[str, object]) -> None: ...


_tell: Callable[[str, Mapping[str, object]], None] = _unheard


def report_to(tell: Callable[[str, Mapping[str, object]], None]) -> None:
    """Have `tell` learn of each broken invariant: its name, and the ids by which to find the row.

    The ids are of posts and publishers, never of readers, because logs hold them.
    """
    global _tell  # one for the process, as its log is
    _tell = tell


def broken(name: str, **ids: object) -> None:
    """Report that an invariant is broken. The caller goes on."""
    _tell(name, ids)


def check(name: str, holds: bool, **ids: object) -> bool:
    """Report an invariant unless it holds; returns whether it does."""
    if not holds:
        broken(name, **ids)
    return holds
