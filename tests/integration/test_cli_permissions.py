"""docs/operations.md says what an operator must be allowed: it is enough for what the CLI asks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from fanfold import names
from fanfold_cli import aws
from tests.integration.cli import run
from tests.integration.system import REGION, System, error
from tests.integration.test_cli_shards import FakeLambda
from tests.integration.test_doctor import Ward

DOCS = Path(__file__).resolve().parents[2] / "docs/operations.md"
TABLES = {table.name.lower(): table for table in names.TABLES}
# A row that begins with "and" is of a command that needs the row above it, too.
AND = "and "

Allowed = dict[str, set[str]]  # actions by table


def documented(command: str) -> Allowed:
    """What the table of permissions says of a command, as far as it is of DynamoDB."""
    allowed: Allowed = defaultdict(set)
    for commands, permissions in re.findall(r"^\| (`.*?) \| (.*) \|$", DOCS.read_text(), re.M):
        if not permissions.startswith(AND):
            allowed = defaultdict(set)
        for actions, table in re.findall(r"((?:`[\w:]+`(?:, )?)+) on (?:the )?(\w+)", permissions):
            allowed[table] |= set(re.findall(r"`(?:dynamodb:)?(\w+)`", actions))
        if f"`{command}`" in commands:
            return allowed
    raise AssertionError(f"{DOCS} says nothing of {command}.")


@dataclass(frozen=True)
class Policed:
    """DynamoDB for somebody who is allowed this much."""

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
    """The permissions that a call needs: of a transaction, those of its parts."""
    for part in request.get("TransactItems", ()):
        for kind, change in part.items():
            yield _table(change["TableName"]), f"{kind}Item"
    for table in request.get("RequestItems", ()):
        yield _table(table), action
    if "TableName" in request:
        yield _table(request["TableName"]), action


def _table(name: str) -> str:
    return next(table for table in TABLES if table in name.lower())


def everything_wrong(ward: Ward) -> None:
    """Every difference between follows and edges that can be mended."""
    ward.grow(2)
    ward.follow("missing", "older", "newer", "twice", "well")
    ward.lose_edge("missing", level=2)
    ward.edge("older", 0, level=2)
    ward.edge("newer", 9, level=2)
    ward.edge("twice", 1, level=0)
    ward.edge("stray", 1, level=1)
    ward.follow("hidden", publisher="grace")
    ward.edge("hidden", 1, level=1, publisher="grace")


@pytest.fixture
def ward(system: System) -> Ward:
    found = Ward(system)
    everything_wrong(found)
    return found


@pytest.fixture
def police(ward: Ward) -> Callable[..., tuple[int, set[tuple[str, str]]]]:
    """Run a command with what is documented of it; its exit code, and what was denied."""

    def run_it(*arguments: str, like: str) -> tuple[int, set[tuple[str, str]]]:
        client = Policed(documented(like))
        ran = run(*arguments, dynamodb=client, lambda_=FakeLambda())
        return ran.exit_code, client.denied

    return run_it


Police = Callable[..., tuple[int, set[tuple[str, str]]]]


@pytest.mark.parametrize("scope", [("--whole",), ("--publisher", "ada"), ("--sample", "10")])
def test_the_doctor_looks_with_what_is_documented(police: Police, scope: tuple[str, ...]) -> None:
    assert police("doctor", *scope, like="doctor") == (1, set())


@pytest.mark.parametrize("scope", ["--whole", "--publisher"])
def test_the_doctor_mends_with_what_is_documented(police: Police, scope: str) -> None:
    arguments = [scope, *(["ada"] if scope == "--publisher" else [])]
    assert police("doctor", *arguments, "--repair", like="doctor --repair") == (0, set())


def test_who_may_only_look_cannot_mend(police: Police) -> None:
    _, denied = police("doctor", "--whole", "--repair", like="doctor")
    assert denied


def test_an_import_needs_what_is_documented(police: Police, tmp_path: Path, ward: Ward) -> None:
    graph = tmp_path / "graph.csv"
    ward.row("again", version=3, state="unfollowed")
    follows = ["again,ada", "new,ada", "new,grace", "well,ada"]
    graph.write_text("\n".join(["follower,publisher", *follows]))
    with patch("fanfold_cli.seeding.THREADS", 1):  # moto's transactions undo what others do
        assert police("seed", "--edges", str(graph), like="seed") == (0, set())


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
def test_shards_need_what_is_documented(
    police: Police, arguments: tuple[str, ...], like: str
) -> None:
    assert police("shards", *arguments, like=like) == (0, set())
