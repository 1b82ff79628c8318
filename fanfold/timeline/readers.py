"""The readers table: one row for each user as a reader, which every page reads.

`follows` counts the publishers that the user follows or has asked to, `requests` the latter,
`blocks` the users whom the user blocks. `hidden_<week>` has the marks of the
publishers unfollowed in that week, `muted` those of muted ones (`marks.py`). `verify_until` is set
where there were too many unfollows for marks, `marker` is how far the user has read.
`follows_until_ns` is when the user's own follows so far no longer use up the rate (`rates.py`).

In a stage with channels, `channels` has the marks of the followed publishers that have one. It is
complete for channels up to the head's version `channels_seen`; for later ones, a page reads the
follows once. `changes` counts follows and unfollows, so that a page's finding is never stored over
a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fanfold import invariants, rates
from fanfold.aws.dynamodb import update_or_read
from fanfold.aws.items import Item, Value, binaries, expressions, get_number, get_text, number, text
from fanfold.rates import Rate
from fanfold.timeline.marks import NO_CHANGE, Change, Reader

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_HIDDEN = "hidden_"


class Counted(NamedTuple):
    """Counts one more follow, request, block or tombstone of a reader against a rate, at `at_ms`.

    Of the row that was read, only whether the reader is at rest matters. So concurrent ones do not
    fail each other, except the first.
    """

    reader: Reader
    rate: Rate
    at_ms: int

    @property
    def wait_ms(self) -> int:
        """How long to wait until there is room for it; 0 if there is."""
        return self.rate.wait_ms(self.reader.follows_until_ns, self.at_ms)

    @property
    def _is_at_rest(self) -> bool:
        return self.reader.follows_until_ns <= rates.at(self.at_ms)

    @property
    def sets(self) -> dict[str, Value]:
        until = number(self.rate.after(0, self.at_ms))
        return {"follows_until_ns": until} if self._is_at_rest else {}

    @property
    def adds(self) -> dict[str, Value]:
        return {} if self._is_at_rest else {"follows_until_ns": number(self.rate.interval_ns)}

    @property
    def condition(self) -> str:
        at_most = "#follows_until_ns <= :until"
        at_rest = f"(attribute_not_exists(#follows_until_ns) OR {at_most})"
        return at_rest if self._is_at_rest else at_most

    @property
    def values(self) -> dict[str, Value]:
        latest = rates.at(self.at_ms) if self._is_at_rest else self.rate.room(self.at_ms)
        return {":until": number(latest)}


class RowChange(NamedTuple):
    """What a transaction also changes in the row for channels, and on which condition."""

    adds: Mapping[str, Value] = {}
    deletes: Mapping[str, Value] = {}
    condition: str = ""
    values: Mapping[str, Value] = {}


NO_ROW_CHANGE = RowChange()


class Counts(NamedTuple):
    """Counts of a reader's row: what is added to them, or the most that they may be; 0: nothing."""

    follows: int = 0
    requests: int = 0
    blocks: int = 0


NO_COUNTS = Counts()


@dataclass(frozen=True)
class Readers:
    client: DynamoDBClient
    table: str

    def get(self, user_id: str, *, is_consistent: bool = True) -> Reader:
        """The user's row, or an empty one."""
        request = self.request(user_id, is_consistent=is_consistent)
        return reader_of(self.client.get_item(**request).get("Item", {}))

    def request(self, user_id: str, *, is_consistent: bool = True) -> dict[str, Any]:
        """The GetItem that reads the row."""
        key = {"user_id": text(user_id)}
        return {"TableName": self.table, "Key": key, "ConsistentRead": is_consistent}

    def change(
        self,
        user_id: str,
        counts: Counts = NO_COUNTS,
        marks: Change = NO_CHANGE,
        *,
        room: Counts = NO_COUNTS,
        counted: Counted | None = None,
        also: RowChange = NO_ROW_CHANGE,
    ) -> dict[str, Any]:
        """The Update, for a transaction, that adds to the counts and changes marks.

        Its condition fails if a count that rises would then exceed the `room`, or faster than the
        rate; or if the condition of `also` does.
        """
        risen = {
            name: most - more
            for name, more, most in zip(Counts._fields, counts, room, strict=True)
            if more > 0 and most
        }
        has_room = [f"(attribute_not_exists(#{each}) OR #{each} <= :{each}_room)" for each in risen]
        conditions = [*has_room, counted.condition if counted else "", also.condition]
        hidden = {f"{_HIDDEN}{week}": binaries([mark]) for week, mark in marks.adds.items()}
        shown = {f"{_HIDDEN}{week}": binaries(each) for week, each in marks.deletes.items()}
        added = {name: number(more) for name, more in counts._asdict().items() if more}
        until = {"verify_until": number(marks.verify_until)} if marks.verify_until else {}
        return {
            "TableName": self.table,
            "Key": {"user_id": text(user_id)},
            **expressions(
                sets={**until, **(counted.sets if counted else {})},
                adds={**added, **hidden, **(counted.adds if counted else {}), **also.adds},
                deletes={**shown, **also.deletes},
                removes=[f"{_HIDDEN}{week}" for week in marks.expired],
                condition=" AND ".join(filter(None, conditions)),
                values={
                    **{f":{name}_room": number(most) for name, most in risen.items()},
                    **(counted.values if counted else {}),
                    **also.values,
                },
            ),
        }

    def count(self, user_id: str, counted: Counted) -> bool:
        """Count a request that changes no follow; False if the row changed meanwhile: reread it."""
        return self._updates(self.change(user_id, counted=counted))

    def _updates(self, update: dict[str, Any]) -> bool:
        """Make one Update; False if the row is not as its condition wants it."""
        try:
            self.client.update_item(**update)
        except (
            self.client.exceptions.ConditionalCheckFailedException,
            self.client.exceptions.TransactionConflictException,
        ):
            return False
        return True

    def correct(self, user_id: str, seen: Counts, right: Counts) -> bool:
        """Add what the counts are short of; False if they are no more as they were seen."""
        more = Counts(*(new - old for old, new in zip(seen, right, strict=True)))
        wrong = [name for name, each in more._asdict().items() if each]
        conditions = [
            ("" if getattr(seen, name) else f"attribute_not_exists(#{name}) OR ")
            + f"#{name} = :{name}_seen"
            for name in wrong
        ]
        values = {f":{name}_seen": number(getattr(seen, name)) for name in wrong}
        as_seen = " AND ".join(f"({each})" for each in conditions)
        also = RowChange(condition=as_seen, values=values)
        return self._updates(self.change(user_id, more, also=also))

    def raise_marker(self, user_id: str, marker: str) -> str | None:
        """Move the marker up to a sort key, never down; returns the one that is stored then.

        None if a transaction changes the row at this moment; try again. Idempotent.
        """
        at_most = "attribute_not_exists(#marker) OR #marker <= :marker"
        update = expressions(sets={"marker": text(marker)}, condition=at_most)
        try:
            stored = update_or_read(self.client, self.table, {"user_id": text(user_id)}, update)
        except self.client.exceptions.TransactionConflictException:
            return None
        if stored is None:
            return marker
        kept = reader_of(stored).marker
        invariants.check("marker_kept", kept > marker)
        return kept


def reader_of(item: Item) -> Reader:
    """The reader in an item of the table, as either client answers it."""
    return Reader(
        follows=get_number(item, "follows"),
        requests=get_number(item, "requests"),
        blocks=get_number(item, "blocks"),
        hidden={
            int(name.removeprefix(_HIDDEN)): value["BS"]
            for name, value in item.items()
            if name.startswith(_HIDDEN)
        },
        muted=item["muted"]["BS"] if "muted" in item else (),
        verify_until=get_number(item, "verify_until"),
        marker=get_text(item, "marker"),
        follows_until_ns=get_number(item, "follows_until_ns"),
        channels=item["channels"]["BS"] if "channels" in item else (),
        channels_seen=get_number(item, "channels_seen"),
        changes=get_number(item, "changes"),
    )
