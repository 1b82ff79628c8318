"""Runs the command line on the tables and queues of an engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner

from fanfold import names
from fanfold_cli import aws
from fanfold_cli.app import app
from fanfold_cli.aws import ATTEMPTS
from fanfold_cli.console import ExpectedError
from fanfold_cli.stack import Deployment
from tests.service import ACCOUNT, REGION, error, settings

NAMED: Any = {"stack": "Fanfold-test", "account": ACCOUNT}
PLACE = f"Fanfold-test (account {ACCOUNT}, {REGION})"


@dataclass(frozen=True)
class Ran:
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
        return self.clients.get(service) or super().client(service, attempts)


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
        known |= {
            queue.url_output: queue.url_setting,
            queue.dlq_url_output: queue.dlq_url_setting,
        }
    return {output: getattr(on_engine, setting) for output, setting in known.items()}


class FakeLambda:
    """Lambda with the event source mapping of a queue, and the settings of the stage."""

    workers = 20

    def __init__(self, max_level: int = 8, mappings: int = 1, **changed: Any) -> None:
        self.mappings = mappings
        self.variables = settings(max_level=max_level, **changed).to_env()

    def list_event_source_mappings(self, *, EventSourceArn: str = ":Publish") -> Any:  # noqa: N803
        assert EventSourceArn.endswith((":Publish", ":Relation"))
        mapping = {
            "FunctionArn": "the-plan",
            "ScalingConfig": {"MaximumConcurrency": self.workers},
        }
        return {"EventSourceMappings": [mapping] * self.mappings}

    def get_function_configuration(self, *, FunctionName: str) -> Any:  # noqa: N803
        assert FunctionName == "the-plan"
        return {"Environment": {"Variables": self.variables}}


class Patched:
    """DynamoDB with some of its calls replaced."""

    def __init__(self, **calls: Any) -> None:
        self.calls, self.client = calls, aws.client("dynamodb", None, REGION)

    def __getattr__(self, name: str) -> Any:
        return self.calls.get(name) or getattr(self.client, name)


def throttled(**_request: Any) -> Any:
    raise error("ThrottlingException")
