"""The memo: which of the channels belong to publishers that a reader follows.

It is part of the reader's row (`readers.py`). For channels that are newer than the memo, a page
reads the follows, and notes them there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from fanfold.aws.items import Value, binaries, expressions, number, text
from fanfold.aws.retries import is_transient
from fanfold.timeline import marks
from fanfold.timeline.marks import Reader

if TYPE_CHECKING:
    from fanfold.channels.head import Channel, Head
    from fanfold.timeline.readers import Readers


def told(reader: Reader, head: Head) -> tuple[list[Channel], list[Channel]]:
    """The channels that the reader follows according to the memo, and those that it cannot tell.

    A mark tells nothing of a newer channel: it may be that of an earlier channel of the publisher,
    whose follow ended while the stage had no channels.
    """
    known = [each for each in head.channels.values() if each.version <= reader.channels_seen]
    marked = marks.among(reader.channels, {each.publisher_id for each in known})
    followed = [each for each in known if each.publisher_id in marked]
    newer = [each for each in head.channels.values() if each.version > reader.channels_seen]
    return followed, newer


def note(
    readers: Readers, user_id: str, seen: Reader, head: Head, followed: Collection[str]
) -> None:
    """Note that of the channels up to the head's version, the reader also follows these.

    Marks of other publishers go. Nothing is changed if the reader has followed or unfollowed since
    the row was `seen`, or if the call fails: the next page does it again then.
    """
    all_followed = {*followed, *(each.publisher_id for each in told(seen, head)[0])}
    channels = {"channels": binaries(sorted(map(marks.hash_of, all_followed)))}
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
