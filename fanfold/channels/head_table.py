"""The head's row in the publishers table, and its changes: each one conditional update.

Every change raises `revision`. Repeating a change does nothing more, except that `seq` rises once
more, which only makes containers read the channel again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanfold import clock, times
from fanfold.aws.items import Item, Value, expressions, named, number, text
from fanfold.channels.head import HEAD, MOST, Channel, Head, head_of, key_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEY = {"publisher_id": text(HEAD)}
# How long the head keeps `last`. A container that has not read it by then reads the channel.
LAST_MS = 60_000
# The most old keys that one post removes: each takes 74 bytes of the 4 KB of an expression. A
# rebuilt head may have more of them.
MOST_STALE = 32
_LAST = ("last", "last_seq")
_NONE = Head()


@dataclass(frozen=True)
class HeadTable:
    client: DynamoDBClient
    table: str

    def get(self, *, is_consistent: bool = True) -> Head:
        request: Any = {"TableName": self.table, "Key": KEY, "ConsistentRead": is_consistent}
        return head_of(self.client.get_item(**request).get("Item", {}))

    def wanted(self) -> dict[str, Any]:
        """What BatchGetItem takes to read the row, eventually."""
        return {self.table: {"Keys": [KEY], "ConsistentRead": False}}

    def among(self, items: Iterable[Item]) -> Head:
        """The head among rows of the table; without its row, that of nobody."""
        row = (item for item in items if item["publisher_id"] == KEY["publisher_id"])
        return head_of(next(row, {}))

    def add(self, publisher_id: str, seen: Head, *, followers: int) -> Head | None:
        """Give a publisher a channel, which takes every post that is planned from then on.

        A demoted one takes posts again. `followers` is their estimated number. Returns the head
        after that; None if one was added since the head was `seen`, or it is full: read it again.
        """
        known, path = seen.of(publisher_id), _path(publisher_id)
        if known and not known.is_active:
            return self._update(
                removes=[f"{path}.until"], condition=f"attribute_exists({named(path)}.#until)"
            )
        # By the clock, so that a head rebuilt after a loss is above what readers have seen.
        version = max(seen.version + 1, clock.now_ms())
        channel = Channel(publisher_id, version, followers=followers)
        sets: dict[str, Value | str] = {"version": number(version)}
        if not seen.revision:
            sets["channels"] = {"M": {channel.key: _row_of(channel)}}
            return self._update(sets=sets, condition="attribute_not_exists(#revision)")
        sets[path] = _row_of(channel)
        has_room = f"attribute_not_exists({named(path)}) AND size(#channels) < :most"
        return self._update(
            sets=sets,
            condition=f"#version = :seen AND {has_room}",
            values={":seen": number(seen.version), ":most": number(MOST)},
        )

    def demote(self, publisher_id: str, *, until: int) -> Head | None:
        """Let a channel take no more posts; it is readable until that epoch second.

        Returns the head after that; None if the publisher has no active channel.
        """
        path = _path(publisher_id)
        row = named(path)
        is_active = f"attribute_exists({row}) AND attribute_not_exists({row}.#until)"
        return self._update(sets={f"{path}.until": number(until)}, condition=is_active)

    def raise_seq(self, publisher_id: str, sort_key: str, *, seen: Head = _NONE) -> Head | None:
        """Say that the post with this key was put into a channel, active or demoted.

        It also removes old keys of other channels, as `seen`, or a full head would be twice as
        long. Returns the head after that; None if there is no such channel any more.
        """
        path, old = _path(publisher_id), times.to_text(clock.now_ms() - LAST_MS)
        # A demoted channel may have left the head meanwhile: DynamoDB refuses a path into nothing.
        stale = [
            _path(each.publisher_id)
            for each in seen.channels.values()
            if each.is_active and each.publisher_id != publisher_id and "" < each.last < old
        ]
        raised = f"{named(path)}.#seq + :one"
        return self._update(
            sets={
                f"{path}.seq": raised,
                f"{path}.last": text(sort_key),
                f"{path}.last_seq": raised,
            },
            removes=[f"{each}.{name}" for each in stale[:MOST_STALE] for name in _LAST],
            condition=f"attribute_exists({named(path)})",
            values={":one": number(1)},
        )

    def remove(self, channel: Channel) -> Head | None:
        """Take a demoted channel out, once it holds nothing that a page would show.

        Returns the head after that; None if the channel has changed meanwhile.
        """
        path = _path(channel.publisher_id)
        return self._update(
            removes=[path],
            condition=f"{named(path)}.#until = :as_seen",
            values={":as_seen": number(channel.until)},
        )

    def replace(self, seen: Head, head: Head) -> bool:
        """Replace the whole row, to repair it; False if it has changed since it was `seen`."""
        item: dict[str, Any] = {
            **KEY,
            "version": number(head.version),
            "revision": number(head.revision),
            "channels": {"M": {key: _row_of(each) for key, each in head.channels.items()}},
        }
        unchanged = expressions(
            condition="#revision = :seen" if seen.revision else "attribute_not_exists(#revision)",
            values={":seen": number(seen.revision)} if seen.revision else {},
        )
        try:
            self.client.put_item(TableName=self.table, Item=item, **unchanged)
        except self.client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def _update(
        self, *, sets: dict[str, Value | str] | None = None, values: Item | None = None, **more: Any
    ) -> Head | None:
        """The head after an update; None if its condition did not hold."""
        try:
            answer = self.client.update_item(
                TableName=self.table,
                Key=KEY,
                ReturnValues="ALL_NEW",
                **expressions(sets=sets, adds={"revision": number(1)}, values=values, **more),
            )
        except self.client.exceptions.ConditionalCheckFailedException:
            return None
        return head_of(answer["Attributes"])


def _path(publisher_id: str) -> str:
    return f"channels.{key_of(publisher_id)}"


def _row_of(channel: Channel) -> Value:
    """Without `last`, which only `raise_seq` tells."""
    return {
        "M": {
            "id": text(channel.publisher_id),
            "v": number(channel.version),
            "seq": number(channel.seq),
            "followers": number(channel.followers),
            **({"until": number(channel.until)} if channel.until else {}),
        }
    }
