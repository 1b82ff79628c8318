"""The ledger: which posts are being delivered, how they are cut, and what is still pending.

One row a fan-out. Every change is one conditional update, so a second delivery of any message
counts nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fanfold.aws.items import Item, get_number, get_text, number, text
from fanfold.names import EXPIRES_AT, GIVEN_UP, OPEN, Index

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

QUEUED = "queued"
DELIVERING = "delivering"
COMPLETE = "complete"
STALLED = "stalled"

# Also a fan-out that SWEEP gave up before PLAN came to it: the order may have waited that long.
_AWAITS_PLAN = "attribute_not_exists(#segments) AND #state IN (:queued, :stalled)"
# What had stalled and moves again is looked at by SWEEP again.
_REOPENED = f"{OPEN.partition_key} = :id REMOVE {GIVEN_UP.partition_key}"


# More entries than any segment has; fixed, so that text order is order.
_WRITTEN_DIGITS = 10


@dataclass(frozen=True)
class Resume:
    """Where the next worker of a segment begins, and how many entries are written before that.

    `stragglers` are positions before it whose followers are left out.
    """

    position: str
    written: int
    stragglers: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Fixed-width position first, then the count, so that what is greater is further on."""
        return ".".join((self.position, f"{self.written:0{_WRITTEN_DIGITS}}", *self.stragglers))

    @staticmethod
    def from_text(value: str) -> Resume:
        """Read `to_text` back."""
        position, written, *stragglers = value.split(".")
        return Resume(position, int(written), tuple(stragglers))


@dataclass(frozen=True, kw_only=True)
class Fanout:
    """One row of the ledger."""

    fanout_id: str
    publisher_id: str
    sort_key: str
    accepted_at: str
    expires_at: int
    state: str = QUEUED
    segments: int = 0
    followers: int = 0  # estimated by PLAN
    level: int = 0  # of the publisher's write shards, as PLAN saw it
    pending: frozenset[int] = frozenset()
    resume: dict[int, Resume] = field(default_factory=dict)
    delivered: int = 0
    changed_at: str = ""
    completed_at: str = ""
    rounds: int = 0  # of SWEEP, since anything was last delivered

    @property
    def awaits_plan(self) -> bool:
        """Whether PLAN has not fixed the plan yet, also if SWEEP has given it up meanwhile."""
        return self.state == QUEUED or (self.state == STALLED and not self.segments)


def _from_item(item: Item) -> Fanout:
    resume = item.get("resume", {}).get("M", {})
    return Fanout(
        fanout_id=get_text(item, "fanout_id"),
        publisher_id=get_text(item, "publisher_id"),
        sort_key=get_text(item, "sort_key"),
        accepted_at=get_text(item, "accepted_at"),
        expires_at=get_number(item, EXPIRES_AT),
        state=get_text(item, "state"),
        segments=get_number(item, "segments"),
        followers=get_number(item, "followers"),
        level=get_number(item, "level"),
        pending=frozenset(int(n) for n in item.get("pending", {}).get("NS", [])),
        resume={int(k): Resume.from_text(v["S"]) for k, v in resume.items()},
        delivered=get_number(item, "delivered"),
        changed_at=get_text(item, "changed_at"),
        completed_at=get_text(item, "completed_at"),
        rounds=get_number(item, "rounds"),
    )


@dataclass(frozen=True)
class Ledger:
    """The fanouts table."""

    client: DynamoDBClient
    table: str

    def open(self, fanout: Fanout) -> bool:
        """Write the row of an accepted publish in state `queued`; False if there is one already.

        A row with another sort key is of an earlier post of this id, which has expired: DynamoDB
        deletes the two rows of a publish days apart, and the one that is left decides nothing.
        """
        item: dict[str, Any] = {
            "fanout_id": text(fanout.fanout_id),
            OPEN.partition_key: text(fanout.fanout_id),
            "publisher_id": text(fanout.publisher_id),
            "sort_key": text(fanout.sort_key),
            "accepted_at": text(fanout.accepted_at),
            "changed_at": text(fanout.accepted_at),
            "state": text(QUEUED),
            EXPIRES_AT: number(fanout.expires_at),
        }
        try:
            self.client.put_item(
                TableName=self.table,
                Item=item,
                ConditionExpression="attribute_not_exists(fanout_id) OR sort_key <> :sort_key",
                ExpressionAttributeValues={":sort_key": text(fanout.sort_key)},
            )
        except self.client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def get(self, fanout_id: str) -> Fanout | None:
        """The row, read consistently, or None."""
        answer = self.client.get_item(
            TableName=self.table, Key={"fanout_id": text(fanout_id)}, ConsistentRead=True
        )
        return _from_item(answer["Item"]) if "Item" in answer else None

    def plan(self, fanout_id: str, *, segments: int, followers: int, level: int, now: str) -> bool:
        """Fix the plan, once; False if it was fixed before."""
        return self._updates(
            fanout_id,
            "SET #state = :delivering, #segments = :segments, followers = :followers, "
            "#level = :level, pending = :pending, resume = :resume, delivered = :none, "
            f"rounds = :none, changed_at = :now, {_REOPENED}",
            condition=_AWAITS_PLAN,
            values={
                ":delivering": text(DELIVERING),
                ":queued": text(QUEUED),
                ":stalled": text(STALLED),
                ":id": text(fanout_id),
                ":segments": number(segments),
                ":followers": number(followers),
                ":level": number(level),
                ":pending": {"NS": [str(segment) for segment in range(segments)]},
                ":resume": {"M": {}},
                ":none": number(0),
                ":now": text(now),
            },
            names={"#state": "state", "#segments": "segments", "#level": "level"},
        )

    def finish_segment(
        self, fanout: Fanout, segment: int, *, written: int, now: str
    ) -> Fanout | None:
        """Take the segment off the pending ones and count its entries, once.

        Returns the row after that, or None if the segment was off before. The only segment of a
        fan-out completes it in the same update.
        """
        sets = "changed_at = :now, rounds = :none"
        removes = f"resume.#segment, {GIVEN_UP.partition_key}"
        values: dict[str, Any] = {
            ":written": number(written),
            ":segment": {"NS": [str(segment)]},
            ":number": number(segment),
            ":none": number(0),
            ":delivering": text(DELIVERING),
            ":stalled": text(STALLED),
            ":now": text(now),
        }
        if fanout.segments == 1:
            sets += ", #state = :complete, completed_at = :now"
            removes += f", {OPEN.partition_key}"
            values[":complete"] = text(COMPLETE)
        else:  # one that had stalled moves again
            sets += f", #state = :delivering, {OPEN.partition_key} = :id"
            values[":id"] = text(fanout.fanout_id)
        is_pending = "contains(pending, :number)"
        is_open = "#state IN (:delivering, :stalled)"
        return self._update(
            fanout.fanout_id,
            f"SET {sets} ADD delivered :written DELETE pending :segment REMOVE {removes}",
            condition=f"{is_pending} AND {is_open}",
            values=values,
            names={"#state": "state", "#segment": str(segment)},
        )

    def complete_if_delivered(self, fanout_id: str, *, now: str) -> bool:
        """Complete a fan-out that has nothing pending; False if it has, or is complete already."""
        is_planned = "attribute_exists(#segments)"
        none_pending = "attribute_not_exists(pending)"  # DynamoDB keeps no empty set
        is_open = "#state IN (:delivering, :stalled)"
        return self._updates(
            fanout_id,
            "SET #state = :complete, completed_at = :now, changed_at = :now "
            f"REMOVE {OPEN.partition_key}, {GIVEN_UP.partition_key}",
            condition=f"{is_planned} AND {none_pending} AND {is_open}",
            values={
                ":complete": text(COMPLETE),
                ":delivering": text(DELIVERING),
                ":stalled": text(STALLED),
                ":now": text(now),
            },
            names={"#state": "state", "#segments": "segments"},
        )

    def complete_without_followers(self, fanout_id: str, *, now: str) -> bool:
        """Complete a fan-out that has nobody to be delivered to."""
        return self._updates(
            fanout_id,
            "SET #state = :complete, completed_at = :now, changed_at = :now, #segments = :none, "
            f"followers = :none, delivered = :none "
            f"REMOVE {OPEN.partition_key}, {GIVEN_UP.partition_key}",
            condition=_AWAITS_PLAN,
            values={
                ":complete": text(COMPLETE),
                ":queued": text(QUEUED),
                ":stalled": text(STALLED),
                ":none": number(0),
                ":now": text(now),
            },
            names={"#state": "state", "#segments": "segments"},
        )

    def store_resume(self, fanout_id: str, segment: int, resume: Resume, *, now: str) -> bool:
        """Note how far a pending segment is delivered; False if another worker is further on.

        The same again counts: the answer to the first try may be what was lost.
        """
        is_pending = "contains(pending, :number)"
        is_first = "attribute_not_exists(resume.#segment)"
        is_as_far = "resume.#segment <= :resume"
        return self._updates(
            fanout_id,
            "SET resume.#segment = :resume, #state = :delivering, rounds = :none, "
            f"changed_at = :now, {_REOPENED}",
            condition=f"{is_pending} AND ({is_first} OR {is_as_far})",
            values={
                ":resume": text(resume.to_text()),
                ":delivering": text(DELIVERING),
                ":id": text(fanout_id),
                ":none": number(0),
                ":number": number(segment),
                ":now": text(now),
            },
            names={"#state": "state", "#segment": str(segment)},
        )

    def touch(self, fanout_id: str, *, now: str) -> None:
        """Note that a worker was at it, although it got no further."""
        self._updates(
            fanout_id,
            "SET changed_at = :now",
            condition="attribute_exists(#state)",
            values={":now": text(now)},
            names={"#state": "state"},
        )

    def next_round(self, fanout: Fanout, *, now: str) -> bool:
        """Count one more round of SWEEP; False if anything moved in between."""
        return self._updates(
            fanout.fanout_id,
            "SET rounds = :next, changed_at = :now",
            condition="changed_at = :seen AND #state = :was",
            values={**_as_seen(fanout, now), ":next": number(fanout.rounds + 1)},
            names={"#state": "state"},
        )

    def give_up(self, fanout: Fanout, *, now: str) -> bool:
        """Let it stall, visibly; False if anything moved in between. Any progress reopens it."""
        return self._updates(
            fanout.fanout_id,
            f"SET #state = :stalled, changed_at = :now, {GIVEN_UP.partition_key} = :id "
            f"REMOVE {OPEN.partition_key}",
            condition="changed_at = :seen AND #state = :was",
            values={
                **_as_seen(fanout, now),
                ":stalled": text(STALLED),
                ":id": text(fanout.fanout_id),
            },
            names={"#state": "state"},
        )

    def open_ids(self, *, page: int) -> Iterator[str]:
        """The ids of the fan-outs under way, from the sparse index, page by page."""
        yield from self._ids(OPEN, page=page)

    def stalled_ids(self, *, page: int) -> Iterator[str]:
        """The ids of the fan-outs that were given up, likewise."""
        yield from self._ids(GIVEN_UP, page=page)

    def _ids(self, index: Index, *, page: int) -> Iterator[str]:
        pages = self.client.get_paginator("scan").paginate(
            TableName=self.table, IndexName=index.name, PaginationConfig={"PageSize": page}
        )
        for found in pages:
            for item in found["Items"]:
                yield get_text(item, index.partition_key)

    def _updates(self, fanout_id: str, expression: str, **request: Any) -> bool:
        return self._update(fanout_id, expression, **request) is not None

    def _update(
        self,
        fanout_id: str,
        expression: str,
        *,
        condition: str,
        values: dict[str, Any],
        names: dict[str, str],
    ) -> Fanout | None:
        """The row after the update, or None if the condition refused it."""
        try:
            answer = self.client.update_item(
                TableName=self.table,
                Key={"fanout_id": text(fanout_id)},
                UpdateExpression=expression,
                ConditionExpression=condition,
                ExpressionAttributeValues=values,
                ExpressionAttributeNames=names,
                ReturnValues="ALL_NEW",
            )
        except self.client.exceptions.ConditionalCheckFailedException:
            return None
        return _from_item(answer["Attributes"])


def _as_seen(fanout: Fanout, now: str) -> dict[str, Any]:
    return {":seen": text(fanout.changed_at), ":was": text(fanout.state), ":now": text(now)}
