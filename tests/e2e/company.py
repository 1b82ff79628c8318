"""Many users with tokens of the deployed pool at once, and the record of what they did."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fanfold import contract, names, times
from fanfold.aws.queues import WorkQueue
from fanfold.messages import Message
from fanfold_cli.stack import Deployment
from tests.e2e.clients import Answer, User, eventually, left
from tests.e2e.recorded import Post, Record, Request

THREADS = 6
PATIENCE_SECONDS = 900.0
# Where two requests for one relation meet, both may be told to try again.
TRIES = 50
PAUSE_SECONDS = 0.05


class Company:
    """Users of these names, whose requests are repeated until they are answered with success."""

    def __init__(self, stack: Deployment, names: Iterable[str]) -> None:
        self.stack, self.record = stack, Record()
        self.queue = WorkQueue(stack.client("sqs"), stack.settings().publish_queue_url)
        self.threads = ThreadPoolExecutor(THREADS)
        everybody = list(names)
        self.users = dict(zip(everybody, self.threads.map(self._user, everybody), strict=True))

    def _user(self, name: str) -> User:
        return User(self.stack, name, self.stack.token(name))

    def close(self) -> None:
        self.threads.shutdown()

    def all(self, act: Callable[..., Any], *over: Iterable[Any]) -> list[Any]:
        """Act on everything, several at a time; the first error is raised."""
        return list(self.threads.map(act, *over))

    def answered(
        self, user: str, method: str, path: str, content: Any = None, **headers: Any
    ) -> Answer:
        """Repeat a request until it is answered with success, as clients are told to."""
        for _ in range(TRIES):
            answer = self.users[user].call(method, path, content, **headers)
            if answer.status not in (409, 429, 500, 503, 504):
                break
            time.sleep(PAUSE_SECONDS)
        assert answer.status < 300, (method, path, answer)
        return answer

    def want(self, what: str, reader: str, publisher: str, wanted: bool) -> None:
        """Follow or mute, or end that."""
        begun = time.time()
        self.answered(reader, "PUT" if wanted else "DELETE", f"/v1/{what}/{publisher}")
        kept = self.record.follows if what == "following" else self.record.mutes
        kept[reader, publisher].append(Request(wanted, begun, time.time()))

    def publish(self, publisher: str) -> None:
        """Publish over HTTP."""
        begun, key = time.time(), uuid.uuid4().hex
        told = self.answered(publisher, "POST", "/v1/posts", {}, idempotency_key=key).content
        self._add(Post(told["ref_id"], publisher, told["published_at"], begun))

    def send(self, publishers: Iterable[str]) -> None:
        """Publish by one batch of messages."""
        messages = []
        for publisher in publishers:
            now = time.time()
            post = Post(uuid.uuid4().hex, publisher, times.to_text(int(now * 1000)), now)
            content = {
                "version": contract.VERSION,
                "type": contract.POST_PUBLISHED,
                "publisher_id": publisher,
                "ref_id": post.ref_id,
                "published_at": post.published_at,
            }
            messages.append(Message(content, publisher))
            self._add(post)
        self.queue.send(*messages)

    def _add(self, post: Post) -> None:
        self.record.posts[post.ref_id] = post

    def come_to_rest(self) -> None:
        """Wait until publishers are told that all is delivered, and RELATE has nothing to do."""
        self.all(self._wait_for_delivery, list(self.record.posts.values()))
        url = self.stack.output(names.RELATION.url_output)
        eventually(lambda: not left(self.stack, url), patience=PATIENCE_SECONDS)

    def _wait_for_delivery(self, post: Post) -> None:
        def is_complete() -> bool:
            path = f"/v1/posts/{post.ref_id}/delivery"
            answer = self.users[post.publisher].call("GET", path)
            if answer.status != 200 or answer.content["state"] != "complete":
                return False
            post.complete = times.to_ms(answer.content["completed_at"]) / 1000
            return True

        if post.complete == math.inf:
            eventually(is_complete, patience=PATIENCE_SECONDS)
