"""Calls the HTTP API with the access token of a user."""

import json
import os
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from botocore.httpsession import get_cert_path

from fanfold_cli.console import ExpectedError
from fanfold_cli.progress import waiting_for

TIMEOUT_SECONDS = 30.0


def pool_for(url: str) -> urllib3.PoolManager:
    """Connections to this address, by the proxy that the environment names, if it does for it.

    urllib3 looks at none of these variables by itself.
    """
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if proxy is None or proxy_bypass(parts.hostname or ""):
        return urllib3.PoolManager(ssl_context=_certificates())
    user = urllib3.util.parse_url(proxy).auth
    headers = urllib3.make_headers(proxy_basic_auth=unquote(user)) if user else None
    return urllib3.ProxyManager(proxy, ssl_context=_certificates(), proxy_headers=headers)


def _certificates() -> ssl.SSLContext:
    """The system's, botocore's (a Python for macOS may have none), and those of a company."""
    context = ssl.create_default_context()
    context.load_verify_locations(get_cert_path(True))
    if company := os.environ.get("AWS_CA_BUNDLE"):
        context.load_verify_locations(company)
    return context


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
