"""Calls the HTTP API with the access token of a user."""

import json
import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from fanfold_cli.console import ExpectedError
from fanfold_cli.progress import waiting_for

TIMEOUT_SECONDS = 30.0


def pool_for(url: str) -> urllib3.PoolManager:
    """Connections to this address, by the proxy and the certificates that boto3 would use.

    urllib3 looks at none of these variables by itself.
    """
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    authorities = os.environ.get("AWS_CA_BUNDLE")
    if proxy is None or proxy_bypass(parts.hostname or ""):
        return urllib3.PoolManager(ca_certs=authorities)
    return urllib3.ProxyManager(proxy, ca_certs=authorities)


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
            with waiting_for(f"the answer to {method} {path}"):
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
