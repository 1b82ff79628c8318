"""The posts table: each post's content, stored once for all its readers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanfold import invariants, times
from fanfold.aws.dynamodb import update_or_read
from fanfold.aws.items import Item, expressions, get_number, get_text, number, text
from fanfold.errors import EditOvertaken, NoPost, PostRetracted, RefIdTaken
from fanfold.ids import sort_key, split_sort_key
from fanfold.names import EXPIRES_AT

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


# A post's row and its row of the ledger outlive its entries by this much; until then, the `ref_id`
# is not free. DynamoDB may delete expired entries days later, and a raised retention shows those
# again: they must find their own post, or its tombstone. And no message about the post may be left
# when another one takes the id: SQS keeps messages for 14 days.
OUTLIVES_SECONDS = 14 * 24 * 60 * 60

# How far apart the clocks may be that stamp requests and messages. AWS's are within milliseconds.
MAX_SKEW_MS = 1_000


@dataclass(frozen=True, kw_only=True)
class Post:
    """`body` is JSON text that the service does not read; `edited_at` is empty if nobody edited it.

    `first_body_hash` is the hash of the published body: after an edit, it tells a repeated publish
    from another one.

    `expires_at` is the epoch second at which the row ends, and the `ref_id` is free again.
    """

    ref_id: str
    publisher_id: str
    published_at: str
    accepted_at: str
    expires_at: int
    body: str = ""
    first_body_hash: str = ""
    edited_at: str = ""
    deleted: bool = False

    @property
    def sort_key(self) -> str:
        """The sort key of the post's entry in every timeline."""
        return sort_key(self.published_at, self.ref_id)

    @property
    def entries_expire_at(self) -> int:
        """The epoch second at which its entries end, by the retention that it was stored with."""
        return self.expires_at - OUTLIVES_SECONDS

    def has_ended(self, now_ms: int) -> bool:
        """Whether its `ref_id` is free again, though DynamoDB may not have deleted the row."""
        return self.expires_at * 1000 <= now_ms

    def is_of(self, publisher_id: str, sort_key: str) -> bool:
        """Whether an entry or a fan-out with this publisher and key is of this post.

        Not of an earlier one. A retracted post has lost its sort key, so its publisher decides.
        """
        return self.publisher_id == publisher_id and (self.deleted or self.sort_key == sort_key)


def from_item(item: Item) -> Post:
    ref_id, deleted = get_text(item, "ref_id"), "deleted_at" in item
    published_at, key_id = split_sort_key(get_text(item, "sort_key"))
    invariants.check("post_key", deleted or key_id == ref_id, ref_id=ref_id)
    invariants.check("post_tombstone", not (deleted and "body" in item), ref_id=ref_id)
    return Post(
        ref_id=ref_id,
        publisher_id=get_text(item, "publisher_id"),
        published_at=published_at,
        accepted_at=get_text(item, "accepted_at"),
        expires_at=get_number(item, EXPIRES_AT),
        body=get_text(item, "body"),
        first_body_hash=get_text(item, "first_body_hash"),
        edited_at=get_text(item, "edited_at"),
        deleted=deleted,
    )


# An expired row counts as deleted, although DynamoDB may take days to delete it.
_IS_FREE = f"attribute_not_exists(#ref_id) OR #{EXPIRES_AT} <= :now"
_ALL_BUT_BODY = f"ref_id, publisher_id, sort_key, accepted_at, deleted_at, {EXPIRES_AT}"


@dataclass(frozen=True)
class Posts:
    client: DynamoDBClient
    table: str

    def add(self, post: Post, *, now: int) -> Post:
        """Store `post` unless its `ref_id` is taken; returns the stored post: the first one wins.

        `now` is in epoch seconds. Raises `RefIdTaken` if the stored post is another publisher's.
        """
        item: dict[str, Any] = {
            "ref_id": text(post.ref_id),
            "publisher_id": text(post.publisher_id),
            "sort_key": text(post.sort_key),
            "accepted_at": text(post.accepted_at),
            EXPIRES_AT: number(post.expires_at),
        }
        if post.body:
            item["body"] = text(post.body)
        if post.first_body_hash:
            item["first_body_hash"] = text(post.first_body_hash)
        is_free = expressions(condition=_IS_FREE, values={":now": number(now)})
        try:
            self.client.put_item(
                TableName=self.table,
                Item=item,
                **is_free,
                ReturnValuesOnConditionCheckFailure="ALL_OLD",  # saves a read
            )
        except self.client.exceptions.ConditionalCheckFailedException as refused:
            response: Any = refused.response
            stored = from_item(response["Item"])
            if stored.publisher_id != post.publisher_id:
                raise taken(post.ref_id) from None
            return stored
        return post

    def retract(
        self, ref_id: str, publisher_id: str, *, retracted_at: int, expires_at: int
    ) -> None:
        """Leave a tombstone in place of the post, or where there is none, until `expires_at`.

        `retracted_at` is in epoch milliseconds. A post that has expired by then counts as deleted,
        even another's. Idempotent. Raises `RefIdTaken` if the post is another publisher's.
        """
        stored = self._bury(
            ref_id,
            sets={
                "deleted_at": text(times.to_text(retracted_at)),
                "publisher_id": text(publisher_id),
                # Its own time, even in place of a post: that row may be about to expire, and the
                # retracted publish may come later.
                EXPIRES_AT: number(expires_at),
            },
            condition=(
                f"{_IS_FREE} OR #publisher_id = :publisher_id AND attribute_not_exists(#deleted_at)"
            ),
            values={":now": number(retracted_at // 1000)},
        )
        if stored and get_text(stored, "publisher_id") != publisher_id:
            raise taken(ref_id)

    def retract_own(self, ref_id: str, publisher_id: str, *, now_ms: int) -> None:
        """Retract a post only if it exists and has not expired; else nothing changes.

        Raises `NoPost`, in the same words, for a post that is missing, expired or another
        publisher's, or was accepted after `now_ms`, when the retraction was requested: its first
        attempt may arrive long after the second was answered.
        """
        was_there = "(attribute_exists(#deleted_at) OR #accepted_at <= :accepted)"
        is_own = f"#publisher_id = :publisher_id AND #{EXPIRES_AT} > :now AND {was_there}"
        stored = self._bury(
            ref_id,
            sets={"deleted_at": "if_not_exists(#deleted_at, :at)"},
            condition=is_own,
            values={
                ":at": text(times.to_text(now_ms)),
                ":publisher_id": text(publisher_id),
                ":now": number(now_ms // 1000),
                ":accepted": text(times.to_text(now_ms + MAX_SKEW_MS)),
            },
        )
        if stored is not None:
            raise no_post(ref_id)

    def edit(self, ref_id: str, publisher_id: str, *, body: str, edited_at: int) -> str:
        """Give a published post another body; `edited_at` is in epoch milliseconds.

        Returns the time of the stored edit. If that is not older but has the same body, nothing
        changes: this may be a repetition. Raises `NoPost` for a post that is missing or has expired
        by then, `RefIdTaken` if it is another publisher's, `PostRetracted`, and `EditOvertaken` if
        the stored edit is not older.
        """
        at, now = times.to_text(edited_at), edited_at // 1000
        update = expressions(
            sets={"body": text(body), "edited_at": text(at)},
            # The newest edit stays, in any order of arrival, even if it does not change the body:
            # otherwise, an older one that arrives last would win.
            condition=(
                f"#publisher_id = :publisher_id AND #{EXPIRES_AT} > :now AND "
                "attribute_not_exists(#deleted_at) AND "
                "(attribute_not_exists(#edited_at) OR #edited_at < :edited_at)"
            ),
            values={":publisher_id": text(publisher_id), ":now": number(now)},
        )
        row = self._update(ref_id, update)
        if row is None:
            return at
        if get_number(row, EXPIRES_AT) <= now:
            raise no_post(ref_id)
        stored = from_item(row)
        if stored.publisher_id != publisher_id:
            raise taken(ref_id)
        if stored.deleted:
            raise PostRetracted(f"The post '{ref_id}' was retracted, and cannot be edited.")
        if stored.body != body:
            raise EditOvertaken(
                f"The post '{ref_id}' has a newer or equally new edit, of {stored.edited_at}; read "
                "it, and send this one again if it is still wanted."
            )
        return stored.edited_at

    def _bury(self, ref_id: str, **clauses: Any) -> Item | None:
        """Make the row a tombstone; if the condition refuses that, return the row, or an empty one.

        Without its sort key, the post leaves the outbox index, so that no backfill brings it back.
        `accepted_at` stays: it tells PLAN that the post was stored, not retracted beforehand.
        """
        removes = ["body", "first_body_hash", "edited_at", "sort_key"]
        return self._update(ref_id, expressions(removes=removes, **clauses))

    def _update(self, ref_id: str, update: dict[str, Any]) -> Item | None:
        """Update a row; if the condition refuses that, return the row, or an empty one."""
        return update_or_read(self.client, self.table, _key(ref_id), update)

    def one(self, ref_id: str) -> Post | None:
        """The post, read consistently, or None."""
        answer = self.client.get_item(TableName=self.table, Key=_key(ref_id), ConsistentRead=True)
        return from_item(answer["Item"]) if "Item" in answer else None

    def wanted(self, ref_id: str) -> dict[str, Any]:
        """What BatchGetItem takes to read the post, consistently and without its body."""
        return {
            "Keys": [_key(ref_id)],
            "ConsistentRead": True,
            "ProjectionExpression": _ALL_BUT_BODY,
        }

    def get(self, ref_ids: Collection[str]) -> tuple[dict[str, Post], set[str]]:
        """Read up to 100 posts at once: the posts found, and the ids that were not processed."""
        request: Any = {
            self.table: {
                "Keys": [_key(ref_id) for ref_id in ref_ids],
                "ConsistentRead": True,  # to see every acknowledged retraction
            }
        }
        answer = self.client.batch_get_item(RequestItems=request)
        posts = [from_item(item) for item in answer["Responses"].get(self.table, [])]
        unprocessed: Any = answer.get("UnprocessedKeys", {})
        left = unprocessed.get(self.table, {}).get("Keys", [])
        return {post.ref_id: post for post in posts}, {get_text(key, "ref_id") for key in left}


def _key(ref_id: str) -> dict[str, dict[str, str]]:
    return {"ref_id": text(ref_id)}


def taken(ref_id: str) -> RefIdTaken:
    return RefIdTaken(
        f"The ref_id '{ref_id}' belongs to another publisher; publish under another one, "
        "or by HTTP with another Idempotency-Key."
    )


def no_post(ref_id: str) -> NoPost:
    """The same for an unknown, an expired and another publisher's post."""
    return NoPost(
        f"You have no published post '{ref_id}'; check the ref_id. One that was sent by queue "
        "message is known once the message is taken."
    )
