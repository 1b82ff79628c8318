"""The users of a run, with Python clients, and messages that other services send."""

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import urllib3

from fanfold import clock, contract, times
from fanfold.aws.queues import WorkQueue
from fanfold.errors import MuteOvertaken, NoPost
from fanfold.fanout.row import COMPLETE, PUSH
from fanfold.messages import Message
from fanfold_cli.progress import progress_bar
from fanfold_cli.run.record import Post, Record, Request
from fanfold_cli.run.verdict import Reading
from fanfold_cli.stack import Deployment
from fanfold_cli.users.acting import Token
from fanfold_client import Failed, Fanfold, Refused, pool_for

FOLLOWS, MUTES = "follows", "mutes"
# Messages sent between two steps of the progress bar, and the threads that send them.
SLICE = 500
THREADS = 8
# On AWS, posts sent by the queue claim this age, so that this machine's clock may be wrong by that
# much: the time of acceptance would replace a time in the future, and the keys of the entries would
# be unknown.
PUBLISHED_AGO_MS = 5 * 60 * 1000
# Between two attempts to mute, if another request of the same user overtook it.
PAUSE_SECONDS: Final = 0.05


@dataclass
class People:
    """Users by name, each with a client; their requests are recorded with times."""

    deployment: Deployment
    record: Record = field(default_factory=Record)
    seconds: float = Fanfold.seconds  # that a request may take, retries included
    apis: dict[str, Fanfold] = field(default_factory=dict)
    repeated: int = 0  # requests that needed another attempt

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        return pool_for(self.deployment.api_url)

    @cached_property
    def queue(self) -> WorkQueue:
        return publish_queue(self.deployment)

    def sign_in(self, user: str, token: str | Token = "") -> Fanfold:
        """Give the user a client, with this token or one from the stack's pool."""
        self.apis[user] = Fanfold(
            self.deployment.api_url,
            token or Token(self.deployment, user),
            self.seconds,
            pool=self._pool,
            on_retry=self._count,
        )
        return self.apis[user]

    def api(self, user: str) -> Fanfold:
        return self.apis.get(user) or self.sign_in(user)

    def _count(self, _: Failed) -> None:
        self.deployment.check_running()
        self.repeated += 1

    # Requests

    def want(self, what: str, reader: str, publisher: str, wanted: bool) -> None:
        """Follow or mute (FOLLOWS, MUTES), or end that."""
        api, begun = self.api(reader), time.time()
        acts = {
            (FOLLOWS, True): api.follow,
            (FOLLOWS, False): api.unfollow,
            (MUTES, True): api.mute,
            (MUTES, False): api.unmute,
        }
        while True:
            try:
                acts[what, wanted](publisher)
                break
            except Refused as refused:
                if refused.type != MuteOvertaken.slug or time.time() - begun > self.seconds:
                    raise
            clock.sleep(PAUSE_SECONDS)
        kept = self.record.follows if what == FOLLOWS else self.record.mutes
        kept[reader, publisher].append(Request(wanted, begun, time.time()))

    def publish(self, publisher: str, body: Any = None, *, key: str | None = None) -> Post:
        """Publish over HTTP."""
        begun = time.time()
        told = self.api(publisher).publish(body, key=key)
        post = Post(told["ref_id"], publisher, told["published_at"], begun, body)
        self.record.add(post)
        return post

    def draft(self, publisher: str, body: Any = None, *, ref_id: str = "") -> Post:
        """A post for the queue."""
        now = time.time()
        ago_ms = 0 if self.deployment.is_local else PUBLISHED_AGO_MS
        published_at = times.to_text(int(now * 1000) - ago_ms)
        return Post(ref_id or clock.new_id(), publisher, published_at, now, body)

    def send(self, *posts: Post) -> None:
        """Publish by queue messages, as another service does."""
        self.record.add(*posts)
        send(
            self.queue,
            *(
                {
                    "type": contract.POST_PUBLISHED,
                    "publisher_id": post.publisher,
                    "ref_id": post.ref_id,
                    **({"published_at": post.published_at} if post.published_at else {}),
                    **({} if post.body is None else {"body": post.body}),
                }
                for post in posts
            ),
        )

    # Answers

    def delivery(self, post: Post) -> Any:
        """What the API tells the publisher about the delivery; None if it cannot say yet.

        A post sent by the queue is unknown until it is accepted.
        """
        try:
            told = self.api(post.publisher).delivery(post.ref_id)
        except Failed as failed:
            self.deployment.check_running()
            post.answer = str(failed)
            if failed.may_pass or getattr(failed, "type", "") == NoPost.slug:
                return None
            raise
        post.answer = told["state"]
        if told["state"] == COMPLETE and told["completed_at"]:
            # The clock of the service may be ahead of this one.
            completed = times.to_ms(told["completed_at"]) / 1000
            post.complete = min(completed, time.time(), post.complete)
            post.delivered = told["delivered"] if told["by"] == PUSH else None
        return told

    def is_delivered(self, post: Post) -> bool:
        """Whether the API told the publisher that all is delivered; then it is not called again."""
        if not post.is_complete:
            self.delivery(post)
        return post.is_complete

    def read(
        self, user: str, *, pages: int = 0, limit: int = contract.MAX_LIMIT, hydrate: bool = False
    ) -> Reading:
        """Read this many pages of the user's timeline, or all with 0."""
        begun = time.time()
        reading = Reading(user, begun, since=begun, has_bodies=hydrate)
        before = None
        while True:
            page = self.api(user).timeline.page(limit=limit, before=before, hydrate=hydrate)
            reading.entries += page["entries"]
            reading.pages += 1
            before = page["next"]
            if before is None or reading.pages == pages:
                break
        reading.ended = time.time()
        if before is not None:
            reading.look_no_further()
        return reading


def publish_queue(deployment: Deployment) -> WorkQueue:
    """The queue by which other services publish."""
    return WorkQueue(deployment.client("sqs"), deployment.settings().publish_queue_url)


def send(queue: WorkQueue, *events: dict[str, Any]) -> None:
    """Send events as another service does; many of them with a progress bar."""
    messages = [
        Message({"version": contract.VERSION, **event}, group=event.get("publisher_id", "other"))
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


def relation(kind: str, pairs: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Events of this kind, such as a follow, for each pair of user and publisher."""
    return [{"type": kind, "user_id": user, "publisher_id": by} for user, by in pairs]
