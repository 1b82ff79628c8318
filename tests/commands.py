"""The command line: operators on the tables and queues of an engine, users at the doors."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from io import BufferedReader, BytesIO, StringIO
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl, unquote, urlsplit

from typer.testing import CliRunner
from urllib3 import HTTPHeaderDict, HTTPResponse
from urllib3.exceptions import ProtocolError

from fanfold import contract, names
from fanfold_cli import aws
from fanfold_cli.app import app
from fanfold_cli.aws import ATTEMPTS
from fanfold_cli.preflight.wanted import Wanted
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError
from tests.service import ACCOUNT, REGION, System, error, request_of, settings

NAMED: Any = {"stack": "Fanfold-test", "account": ACCOUNT}
PLACE = f"Fanfold-test (account {ACCOUNT}, {REGION})"
API = "https://api.example"
# What a deploy of a stage with data asks of its account.
ORDINARY = Wanted(
    stack="Fanfold-prod",
    bootstrap_parameter="/cdk-bootstrap/hnb659fds/version",
    bootstrap_version=6,
    keeps_data=True,
    is_protected=True,
    stack_is_protected=True,
    bursting={"timelines": "T1", "followers": "T2"},
    issuer=None,
    emails={"S1": "ann@example.com", "S2": "bob@example.com"},
    slack=None,
    workers=86,
    max_write_units=None,
    warm_write_units=None,
    entry_days={},
    requests_per_second=2_000,
)
# To make a client takes longer than most commands do.
client_of = cache(aws.client)


@dataclass(frozen=True)
class Ran:
    """What a command has printed, and how it ended."""

    exit_code: int
    stdout: str
    said: str  # stderr, or the text of an `ExpectedError`
    stderr: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


@dataclass(frozen=True)
class Stack(Deployment):
    """A stack on the engine, except for services with a client of the test."""

    clients: Mapping[str, Any] = field(default_factory=dict)

    def client(self, service: str, attempts: int = ATTEMPTS) -> Any:
        return self.clients.get(service) or client_of(service, self.endpoint, self.region, attempts)


def run(*arguments: str, **clients: Any) -> Ran:
    """Run `fanfold …` on the stack, with these clients instead of the engine's."""
    return run_on(stack_with(**clients), *arguments)


def stack_with(**clients: Any) -> Stack:
    """The stack with these clients instead of the engine's."""
    own = {name.rstrip("_"): client for name, client in clients.items()}
    return Stack(REGION, None, outputs(), own, **NAMED)


def run_on(stack: Deployment, *arguments: str, stdin: str | None = None) -> Ran:
    """Run `fanfold …` on this stack, whichever its options name."""
    with (
        patch.object(Deployment, "choose", lambda *_args, **_options: stack),
        # It would wait for a clock that does not advance.
        patch("fanfold.aws.dead_letters.WAIT_SECONDS", 0),
        # Functions that a test has imported would log on the command's stdout.
        patch("fanfold.invariants._tell", lambda _name, _ids: None),
    ):
        result = CliRunner().invoke(app, list(arguments), input=stdin)
    failure = result.exception
    if failure and not isinstance(failure, ExpectedError | SystemExit):
        raise failure
    said = str(failure) if isinstance(failure, ExpectedError) else result.stderr
    return Ran(result.exit_code, result.stdout, said, result.stderr)


def outputs() -> dict[str, str]:
    """The outputs of the stack that name its tables and queues."""
    on_engine = settings()
    known = {table.output: table.setting for table in names.TABLES}
    for queue in names.QUEUES:
        known |= {queue.url_output: queue.url_setting, queue.dlq_url_output: queue.dlq_url_setting}
    return {output: getattr(on_engine, setting) for output, setting in known.items()}


class FakeLambda:
    """Lambda with the event source mapping of a queue, and the settings of the stage."""

    workers = 20

    def __init__(self, max_level: int = 8, mappings: int = 1, **changed: Any) -> None:
        self.mappings = mappings
        self.variables = settings(max_level=max_level, **changed).to_env()

    def list_event_source_mappings(self, *, EventSourceArn: str = ":Publish") -> Any:  # noqa: N803
        assert EventSourceArn.endswith((":Publish", ":Relation"))
        mapping = {"FunctionArn": "the-plan", "ScalingConfig": {"MaximumConcurrency": self.workers}}
        return {"EventSourceMappings": [mapping] * self.mappings}

    def get_function_configuration(self, *, FunctionName: str) -> Any:  # noqa: N803
        assert FunctionName == "the-plan"
        return {"Environment": {"Variables": self.variables}}


class Patched:
    """DynamoDB with some of its calls replaced."""

    def __init__(self, **calls: Any) -> None:
        self.calls, self.client = calls, client_of("dynamodb", None, REGION)

    def __getattr__(self, name: str) -> Any:
        return self.calls.get(name) or getattr(self.client, name)


def throttled(**_request: Any) -> Any:
    """A call that AWS refuses as one too many."""
    raise error("ThrottlingException")


# Users


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
        """Hand a request over, and answer as a pool of urllib3 does."""
        address = urlsplit(url)
        line = f"{method} {address.path}"
        self.lines.append(line)
        claims = options["headers"]["authorization"].split(".")[1]
        user = json.loads(base64.urlsafe_b64decode(claims + "=="))["username"]
        if self.refused and not self.lost:
            self.refused -= 1
            return _response(403, '{"message":"Forbidden"}')
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
        return _response(answer.status, answer.text, answer.headers)

    def pump(self, *queues: str) -> None:
        """Let the workers of these queues take what is there."""
        with redirect_stdout(StringIO()):
            self.system.pump(*queues)


def _response(status: int, text: str, headers: Mapping[str, str] | None = None) -> HTTPResponse:
    body = BufferedReader(BytesIO(text.encode()))
    return HTTPResponse(body, HTTPHeaderDict(headers or {}), status, preload_content=False)


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
    cognito = client_of("cognito-idp", None, REGION)
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
