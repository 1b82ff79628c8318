"""A plain Lambda with boto3 for the same: it writes to every follower, and keeps no ledger.

The API stores the post and sends a message; one function queries the followers and writes 25 at a
time from many threads, with retries. Nothing is left out that would cost time, and its CPU is free
unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fanfold import clock, names, times
from fanfold.aws.items import MAX_PUTS
from fanfold.aws.retries import is_transient
from fanfold.fanout.publishing.publish import NewPost
from fanfold.follows import ring
from fanfold.messages import Message
from fanfold.timeline.entries import Entry, entries_expire_at
from fanfold.timeline.posts import OUTLIVES_SECONDS, Post
from proof.model.dynamodb.capacity import Limits
from proof.simulation.stage import stores
from proof.simulation.timed.mappings import Arrived
from proof.simulation.timed.system import RETENTION_DAYS, System
from proof.simulation.timed.tasks import Threads

# More than boto3's default of 10 connections, as somebody would set it who has measured.
THREADS = 32
# A wait before each retry, with full jitter.
BACKOFF_SECONDS, BACKOFF_CAP_SECONDS = 0.05, 2.0


class Plain(System):
    """A post, a message, and one function that writes to all followers.

    `cpu_seconds` is what a worker computes for each entry, one entry after the other.
    """

    def __init__(
        self,
        believed: int,
        limits: Limits | None = None,
        *,
        seed: int = 0,
        cpu_seconds: float = 0.0,
    ) -> None:
        self.cpu_seconds = cpu_seconds
        self._done: set[str] = set()
        super().__init__(believed, limits, seed=seed)
        self._entries = stores(self.dynamodb).entries

    def is_complete(self, ref_id: str) -> bool:
        """Whether the function has come to its end; nothing else would tell."""
        return ref_id in self._done

    def accept(self, new: NewPost) -> None:
        """What the API does: it keeps the post, and sends what the function needs of it."""
        now_ms = self.scheduler.clock.now_ms()
        at = times.to_text(now_ms)
        post = Post(
            ref_id=new.ref_id,
            publisher_id=new.publisher_id,
            published_at=at,
            accepted_at=at,
            expires_at=entries_expire_at(now_ms, RETENTION_DAYS) + OUTLIVES_SECONDS,
            body=new.body.text,
        )
        self.posts.add(post, now=now_ms // 1000)
        content = {
            "ref_id": post.ref_id,
            "sort_key": post.sort_key,
            "publisher_id": post.publisher_id,
            "expires_at": post.entries_expire_at,
        }
        self.lanes[names.PUBLISH].send(Message(content, group=post.publisher_id))

    def _plan(self, _environment: object, message: Arrived) -> None:
        post = message.content
        entry = Entry(post["sort_key"], post["publisher_id"], post["expires_at"])
        cpu = Core(self)
        threads = Threads(self.scheduler, THREADS)
        for users in self._pages(entry.publisher_id):
            batches = [users[start : start + MAX_PUTS] for start in range(0, len(users), MAX_PUTS)]
            list(threads.map(lambda batch: self._write(entry, batch, cpu), batches))
        self._done.add(post["ref_id"])

    def _pages(self, publisher_id: str) -> Iterator[list[str]]:
        """All followers, in pages of up to 1 MB."""
        request: dict[str, Any] = {
            "TableName": names.FOLLOWERS.name,
            "KeyConditionExpression": "shard_id = :shard",
            "ExpressionAttributeValues": {":shard": {"S": ring.shard_key(publisher_id, 0, 0)}},
            "ProjectionExpression": "edge",
            "ConsistentRead": True,
        }
        while True:
            answer = self.dynamodb.query(**request)
            yield [ring.follower_of(item["edge"]["S"]) for item in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _write(self, entry: Entry, users: list[str], cpu: Core) -> None:
        ceiling = BACKOFF_SECONDS
        while users:
            cpu.compute(self.cpu_seconds * len(users))
            try:
                users = self._entries.push(entry, users)
            except Exception as error:
                if not is_transient(error):
                    raise
            if users:
                clock.sleep(clock.chance() * ceiling)
                ceiling = min(BACKOFF_CAP_SECONDS, 2 * ceiling)


@dataclass
class Core:
    """One core, which the threads of a worker take in turn."""

    system: System
    free_at: float = 0.0

    def compute(self, seconds: float) -> None:
        now = self.system.scheduler.now
        self.free_at = max(self.free_at, now) + seconds
        self.system.scheduler.sleep(self.free_at - now)
