"""A day on AWS on moto: its own stack and no other, what it disturbs, what it counts and judges."""

from __future__ import annotations

import json
import math
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import boto3
import pytest
import typer
from moto import mock_aws
from typer.testing import CliRunner

from fanfold import clock as product_clock
from fanfold import names
from fanfold_cli.aws import LocalEndpoint
from fanfold_cli.run.people import People
from fanfold_cli.run.record import Post, Record
from fanfold_cli.run.rows import rows
from fanfold_cli.run.verdict import Reading, judge
from fanfold_cli.run.watch import await_delivery
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError
from proof.aws_verify import history, measures, own_stack, troubles, watch
from proof.aws_verify.__main__ import app
from proof.aws_verify.course import Course
from proof.aws_verify.measures import WRITES, Query
from proof.aws_verify.own_stack import TAG, OwnStack
from proof.aws_verify.report import Report
from proof.aws_verify.runs import Run
from proof.aws_verify.script import Script
from tests.commands import Stack, outputs
from tests.integration.cli.test_cli_pause import FakeLambda as Lanes
from tests.service import HANDLERS, REGION, Clock, System

NAME = "Fanfold-verify"
OTHER = "Fanfold-verify-2"
TEMPLATE = json.dumps({"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}})
EARLIER = "2026-11-20T17:00:00.000Z"
BEGAN = "2026-11-22T19:00:00Z"
FOLLOWERS = frozenset({"v1-bob", "v1-carol"})

Write = Callable[[str], None]
Spoil = Callable[[System, Record], None]


@pytest.fixture
def cloudformation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setattr(own_stack, "POLL_SECONDS", 0.01)
    with mock_aws():
        yield boto3.client("cloudformation", region_name=REGION)


def make(cloudformation: Any, name: str = NAME, *, ours: bool = True) -> None:
    tags = [{"Key": TAG, "Value": BEGAN}] if ours else [{"Key": "team", "Value": "search"}]
    cloudformation.create_stack(StackName=name, TemplateBody=TEMPLATE, Tags=tags)


def stacks(cloudformation: Any) -> list[str]:
    return [each["StackName"] for each in cloudformation.describe_stacks()["Stacks"]]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception and not isinstance(result.exception, ExpectedError | SystemExit):
        raise result.exception
    failure = result.exception if isinstance(result.exception, ExpectedError) else ""
    return result.exit_code, f"{result.output}{failure}"


@pytest.fixture
def cdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A CDK command line that notes its arguments and then runs a line of shell; no synthesis."""

    def write(line: str) -> None:
        executable = tmp_path / "cdk"
        executable.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/cdk-ran\n{line}\n')
        executable.chmod(executable.stat().st_mode | stat.S_IXUSR)

    def synthesize(_stage: str, _concurrency: int | None, assembly: Path) -> None:
        assembly.mkdir()
        properties = {"templateFile": "t.json", "stackName": NAME}
        artifact = {"type": "aws:cloudformation:stack", "properties": properties}
        (assembly / "manifest.json").write_text(json.dumps({"artifacts": {"x": artifact}}))
        (assembly / "t.json").write_text(TEMPLATE)

    monkeypatch.setenv("FANFOLD_CDK", str(tmp_path / "cdk"))
    monkeypatch.setattr(own_stack, "synthesize", synthesize)
    return write


def report_of(directory: Path) -> Any:
    (path,) = directory.glob("aws-verify-*.json")
    return json.loads(path.read_text())


def test_a_stack_that_was_not_made_by_a_run_is_refused_and_stays(cloudformation: Any) -> None:
    make(cloudformation, ours=False)
    for arguments in ((NAME, "--yes"), (NAME, "--remove", "--yes")):
        exit_code, said = run(*arguments)
        assert exit_code == 1
        assert "was not made by this command" in said
    with pytest.raises(ExpectedError, match="was not made by this command"):
        OwnStack(NAME, cloudformation).remove(BEGAN)
    assert stacks(cloudformation) == [NAME]


def test_without_a_terminal_and_a_yes_nothing_is_made_or_removed(cloudformation: Any) -> None:
    exit_code, said = run(NAME)
    assert exit_code == 1
    assert "It costs at most $" in said
    assert "there is no terminal to ask on. YES=1 (--yes without make) answers" in said
    make(cloudformation)
    exit_code, said = run(NAME, "--remove")
    assert (exit_code, stacks(cloudformation)) == (1, [NAME])
    assert f"was made by the run {BEGAN}" in said


def test_what_an_earlier_run_has_left_is_removed_and_nothing_else(cloudformation: Any) -> None:
    for name in (NAME, OTHER, "Fanfold-dev"):
        make(cloudformation, name)
    exit_code, said = run(NAME, "--remove", "--yes")
    assert (exit_code, sorted(stacks(cloudformation))) == (0, ["Fanfold-dev", OTHER])
    assert f"The stack {NAME} is removed." in said
    assert f"There is no stack {NAME}." in run(NAME, "--remove", "--yes")[1]


def test_a_deploy_that_fails_ends_in_a_report_and_leaves_nothing(
    cloudformation: Any, cdk: Write, tmp_path: Path
) -> None:
    cdk("echo boom of 123456789012; exit 3")
    exit_code, _ = run(NAME, "--yes", "--to", str(tmp_path))
    assert exit_code == 1
    assert stacks(cloudformation) == []
    report = report_of(tmp_path)
    assert not report["passed"]
    assert "boom of [account]" in report["failures"][0]
    assert report["end"] == {"stack": "was never made"}
    ran = (tmp_path / "cdk-ran").read_text()
    assert ran.startswith(f"deploy {NAME} --app ")
    assert f"--method direct --require-approval never --progress events --tags {TAG}=" in ran


def test_the_stack_of_another_run_is_never_removed_not_even_with_a_yes(
    cloudformation: Any, cdk: Write, tmp_path: Path
) -> None:
    """It may be under way: it was made before this run, during its synthesis, or its deploy."""
    make(cloudformation)
    exit_code, said = run(NAME, "--yes", "--to", str(tmp_path))
    assert (exit_code, stacks(cloudformation)) == (1, [NAME])
    assert f"the run {BEGAN} made it, and may be under way" in said
    assert not (tmp_path / "cdk-ran").exists()
    cloudformation.delete_stack(StackName=NAME)

    cdk("exit 0")
    plain = own_stack.synthesize

    def synthesize(stage: str, concurrency: int | None, assembly: Path) -> None:
        plain(stage, concurrency, assembly)
        make(cloudformation)

    with patch.object(own_stack, "synthesize", synthesize):
        exit_code, said = run(NAME, "--yes", "--to", str(tmp_path))
    assert (exit_code, stacks(cloudformation)) == (1, [NAME])
    assert not (tmp_path / "cdk-ran").exists()
    assert "was made by another run" in said
    with pytest.raises(ExpectedError, match="was made by another run"):
        OwnStack(NAME, cloudformation).remove("2026-11-22T19:00:00Z another")


@pytest.fixture
def own_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run has the tag of the stacks that these tests make for it."""
    monkeypatch.setattr("proof.aws_verify.runs.run_of", lambda *_: BEGAN)


@pytest.mark.usefixtures("own_run")
# Of a terminal that was closed, and of Ctrl-C that ends `| tee log` too.
@pytest.mark.parametrize("ending", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_unheard_during_the_deploy_ends_cdk_and_removes_its_stack(
    cloudformation: Any,
    cdk: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending: signal.Signals,
) -> None:
    cdk("exec sleep 60")
    listener, ours = os.pipe()

    def close(_seconds: float) -> None:
        make(cloudformation)
        os.close(listener)
        os.kill(os.getpid(), ending)

    waits = iter([close])
    monkeypatch.setattr(
        "proof.aws_verify.own_stack.time.sleep",
        lambda seconds: next(waits, lambda _: None)(seconds),
    )
    began = time.monotonic()
    go = Run((2,), tmp_path, hold=0, patience=1, concurrency=None, keep=False, yes=True)
    # A shell without job control starts what runs in its background with SIGINT ignored.
    before = signal.signal(ending, signal.default_int_handler)
    try:
        with os.fdopen(ours, "w") as deaf:
            monkeypatch.setattr("sys.stdout", deaf)
            monkeypatch.setattr("sys.stderr", deaf)
            with pytest.raises(typer.Exit) as raised:
                go.on_aws(OwnStack(NAME, cloudformation), "the test", REGION)
    finally:
        signal.signal(ending, before)
    assert raised.value.exit_code == 130
    assert stacks(cloudformation) == []
    assert time.monotonic() - began < 30
    report = report_of(tmp_path)
    assert report["failures"] == ["The run was interrupted."]
    assert report["end"]["stack"] == "removed"


def test_a_run_under_nohup_goes_on_without_its_terminal(
    cloudformation: Any, cdk: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cdk("sleep 0.5; exit 3")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr(
        "proof.aws_verify.own_stack.time.sleep",
        lambda _seconds: os.kill(os.getpid(), signal.SIGHUP),
    )
    try:
        exit_code, _ = run(NAME, "--yes", "--to", str(tmp_path))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (exit_code, stacks(cloudformation)) == (1, [])
    assert "`cdk deploy` failed" in report_of(tmp_path)["failures"][0]


@pytest.mark.usefixtures("own_run")
def test_a_report_that_cannot_be_made_or_written_keeps_no_stack(
    cloudformation: Any, tmp_path: Path
) -> None:
    def half_made(*_own: Any, **_options: Any) -> Any:
        make(cloudformation)
        raise ExpectedError(why)

    (tmp_path / "file").touch()
    with patch.object(OwnStack, "deploy", half_made):
        why = "half a surrogate pair: \ud800"
        with pytest.raises(UnicodeEncodeError):
            run(NAME, "--yes", "--to", str(tmp_path))
        assert stacks(cloudformation) == []
        why = "the deploy fails"
        exit_code, said = run(NAME, "--yes", "--to", str(tmp_path / "file" / "below"))
    assert (exit_code, stacks(cloudformation)) == (1, [])
    assert "The report cannot be written" in said


def test_a_removal_that_fails_says_what_remains_and_how_to_try_again(
    cloudformation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(cloudformation)
    plain = cloudformation.describe_stacks

    def failed(**request: str) -> Any:
        answer = plain(**request)
        answer["Stacks"][0]["StackStatus"] = "DELETE_FAILED"
        return answer

    def delete(**_request: str) -> None:
        monkeypatch.setattr(cloudformation, "describe_stacks", failed)

    monkeypatch.setattr(cloudformation, "delete_stack", delete)
    with pytest.raises(ExpectedError) as raised:
        OwnStack(NAME, cloudformation).remove(BEGAN)
    said = str(raised.value)
    assert "1 resource of it remain: Queue." in said
    assert f"make aws-verify STACK={NAME} REMOVE=1" in said


# --- rows, as the product wrote them


@pytest.fixture
def published(system: System) -> Record:
    """A post by HTTP and one by the queue, delivered by the real functions; and their record."""
    record = Record()
    record.follow_all({"v1-ada": FOLLOWERS}, 1, 2)
    for user in sorted(FOLLOWERS):
        assert system.follow(user, "v1-ada").status == 200
    answer = system.publish("a", user="v1-ada").body
    event = {"type": "post.published", "publisher_id": "v1-ada", "ref_id": "v1-post"}
    whole = {**event, "version": 1, "published_at": EARLIER}
    system.sqs.send_message(QueueUrl=system.url("Publish"), MessageBody=json.dumps(whole))
    system.pump()
    record.add(
        Post(answer["ref_id"], "v1-ada", answer["published_at"], 3, complete=4, delivered=2),
        Post("v1-post", "v1-ada", EARLIER, 3, complete=4, delivered=2),
    )
    return record


def stack_of(**clients: Any) -> Stack:
    return Stack(
        REGION, None, outputs(), {name.rstrip("_"): each for name, each in clients.items()}
    )


def an_entry(system: System) -> dict[str, Any]:
    """The entry of the post of the queue in the timeline of one follower."""
    return next(row for row in system.rows(names.TIMELINES) if "v1-post" in row["sort_key"]["S"])


def lose_an_entry(system: System) -> None:
    key = {name: an_entry(system)[name] for name in ("user_id", "sort_key")}
    system.dynamodb.delete_item(TableName=names.TIMELINES.name, Key=key)


def add_an_entry(system: System, **changed: str) -> None:
    item = an_entry(system) | {name: {"S": value} for name, value in changed.items()}
    system.dynamodb.put_item(TableName=names.TIMELINES.name, Item=item)


SPOILS: tuple[tuple[str, Spoil], ...] = (
    ("1 row is missing", lambda system, _: lose_an_entry(system)),
    ("1 row is doubled", lambda system, _: add_an_entry(system, sort_key=f"{BEGAN}#v1-post")),
    ("1 row is too many", lambda system, _: add_an_entry(system, user_id="mallory")),
    ("1 count is wrong", lambda _, record: setattr(record.posts["v1-post"], "delivered", 1)),
)


@pytest.mark.parametrize(("failure", "spoil"), SPOILS)
def test_whatever_is_spoiled_on_purpose_is_noticed(
    system: System, published: Record, failure: str, spoil: Spoil
) -> None:
    assert judge(published, rows=rows(stack_of())).failures == []
    spoil(system, published)
    (found,) = judge(published, rows=rows(stack_of())).failures
    assert found.startswith(failure)


@pytest.mark.usefixtures("published")
def test_edges_are_read_as_the_functions_wrote_them(system: System) -> None:
    system.follow("v1-bob", "somebody")
    found = watch.followers(stack_of(), ["v1-ada", "v1-nobody"])
    assert found == {"v1-ada": FOLLOWERS, "v1-nobody": frozenset()}


# --- troubles


class FakeLambda(Lanes):
    """PLAN and DELIVER behind the mappings of their queues, and what was done with them."""

    def __init__(self, **of_lanes: Any) -> None:
        super().__init__(**of_lanes)
        self.handlers = {f"the-{name}": f"functions.{name}.handler" for name in ("plan", "deliver")}
        self.reserved: dict[str, int] = {}
        self.changing = 0

    def list_event_source_mappings(self, EventSourceArn: str = "", Marker: str = "Publish") -> Any:  # noqa: N803
        (found,) = super().list_event_source_mappings(EventSourceArn, Marker)["EventSourceMappings"]
        function = f"the-{HANDLERS[found['UUID']]}"
        return {"EventSourceMappings": [{**found, "FunctionArn": function}]}

    def get_function_configuration(self, *, FunctionName: str) -> Any:  # noqa: N803
        self.changing = max(0, self.changing - 1)
        state = "InProgress" if self.changing else "Successful"
        return {"Handler": self.handlers[FunctionName], "LastUpdateStatus": state}

    def update_function_configuration(self, *, FunctionName: str, Handler: str) -> None:  # noqa: N803
        assert not self.changing, "ResourceConflictException"
        self.handlers[FunctionName], self.changing = Handler, 2

    def get_function_concurrency(self, *, FunctionName: str) -> Any:  # noqa: N803
        reserved = self.reserved.get(FunctionName)
        return {} if reserved is None else {"ReservedConcurrentExecutions": reserved}

    def put_function_concurrency(
        self,
        *,
        FunctionName: str,  # noqa: N803
        ReservedConcurrentExecutions: int,  # noqa: N803
    ) -> None:
        self.reserved[FunctionName] = ReservedConcurrentExecutions

    def delete_function_concurrency(self, *, FunctionName: str) -> None:  # noqa: N803
        del self.reserved[FunctionName]

    def state(self) -> Any:
        return dict(self.handlers), dict(self.reserved), dict(self.states)


class FakeTable:
    """The timelines table, of which moto keeps no maximum; a change takes two looks."""

    def __init__(self) -> None:
        self.maximum, self.busy = -1, 0

    def describe_table(self, *, TableName: str) -> Any:  # noqa: N803
        assert TableName == names.TIMELINES.name
        self.busy = max(0, self.busy - 1)
        maximum = {} if self.maximum < 0 else {"MaxWriteRequestUnits": self.maximum}
        return {
            "Table": {
                "TableStatus": "UPDATING" if self.busy else "ACTIVE",
                **({"OnDemandThroughput": maximum} if maximum else {}),
            }
        }

    def update_table(self, *, TableName: str, OnDemandThroughput: Any) -> None:  # noqa: N803
        assert TableName == names.TIMELINES.name
        assert not self.busy
        self.maximum, self.busy = OnDemandThroughput["MaxWriteRequestUnits"], 2


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troubles, "POLL_SECONDS", 0.0)
    monkeypatch.setattr("fanfold_cli.deliveries.switching.POLL_SECONDS", 0.0)


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("trouble", troubles.ON_AWS, ids=lambda trouble: trouble.what)
def test_a_trouble_stops_all_writers_of_entries_and_is_undone_even_after_an_error(
    trouble: troubles.Trouble,
) -> None:
    """Neither DELIVER, nor PLAN, which delivers to few followers by itself."""
    fake, table = FakeLambda(), FakeTable()
    stack = stack_of(lambda_=fake, dynamodb=table)
    before = fake.state(), table.maximum
    for error in (None, KeyboardInterrupt, ExpectedError):
        try:
            with trouble.applied(stack):
                stopped = (
                    set(fake.states.values()) == {"Disabled"},
                    set(fake.handlers.values()) == {troubles.NOWHERE},
                    fake.reserved == dict.fromkeys(fake.handlers, 0),
                    table.maximum >= 0,
                )
                assert sum(stopped) == 1
                if error:
                    raise error
        except (KeyboardInterrupt, ExpectedError):
            assert error
        assert (fake.state(), table.maximum) == before


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize(
    "trouble",
    [troubles.writers_crashing, troubles.timelines_throttled],
    ids=lambda each: each.__name__,
)
def test_a_trouble_that_is_interrupted_while_it_begins_is_put_back(
    trouble: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, table = FakeLambda(), FakeTable()
    before = fake.state(), table.maximum
    sleep = Mock(side_effect=[KeyboardInterrupt, *[None] * 99])
    monkeypatch.setattr("proof.aws_verify.troubles.time.sleep", sleep)
    with pytest.raises(KeyboardInterrupt), trouble(stack_of(lambda_=fake, dynamodb=table)):
        pass
    assert sleep.called
    assert (fake.state(), table.maximum) == before


@pytest.mark.usefixtures("system")
def test_all_queues_run_again_though_one_cannot_be_paused() -> None:
    fake = FakeLambda(refused={"Bulk"}, refusal=ExpectedError("no"))
    with pytest.raises(ExpectedError), troubles.deliveries_paused(stack_of(lambda_=fake)):
        raise AssertionError("it was not paused")
    assert set(fake.states.values()) == {"Enabled"}


# --- CloudWatch


def test_sums_of_cloudwatch_are_awaited_until_all_writes_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began = datetime.now(UTC) - timedelta(minutes=5)
    asked = [
        Query(names.TIMELINES.name, WRITES, "AWS/DynamoDB", {"TableName": "t"}),
        Query("deliver", "Duration", "AWS/Lambda", {"FunctionName": "d"}),
        Query("deliver", "Invocations", "AWS/Lambda", {"FunctionName": "d"}),
    ]
    with mock_aws():
        stack = Deployment(REGION, None, {})
        cloudwatch = stack.client("cloudwatch")

        def count(namespace: str, metric: str, value: float, **dimensions: str) -> None:
            named = [{"Name": name, "Value": each} for name, each in dimensions.items()]
            data = {"MetricName": metric, "Dimensions": named, "Value": value}
            at = datetime.now(UTC) - timedelta(minutes=2)
            cloudwatch.put_metric_data(Namespace=namespace, MetricData=[{**data, "Timestamp": at}])

        count("AWS/DynamoDB", WRITES, 60.0, TableName="t")
        count("AWS/Lambda", "Duration", 2000.0, FunctionName="d")
        count("AWS/Lambda", "Invocations", 4.0, FunctionName="d")
        waits: list[float] = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 1:  # the last minute comes late
                count("AWS/DynamoDB", WRITES, 40.0, TableName="t")

        monkeypatch.setattr("proof.aws_verify.measures.time.sleep", wait)
        sums, complete = measures.read(stack, asked, began=began, rows=100)
        assert complete
        assert sums[names.TIMELINES.name, WRITES] == 100
        assert len(waits) == measures.STEADY_LOOKS
        counted = measures.result(sums, {"deliver": 512})
        assert (counted["write_units"], counted["gb_seconds"]) == (100, 1.0)
        assert counted["functions"] == {"deliver": {"Duration": 2000.0, "Invocations": 4.0}}

        monkeypatch.setattr(measures, "PATIENCE_SECONDS", 0.0)
        assert measures.read(stack, asked, began=began, rows=101)[1] is False


# --- the history


def test_the_stacks_own_history_is_judged_unless_it_lacks_an_answer(
    system: System, written: list[str], request: pytest.FixtureRequest
) -> None:
    record = request.getfixturevalue("published")
    for _ in range(2):
        system.clock.advance(60)
        system.timeline("v1-bob")

    def failures(*lines: str) -> list[str]:
        report = Report({"run": {}})
        with mock_aws():
            logs = boto3.client("logs", region_name=REGION)
            # What another stack has logged would be no JSON.
            for stack, messages in ((NAME, lines), ("Fanfold-dev", ['{"history":1,'])):
                group, at = f"{stack}-ApiFunctionLogs", int(time.time() * 1000)
                logs.create_log_group(logGroupName=group)
                logs.create_log_stream(logGroupName=group, logStreamName="1")
                logs.put_log_events(
                    logGroupName=group,
                    logStreamName="1",
                    logEvents=[{"timestamp": at, "message": each} for each in messages],
                )
            course = Course(People(stack_of(logs=logs), record), NAME, Script("v1", (1,)), report)
            course._check_history([Reading("v1-bob", 0, pages=2)])
            for each in logs.describe_log_groups()["logGroups"]:
                logs.delete_log_group(logGroupName=each["logGroupName"])
        assert not report.skipped
        return report.failures

    assert failures(*written) == []
    page = json.loads(written[-1])
    page["posts"].pop()
    (found,) = failures(*written[:-1], json.dumps(page))
    assert found.startswith("a page leaves out a post, and shows others of its publisher")
    for kind in ("follow", "publish", "page"):
        kept = [each for each in written if f'"{kind}"' not in each or '"end"' not in each]
        (found,) = failures(*kept)
        assert found.startswith("The history lacks ")


class CutOff:
    """A log as the local engine tells it: the first lines since a time, and no token."""

    events: tuple[dict[str, Any], ...] = tuple(
        {"timestamp": number // 2, "message": str(number)} for number in range(11)
    )

    def get_paginator(self, _operation: str) -> Any:
        return Mock(paginate=lambda: [{"logGroups": [{"logGroupName": "group"}]}])

    def filter_log_events(self, *, startTime: int, logGroupName: str) -> Any:  # noqa: N803
        assert logGroupName == "group"
        later = [each for each in self.events if each["timestamp"] >= startTime]
        return {"events": later[: history.PAGE_EVENTS]}


def test_no_line_is_left_off_where_an_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for most in (3, 4, 5, 11, 12):
        monkeypatch.setattr(history, "PAGE_EVENTS", most)
        lines = [line for _, line in history.logged(stack_of(logs=CutOff()))]
        assert lines == [each["message"] for each in CutOff.events]


class Functions:
    """CloudFormation's resources in two pages, and Lambda's configurations."""

    def get_paginator(self, operation: str) -> Any:
        assert operation == "list_stack_resources"
        return self

    def paginate(self, *, StackName: str) -> Iterator[Any]:  # noqa: N803
        assert StackName == NAME
        for name in ("api", "deliver"):
            yield {"StackResourceSummaries": [self._resource(name)]}
        other = {"ResourceType": "AWS::SQS::Queue", "PhysicalResourceId": "q"}
        yield {"StackResourceSummaries": [other, self._resource("of-somebody-else")]}

    def _resource(self, name: str) -> Any:
        return {"ResourceType": "AWS::Lambda::Function", "PhysicalResourceId": name}

    def get_function_configuration(self, *, FunctionName: str) -> Any:  # noqa: N803
        handler = f"functions.{FunctionName}.handler"
        return {"Handler": handler, "MemorySize": 512, "FunctionName": FunctionName}


def test_every_table_index_and_function_of_the_stack_is_asked_about() -> None:
    fake = Functions()
    asked, memory = measures.queries(stack_of(cloudformation=fake, lambda_=fake), NAME)
    assert memory == {"api": 512, "deliver": 512}
    assert {query.what for query in asked} == {
        *(table.name for table in names.TABLES),
        "Posts/outbox",
        "Fanouts/open",
        "Fanouts/stalled",
        *memory,
    }
    (outbox,) = (each for each in asked if (each.what, each.metric) == ("Posts/outbox", WRITES))
    assert outbox.dimensions == {"TableName": "Posts", "GlobalSecondaryIndexName": "outbox"}


def test_what_does_not_arrive_is_explained_given_up_and_named(
    system: System,
    published: Record,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(product_clock, "sleep", lambda _seconds: clock.advance(5))
    lose_an_entry(system)
    people, post = People(stack_of(), published), published.posts["v1-post"]
    post.complete = math.inf
    with patch.object(People, "delivery", lambda *_: {"state": "delivering", "delivered": 1}):
        watched = watch.Sampled.of(post, FOLLOWERS, product_clock.monotonic())
        (late,) = await_delivery(people, [watched], patience=60)
    assert "The post v1-post has not arrived" in late.late()
    assert "delivering, with 1 of 2 entries, and 1 of its sample are missing" in late.late()
    assert watched.result()["p99_seconds"] is None
    wanted = {"v1-ada": FOLLOWERS}
    watch.await_follows(people, wanted, patience=60)
    assert system.unfollow("v1-bob", "v1-ada").status == 204
    with pytest.raises(ExpectedError, match="1 of 2 follows have arrived and 0 are too many"):
        watch.await_follows(people, wanted, patience=60)
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("again after 360 s") == 2


def test_on_an_engine_of_others_only_own_rows_are_faults_and_dead_letters_are_none(
    system: System, published: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    system.follow("other", "somebody")
    system.publish("of-somebody-else", user="somebody")
    system.pump()
    report = Report({"run": {}})
    clients = {"dynamodb": system.dynamodb, "sqs": system.sqs}
    engine = Stack(REGION, LocalEndpoint("http://127.0.0.1:9", "key"), outputs(), clients)
    system.sqs.send_message(QueueUrl=system.url("BulkDlq"), MessageBody="x")
    course = Course(People(engine, published), "", Script("v1", (1,)), report)
    course.followers = {"v1-ada": FOLLOWERS}
    course._check_rows()
    course._check_dead_letters()
    assert report.failures == []
    lose_an_entry(system)
    course._check_rows()
    assert "1 row is missing" in report.failures[0]
    assert not report.passed
    assert "rows" in capsys.readouterr().err
    assert report.sections["dead_letters"]["bulk"] == 1
    (skipped,) = report.skipped
    assert skipped["what"] == "whether the dead-letter queues are empty"


def test_the_stage_is_synthesized_whatever_cdk_json_says_about_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an issuer in cdk.json, a stage with a pool of its own would be refused."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    written = {"stage": "prod", "jwt_issuer": "https://login.example.com", "@flag": True}
    (checkout / "cdk.json").write_text(json.dumps({"context": written}))
    (checkout / "app.py").write_text(
        "import os; open(os.environ['CDK_OUTDIR'], 'w').write(os.environ['CDK_CONTEXT_JSON'])"
    )
    monkeypatch.setattr(own_stack, "CHECKOUT", checkout)
    own_stack.synthesize("verify-anna", 200, tmp_path / "out")
    said = json.loads((tmp_path / "out").read_text())
    assert said == {"stage": "verify-anna", "concurrency": 200, "@flag": True}
