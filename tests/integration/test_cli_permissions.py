"""The permissions documented in docs/operations.md suffice for the commands of the CLI."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from fanfold import names
from fanfold_cli import aws
from tests.integration.cli import FakeLambda, run
from tests.integration.system import REGION, System, error
from tests.integration.test_doctor import Tables

DOCS = Path(__file__).resolve().parents[2] / "docs/operations.md"
TABLES = {table.name.lower(): table for table in names.TABLES}
# A row that begins with "and" adds to the row above it.
AND = "and "

Allowed = dict[str, set[str]]  # actions by table


def documented(command: str) -> Allowed:
    """The DynamoDB permissions that the document gives for a command."""
    allowed: Allowed = defaultdict(set)
    for commands, permissions in re.findall(r"^\| (`.*?) \| (.*) \|$", DOCS.read_text(), re.M):
        if not permissions.startswith(AND):
            allowed = defaultdict(set)
        for actions, table in re.findall(r"((?:`[\w:]+`(?:, )?)+) on (?:the )?(\w+)", permissions):
            allowed[table] |= set(re.findall(r"`(?:dynamodb:)?(\w+)`", actions))
        if f"`{command}`" in commands:
            return allowed
    raise AssertionError(f"{DOCS} does not mention {command}.")


@dataclass(frozen=True)
class Policed:
    """DynamoDB that denies all other actions."""

    allowed: Allowed
    denied: set[tuple[str, str]] = field(default_factory=set)
    client: Any = field(default_factory=lambda: aws.client("dynamodb", None, REGION))

    def __getattr__(self, name: str) -> Any:
        plain = getattr(self.client, name)
        action = "".join(part.title() for part in name.split("_"))
        if name == "exceptions":
            return plain

        def call(**request: Any) -> Any:
            for table, needed in _needed(action, request):
                if needed not in self.allowed[table]:
                    self.denied.add((table, needed))
                    raise error("AccessDeniedException")
            return plain(**request)

        return call


def _needed(action: str, request: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The permissions that a call needs; a transaction needs those of its parts."""
    for part in request.get("TransactItems", ()):
        for kind, change in part.items():
            yield _table(change["TableName"]), f"{kind}Item"
    for table in request.get("RequestItems", ()):
        yield _table(table), action
    if "TableName" in request:
        yield _table(request["TableName"]), action


def _table(name: str) -> str:
    return next(table for table in TABLES if table in name.lower())


@pytest.fixture
def tables(system: System) -> Tables:
    """Follows and edges with every difference that can be repaired."""
    tables = Tables(system)
    tables.grow(2)
    tables.follow("missing", "older", "newer", "well")
    tables.lose_edge("missing", level=2)
    tables.edge("older", 0, level=2)
    tables.edge("newer", 9, level=2)
    tables.edge("orphan", 1, level=1)
    tables.follow("unreachable", publisher="grace")
    tables.edge("unreachable", 1, level=1, publisher="grace")
    return tables


def run_with_documented(*arguments: str, like: str) -> tuple[int, set[tuple[str, str]]]:
    """Run a command with the permissions documented for it: its exit code, and what was denied."""
    client = Policed(documented(like))
    ran = run(*arguments, dynamodb=client, lambda_=FakeLambda())
    return ran.exit_code, client.denied


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("scope", [("--whole",), ("--publisher", "ada")])
def test_the_doctor_examines_and_repairs_with_what_is_documented(scope: tuple[str, ...]) -> None:
    assert run_with_documented("doctor", *scope, like="doctor") == (1, set())
    _, denied = run_with_documented("doctor", *scope, "--repair", like="doctor")
    assert denied, "permission to read is not enough"
    assert run_with_documented("doctor", *scope, "--repair", like="doctor --repair") == (0, set())


def test_an_import_needs_what_is_documented(tmp_path: Path, tables: Tables) -> None:
    graph = tmp_path / "graph.csv"
    tables.row("again", version=3, state="unfollowed")
    follows = ["again,ada", "new,ada", "new,grace", "well,ada"]
    graph.write_text("\n".join(["follower,publisher", *follows]))
    with patch(
        "fanfold_cli.seeding.THREADS", 1
    ):  # moto's transactions roll back the writes of others
        assert run_with_documented("seed", "--edges", str(graph), like="seed") == (0, set())


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("arguments", "like"),
    [
        (("show", "ada"), "shards show"),
        (("grow", "ada", "--level", "3", "--yes"), "shards grow"),
        (("grow", "nobody", "--level", "3", "--yes"), "shards grow"),
        (("static", "--level", "3", "--yes"), "shards grow"),
        (("dynamic", "--yes"), "shards grow"),
    ],
)
def test_shards_need_what_is_documented(arguments: tuple[str, ...], like: str) -> None:
    assert run_with_documented("shards", *arguments, like=like) == (0, set())
