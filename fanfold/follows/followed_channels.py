"""What follows and unfollows change in what a reader's row says of channels. Pure.

The row says which of the publishers that the reader follows have a channel, so that a page need not
read the follows. Two rules keep that true:

* A mark of a publisher is in `channels` only while the reader follows the publisher. So the
  transaction of an unfollow takes it out, whatever head its door knows.
* Every publisher who is followed, and whose channel was added up to the head's version
  `channels_seen`, has a mark there. So the transaction of a follow adds it if the door's head has a
  channel for it, and wants that head to be no older than the one that the row is complete to: what
  is added later, a page looks up.
"""

from __future__ import annotations

from collections.abc import Sequence

from fanfold.aws.items import Value, binaries, number
from fanfold.channels.head import Head
from fanfold.follows.wishes import Follow
from fanfold.timeline.marks import Reader, hash_of, holds
from fanfold.timeline.readers import Memo

_CHANGES: dict[str, Value] = {"changes": number(1)}


def followed(reader: Reader, head: Head, publisher_ids: Sequence[str]) -> Memo:
    """The change of a follow of these publishers, of a reader just read.

    Where the row `is_ahead` of the head, that was read consistently after the row: a later one was
    lost. Versions go by the clock, so that the row is complete to none that is yet to come.
    """
    adds = dict(_CHANGES)
    if marks := [hash_of(each) for each in publisher_ids if head.of(each)]:
        adds["channels"] = binaries(marks)
    return Memo(
        adds=adds,
        condition="(attribute_not_exists(#channels_seen) OR #channels_seen <= :newest)",
        values={":newest": number(max(head.version, reader.channels_seen))},
    )


def unfollowed(publisher_id: str) -> Memo:
    """The change of an unfollow."""
    return Memo(adds=_CHANGES, deletes={"channels": binaries([hash_of(publisher_id)])})


def is_ahead(reader: Reader, head: Head) -> bool:
    """Whether the row is complete to a later head than this one."""
    return reader.channels_seen > head.version


def disagrees(reader: Reader, row: Follow) -> bool:
    """Whether the row does not say of a channel what the relation to its publisher says.

    A page may still look up the channel, but what it has read may be from before the relation.
    """
    return row.is_active != holds(reader.channels, row.publisher_id)


def overlooks(reader: Reader, head: Head, row: Follow) -> bool:
    """Whether pages leave out the channel of a publisher who is followed.

    They look at no channel for whom they find no row, as after a restore.
    """
    channel = head.of(row.publisher_id)
    has_no_row = reader == Reader()
    return (
        row.is_active
        and channel is not None
        and (has_no_row or channel.version <= reader.channels_seen)
        and not holds(reader.channels, row.publisher_id)
    )


def overhears(reader: Reader, head: Head, row: Follow) -> bool:
    """Whether pages read the channel of a publisher who is not followed."""
    has_channel = head.of(row.publisher_id) is not None
    return not row.is_active and has_channel and holds(reader.channels, row.publisher_id)
