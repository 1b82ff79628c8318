"""The records of channels in bulk, read consistently, and their repairs."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fanfold import clock
from fanfold.aws import dynamodb
from fanfold.aws.items import MAX_KEYS, get_text, number, text
from fanfold.channels.head import Head, partition_of
from fanfold.channels.head_table import HeadTable
from fanfold.channels.put import put
from fanfold.doctor.findings import Pair
from fanfold.doctor.scan import Records
from fanfold.errors import TryLater
from fanfold.fanout.row import CHANNEL, COMPLETE, ENTRIES_EXPIRE_AT, Fanout, from_item
from fanfold.timeline.entries import Entries, Entry
from fanfold.timeline.marks import Reader, among
from fanfold.timeline.posts import Post, Posts
from fanfold.timeline.readers import reader_of
from fanfold.timeline.visibility import shown_since

# DynamoDB deletes an entry after its time by its own clock.
CLOCK_SECONDS = 600


@dataclass(frozen=True)
class ChannelRecords:
    records: Records
    heads: HeadTable
    entries: Entries
    posts: Posts
    fanouts_table: str

    def delivered(self, publisher_id: str | None) -> Iterator[tuple[int, list[Fanout]]]:
        """The fan-outs that are complete in a channel, and new enough to be shown, page by page.

        Their posts may have been retracted. Each page: how many items were scanned, and the
        fan-outs, of one publisher if it is given.
        """
        condition = "#by = :channel AND #state = :complete AND #expires > :now"
        values = {
            ":channel": text(CHANNEL),
            ":complete": text(COMPLETE),
            ":now": number(clock.now_ms() // 1000 + CLOCK_SECONDS),
        }
        names = {"#by": "by", "#state": "state", "#expires": ENTRIES_EXPIRE_AT}
        if publisher_id:
            condition += " AND publisher_id = :publisher"
            values[":publisher"] = text(publisher_id)
        since = shown_since(self.records.follows.retention_days)
        for answer in dynamodb.pages(
            self.heads.client,
            TableName=self.fanouts_table,
            ConsistentRead=True,
            FilterExpression=condition,
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=values,
        ):
            found = map(from_item, answer["Items"])
            yield answer["ScannedCount"], [each for each in found if each.sort_key > since]

    def without_entry(self, fanouts: Sequence[Fanout]) -> list[Fanout]:
        """Those of the fan-outs whose post is published, and has no entry in its channel."""
        keys = [_key(each) for each in fanouts]
        found = {_pair(item) for item in self.records.get_all(self.entries.table, keys)}
        missing = [each for each in fanouts if _pair(_key(each)) not in found]
        posts: dict[str, Post] = {}
        for start in range(0, len(missing), MAX_KEYS):
            some = missing[start : start + MAX_KEYS]
            read, left = self.posts.get([each.fanout_id for each in some])
            if left:
                raise TryLater("DynamoDB is throttling these reads; run it again.")
            posts |= read
        return [each for each in missing if _is_published(each, posts.get(each.fanout_id))]

    def readers(self, publishers: Collection[str]) -> Iterator[tuple[int, int, list[Pair]]]:
        """The rows of all readers, page by page.

        Each page: how many there are, the highest version that one of them is complete to, and who
        has noted the channel of which of these publishers.
        """
        for answer in dynamodb.pages(
            self.heads.client,
            TableName=self.records.follows.readers.table,
            ConsistentRead=True,
            ProjectionExpression="user_id, channels, channels_seen",
        ):
            rows = {get_text(item, "user_id"): reader_of(item) for item in answer["Items"]}
            newest = max((each.channels_seen for each in rows.values()), default=0)
            yield len(rows), newest, _noted(rows, publishers)

    # Repairs

    def put(self, fanout: Fanout) -> None:
        """Put a post into its channel again, as PLAN does. Raises `TryLater`."""
        put(self.entries, Entry(fanout.sort_key, fanout.publisher_id, fanout.expires_at))
        if self.heads.raise_seq(fanout.publisher_id, fanout.sort_key) is None:
            raise TryLater(f"'{fanout.publisher_id}' has no channel any more; run it again.")

    def replace(self, seen: Head, head: Head) -> None:
        """Replace the head, unless it has changed since it was seen. Raises `TryLater`."""
        if not self.heads.replace(seen, head):
            raise TryLater("The head of the channels has changed during its repair; run it again.")


def _is_published(fanout: Fanout, post: Post | None) -> bool:
    if post is None or post.deleted:
        return False
    return post.is_of(fanout.publisher_id, fanout.sort_key)


def _noted(rows: dict[str, Reader], publishers: Collection[str]) -> list[Pair]:
    return [
        (user_id, publisher_id)
        for user_id, reader in rows.items()
        for publisher_id in sorted(among(reader.channels, publishers))
    ]


def _key(fanout: Fanout) -> Any:
    partition = partition_of(fanout.publisher_id)
    return {"user_id": text(partition), "sort_key": text(fanout.sort_key)}


def _pair(item: Any) -> tuple[str, str]:
    return get_text(item, "user_id"), get_text(item, "sort_key")
