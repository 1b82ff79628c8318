"""Whom a user follows. This row decides; the followers' edges are made to agree with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanfold.attributes import Item, get_number, get_text, number, text
from fanfold.errors import TooManyFollows
from fanfold.names import EXPIRES_AT

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

FOLLOWED = "followed"
UNFOLLOWED = "unfollowed"


@dataclass(frozen=True, kw_only=True)
class Follow:
    """The relation of one user to one publisher; `version` rises with every change."""

    user_id: str
    publisher_id: str
    state: str
    version: int
    followed_at: str = ""

    @property
    def is_active(self) -> bool:
        """Whether the user follows the publisher now."""
        return self.state == FOLLOWED


def _from_item(item: Item) -> Follow:
    return Follow(
        user_id=get_text(item, "user_id"),
        publisher_id=get_text(item, "publisher_id"),
        state=get_text(item, "state"),
        version=get_number(item, "version"),
        followed_at=get_text(item, "followed_at"),
    )


@dataclass(frozen=True)
class Following:
    """The following table, and the count of follows in the readers table beside it.

    Both change in one transaction: a counter that could miss one would let the limit drift.
    """

    client: DynamoDBClient
    table: str
    readers_table: str

    def get(self, user_id: str, publisher_id: str) -> Follow | None:
        """The relation, read consistently, or None if there never was one."""
        answer = self.client.get_item(
            TableName=self.table, Key=_key(user_id, publisher_id), ConsistentRead=True
        )
        return _from_item(answer["Item"]) if "Item" in answer else None

    def follow(self, seen: Follow, *, max_follows: int) -> Follow | None:
        """Turn the relation `seen` into a follow from `seen.followed_at` on.

        None if somebody else changed it meanwhile; read it again. Raises `TooManyFollows`.
        """
        return self._change(
            seen,
            state=FOLLOWED,
            row="SET #state = :state, version = :next, followed_at = :at REMOVE " + EXPIRES_AT,
            row_values={":at": text(seen.followed_at)},
            count={
                "UpdateExpression": "ADD follows :one",
                "ConditionExpression": "attribute_not_exists(follows) OR follows < :max",
                "ExpressionAttributeValues": {":one": number(1), ":max": number(max_follows)},
            },
        )

    def unfollow(self, seen: Follow, *, expires_at: int) -> Follow | None:
        """End the follow `seen`, leaving a tombstone that lives until epoch second `expires_at`.

        None if somebody else changed it meanwhile; read it again.
        """
        return self._change(
            seen,
            state=UNFOLLOWED,
            row=f"SET #state = :state, version = :next, {EXPIRES_AT} = :expires",
            row_values={":expires": number(expires_at)},
            count={
                "UpdateExpression": "ADD follows :minus",
                "ExpressionAttributeValues": {":minus": number(-1)},
            },
        )

    def _change(
        self,
        seen: Follow,
        *,
        state: str,
        row: str,
        row_values: dict[str, Any],
        count: dict[str, Any],
    ) -> Follow | None:
        as_seen = "version = :seen" if seen.version else "attribute_not_exists(user_id)"
        values = {":state": text(state), ":next": number(seen.version + 1), **row_values}
        if seen.version:
            values[":seen"] = number(seen.version)
        update_row: Any = {
            "TableName": self.table,
            "Key": _key(seen.user_id, seen.publisher_id),
            "UpdateExpression": row,
            "ConditionExpression": as_seen,
            "ExpressionAttributeNames": {"#state": "state"},
            "ExpressionAttributeValues": values,
        }
        update_count: Any = {
            "TableName": self.readers_table,
            "Key": {"user_id": text(seen.user_id)},
            **count,
        }
        try:
            self.client.transact_write_items(
                TransactItems=[{"Update": update_row}, {"Update": update_count}]
            )
        except self.client.exceptions.TransactionCanceledException as cancelled:
            row_reason, count_reason = (
                reason.get("Code", "None") for reason in cancelled.response["CancellationReasons"]
            )
            passing = {"None", "ConditionalCheckFailed", "TransactionConflict"}
            if not {row_reason, count_reason} <= passing:
                raise
            if row_reason == "None" and count_reason == "ConditionalCheckFailed":
                raise TooManyFollows(
                    f"'{seen.user_id}' follows as many publishers as one user may; "
                    "unfollow one before following another."
                ) from None
            return None
        return Follow(
            user_id=seen.user_id,
            publisher_id=seen.publisher_id,
            state=state,
            version=seen.version + 1,
            followed_at=seen.followed_at,
        )

    def page(self, user_id: str, *, after: str | None, limit: int) -> tuple[list[Follow], bool]:
        """Rows of one user in order of publisher, the ended ones among them, and whether more."""
        request: dict[str, Any] = {
            "TableName": self.table,
            "KeyConditionExpression": "user_id = :user",
            "ExpressionAttributeValues": {":user": text(user_id)},
            "ConsistentRead": True,
            "Limit": limit,
        }
        if after is not None:
            request["ExclusiveStartKey"] = _key(user_id, after)
        answer = self.client.query(**request)
        return [_from_item(item) for item in answer["Items"]], "LastEvaluatedKey" in answer


def _key(user_id: str, publisher_id: str) -> dict[str, dict[str, str]]:
    return {"user_id": text(user_id), "publisher_id": text(publisher_id)}
