"""The posts table: each post's content, stored once for all its readers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanfold.aws.items import Item, expressions, get_number, get_text, number, text
from fanfold.errors import RefIdTaken
from fanfold.ids import sort_key, split_sort_key
from fanfold.names import EXPIRES_AT

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


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
        update = expressions(
            sets={
                "deleted_at": "if_not_exists(#deleted_at, :now)",
                "publisher_id": text(publisher_id),
                EXPIRES_AT: f"if_not_exists(#{EXPIRES_AT}, :expires)",
            },
            removes=["body", "sort_key"],
            condition="attribute_not_exists(#ref_id) OR #publisher_id = :publisher_id",
            values={":now": text(now), ":expires": number(expires_at)},
        )
        try:
            self.client.update_item(TableName=self.table, Key={"ref_id": text(ref_id)}, **update)
        except self.client.exceptions.ConditionalCheckFailedException:
            raise taken(ref_id) from None

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
    return RefIdTaken(f"The ref_id '{ref_id}' belongs to another publisher; choose another one.")
