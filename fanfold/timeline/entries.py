"""The timelines: one entry per post and follower, newest first by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fanfold.aws.items import Item, get_text, number, text
from fanfold.names import EXPIRES_AT
from fanfold.timeline.source import Range

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class Entry(NamedTuple):
    """A post's row in a timeline. Without content: one write unit, and edits of a post are free."""

    sort_key: str
    publisher_id: str
    expires_at: int = 0


@dataclass(frozen=True)
class Entries:
    client: DynamoDBClient
    table: str

    def push(self, entry: Entry, user_ids: Sequence[str]) -> list[str]:
        """Put the entry into up to 25 timelines; returns the users whose entry was not written.

        Idempotent: an entry overwrites itself.
        """
        request: Any = self.push_request(entry, user_ids)
        return self.unwritten(self.client.batch_write_item(**request))

    def push_request(self, entry: Entry, user_ids: Sequence[str]) -> dict[str, Any]:
        """The BatchWriteItem that puts the entry into these timelines."""
        fixed = {
            "sort_key": text(entry.sort_key),
            "publisher_id": text(entry.publisher_id),
            EXPIRES_AT: number(entry.expires_at),
        }
        puts = [{"PutRequest": {"Item": {"user_id": text(user), **fixed}}} for user in user_ids]
        return {"RequestItems": {self.table: puts}}

    def unwritten(self, answer: Mapping[str, Any]) -> list[str]:
        """The users whose entry a BatchWriteItem left unprocessed, according to its answer."""
        left = answer.get("UnprocessedItems", {}).get(self.table, [])
        return [get_text(request["PutRequest"]["Item"], "user_id") for request in left]

    def newest(
        self, user_id: str, within: Range, *, before: str | None, limit: int
    ) -> tuple[list[Entry], bool]:
        """At most `limit` entries, newest first, and whether more may follow.

        They are older than the sort key `before`, if it is given; it lies within the range.
        """
        return self._query(user_id, within, start=before, limit=limit, ScanIndexForward=False)

    def oldest(
        self, user_id: str, within: Range, *, after: str | None, limit: int, is_consistent: bool
    ) -> tuple[list[Entry], bool]:
        """Likewise, oldest first, newer than `after`."""
        order = {"ScanIndexForward": True, "ConsistentRead": is_consistent}
        return self._query(user_id, within, start=after, limit=limit, **order)

    def _query(
        self, user_id: str, within: Range, *, start: str | None, limit: int, **order: bool
    ) -> tuple[list[Entry], bool]:
        key = None if start is None else {"user_id": text(user_id), "sort_key": text(start)}
        request = {**range_request("user_id", user_id, within, start=key, limit=limit), **order}
        return found(self.client.query(TableName=self.table, **request))


def range_request(
    owner: str, owner_id: str, within: Range, *, start: Item | None, limit: int
) -> dict[str, Any]:
    """The Query of a range of sort keys below one partition key, whose attribute is `owner`.

    It begins after the key `start`, and says neither the table nor the order.
    """
    request: dict[str, Any] = {
        "KeyConditionExpression": f"{owner} = :owner AND sort_key > :since",
        "ExpressionAttributeValues": {":owner": text(owner_id), ":since": text(within.since)},
        "ProjectionExpression": "sort_key, publisher_id",
        "Limit": limit,
    }
    if within.until is not None:  # no key equals a time
        condition = f"{owner} = :owner AND sort_key BETWEEN :since AND :until"
        request["KeyConditionExpression"] = condition
        request["ExpressionAttributeValues"][":until"] = text(within.until)
    if start is not None:
        request["ExclusiveStartKey"] = start
    return request


def found(answer: Mapping[str, Any]) -> tuple[list[Entry], bool]:
    """What such a Query has answered, and whether more may follow."""
    entries = [Entry(item["sort_key"]["S"], item["publisher_id"]["S"]) for item in answer["Items"]]
    return entries, "LastEvaluatedKey" in answer
