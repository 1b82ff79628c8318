"""The timelines: one entry per post and follower, newest first by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import gt, lt
from typing import TYPE_CHECKING, Any, NamedTuple

from fanfold import invariants
from fanfold.aws.items import Item, get_text, number, text
from fanfold.names import EXPIRES_AT
from fanfold.timeline.page_reads import Range
from fanfold.times import WIDTH

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_DAY_SECONDS = 24 * 60 * 60


def entries_expire_at(published_ms: int, retention_days: int) -> int:
    """The epoch second at which the entries of a post end that was published at this time."""
    return published_ms // 1000 + retention_days * _DAY_SECONDS


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
        fixed = _attributes(entry)
        return self._puts([{"user_id": text(user), **fixed} for user in user_ids])

    def unwritten(self, answer: Mapping[str, Any]) -> list[str]:
        """The users whose entry a BatchWriteItem left unprocessed, according to its answer."""
        return self._left(answer, "user_id")

    def put(self, user_id: str, entries: Sequence[Entry]) -> list[str]:
        """Put up to 25 entries into one timeline; returns the sort keys of those not written.

        Idempotent, as `push` is, and each is the entry that `push` would have put there.
        """
        items = [{"user_id": text(user_id), **_attributes(entry)} for entry in entries]
        request: Any = self._puts(items)
        return self._left(self.client.batch_write_item(**request), "sort_key")

    def held(self, user_id: str, sort_keys: Sequence[str]) -> set[str]:
        """Which of up to 100 entries are in the timeline. One that could not be read is left out.

        Read eventually, so a very recent entry may be left out as well.
        """
        keys = [{"user_id": text(user_id), "sort_key": text(key)} for key in sort_keys]
        request: Any = {self.table: {"Keys": keys, "ProjectionExpression": "sort_key"}}
        answer = self.client.batch_get_item(RequestItems=request)
        return {get_text(item, "sort_key") for item in answer["Responses"].get(self.table, [])}

    def _puts(self, items: Sequence[Item]) -> dict[str, Any]:
        return {"RequestItems": {self.table: [{"PutRequest": {"Item": item}} for item in items]}}

    def _left(self, answer: Mapping[str, Any], name: str) -> list[str]:
        """The key `name` of each item that a BatchWriteItem left unprocessed."""
        left = answer.get("UnprocessedItems", {}).get(self.table, [])
        return [get_text(request["PutRequest"]["Item"], name) for request in left]

    def request(
        self, user_id: str, within: Range, *, start: str | None, limit: int, **order: bool
    ) -> dict[str, Any]:
        """The Query of a range that begins after the sort key `start`, in the given order."""
        key = None if start is None else {"user_id": text(user_id), "sort_key": text(start)}
        request = range_request("user_id", user_id, within, start=key, limit=limit)
        return {"TableName": self.table, **request, **order}


def _attributes(entry: Entry) -> Item:
    """An entry without its owner."""
    return {
        "sort_key": text(entry.sort_key),
        "publisher_id": text(entry.publisher_id),
        EXPIRES_AT: number(entry.expires_at),
    }


def range_request(
    owner: str, owner_id: str, within: Range, *, start: Item | None, limit: int
) -> dict[str, Any]:
    """The Query of a range of sort keys below one partition key, whose attribute is `owner`.

    It begins after the key `start`; the caller adds table and order.
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
    """The entries in the answer to such a Query, and whether more may follow."""
    entries = [Entry(item["sort_key"]["S"], item["publisher_id"]["S"]) for item in answer["Items"]]
    return entries, "LastEvaluatedKey" in answer


def checked(
    entries: list[Entry], within: Range, *, start: str | None, is_ascending: bool
) -> list[Entry]:
    """The entries of a range behind the key `start`; reports what no Query can answer.

    An entry whose key names no post is left out: no cursor could stand at it.
    """
    keys = [each.sort_key for each in entries]
    if not keys:
        return entries
    before, bounds = (lt, keys) if is_ascending else (gt, keys[::-1])
    is_within = within.since <= bounds[0] and (within.until is None or bounds[-1] <= within.until)
    is_behind = start is None or before(start, keys[0])
    invariants.check("entries_in_order", all(map(before, keys, keys[1:])))
    invariants.check("entries_in_range", is_within and is_behind)
    if invariants.check("entry_key", all(map(_is_key, keys))):
        return entries
    return [each for each in entries if _is_key(each.sort_key)]


def _is_key(key: str) -> bool:
    """Whether a key looks like one: a page checks each of its keys, so this is no parser."""
    return key.find("#") == WIDTH < len(key) - 1
