"""The users of a run that can sign in, and what they and other services ask of the service."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import urllib3

from fanfold import contract, times
from fanfold.aws.queues import WorkQueue
from fanfold.messages import Message
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError, failing_with
from fanfold_cli.users.acting import Token
from fanfold_client import Failed, Fanfold, pool_for
from proof.aws_verify.script import HTTP, Post, Record

# Messages that are sent between two steps of the progress bar, and the threads that send them.
SLICE = 500
THREADS = 8
# Ago, so that the clock of this machine may be wrong by that much: a time in the future would
# become that of the acceptance, and the keys of the entries would not be known.
PUBLISHED_AGO_MS = 5 * 60 * 1000


@dataclass
class People:
    deployment: Deployment
    record: Record
    repeated: int = 0  # requests that needed another attempt
    _tokens: dict[str, Token] = field(default_factory=dict)

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        return pool_for(self.deployment.api_url)

    def _api(self, user: str) -> Fanfold:
        return Fanfold(
            self.deployment.api_url,
            self._tokens.setdefault(user, Token(self.deployment, user)),
            pool=self._pool,
            on_retry=self._count,
        )

    def _count(self, _: Failed) -> None:
        self.repeated += 1

    def follow(self, user: str, publisher: str) -> None:
        with failing_with(f"{user} cannot follow {publisher}", Failed):
            self._api(user).follow(publisher)

    def unfollow(self, user: str, publisher: str) -> None:
        with failing_with(f"{user} cannot unfollow {publisher}", Failed):
            self._api(user).unfollow(publisher)

    def publish(self, publisher: str, door: str) -> Post:
        """Publish a post by this door twice, as if the first answer had been lost."""
        number = len(self.record.posts) + 1
        title = f"Post {number} by {door}"
        body = {"title": title}
        if door == HTTP:
            key = f"{self.record.prefix}{number}"
            with failing_with(f"{publisher} cannot publish", Failed):
                first, again = (self._api(publisher).publish(body, key=key) for _ in range(2))
            if first != again:
                raise ExpectedError(
                    "The same Idempotency-Key was answered with another ref_id or time: "
                    f"{first} and then {again}."
                )
            ref_id, published_at = first["ref_id"], first["published_at"]
        else:
            ref_id = f"{self.record.prefix}post-{number}"
            published_at = times.to_text(time.time_ns() // 1_000_000 - PUBLISHED_AGO_MS)
            event = {
                "type": contract.POST_PUBLISHED,
                "publisher_id": publisher,
                "ref_id": ref_id,
                "published_at": published_at,
                "body": body,
            }
            self.send(event, event)
        followers = self.record.follows[publisher]
        return self.record.publish(Post(ref_id, publisher, published_at, title, door, followers))

    def send(self, *events: dict[str, Any]) -> None:
        """Send events to the publish queue, as another service does."""
        settings = self.deployment.settings()
        queue = WorkQueue(self.deployment.client("sqs"), settings.publish_queue_url)
        messages = [
            Message({"version": contract.VERSION, **event}, group=event["publisher_id"])
            for event in events
        ]
        if len(messages) <= SLICE:
            queue.send(*messages)
            return
        with (
            progress_bar("Sending", total=len(messages), unit="messages") as bar,
            ThreadPoolExecutor(THREADS) as threads,
        ):
            for start in range(0, len(messages), SLICE):
                part = messages[start : start + SLICE]
                queue.send(*part, threads=threads)
                bar.advance(len(part))

    def delivery(self, post: Post) -> Any:
        """What the ledger says of a post's delivery, by HTTP; None without an answer.

        A post by the queue is not known before it is accepted.
        """
        try:
            return self._api(post.publisher).delivery(post.ref_id)
        except Failed:
            return None

    def timeline(self, user: str) -> list[Any]:
        """Every page of the user's timeline."""
        with failing_with(f"The timeline of {user} cannot be read", Failed):
            return list(self._api(user).timeline.older())
