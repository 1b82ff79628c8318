"""The service as its clients see it: HTTP with a token, and messages on the publish queue."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import urllib3

from fanfold import contract
from fanfold.aws.queues import WorkQueue
from fanfold.messages import Message
from fanfold_cli.stack import Deployment

# Far more than a delivery on the engine takes; a test that waits so long has failed.
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.1

http = urllib3.PoolManager(maxsize=8)


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: int
    kind: str
    content: Any


@dataclass(frozen=True)
class User:
    """Somebody with a token."""

    stack: Deployment
    name: str
    token: str

    def call(
        self,
        method: str,
        path: str,
        content: Any = None,
        *,
        raw: bytes | None = None,
        **headers: str,
    ) -> Answer:
        """Call a route with the user's token."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            sent["authorization"] = f"Bearer {self.token}"
        body = raw if content is None else json.dumps(content).encode()
        answer = http.request(
            method,
            f"{self.stack.api_url}{path}",
            body=body,
            headers=sent,
            retries=False,
            timeout=30,
        )
        return Answer(
            answer.status,
            answer.headers.get("content-type", ""),
            json.loads(answer.data) if answer.data else None,
        )

    def publish(self, **content: Any) -> Any:
        """Publish a post; the accepted answer."""
        answer = self.call("POST", "/v1/posts", content)
        assert answer.status == 202, answer
        return answer.content

    def follow(self, publisher: "User") -> None:
        """Follow a publisher."""
        assert self.call("PUT", f"/v1/following/{publisher.name}").status == 200

    def timeline(self, query: str = "") -> Any:
        """A page of the user's own timeline."""
        answer = self.call("GET", f"/v1/timeline{query}")
        assert answer.status == 200, answer
        return answer.content

    def ref_ids(self) -> list[str]:
        """The posts on the first page of the user's own timeline."""
        return [entry["ref_id"] for entry in self.timeline("?limit=100")["entries"]]


def send(stack: Deployment, *events: dict[str, Any]) -> None:
    """Put events on the publish queue, as another service would."""
    queue = WorkQueue(stack.client("sqs"), stack.settings().publish_queue_url)
    queue.send(*(Message({"version": contract.VERSION, **event}, "other") for event in events))


def eventually(claim: Callable[[], bool], *, patience: float = PATIENCE_SECONDS) -> None:
    """Wait until the claim holds."""
    end = time.monotonic() + patience
    while not claim():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(POLL_SECONDS)
