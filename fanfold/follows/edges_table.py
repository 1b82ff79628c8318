"""The followers table: the edges of each publisher, in ring order within each shard."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fanfold import clock
from fanfold.aws import dynamodb
from fanfold.aws.items import MAX_PUTS, get_number, get_text, number, text
from fanfold.aws.retries import for_each, is_transient
from fanfold.follows import ring
from fanfold.follows.ring_reader import EdgePage, Read, RingRead

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from mypy_boto3_dynamodb import DynamoDBClient

# About 200 KB a page, and 100 batches to write: a page can be read while the last one is written.
PAGE_EDGES = 2_500


@dataclass(frozen=True)
class EdgesTable:
    client: DynamoDBClient
    table: str

    def put(self, publisher_id: str, follower_id: str, *, version: int, level: int) -> None:
        """Write the edge of follow `version` at `level`, unless one as new or newer is there."""
        is_absent = "attribute_not_exists(edge)"
        is_older = "version < :version"
        try:
            self.client.put_item(
                TableName=self.table,
                Item=_item(edge_key(publisher_id, follower_id, level), version),
                ConditionExpression=f"{is_absent} OR {is_older}",
                ExpressionAttributeValues={":version": number(version)},
            )
        except self.client.exceptions.ConditionalCheckFailedException:
            return  # this version is there already, or a newer one

    def version(self, publisher_id: str, follower_id: str, *, level: int) -> int | None:
        """The version of the edge at `level`, read consistently; None if there is no edge."""
        answer = self.client.get_item(
            TableName=self.table,
            Key=edge_key(publisher_id, follower_id, level),
            ConsistentRead=True,
            ProjectionExpression="version",
        )
        return get_number(answer["Item"], "version") if "Item" in answer else None

    def versions(self, edges: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str], int]:
        """The versions of up to 100 edges (publisher, follower, level), of those that are there.

        Read consistently. Raises `TryLater`.
        """
        asked = {}
        for publisher, user, level in edges:
            key = edge_key(publisher, user, level)
            asked[key["shard_id"]["S"], key["edge"]["S"]] = publisher, user
        wanted = {
            "Keys": [{"shard_id": text(shard), "edge": text(edge)} for shard, edge in asked],
            "ConsistentRead": True,
            "ProjectionExpression": "shard_id, edge, version",
        }
        found = dynamodb.rows(self.client, {self.table: wanted})[self.table] if asked else []
        return {
            asked[get_text(item, "shard_id"), get_text(item, "edge")]: get_number(item, "version")
            for item in found
        }

    def put_all(self, edges: Iterable[tuple[str, str, int, int]]) -> set[tuple[str, str]]:
        """Write edges (publisher, follower, version, level) that no newer follow can have put.

        Returns the (publisher, follower) pairs that the table left unprocessed. Callers must
        re-read the rows afterwards: BatchWriteItem cannot be conditional.
        """
        keys: dict[tuple[str, str], tuple[str, str]] = {}
        requests: list[Any] = []
        for publisher, user, version, level in edges:
            key = edge_key(publisher, user, level)
            keys[key["shard_id"]["S"], key["edge"]["S"]] = publisher, user
            requests.append({"PutRequest": {"Item": _item(key, version)}})
        left: set[tuple[str, str]] = set()
        for start in range(0, len(requests), MAX_PUTS):
            chunk = requests[start : start + MAX_PUTS]
            for request in self._put_chunk(chunk):
                item = request["PutRequest"]["Item"]
                left.add(keys[item["shard_id"]["S"], item["edge"]["S"]])
        return left

    def _put_chunk(self, chunk: list[Any]) -> list[Any]:
        try:
            answer: Any = self.client.batch_write_item(RequestItems={self.table: chunk})
        except Exception as error:
            if not is_transient(error):
                raise
            return chunk
        unprocessed: list[Any] = answer.get("UnprocessedItems", {}).get(self.table, [])
        return unprocessed

    def remove(self, publisher_id: str, follower_id: str, *, version: int, level: int) -> None:
        """Delete the edge at `level` that unfollow `version` ends, but not a newer one."""
        is_absent = "attribute_not_exists(edge)"
        is_older = "version <= :version"
        try:
            self.client.delete_item(
                TableName=self.table,
                Key=edge_key(publisher_id, follower_id, level),
                ConditionExpression=f"{is_absent} OR {is_older}",
                ExpressionAttributeValues={":version": number(version)},
            )
        except self.client.exceptions.ConditionalCheckFailedException:
            return  # a newer follow put it

    def page(self, publisher_id: str, read: Read, limit: int | None = None) -> EdgePage:
        """A page of one shard's edges, in ring order.

        Read consistently, so that it holds every follow acknowledged before.
        """
        request: Any = self.page_request(publisher_id, read, limit)
        return page_of(self.client.query(**request))

    def page_request(
        self, publisher_id: str, read: Read, limit: int | None = None
    ) -> dict[str, Any]:
        shard_id = text(ring.shard_key(publisher_id, read.level, read.shard))
        lo = ring.position_of(read.after)
        values = {":shard": shard_id, ":lo": text(lo), ":hi": text(read.hi)}
        request = {
            "TableName": self.table,
            "KeyConditionExpression": "shard_id = :shard AND edge BETWEEN :lo AND :hi",
            "ExpressionAttributeValues": values,
            "ProjectionExpression": "edge",
            "ConsistentRead": True,
            "Limit": limit or PAGE_EDGES,
        }
        if read.after != lo:
            request["ExclusiveStartKey"] = {"shard_id": shard_id, "edge": text(read.after)}
        return request

    def edges(
        self,
        publisher_id: str,
        wanted: RingRead,
        *,
        limit: int | None = None,
        max_reads: float = math.inf,
        known: Mapping[Read, EdgePage] = MappingProxyType({}),
        threads: Executor | None = None,
    ) -> Iterator[list[str]]:
        """The edges of a read, merged over all levels, in ring order, a part at a time.

        With `threads`, the pages that the read asks for at once are read in parallel. It stops
        after `max_reads` pages, and those that were asked for with the last of them. Pages that the
        caller has read already are `known`.
        """

        def read_page(read: Read) -> EdgePage:
            return known.get(read) or self.page(publisher_id, read, limit)

        made = 0
        while made < max_reads and (reads := list(iter(wanted.next_read, None))):
            made += len(reads)
            pages = for_each(threads, read_page, reads)
            for read, page in zip(reads, pages, strict=True):
                wanted.page_read(read, page)
            if edges := wanted.take():
                yield edges


def edge_key(publisher_id: str, follower_id: str, level: int) -> dict[str, dict[str, str]]:
    """The key of a follower's edge at a level; its position on the ring selects the shard."""
    edge = ring.edge(follower_id)
    shard = ring.shard_of(ring.position_of(edge), level)
    return {"shard_id": text(ring.shard_key(publisher_id, level, shard)), "edge": text(edge)}


def _item(key: dict[str, dict[str, str]], version: int) -> dict[str, Any]:
    """An edge; `at` is the epoch second at which its put is sent, which audits compare."""
    return {**key, "version": number(version), "at": number(clock.now_ms() // 1000)}


def page_of(answer: Mapping[str, Any]) -> EdgePage:
    # A segment has thousands of edges: no function call for each.
    return EdgePage([item["edge"]["S"] for item in answer["Items"]], "LastEvaluatedKey" in answer)
