"""Many users with tokens of the deployed pool at once, and the record of what they did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from fanfold import names
from fanfold_cli.run.people import People
from fanfold_cli.run.record import Post
from fanfold_cli.run.verdict import Reading, Verdict, judge
from fanfold_cli.stack import Deployment
from fanfold_client import Fanfold
from tests.e2e.clients import REQUEST_SECONDS, eventually, left
from tests.typescript import Node, TypeScriptUser

THREADS = 6
PATIENCE_SECONDS = 900.0


class Company(People):
    """Users of these names, several of whom act at a time; every second one in TypeScript."""

    def __init__(self, stack: Deployment, names: Sequence[str], client: Path) -> None:
        super().__init__(stack, seconds=REQUEST_SECONDS)
        self.began = time.time()
        self.threads = ThreadPoolExecutor(THREADS)
        self.clicks = ThreadPoolExecutor(THREADS)  # of one user at the same time
        self.readings: list[Reading] = []
        self.node = Node(client, stack.api_url)
        self.in_typescript = {*names[::2]}
        self.all(self._sign_in, names)

    def _sign_in(self, name: str) -> None:
        token = self.deployment.token(name)
        if name in self.in_typescript:
            self.apis[name] = cast(Fanfold, TypeScriptUser(self.node, name, token))
        else:
            self.sign_in(name, token)

    def close(self) -> None:
        self.threads.shutdown()
        self.clicks.shutdown()
        self.node.close()

    def all(self, act: Callable[..., Any], *over: Iterable[Any]) -> list[Any]:
        """Act on everything, several at a time; the first error is raised."""
        return list(self.threads.map(act, *over))

    def say(self, what: str) -> None:
        """Print it with the time that has passed."""
        print(f"[{time.time() - self.began:6.1f} s] {what}")

    def look(self, reader: str, pages: int = 1) -> Reading:
        """Read so many pages, or to the end with 0 of them, and keep what they show."""
        self.readings.append(self.read(reader, pages=pages))
        return self.readings[-1]

    def judged(self) -> Verdict:
        """What is wrong with all that was kept; prints how much was judged."""
        judged = judge(self.record, self.readings)
        self.say(
            f"{len(self.readings):,} readings showed {judged.shown:,} entries. They had to show"
            f" {judged.owed:,}, not to show {judged.hidden:,}, and {judged.open:,} were open."
        )
        return judged

    def come_to_rest(self) -> None:
        """Wait until publishers are told that all is delivered, and RELATE has nothing to do."""
        self.all(self._wait_for, list(self.record.posts.values()))
        url = self.deployment.output(names.RELATION.url_output)
        eventually(lambda: not left(self.deployment, url), patience=PATIENCE_SECONDS)

    def _wait_for(self, post: Post) -> None:
        eventually(lambda: self.is_delivered(post), patience=PATIENCE_SECONDS)
