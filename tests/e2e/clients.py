"""The service as its clients see it: HTTP with a token, messages on a queue, and their results."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import urllib3
from typer.testing import CliRunner

from fanfold_cli.app import app
from fanfold_cli.local.home import Home
from fanfold_cli.run import people
from fanfold_cli.run.rows import rows
from fanfold_cli.stack import Deployment
from fanfold_client import Fanfold

# Much longer than a delivery takes, even on a busy machine: after this, a test has failed.
PATIENCE_SECONDS = 300.0
REQUEST_SECONDS = 120.0
POLL_SECONDS = 0.1

http = urllib3.PoolManager(maxsize=8)


@dataclass(frozen=True)
class Answer:
    status: int
    kind: str
    content: Any


@dataclass(frozen=True)
class User:
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
            timeout=REQUEST_SECONDS,
        )
        return Answer(
            answer.status,
            answer.headers.get("content-type", ""),
            json.loads(answer.data) if answer.data else None,
        )

    @cached_property
    def api(self) -> Fanfold:
        """The client, which tries again; `call` shows each answer as it is."""
        return Fanfold(self.stack.api_url, self.token, seconds=REQUEST_SECONDS, pool=http)

    def publish(self, **content: Any) -> Any:
        """Publish a post, and return the content of the answer 202."""
        return self.api.publish(**content)

    def follow(self, publisher: "User") -> None:
        self.api.follow(publisher.name)

    def timeline(self, **query: Any) -> Any:
        """One page of the user's timeline, by the parameters of `Entries.page`."""
        return self.api.timeline.page(**query)

    def ref_ids(self) -> list[str]:
        """The posts on the first page of the user's timeline."""
        return [entry["ref_id"] for entry in self.timeline(limit=100)["entries"]]


def send(stack: Deployment, *events: dict[str, Any]) -> None:
    """Send events to the publish queue, as another service does."""
    people.send(people.publish_queue(stack), *events)


def operate(home: Home, *arguments: str, exit_code: int = 0) -> Any:
    """What `fanfold … --json` prints on an engine, parsed."""
    ran = CliRunner().invoke(app, [*arguments, "--json", "--home", str(home.path)])
    assert ran.exit_code == exit_code, (ran.output, ran.exception)
    return json.loads(ran.stdout)


def made_up(count: int) -> list[str]:
    """Users who only follow."""
    return [f"reader-{number:05d}" for number in range(count)]


def entries(stack: Deployment) -> list[tuple[str, str]]:
    """Every entry of every timeline, as user and post."""
    return [(row.user, row.ref_id) for row in rows(stack)]


def left(stack: Deployment, url: str) -> int:
    """The number of messages in a queue: visible, in flight and delayed."""
    kinds = ["", "NotVisible", "Delayed"]
    answer = stack.client("sqs").get_queue_attributes(
        QueueUrl=url, AttributeNames=[f"ApproximateNumberOfMessages{kind}" for kind in kinds]
    )
    return sum(int(count) for count in answer["Attributes"].values())


def eventually(claim: Callable[[], bool], *, patience: float = PATIENCE_SECONDS) -> None:
    """Wait until the claim holds; fail after `patience` seconds."""
    end = time.monotonic() + patience
    while not claim():
        assert time.monotonic() < end, f"not true within {patience:.0f} s"
        time.sleep(POLL_SECONDS)
