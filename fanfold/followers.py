"""The followers of a publisher, as edges in ring order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanfold import clock, ring
from fanfold.attributes import number, text
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

    def page(self, publisher_id: str, *, after: str, hi: str, limit: int | None = None) -> Page:
        """Edges in ring order beyond `after` (a position or an edge) and below position `hi`.

        Read consistently, so that every follow acknowledged before is among them.
        """
        request: Any = self.page_request(publisher_id, after=after, hi=hi, limit=limit)
        return page_of(self.client.query(**request))

    def page_request(
        self, publisher_id: str, *, after: str, hi: str, limit: int | None = None
    ) -> dict[str, Any]:
        """The Query that reads such a page."""
        shard_id = text(ring.shard_key(publisher_id, LEVEL, SHARD))
        lo = ring.position_of(after)
        request = {
            "TableName": self.table,
            "KeyConditionExpression": "shard_id = :shard AND edge BETWEEN :lo AND :hi",
            "ExpressionAttributeValues": {":shard": shard_id, ":lo": text(lo), ":hi": text(hi)},
            "ProjectionExpression": "edge",
            "ConsistentRead": True,
            "Limit": limit or PAGE_EDGES,
        }
        if after != lo:
            request["ExclusiveStartKey"] = {"shard_id": shard_id, "edge": text(after)}
        return request

    def _key(self, publisher_id: str, follower_id: str) -> dict[str, dict[str, str]]:
        return {
            "shard_id": text(ring.shard_key(publisher_id, LEVEL, SHARD)),
            "edge": text(ring.edge(follower_id)),
        }


def page_of(answer: Mapping[str, Any]) -> Page:
    """The page that a Query's answer holds."""
    # A segment has thousands of these, so without a call for each.
    return Page([item["edge"]["S"] for item in answer["Items"]], "LastEvaluatedKey" in answer)
