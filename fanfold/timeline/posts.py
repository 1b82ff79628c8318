"""The posts table: each post's content, stored once for all its readers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanfold import times
from fanfold.aws.items import Item, expressions, get_number, get_text, number, text
from fanfold.errors import NoPost, RefIdTaken
from fanfold.ids import sort_key, split_sort_key
from fanfold.names import EXPIRES_AT

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from fanfold.aws.items import Value


@dataclass(frozen=True, kw_only=True)
class Post:
    """`body` is JSON text that the service does not read; `expires_at` is in epoch seconds."""

    ref_id: str
    publisher_id: str
    published_at: str
    accepted_at: str
    expires_at: int
    body: str = ""
    deleted: bool = False

    @property
    def sort_key(self) -> str:
        """The sort key of the post's entry in every timeline."""
        return sort_key(self.published_at, self.ref_id)


def _from_item(item: Item) -> Post:
    return Post(
        ref_id=get_text(item, "ref_id"),
        publisher_id=get_text(item, "publisher_id"),
        published_at=split_sort_key(get_text(item, "sort_key"))[0],
        accepted_at=get_text(item, "accepted_at"),
        expires_at=get_number(item, EXPIRES_AT),
        body=get_text(item, "body"),
        deleted="deleted_at" in item,
    )


@dataclass(frozen=True)
class Posts:
    client: DynamoDBClient
    table: str

    def add(self, post: Post, *, now: int) -> Post:
        """Store `post` unless its `ref_id` is taken; returns the stored post: the first one wins.

        An expired post counts as deleted, although DynamoDB may take days to delete it. `now` is in
        epoch seconds. Raises `RefIdTaken` if the stored post is another publisher's.
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
        is_free = expressions(
            condition=f"attribute_not_exists(#ref_id) OR #{EXPIRES_AT} <= :now",
            values={":now": number(now)},
        )
        try:
            self.client.put_item(
                TableName=self.table,
                Item=item,
                **is_free,
                ReturnValuesOnConditionCheckFailure="ALL_OLD",  # saves a read
            )
        except self.client.exceptions.ConditionalCheckFailedException as refused:
            response: Any = refused.response
            stored = _from_item(response["Item"])
            if stored.publisher_id != post.publisher_id:
                raise taken(post.ref_id) from None
            return stored
        return post

    def retract(self, ref_id: str, publisher_id: str, *, now: str, expires_at: int) -> None:
        """Mark the post deleted and remove its content; without a post, leave a tombstone.

        Its sort key is removed too, and with it the post from the outbox index, so that no backfill
        brings it back. Idempotent. Raises `RefIdTaken` if the post is another publisher's.
        """
        sets: dict[str, Value | str] = {
            "publisher_id": text(publisher_id),
            EXPIRES_AT: f"if_not_exists(#{EXPIRES_AT}, :expires)",
        }
        is_free_or_own = "attribute_not_exists(#ref_id) OR #publisher_id = :publisher_id"
        values = {":expires": number(expires_at)}
        if not self._mark_deleted(ref_id, now, is_free_or_own, values, sets):
            raise taken(ref_id)

    def retract_own(self, ref_id: str, publisher_id: str, *, now_ms: int) -> None:
        """Likewise, but only a post that exists and has not expired; nothing else leaves a trace.

        Raises `NoPost` in the same words for a post that is missing, expired or somebody else's.
        """
        is_own = f"#publisher_id = :publisher_id AND #{EXPIRES_AT} > :now_seconds"
        values = {":publisher_id": text(publisher_id), ":now_seconds": number(now_ms // 1000)}
        if not self._mark_deleted(ref_id, times.to_text(now_ms), is_own, values):
            raise no_post(ref_id)

    def _mark_deleted(
        self,
        ref_id: str,
        now: str,
        condition: str,
        values: Mapping[str, Value],
        sets: Mapping[str, Value | str] | None = None,
    ) -> bool:
        """Whether the condition held, and the row is marked."""
        update = expressions(
            sets={"deleted_at": "if_not_exists(#deleted_at, :now)", **(sets or {})},
            removes=["body", "sort_key"],
            condition=condition,
            values={":now": text(now), **values},
        )
        try:
            self.client.update_item(TableName=self.table, Key={"ref_id": text(ref_id)}, **update)
        except self.client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def is_deleted(self, ref_id: str) -> bool:
        """Whether the post is retracted or missing, read consistently."""
        answer = self.client.get_item(
            TableName=self.table,
            Key={"ref_id": text(ref_id)},
            ConsistentRead=True,
            ProjectionExpression="ref_id, deleted_at",
        )
        return "Item" not in answer or "deleted_at" in answer["Item"]

    def get(self, ref_ids: Collection[str]) -> tuple[dict[str, Post], set[str]]:
        """Read up to 100 posts at once: the posts found, and the ids that were not processed."""
        request: Any = {
            self.table: {
                "Keys": [{"ref_id": text(ref_id)} for ref_id in ref_ids],
                "ConsistentRead": True,  # to see every acknowledged retraction
            }
        }
        answer = self.client.batch_get_item(RequestItems=request)
        posts = [_from_item(item) for item in answer["Responses"].get(self.table, [])]
        unprocessed: Any = answer.get("UnprocessedKeys", {})
        left = unprocessed.get(self.table, {}).get("Keys", [])
        return {post.ref_id: post for post in posts}, {get_text(key, "ref_id") for key in left}


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
