"""Whom a user follows. This row decides; the followers' edges are made to agree with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fanfold.aws.items import Item, get_number, get_text, number, text
from fanfold.errors import TooManyFollows
from fanfold.names import EXPIRES_AT

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

FOLLOWED = "followed"
UNFOLLOWED = "unfollowed"


@dataclass(frozen=True, kw_only=True)
class Follow:
    """The relation of one user to one publisher; `version` rises with every change.

    One that never was is unfollowed, at version 0.
    """

    user_id: str
    publisher_id: str
    state: str = UNFOLLOWED
    version: int = 0
    followed_at: str = ""
    asked_at: int = 0  # epoch milliseconds of the request or message that changed it last

    @property
    def is_active(self) -> bool:
        """Whether the user follows the publisher now."""
        return self.state == FOLLOWED


def follow_of(item: Item) -> Follow:
    """The relation that an item of the table is, or the key of one that is not there."""
    return Follow(
        user_id=get_text(item, "user_id"),
        publisher_id=get_text(item, "publisher_id"),
        state=get_text(item, "state", UNFOLLOWED),
        version=get_number(item, "version"),
        followed_at=get_text(item, "followed_at"),
        asked_at=get_number(item, "asked_at"),
    )


@dataclass(frozen=True)
class FollowsTable:
    """The following table, and the count of follows in the readers table beside it.

    Both change in one transaction: a counter that could miss one would let the limit drift.
    """

    client: DynamoDBClient
    table: str
    readers_table: str

    def get(self, user_id: str, publisher_id: str) -> Follow:
        """The relation, read consistently."""
        key = row_key(user_id, publisher_id)
        answer = self.client.get_item(TableName=self.table, Key=key, ConsistentRead=True)
        return follow_of(answer.get("Item", key))

    def follow(self, seen: Follow, *, max_follows: int) -> Follow | None:
        """Turn the relation `seen` into a follow from `seen.followed_at` on.

        None if somebody else changed it meanwhile; read it again. Raises `TooManyFollows`.
        """
        changed = self.follow_all(seen.user_id, [seen], max_follows=max_follows)
        return changed[0] if changed else None

    def follow_all(
        self, user_id: str, seen: Sequence[Follow], *, max_follows: int
    ) -> list[Follow] | None:
        """Turn up to 99 relations of one user into follows, all or none, as `follow` does."""
        if not seen:
            return []
        if len(seen) > max_follows:
            raise _too_many(user_id)
        rows = [
            self._row(
                follow,
                "SET #state = :state, version = :version, asked_at = :asked, followed_at = :at "
                f"REMOVE {EXPIRES_AT}",
                {
                    ":state": text(FOLLOWED),
                    ":version": number(follow.version + 1),
                    ":at": text(follow.followed_at),
                },
            )
            for follow in seen
        ]
        count = {
            "UpdateExpression": "ADD follows :more",
            "ConditionExpression": "attribute_not_exists(follows) OR follows <= :room",
            "ExpressionAttributeValues": {
                ":more": number(len(seen)),
                ":room": number(max_follows - len(seen)),
            },
        }
        return self._change(user_id, seen, rows, count, state=FOLLOWED)

    def unfollow(self, seen: Follow, *, expires_at: int) -> Follow | None:
        """End the follow `seen`, leaving a tombstone that lives until epoch second `expires_at`.

        None if somebody else changed it meanwhile; read it again.
        """
        row = self._row(
            seen,
            f"SET #state = :state, version = :version, asked_at = :asked, {EXPIRES_AT} = :expires",
            {
                ":state": text(UNFOLLOWED),
                ":version": number(seen.version + 1),
                ":expires": number(expires_at),
            },
        )
        count = {
            "UpdateExpression": "ADD follows :less",
            "ExpressionAttributeValues": {":less": number(-1)},
        }
        changed = self._change(seen.user_id, [seen], [row], count, state=UNFOLLOWED)
        return changed[0] if changed else None

    def ask_again(self, seen: Follow, *, expires_at: int) -> Follow | None:
        """Note that at `seen.asked_at` somebody asked for the state that the relation has already.

        What was asked for before that may come later, and is then known to be too late. So an
        unfollow of what never was leaves a tombstone, until epoch second `expires_at`. None if
        somebody else changed the relation meanwhile; read it again.
        """
        noted = replace(seen, version=seen.version + 1)
        sets = "SET #state = :state, version = :version, asked_at = :asked"
        values = {":state": text(seen.state), ":version": number(noted.version)}
        if not seen.is_active:
            sets += f", {EXPIRES_AT} = :expires"
            values[":expires"] = number(expires_at)
        try:
            self.client.update_item(**self._row(seen, sets, values))
        except (
            self.client.exceptions.ConditionalCheckFailedException,
            self.client.exceptions.TransactionConflictException,
        ):
            return None
        return noted

    def _row(self, seen: Follow, update: str, values: dict[str, Any]) -> dict[str, Any]:
        as_seen = "version = :seen" if seen.version else "attribute_not_exists(user_id)"
        if seen.version:
            values = {**values, ":seen": number(seen.version)}
        return {
            "TableName": self.table,
            "Key": row_key(seen.user_id, seen.publisher_id),
            "UpdateExpression": update,
            "ConditionExpression": as_seen,
            "ExpressionAttributeNames": {"#state": "state"},
            "ExpressionAttributeValues": {**values, ":asked": number(seen.asked_at)},
        }

    def _change(
        self,
        user_id: str,
        seen: Sequence[Follow],
        rows: list[dict[str, Any]],
        count: dict[str, Any],
        *,
        state: str,
    ) -> list[Follow] | None:
        reader = {"TableName": self.readers_table, "Key": {"user_id": text(user_id)}, **count}
        updates: list[Any] = [{"Update": update} for update in [*rows, reader]]
        try:
            self.client.transact_write_items(TransactItems=updates)
        except self.client.exceptions.TransactionCanceledException as cancelled:
            reasons = [reason.get("Code") for reason in cancelled.response["CancellationReasons"]]
            if not set(reasons) <= {"None", "ConditionalCheckFailed", "TransactionConflict"}:
                raise
            if reasons[-1] == "ConditionalCheckFailed" and set(reasons[:-1]) == {"None"}:
                raise _too_many(user_id) from None
            return None
        return [replace(each, state=state, version=each.version + 1) for each in seen]

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
            request["ExclusiveStartKey"] = row_key(user_id, after)
        answer = self.client.query(**request)
        return [follow_of(item) for item in answer["Items"]], "LastEvaluatedKey" in answer


def row_key(user_id: str, publisher_id: str) -> dict[str, dict[str, str]]:
    """The key of a relation."""
    return {"user_id": text(user_id), "publisher_id": text(publisher_id)}


def _too_many(user_id: str) -> TooManyFollows:
    return TooManyFollows(
        f"'{user_id}' follows as many publishers as one user may; "
        "unfollow one before following another."
    )
