"""The timelines: one entry per post and follower, newest first by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fanfold.aws.items import get_text, number, text
from fanfold.names import EXPIRES_AT
from fanfold.timeline.paging import Range

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
        return self._query(user_id, within, start=before, limit=limit)

    def oldest(
        self, user_id: str, within: Range, *, after: str | None, limit: int, is_consistent: bool
    ) -> tuple[list[Entry], bool]:
        """Likewise, oldest first, newer than `after`."""
        order = {"ScanIndexForward": True, "ConsistentRead": is_consistent}
        return self._query(user_id, within, start=after, limit=limit, **order)

    def _query(
        self, user_id: str, within: Range, *, start: str | None, limit: int, **order: bool
    ) -> tuple[list[Entry], bool]:
        request: dict[str, Any] = {
            "TableName": self.table,
            "KeyConditionExpression": "user_id = :user AND sort_key > :since",
            "ExpressionAttributeValues": {":user": text(user_id), ":since": text(within.since)},
            "ProjectionExpression": "sort_key, publisher_id",
            "ScanIndexForward": False,
            "Limit": limit,
            **order,
        }
        if within.until is not None:  # no key equals a time
            condition = "user_id = :user AND sort_key BETWEEN :since AND :until"
            request["KeyConditionExpression"] = condition
            request["ExpressionAttributeValues"][":until"] = text(within.until)
        if start is not None:
            request["ExclusiveStartKey"] = {"user_id": text(user_id), "sort_key": text(start)}
        answer = self.client.query(**request)
        entries = [
            Entry(item["sort_key"]["S"], item["publisher_id"]["S"]) for item in answer["Items"]
        ]
        return entries, "LastEvaluatedKey" in answer
