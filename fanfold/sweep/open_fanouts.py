"""What SWEEP reads and changes in the ledger, and its memory there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fanfold import times
from fanfold.aws import dynamodb
from fanfold.aws.items import Item, Value, expressions, get_number, get_text, number, text
from fanfold.fanout.row import STALLED, Fanout, accepted_at, from_item, is_large
from fanfold.names import GIVEN_UP, OPEN
from fanfold.sweep.run_limits import Key

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# The row of SWEEP itself: no fan-out's id contains a `#`.
MEMORY_ID = "#sweep"


@dataclass(frozen=True)
class Memory:
    """What one run tells the next: times in epoch milliseconds by the name of the queue."""

    position: str = ""  # the last fan-out that was looked at
    paused: Mapping[str, int] = field(default_factory=dict)  # when it was last seen paused
    held: frozenset[str] = frozenset()  # queues that were paused when that was last read


@dataclass(frozen=True)
class OpenFanouts:
    """The ledger, as SWEEP uses it."""

    client: DynamoDBClient
    table: str

    def key_pages(self) -> Iterator[list[Key]]:
        """The keys of the open fan-outs, in pages of up to 1 MB; without any row."""
        pages = dynamodb.pages(self.client, TableName=self.table, IndexName=OPEN.name)
        for page in pages:
            found = ((i, get_text(i, OPEN.partition_key)) for i in page["Items"])
            yield [
                Key(get_text(item, "fanout_id"), accepted_at(key), is_large(key))
                for item, key in found
            ]

    def rows(self, ids: Sequence[str]) -> dict[str, Fanout | None]:
        """Up to 100 rows, read consistently; None where there is none. Raises `TryLater`."""
        items = self.items(ids)
        return {each: from_item(item) if item else None for each, item in items.items()}

    def items(self, ids: Sequence[str]) -> dict[str, Item | None]:
        """The same rows as stored, for a caller that one unreadable row must not stop.

        Raises `TryLater` if some stay unprocessed: that does not mean that they are missing.
        """
        keys = [{"fanout_id": text(fanout_id)} for fanout_id in ids]
        wanted = {self.table: {"Keys": keys, "ConsistentRead": True}}
        items = dynamodb.rows(self.client, wanted)[self.table]
        return {**dict.fromkeys(ids), **{get_text(item, "fanout_id"): item for item in items}}

    def stalled(self) -> int:
        """How many fan-outs have stalled."""
        pages = dynamodb.pages(
            self.client, TableName=self.table, IndexName=GIVEN_UP.name, Select="COUNT"
        )
        return sum(page["Count"] for page in pages)

    # Each of these changes the row only if no worker and no other run has changed it since it was
    # read. If our own change was refused because its first answer was lost, it counts as done.

    def note_question(self, seen: Fanout, *, now_ms: int) -> bool:
        """Note that SWEEP asks now: before it sends, so that each question is sent once at most."""
        sets = {"asked_at": number(now_ms), "asks": number(seen.asks + 1)}
        if self._changes(seen, sets):
            return True
        row = self.rows([seen.fanout_id])[seen.fanout_id]
        return row is not None and row.is_open and row.asked_at == now_ms

    def note_round(self, seen: Fanout, *, now_ms: int) -> bool:
        """Note, in the same way, that SWEEP now sends all that is pending."""
        sets = {"sent_at": number(now_ms), "rounds": number(seen.rounds + 1)}
        if self._changes(seen, sets):
            return True
        row = self.rows([seen.fanout_id])[seen.fanout_id]
        return row is not None and row.is_open and row.sent_at == now_ms

    def give_up(self, seen: Fanout, *, now_ms: int) -> bool:
        """Mark the fan-out as stalled. Any progress reopens it."""
        sets = {"state": text(STALLED), "changed_at": text(times.to_text(now_ms))}
        sets[GIVEN_UP.partition_key] = text(seen.fanout_id)
        return self._changes(seen, sets, removes=[OPEN.partition_key])

    def _changes(
        self, seen: Fanout, sets: Mapping[str, Value], removes: Sequence[str] = ()
    ) -> bool:
        values = {":seen_state": text(seen.state), ":seen_changed": text(seen.changed_at)}
        conditions = ["#state = :seen_state", "#changed_at = :seen_changed"]
        # `sent_at` too; otherwise two runs at once would both send the same round.
        for name, at in (("asked_at", seen.asked_at), ("sent_at", seen.sent_at)):
            if at:
                conditions.append(f"#{name} = :seen_{name}")
                values[f":seen_{name}"] = number(at)
            else:
                conditions.append(f"attribute_not_exists(#{name})")
        clauses = expressions(
            sets=sets, removes=removes, condition=" AND ".join(conditions), values=values
        )
        key = {"fanout_id": text(seen.fanout_id)}
        try:
            self.client.update_item(TableName=self.table, Key=key, **clauses)
        except self.client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def memory(self) -> Memory:
        key = {"fanout_id": text(MEMORY_ID)}
        answer = self.client.get_item(TableName=self.table, Key=key, ConsistentRead=True)
        item = answer.get("Item", {})
        paused = item.get("paused", {}).get("M", {})
        return Memory(
            get_text(item, "position"),
            {queue: get_number(paused, queue) for queue in paused},
            frozenset(item.get("held", {}).get("SS", [])),
        )

    def stand_at(self, position: str) -> None:
        """Remember how far a run came, and nothing else: the run may have been frozen meanwhile."""
        clauses = expressions(sets={"position": text(position)})
        key = {"fanout_id": text(MEMORY_ID)}
        self.client.update_item(TableName=self.table, Key=key, **clauses)

    def remember(self, memory: Memory) -> None:
        sets: dict[str, Value] = {
            "position": text(memory.position),
            "paused": {"M": {queue: number(at) for queue, at in memory.paused.items()}},
        }
        if memory.held:  # DynamoDB keeps no empty set
            sets["held"] = {"SS": sorted(memory.held)}
        clauses = expressions(sets=sets, removes=() if memory.held else ["held"])
        key = {"fanout_id": text(MEMORY_ID)}
        self.client.update_item(TableName=self.table, Key=key, **clauses)
