"""Which publisher gets a channel, and which of their posts go into it: a pure decision."""

from enum import Enum, auto

from fanfold.channels.head import Head


class Choice(Enum):
    """What becomes of a post."""

    PUSH = auto()  # to the timeline of each follower
    JOIN = auto()  # into the channel that its publisher has
    PROMOTE = auto()  # into a channel that its publisher gets first
    REFUSE = auto()  # pushed, because there is no room for another channel


def choose(head: Head, publisher_id: str, followers: int, *, threshold: int) -> Choice:
    """Where a post of this publisher, with about this many followers, goes.

    A `threshold` of 0 gives nobody a channel.
    """
    channel = head.of(publisher_id)
    if channel is not None:
        return Choice.JOIN if channel.is_active else Choice.PUSH  # a person has demoted it
    if not threshold or followers < threshold:
        return Choice.PUSH
    return Choice.REFUSE if head.is_full else Choice.PROMOTE
