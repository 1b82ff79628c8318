"""The users of a run that can sign in, and what they and other services ask of the service."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote

import urllib3

from aws_verify.script import HTTP, Post, Record
from fanfold import contract, times
from fanfold.aws.queues import WorkQueue
from fanfold.messages import Message
from fanfold_cli.console import ExpectedError
from fanfold_cli.http import Api, pool_for
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment

# Cognito's access tokens last an hour.
TOKEN_SECONDS = 40 * 60.0
# A request that got no answer or a 5xx is repeated, which is safe.
ATTEMPTS = 5
PAUSE_SECONDS = 1.0
# Messages that are sent between two steps of the progress bar, and the threads that send them.
SLICE = 500
THREADS = 8
# Ago, so that the clock of this machine may be wrong by that much: a time in the future would
# become that of the acceptance, and the keys of the entries would not be known.
PUBLISHED_AGO_MS = 5 * 60 * 1000
PAGE = 100


@dataclass
class People:
    deployment: Deployment
    record: Record
    repeated: int = 0  # requests that needed another attempt
    _tokens: dict[str, tuple[float, str]] = field(default_factory=dict)

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        # The local engine is on loopback, where no proxy is.
        is_local = self.deployment.is_local
        return urllib3.PoolManager() if is_local else pool_for(self.deployment.api_url)

    def call(
        self,
        user: str,
        method: str,
        path: str,
        *,
        wanted: int,
        content: Any = None,
        key: str = "",
    ) -> Any:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._api(user).call(method, path, wanted=wanted, content=content, key=key)
            except ExpectedError:
                if attempt == ATTEMPTS:
                    raise
                self.repeated += 1
                time.sleep(PAUSE_SECONDS)
        raise AssertionError("unreachable")

    def _api(self, user: str) -> Api:
        signed_at, token = self._tokens.get(user, (0.0, ""))
        if not token or time.monotonic() - signed_at > TOKEN_SECONDS:
            token = self.deployment.token(user)
            self._tokens[user] = time.monotonic(), token
        return Api(self.deployment.api_url, token, self._pool)

    def follow(self, user: str, publisher: str) -> None:
        path = contract.FOLLOW.path.replace("{publisher_id}", quote(publisher))
        self.call(user, "PUT", path, wanted=200)

    def unfollow(self, user: str, publisher: str) -> None:
        path = contract.UNFOLLOW.path.replace("{publisher_id}", quote(publisher))
        self.call(user, "DELETE", path, wanted=204)

    def publish(self, publisher: str, door: str) -> Post:
        """Publish a post by this door twice, as if the first answer had been lost."""
        number = len(self.record.posts) + 1
        title = f"Post {number} by {door}"
        body = {"title": title}
        if door == HTTP:
            key = f"{self.record.prefix}{number}"
            first, again = (
                self.call(
                    publisher,
                    "POST",
                    contract.PUBLISH_POST.path,
                    wanted=202,
                    content={"body": body},
                    key=key,
                )
                for _ in range(2)
            )
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
        path = contract.SHOW_DELIVERY.path.replace("{ref_id}", quote(post.ref_id))
        try:
            return self._api(post.publisher).call("GET", path, wanted=200)
        except ExpectedError:
            return None

    def timeline(self, user: str) -> list[Any]:
        """Every page of the user's timeline."""
        entries: list[Any] = []
        older = ""
        while True:
            path = f"{contract.READ_TIMELINE.path}?limit={PAGE}{older}"
            page = self.call(user, "GET", path, wanted=200)
            entries += page["entries"]
            if page["next"] is None:
                return entries
            older = f"&before={quote(page['next'])}"
