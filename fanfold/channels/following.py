"""Which channels belong to publishers that a reader follows, according to the reader's row.

So a page need not read the follows. For channels newer than the row, it reads the follows once, and
notes them in the row. Two rules keep the row true:

* A mark of a publisher is in `channels` only while the reader follows the publisher. So every
  unfollow's transaction removes it, whatever head its function knows.
* Every followed publisher whose channel was added up to the head's version `channels_seen` has a
  mark there. So a follow's transaction adds the mark if its function's head has the channel, on
  condition that this head is no older than `channels_seen`. A page looks up channels added later.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from fanfold.aws.items import Value, binaries, expressions, number, text
from fanfold.aws.retries import is_transient
from fanfold.channels.head import Head
from fanfold.timeline import marks
from fanfold.timeline.marks import Reader, hash_of, holds
from fanfold.timeline.readers import RowChange

if TYPE_CHECKING:
    from fanfold.channels.head import Channel
    from fanfold.timeline.readers import Readers

_CHANGES: dict[str, Value] = {"changes": number(1)}


def followed(reader: Reader, head: Head, publisher_ids: Sequence[str]) -> RowChange:
    """The change of a reader, just read, who follows these publishers.

    If the row `is_ahead` of the head, the head was read consistently after it: a later head was
    lost. Versions follow the clock, so the row is complete to no future version.
    """
    adds = dict(_CHANGES)
    if marks := [hash_of(each) for each in publisher_ids if head.of(each)]:
        adds["channels"] = binaries(marks)
    return RowChange(
        adds=adds,
        condition="(attribute_not_exists(#channels_seen) OR #channels_seen <= :newest)",
        values={":newest": number(max(head.version, reader.channels_seen))},
    )


def unfollowed(publisher_id: str) -> RowChange:
    """The change of an unfollow."""
    return RowChange(adds=_CHANGES, deletes={"channels": binaries([hash_of(publisher_id)])})


def is_ahead(reader: Reader, head: Head) -> bool:
    """Whether the row is complete to a later head than this one."""
    return reader.channels_seen > head.version


def disagrees(reader: Reader, publisher_id: str, *, is_followed: bool) -> bool:
    """Whether the row says otherwise of a channel than the relation to its publisher.

    A page may still look up the channel, but may have read the follows before the relation changed.
    """
    return is_followed != holds(reader.channels, publisher_id)


def is_channel_missing(reader: Reader, head: Head, publisher_id: str) -> bool:
    """Whether pages leave out the channel of this publisher, who is followed.

    They look at no channel for readers without a row, as after a restore.
    """
    channel = head.of(publisher_id)
    has_no_row = reader == Reader()
    return (
        channel is not None
        and (has_no_row or channel.version <= reader.channels_seen)
        and not holds(reader.channels, publisher_id)
    )


def is_channel_extra(reader: Reader, head: Head, publisher_id: str) -> bool:
    """Whether pages read the channel of this publisher, who is not followed."""
    return head.of(publisher_id) is not None and holds(reader.channels, publisher_id)


def told(reader: Reader, head: Head) -> tuple[list[Channel], list[Channel]]:
    """The channels that the reader follows according to the row, and those that it does not cover.

    A mark says nothing about a newer channel: it may stem from an earlier channel of the publisher,
    and the follow may have ended while the stage had no channels.
    """
    known = [each for each in head.channels.values() if each.version <= reader.channels_seen]
    marked = marks.among(reader.channels, {each.publisher_id for each in known})
    followed = [each for each in known if each.publisher_id in marked]
    newer = [each for each in head.channels.values() if each.version > reader.channels_seen]
    return followed, newer


def note(
    readers: Readers, user_id: str, seen: Reader, head: Head, followed: Collection[str]
) -> None:
    """Note that the reader also follows these, of the channels up to the head's version.

    Other marks are removed. Nothing changes if the reader has followed or unfollowed since the row
    was `seen`, or if the call fails: the next page tries again.
    """
    all_followed = {*followed, *(each.publisher_id for each in told(seen, head)[0])}
    channels = {"channels": binaries(sorted(map(hash_of, all_followed)))}
    update = expressions(
        sets={"channels_seen": number(head.version), **(channels if all_followed else {})},
        removes=[] if all_followed else ["channels"],
        condition=(
            f"attribute_exists(#user_id) AND {_as_read('channels_seen', seen.channels_seen)} "
            f"AND {_as_read('changes', seen.changes)}"
        ),
        values={
            **_value("channels_seen", seen.channels_seen),
            **_value("changes", seen.changes),
        },
    )
    key = {"user_id": text(user_id)}
    exceptions = readers.client.exceptions
    try:
        readers.client.update_item(TableName=readers.table, Key=key, **update)
    except exceptions.ConditionalCheckFailedException:
        return
    except Exception as error:
        if not is_transient(error):
            raise


def _as_read(name: str, value: int) -> str:
    is_same = f"#{name} = :{name}_read"
    return is_same if value else f"(attribute_not_exists(#{name}) OR {is_same})"


def _value(name: str, value: int) -> dict[str, Value]:
    return {f":{name}_read": number(value)}
