"""The followers of a publisher, as edges in ring order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanfold import clock, ring
from fanfold.attributes import get_text, number, text
from fanfold.delivery import CHUNK, Page
from fanfold.errors import TryLater

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Edges a page: 100 chunks of 25, about 200 KB, so that one page is read while one is written.
PAGE_EDGES = 2_500
# Edges that a batch leaves unprocessed are sent again so often, with jitter between.
ATTEMPTS = 8
BACKOFF_SECONDS = 0.05
# Every publisher has one shard. (Keys carry level and shard already, so that growing changes none.)
LEVEL = 0
SHARD = 0


@dataclass(frozen=True)
class Followers:
    """The followers table."""

    client: DynamoDBClient
    table: str

    def put(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        """Write the edge of follow `version`, unless one as new or newer is there."""
        is_absent = "attribute_not_exists(edge)"
        is_older = "version < :version"
        try:
            self.client.put_item(
                TableName=self.table,
                Item={**self._key(publisher_id, follower_id), "version": number(version)},
                ConditionExpression=f"{is_absent} OR {is_older}",
                ExpressionAttributeValues={":version": number(version)},
            )
        except self.client.exceptions.ConditionalCheckFailedException:
            return  # it is there already, or a newer follow put it

    def put_all(self, edges: Iterable[tuple[str, str, int]]) -> None:
        """Write edges (publisher, follower, version) that no newer follow can have put.

        Only for who looks at the rows again afterwards: BatchWriteItem knows no conditions. Raises
        `TryLater` if the table takes them too slowly; writing them again is safe.
        """
        requests: list[Any] = [
            {"PutRequest": {"Item": {**self._key(publisher, user), "version": number(version)}}}
            for publisher, user, version in edges
        ]
        for attempt in range(ATTEMPTS):
            left: list[Any] = []
            for start in range(0, len(requests), CHUNK):
                chunk = requests[start : start + CHUNK]
                answer = self.client.batch_write_item(RequestItems={self.table: chunk})
                left += answer.get("UnprocessedItems", {}).get(self.table, [])
            if not left:
                return
            requests = left
            clock.sleep(clock.chance() * BACKOFF_SECONDS * 2**attempt)
        raise TryLater("The followers table takes these edges too slowly; try again.")

    def remove(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        """Delete the edge that unfollow `version` ends, unless a newer follow put it."""
        is_absent = "attribute_not_exists(edge)"
        is_older = "version <= :version"
        try:
            self.client.delete_item(
                TableName=self.table,
                Key=self._key(publisher_id, follower_id),
                ConditionExpression=f"{is_absent} OR {is_older}",
                ExpressionAttributeValues={":version": number(version)},
            )
        except self.client.exceptions.ConditionalCheckFailedException:
            return  # a newer follow put it

    def page(self, publisher_id: str, *, after: str, hi: str, limit: int = PAGE_EDGES) -> Page:
        """Edges in ring order beyond `after` (a position or an edge) and below position `hi`.

        Read consistently, so that every follow acknowledged before is among them.
        """
        lo = ring.position_of(after)
        request = {
            "TableName": self.table,
            "KeyConditionExpression": "shard_id = :shard AND edge BETWEEN :lo AND :hi",
            "ExpressionAttributeValues": {
                ":shard": text(ring.shard_key(publisher_id, LEVEL, SHARD)),
                ":lo": text(lo),
                ":hi": text(hi),
            },
            "ProjectionExpression": "edge",
            "ConsistentRead": True,
            "Limit": limit,
        }
        if after != lo:
            request["ExclusiveStartKey"] = {
                "shard_id": text(ring.shard_key(publisher_id, LEVEL, SHARD)),
                "edge": text(after),
            }
        answer = self.client.query(**request)  # type: ignore[arg-type]
        return Page(
            [get_text(item, "edge") for item in answer["Items"]], "LastEvaluatedKey" in answer
        )

    def _key(self, publisher_id: str, follower_id: str) -> dict[str, dict[str, str]]:
        return {
            "shard_id": text(ring.shard_key(publisher_id, LEVEL, SHARD)),
            "edge": text(ring.edge(follower_id)),
        }
