"""The timelines: one entry per post and follower, newest first by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fanfold.aws.items import get_text, number, text
from fanfold.names import EXPIRES_AT

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class Entry(NamedTuple):
    """One post's row in any timeline: ids and time only, so one write unit and free edits."""

    sort_key: str
    publisher_id: str
    expires_at: int = 0


@dataclass(frozen=True)
class Entries:
    """The timelines table."""

    client: DynamoDBClient
    table: str

    def push(self, entry: Entry, user_ids: Sequence[str]) -> list[str]:
        """Put the entry into up to 25 timelines; the users whose entry was not written come back.

        The same entry again overwrites itself. DynamoDB's own errors are raised as they are.
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
        """The users that a BatchWriteItem's answer names as not written."""
        left = answer.get("UnprocessedItems", {}).get(self.table, [])
        return [get_text(request["PutRequest"]["Item"], "user_id") for request in left]

    def newest(
        self, user_id: str, *, since: str, before: str | None, limit: int
    ) -> tuple[list[Entry], bool]:
        """Entries newer than `since`, newest first, from below the sort key `before` on.

        Returns at most `limit` entries and whether more may follow.
        """
        request: dict[str, Any] = {
            "TableName": self.table,
            "KeyConditionExpression": "user_id = :user AND sort_key > :since",
            "ExpressionAttributeValues": {":user": text(user_id), ":since": text(since)},
            "ProjectionExpression": "sort_key, publisher_id",
            "ScanIndexForward": False,
            "Limit": limit,
        }
        if before is not None:
            request["ExclusiveStartKey"] = {"user_id": text(user_id), "sort_key": text(before)}
        answer = self.client.query(**request)
        entries = [
            Entry(item["sort_key"]["S"], item["publisher_id"]["S"]) for item in answer["Items"]
        ]
        return entries, "LastEvaluatedKey" in answer
