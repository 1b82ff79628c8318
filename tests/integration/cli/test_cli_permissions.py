"""The permissions documented in docs/operations.md suffice for the commands of the CLI."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import ClientError

from fanfold import names
from fanfold.follows.relation import REQUESTED
from fanfold_cli.health.reading import ACTIONS
from fanfold_cli.run.rows import rows
from proof.aws_verify import watch
from proof.model.iam import Need, arn, needs_of_key
from tests.commands import FakeLambda, Stack, client_of, outputs, run, run_on
from tests.integration.cli.health.test_status import CloudWatch, Lambda
from tests.integration.cli.test_cli_channels import stack as with_channels
from tests.integration.cli.test_cli_drop import LINE
from tests.integration.cli.test_cli_fanout import accept
from tests.integration.doctor.test_doctor import MARKS, Tables
from tests.service import AT, POST, REGION, System, error

DOCS = Path(__file__).resolve().parents[3] / "docs/operations.md"
TABLES = {table.name.lower(): table for table in names.TABLES}
# A row that begins with "and" adds to the row above it.
AND = "and "

# Actions by table, and those of SQS by `QUEUES` and `DEAD_LETTER_QUEUES`.
Allowed = dict[str, set[str]]
QUEUES = "queues"
DEAD_LETTER_QUEUES = "dead"  # the first word of their name in the document


def documented(command: str) -> Allowed:
    """The permissions that the document gives for a command."""
    allowed: Allowed = defaultdict(set)
    for commands, permissions in re.findall(r"^\| (`.*?) \| (.*) \|$", DOCS.read_text(), re.M):
        if not permissions.startswith(AND):
            allowed = defaultdict(set)
        for actions, table in re.findall(r"((?:`[\w:]+`(?:, )?)+) on (?:the )?(\w+)", permissions):
            allowed[table] |= set(re.findall(r"`(?:\w+:)?(\w+)`", actions))
        if f"`{command}`" in commands:
            return allowed
    raise AssertionError(f"{DOCS} does not mention {command}.")


def documented_of_key(does: str) -> set[str]:
    """The permissions on the key of an encrypted stage, for all commands that do this."""
    (row,) = re.findall(rf"^\| with .* that {does} .*? \| (.*) \|$", DOCS.read_text(), re.M)
    return set(re.findall(r"`(kms:\w+)`", row))


def needed_of_key(command: str) -> set[str]:
    """What its documented calls of tables and queues ask of a key that encrypts them."""
    key = arn("kms", "key/k")
    return {
        need.action
        for where, actions in documented(command).items()
        for action in actions - {"DescribeTable", "UpdateTable"}  # They touch no row.
        for need in needs_of_key(
            Need(f"{'dynamodb' if where in TABLES else 'sqs'}:{action}", arn("any", where)), key
        )
    }


@dataclass(frozen=True)
class Policed:
    """DynamoDB that denies all other actions."""

    allowed: Allowed
    denied: set[tuple[str, str]] = field(default_factory=set)
    client: Any = field(default_factory=lambda: client_of("dynamodb", None, REGION))

    def __getattr__(self, name: str) -> Any:
        plain = getattr(self.client, name)
        if name == "exceptions":
            return plain
        if name == "get_paginator":
            return lambda operation: SimpleNamespace(
                paginate=self._policed(operation, plain(operation).paginate)
            )
        return self._policed(name, plain)

    def _policed(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        action = "".join(part.title() for part in name.split("_"))

        def call(**request: Any) -> Any:
            for table, needed in _needed(action, request):
                if needed not in self.allowed[table]:
                    self.denied.add((table, needed))
                    raise error("AccessDeniedException")
            return plain(**request)

        return call


@dataclass(frozen=True)
class PolicedSqs:
    """SQS that denies all other actions, and does not know move tasks."""

    allowed: Allowed
    denied: set[tuple[str, str]] = field(default_factory=set)
    client: Any = field(default_factory=lambda: client_of("sqs", None, REGION))

    def __getattr__(self, name: str) -> Any:
        # A batch needs the permission of its parts.
        action = "".join(part.title() for part in name.removesuffix("_batch").split("_"))

        def call(**request: Any) -> Any:
            queue = str(request.get("QueueUrl") or request["SourceArn"])
            kind = DEAD_LETTER_QUEUES if queue.endswith("Dlq") else QUEUES
            if action not in self.allowed[kind]:
                self.denied.add((kind, action))
                raise error("AccessDenied", 403)
            if "SourceArn" in request:
                raise error("InvalidAction")
            return getattr(self.client, name)(**request)

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
    MARKS[0].make(tables)
    tables.follow("unreachable", publisher="grace")
    tables.edge("unreachable", 1, level=1, publisher="grace")
    tables.row("asker", state=REQUESTED, requested_at={"S": AT})
    tables.item("Readers", user_id={"S": "well"}, follows={"N": "7"})
    return tables


def run_with_documented(*arguments: str, like: str) -> tuple[int, set[tuple[str, str]]]:
    """Run a command with the permissions documented for it: its exit code, and what was denied."""
    client, sqs = Policed(documented(like)), PolicedSqs(documented(like))
    clients = {"dynamodb": client, **({"sqs": sqs} if like.startswith("dlq") else {})}
    ran = run(*arguments, lambda_=FakeLambda(), **clients)
    return ran.exit_code, client.denied | sqs.denied


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("scope", [("--whole",), ("--publisher", "ada")])
def test_the_doctor_examines_and_repairs_with_what_is_documented(
    scope: tuple[str, ...], tmp_path: Path
) -> None:
    assert run_with_documented("doctor", *scope, like="doctor") == (1, set())
    _, denied = run_with_documented("doctor", *scope, "--repair", like="doctor")
    assert denied, "permission to read is not enough"
    repair = ("doctor", *scope, "--repair", "--expect", "2", "--to", str(tmp_path / "taken"))
    assert run_with_documented(*repair, like="doctor --repair") == (0, set())


def test_an_audit_and_its_repair_need_what_is_documented(system: System) -> None:
    for user in ("ann", "bob"):
        assert system.follow(user).status == 200
    system.clock.advance(120)
    system.publish()
    system.pump()
    for scope in ("--sample 10", "--largest 1", f"--post {POST}", "--reader bob"):
        assert run_with_documented("audit", *scope.split(), like="audit") == (0, set())
    key = {"user_id": {"S": "ann"}, "sort_key": {"S": system.ledger().sort_key}}
    system.dynamodb.delete_item(TableName=names.TIMELINES.name, Key=key)
    repair = ("audit", "--post", POST, "--repair")
    assert run_with_documented(*repair, like="audit")[1], "permission to read is not enough"
    assert run_with_documented(*repair, like="audit --repair") == (0, set())


def test_an_import_needs_what_is_documented(tmp_path: Path, tables: Tables) -> None:
    graph = tmp_path / "graph.csv"
    tables.row("again", version=3, state="unfollowed")
    follows = ["again,ada", "new,ada", "new,grace", "well,ada"]
    graph.write_text("\n".join(["follower,publisher", *follows]))
    # moto's transactions roll back those of others.
    with patch("fanfold_cli.follows.seeding.THREADS", 1):
        for more in ((), ("--again",)):
            seed = ("seed", "--edges", str(graph), *more)
            assert run_with_documented(*seed, like="seed") == (0, set())


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("arguments", "like"),
    [
        ("show ada", "show"),
        ("grow ada --level 3 --yes", "grow"),
        ("grow nobody --level 3 --yes", "grow"),
        ("static --level 3 --yes", "grow"),
        ("dynamic --yes", "grow"),
    ],
)
def test_shards_need_what_is_documented(arguments: str, like: str) -> None:
    words = ("shards", *arguments.split())
    assert run_with_documented(*words, like=f"shards {like}") == (0, set())


def test_channels_need_what_is_documented(system: System) -> None:
    system.promote("bea")
    for arguments, like, exit_code in (
        ("list", "list", 0),
        ("add ada --yes", "list", 1),  # permission to list is not enough
        ("add ada --yes", "add", 0),
        ("demote bea --yes", "add", 0),
    ):
        client = Policed(documented(f"channels {like}"))
        ran = run_on(with_channels(dynamodb=client), "channels", *arguments.split())
        assert (ran.exit_code, bool(client.denied)) == (exit_code, bool(exit_code))


@pytest.mark.parametrize(
    "line",
    [
        "list --stalled",
        "list --open",
        "show stalled",
        "resend stalled open",
        "resend --stalled",
        "abandon stalled open --yes",
    ],
)
def test_deliveries_need_what_is_documented(system: System, line: str) -> None:
    for ref_id in ("stalled", "open"):
        accept(system, ref_id)
    system.give_up("stalled")
    command, *more = line.split()
    assert run_with_documented("fanout", command, *more, like=f"fanout {command}") == (0, set())


def test_the_status_needs_what_is_documented(system: System) -> None:
    accept(system, "open")
    allowed = documented("status")
    dynamodb, sqs = Policed(allowed), PolicedSqs(allowed)
    plain = {"cloudwatch": CloudWatch(), "lambda_": Lambda("Bulk")}
    ran = run("status", "--json", **plain, dynamodb=dynamodb, sqs=sqs)
    assert (ran.json["unread"], dynamodb.denied | sqs.denied) == ({}, set())
    assert ran.json["paused"] == ["bulk"]
    (row,) = re.findall(r"^\| `status` \| (.*) \|$", DOCS.read_text(), re.M)
    told = set(re.findall(r"`(?:\w+:)?(\w+)`", row))
    assert told == {action for actions in ACTIONS.values() for action in actions}


@pytest.mark.parametrize(
    "line",
    [
        "list",
        "show {letter}",
        "drop {letter} --yes",
        "drop --queue bulk --all --yes",
        "redrive",
        "redrive {letter}",
        "restore letters",
    ],
)
def test_dead_letters_need_what_is_documented(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("letters").write_text(json.dumps(LINE))
    sent = system.sqs.send_message(QueueUrl=system.url("BulkDlq"), MessageBody="1")
    command, *more = line.format(letter=sent["MessageId"]).split()
    assert run_with_documented("dlq", command, *more, like=f"dlq {command}") == (0, set())


def test_permission_to_list_dead_letters_is_not_enough_to_drop_them(system: System) -> None:
    system.sqs.send_message(QueueUrl=system.url("BulkDlq"), MessageBody="1")
    drop = ("dlq", "drop", "--queue", "bulk", "--all", "--yes")
    denied = {(DEAD_LETTER_QUEUES, "ListMessageMoveTasks")}
    assert run_with_documented(*drop, like="dlq list") == (1, denied)


@pytest.mark.usefixtures("tables")
def test_a_day_on_aws_reads_tables_with_what_is_documented() -> None:
    def read(like: str) -> set[tuple[str, str]]:
        client = Policed(documented(like))
        stack = Stack(REGION, None, outputs(), {"dynamodb": client})
        with suppress(ClientError):
            assert list(rows(stack, total=0)) == []
            assert "well" in watch.followers(stack, ["ada"])["ada"]
            assert watch.present(stack, [("missing", "no such key")]) == set()
        return client.denied

    assert read("make aws-verify") == set()
    assert read("doctor"), "permission to examine is not enough"


READ: tuple[str, ...] = ("status", "fanout list", "shards show", "channels list", "dlq list")
READ += ("dlq drop", "doctor", "audit")
WRITTEN = (
    *("fanout resend", "fanout abandon", "dlq redrive", "shards grow", "channels add"),
    *("doctor --repair", "audit --repair", "smoke", "seed"),
)


def test_reading_and_writing_what_a_key_encrypts_needs_what_is_documented() -> None:
    allowed = documented_of_key("read")
    for command in READ:
        assert {"kms:Decrypt"} <= needed_of_key(command) <= allowed, command
    allowed |= documented_of_key("write")
    for command in WRITTEN:
        assert {"kms:GenerateDataKey"} <= needed_of_key(command) <= allowed, command
    assert needed_of_key("seed") == allowed, "and nothing else"
