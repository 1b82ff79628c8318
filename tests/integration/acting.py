"""The command line of users, whose requests reach the functions instead of a network."""

from __future__ import annotations

import base64
import json
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import BufferedReader, BytesIO, StringIO
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl, unquote, urlsplit

from urllib3 import HTTPHeaderDict, HTTPResponse
from urllib3.exceptions import ProtocolError

from fanfold import contract, names
from fanfold_cli import aws
from tests.integration.cli import Ran, Stack, outputs, run_on
from tests.service import REGION, System, request_of

API = "https://api.example"


@dataclass
class Gateway:
    """API Gateway's part: the token's user, the route, the event. It stands for a connection pool.

    `lost` answers are not handed over, as if the connection had ended after the request. So many
    requests after these are `refused`. Of a line that holds `interrupt`, the answer is Ctrl-C.
    """

    system: System
    lines: list[str] = field(default_factory=list)
    lost: int = 0
    refused: int = 0
    interrupt: str = ""
    outputs: dict[str, str] = field(default_factory=dict)

    def request(self, method: str, url: str, **options: Any) -> HTTPResponse:
        address = urlsplit(url)
        line = f"{method} {address.path}"
        self.lines.append(line)
        claims = options["headers"]["authorization"].split(".")[1]
        user = json.loads(base64.urlsafe_b64decode(claims + "=="))["username"]
        if self.refused and not self.lost:
            self.refused -= 1
            forbidden = BufferedReader(BytesIO(b'{"message":"Forbidden"}'))
            return HTTPResponse(forbidden, status=403, preload_content=False)
        route, ids = _route(method, address.path)
        body = options.get("body")
        request = request_of(
            route,
            user,
            at_ms=self.system.clock.ms,
            path=ids,
            query=dict(parse_qsl(address.query)),
            headers={name.lower(): value for name, value in options["headers"].items()},
            body=body.decode() if body else None,
        )
        with redirect_stdout(StringIO()):  # to which a function writes its metrics
            answer = self.system.ask(route, request)
        if self.interrupt and self.interrupt in line:
            raise KeyboardInterrupt
        if self.lost:
            self.lost -= 1
            raise ProtocolError("The connection was closed.")
        content, headers = (
            BufferedReader(BytesIO(answer.text.encode())),
            HTTPHeaderDict(answer.headers),
        )
        return HTTPResponse(content, headers, answer.status, preload_content=False)

    def pump(self, *queues: str) -> None:
        """Let the workers of these queues take what is there."""
        with redirect_stdout(StringIO()):
            self.system.pump(*queues)


def _route(method: str, path: str) -> tuple[contract.Route, dict[str, str]]:
    parts = path.split("/")
    for route in contract.ROUTES:
        wanted = route.path.split("/")
        if route.method != method or len(wanted) != len(parts):
            continue
        pairs = list(zip(wanted, parts, strict=True))
        if all(each.startswith("{") or each == part for each, part in pairs):
            return route, {e.strip("{}"): unquote(p) for e, p in pairs if e.startswith("{")}
    raise AssertionError(f"There is no route {method} {path}.")


def pool_outputs(*, is_protected: bool = False) -> dict[str, str]:
    """The outputs of the stack with a user pool, as `infra/identity.py` describes it."""
    cognito = aws.client("cognito-idp", None, REGION)
    protection = "ACTIVE" if is_protected else "INACTIVE"
    pool = cognito.create_user_pool(PoolName="pool", DeletionProtection=protection)
    pool_id = pool["UserPool"]["Id"]
    client = cognito.create_user_pool_client(
        UserPoolId=pool_id,
        ClientName="client",
        ExplicitAuthFlows=["ALLOW_ADMIN_USER_PASSWORD_AUTH"],
    )
    return outputs() | {
        names.API_URL_OUTPUT: API,
        names.USER_POOL_ID_OUTPUT: pool_id,
        names.USER_POOL_CLIENT_ID_OUTPUT: client["UserPoolClient"]["ClientId"],
    }


def use(gateway: Gateway, *words: str, stdin: str = "") -> Ran:
    """Run a command of users, whose requests go to this gateway."""
    if not gateway.outputs:
        gateway.outputs.update(pool_outputs())
    stack = Stack(REGION, None, gateway.outputs)
    with patch("fanfold_client.client.pool_for", lambda _url: gateway):
        return run_on(stack, *words, stdin=stdin)
