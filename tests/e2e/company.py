"""Many users with tokens of the deployed pool at once, and the record of what they did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from fanfold import names
from fanfold_cli.run.people import People
from fanfold_cli.run.record import Post
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
        self.threads = ThreadPoolExecutor(THREADS)
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
        self.node.close()

    def all(self, act: Callable[..., Any], *over: Iterable[Any]) -> list[Any]:
        """Act on everything, several at a time; the first error is raised."""
        return list(self.threads.map(act, *over))

    def come_to_rest(self) -> None:
        """Wait until publishers are told that all is delivered, and RELATE has nothing to do."""
        self.all(self._wait_for, list(self.record.posts.values()))
        url = self.deployment.output(names.RELATION.url_output)
        eventually(lambda: not left(self.deployment, url), patience=PATIENCE_SECONDS)

    def _wait_for(self, post: Post) -> None:
        eventually(lambda: self.is_delivered(post), patience=PATIENCE_SECONDS)
