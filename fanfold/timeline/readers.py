"""The readers table: what one user is as a reader, in one row that every page reads.

`follows` counts the publishers that the user follows. `hidden_<week>` has the marks of the
publishers unfollowed in that week, `muted` those of muted ones (`marks.py`). `verify_until` is set
where there were too many unfollows for marks, `marker` is how far the user has read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanfold.aws.items import Item, binaries, expressions, get_number, get_text, number, text
from fanfold.timeline.marks import NO_CHANGE, Change, Reader

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_HIDDEN = "hidden_"


@dataclass(frozen=True)
class Readers:
    client: DynamoDBClient
    table: str

    def get(self, user_id: str, *, is_consistent: bool = True) -> Reader:
        """The user's row; without one, that of somebody who never did anything."""
        request = self.request(user_id, is_consistent=is_consistent)
        return reader_of(self.client.get_item(**request).get("Item", {}))

    def request(self, user_id: str, *, is_consistent: bool = True) -> dict[str, Any]:
        """The GetItem that reads the row."""
        key = {"user_id": text(user_id)}
        return {"TableName": self.table, "Key": key, "ConsistentRead": is_consistent}

    def count_up(
        self, user_id: str, publishers: int, marks: Change = NO_CHANGE, *, max_follows: int
    ) -> dict[str, Any]:
        """The Update, for a transaction, that counts new follows of this many publishers.

        Its condition fails if the user would then follow more than `max_follows`.
        """
        return self._update(
            user_id,
            publishers,
            marks,
            condition="attribute_not_exists(#follows) OR #follows <= :room",
            values={":room": number(max_follows - publishers)},
        )

    def count_down(self, user_id: str, marks: Change = NO_CHANGE) -> dict[str, Any]:
        """The Update, for a transaction, that counts one ended follow."""
        return self._update(user_id, -1, marks)

    def marked(self, user_id: str, marks: Change) -> dict[str, Any]:
        """The Update, for a transaction, that changes marks alone."""
        return self._update(user_id, 0, marks)

    def raise_marker(self, user_id: str, marker: str) -> str | None:
        """Move the marker up to a sort key, never down; returns the one that is stored then.

        None if a transaction changes the row at this moment; try again. Idempotent.
        """
        at_most = "attribute_not_exists(#marker) OR #marker <= :marker"
        try:
            self.client.update_item(
                TableName=self.table,
                Key={"user_id": text(user_id)},
                **expressions(sets={"marker": text(marker)}, condition=at_most),
                ReturnValuesOnConditionCheckFailure="ALL_OLD",  # saves a read
            )
        except self.client.exceptions.ConditionalCheckFailedException as refused:
            response: Any = refused.response
            return reader_of(response["Item"]).marker
        except self.client.exceptions.TransactionConflictException:
            return None
        return marker

    def _update(
        self, user_id: str, follows: int, marks: Change, **condition: Any
    ) -> dict[str, Any]:
        hidden = {f"{_HIDDEN}{week}": binaries([mark]) for week, mark in marks.adds.items()}
        shown = {f"{_HIDDEN}{week}": binaries(each) for week, each in marks.deletes.items()}
        count = {"follows": number(follows)} if follows else {}
        until = {"verify_until": number(marks.verify_until)} if marks.verify_until else {}
        return {
            "TableName": self.table,
            "Key": {"user_id": text(user_id)},
            **expressions(
                sets=until,
                adds={**count, **hidden},
                deletes=shown,
                removes=[f"{_HIDDEN}{week}" for week in marks.expired],
                **condition,
            ),
        }


def reader_of(item: Item) -> Reader:
    """The reader in an item of the table, as either client answers it."""
    return Reader(
        follows=get_number(item, "follows"),
        hidden={
            int(name.removeprefix(_HIDDEN)): value["BS"]
            for name, value in item.items()
            if name.startswith(_HIDDEN)
        },
        muted=item["muted"]["BS"] if "muted" in item else (),
        verify_until=get_number(item, "verify_until"),
        marker=get_text(item, "marker"),
    )
