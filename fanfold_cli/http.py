"""Calls the HTTP API with the access token of a user."""

import json
from dataclasses import dataclass
from typing import Any

import urllib3

from fanfold_cli.console import ExpectedError

TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Api:
    url: str
    token: str
    pool: urllib3.PoolManager

    def call(
        self, method: str, path: str, *, wanted: int, content: Any = None, key: str = ""
    ) -> Any:
        """Return the JSON of the answer; raises `ExpectedError` if its status is not `wanted`.

        `key` is an Idempotency-Key.
        """
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        if key:
            headers["idempotency-key"] = key
        try:
            answer = self.pool.request(
                method,
                f"{self.url}{path}",
                body=None if content is None else json.dumps(content),
                headers=headers,
                timeout=TIMEOUT_SECONDS,
                retries=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise ExpectedError(f"{method} {path} got no answer: {error}") from error
        if answer.status != wanted:
            raise ExpectedError(
                f"{method} {path} was answered with {answer.status} instead of {wanted}: "
                f"{answer.data.decode(errors='replace')[:500]}"
            )
        return json.loads(answer.data) if answer.data else None
