"""`fanfold local`: the real app on the local engine, its data, its users, its processes."""

import json
import os
import shutil
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanfold import names
from fanfold_cli.app import app
from fanfold_cli.local import deploy, processes
from fanfold_cli.local import engine as engines
from fanfold_cli.local.home import CHECKOUT, EngineState, Home
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError
from tests.e2e.clients import User, eventually

pytestmark = pytest.mark.thorough


# Synthesis takes longer than this.
SYNTHESIS_SECONDS = 5.0
LISTENING = "0A"
LOOPBACK = "0100007F"


def running(home: Home) -> EngineState:
    state = home.running()
    assert state is not None
    return state


def status_of(stack: Deployment, token: str) -> int:
    """The HTTP status of reading the timeline with this token."""
    return User(stack, "somebody", token).call("GET", "/v1/timeline").status


def members(group: int) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,pgid="], capture_output=True, text=True, check=True)
    pairs = (line.split() for line in listed.stdout.splitlines())
    return [int(pid) for pid, of in pairs if int(of) == group]


def listening_addresses(pid: int) -> set[str]:
    """The addresses that a process listens on, in hexadecimal; Linux only."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        target = str(descriptor.readlink())
        if target.startswith("socket:["):
            sockets.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in sockets:
                found.add(fields[1].split(":")[0])
    return found


# The deployed stack


def test_every_queue_has_its_redrive_policy(stack: Deployment) -> None:
    sqs = stack.client("sqs")
    for queue in names.QUEUES:
        target, source = stack.output(queue.dlq_url_output), stack.output(queue.url_output)
        arn = sqs.get_queue_attributes(QueueUrl=target, AttributeNames=["QueueArn"])["Attributes"]
        seen = sqs.get_queue_attributes(QueueUrl=source, AttributeNames=["RedrivePolicy"])
        policy = json.loads(seen["Attributes"]["RedrivePolicy"])
        assert policy["deadLetterTargetArn"] == arn["QueueArn"]
        assert int(policy["maxReceiveCount"]) == queue.max_receives


def test_every_table_that_lets_items_expire_has_its_time_to_live(stack: Deployment) -> None:
    dynamodb = stack.client("dynamodb")
    for table in names.TABLES:
        seen = dynamodb.describe_time_to_live(TableName=stack.output(table.output))
        assert seen["TimeToLiveDescription"].get("AttributeName") == table.ttl


@pytest.mark.skipif(sys.platform != "linux", reason="Reads /proc.")
def test_nothing_of_the_engine_listens_beyond_loopback(engine: Home, stack: Deployment) -> None:
    assert status_of(stack, stack.token("listener")) == 200  # so that a Lambda worker runs too
    group = members(running(engine).pid)
    assert len(group) > 1
    assert set().union(*(listening_addresses(pid) for pid in group)) == {LOOPBACK}


def test_status_shows_the_process_and_the_outputs(engine: Home) -> None:
    result = CliRunner().invoke(app, ["local", "status", "--json", "--home", str(engine.path)])
    known = json.loads(result.stdout)
    assert result.exit_code == 0
    assert known["running"] is True
    assert known["pid"] == running(engine).pid
    assert known["outputs"].keys() >= {"ApiUrl", "TimelinesTable", "PublishQueueUrl"}


# Strangers


def call(state: EngineState, path: str, **headers: str) -> tuple[int, str | None]:
    """The status of a POST, and which page may read the answer."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{state.endpoint}{path}", b"{}", sent)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status), answer.headers["Access-Control-Allow-Origin"]
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Access-Control-Allow-Origin"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example", "Content_Type": "text/plain"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Host": "evil.example"},
        {"Authorization": "AWS4-HMAC-SHA256 Credential=test/20261124/us-east-1/"},
        {},
    ],
)
def test_neither_a_page_nor_another_user_of_this_machine_calls_the_engine(
    engine: Home, headers: dict[str, str]
) -> None:
    for path in ("/2015-03-31/functions", "/_ministack/reset", "/"):
        assert call(running(engine), path, **headers) == (403, None)


def test_the_key_is_in_one_file_that_only_its_owner_reads(engine: Home, stack: Deployment) -> None:
    assert status_of(stack, stack.token("owner")) == 200  # so that there are logs of calls
    key = running(engine).access_key.encode()
    found = [path for path in engine.path.rglob("*") if path.is_file() and key in path.read_bytes()]
    assert found == [engine.state_file]
    assert stat.S_IMODE(engine.state_file.stat().st_mode) == 0o600
    # It holds the keys that sign everybody's tokens.
    assert stat.S_IMODE(engine.data.stat().st_mode) == 0o700


# Users


def test_the_token_command_prints_only_a_valid_token(engine: Home, stack: Deployment) -> None:
    arguments = ["token", "--user", "alice", "--home", str(engine.path)]
    first, again = (CliRunner().invoke(app, arguments) for _ in range(2))
    assert first.exit_code == again.exit_code == 0
    assert first.stdout.count("\n") == 1
    assert status_of(stack, first.stdout.strip()) == 200
    assert status_of(stack, again.stdout.strip()) == 200


def test_a_local_user_is_known_by_their_name(stack: Deployment) -> None:
    name = f"alice-{uuid.uuid4().hex[:8]}@example.com"
    User(stack, name, stack.token(name)).follow(User(stack, "bob", ""))
    follows = stack.client("dynamodb").query(
        TableName=stack.settings().following_table,
        KeyConditionExpression="user_id = :user",
        ExpressionAttributeValues={":user": {"S": name}},
    )["Items"]
    assert [each["publisher_id"]["S"] for each in follows] == ["bob"]


# A second `up`, on a copy of the app that the tests change


@dataclass
class Workshop:
    """A copy of the app that tests may change, deployed on an engine of its own."""

    home: Home
    directory: Path

    def up(self, **given: str) -> Deployment:
        """Do what `fanfold local up -c name=value` does."""
        return deploy.bring_up(
            self.home, lifetime_hours=1, given=given, app_directory=self.directory
        )

    def edit(self, path: str, text: str) -> None:
        """Append to a file of the copy."""
        with (self.directory / path).open("a") as file:
            file.write(text)

    @contextmanager
    def with_in_infra(self, text: str) -> Iterator[None]:
        """Inside this context, the app ends with this text."""
        path = "infra/__init__.py"
        self.edit(path, text)
        try:
            yield
        finally:
            shutil.copy(CHECKOUT / path, self.directory / path)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    directory = tmp_path_factory.mktemp("checkout")
    for path in ("app.py", "cdk.json", "requirements.txt"):
        shutil.copy(CHECKOUT / path, directory / path)
    for path in ("infra", "functions", "fanfold"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / path, directory / path, ignore=ignored)
    if (CHECKOUT / "node_modules").exists():
        (directory / "node_modules").symlink_to(CHECKOUT / "node_modules")
    made = Workshop(Home(tmp_path_factory.mktemp("workshop")), directory)
    try:
        made.up()
        yield made
    finally:
        deploy.take_down(made.home)


def put_post(stack: Deployment, ref_id: str) -> None:
    """Write a row that must outlive the next deployment."""
    item = {"ref_id": {"S": ref_id}}
    stack.client("dynamodb").put_item(TableName=stack.settings().posts_table, Item=item)


def has_post(stack: Deployment, ref_id: str) -> bool:
    key = {"ref_id": {"S": ref_id}}
    table = stack.settings().posts_table
    return "Item" in stack.client("dynamodb").get_item(TableName=table, Key=key)


def code_hashes(stack: Deployment) -> set[str]:
    listed = stack.client("lambda").list_functions()["Functions"]
    return {function["CodeSha256"] for function in listed}


def test_a_second_up_without_a_change_deploys_nothing(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    workshop.up()  # the test before may have left another app
    before = running(workshop.home)
    capsys.readouterr()
    workshop.up()
    assert running(workshop.home) == before
    assert "nothing to do" in capsys.readouterr().err


@pytest.mark.speed
def test_a_second_up_without_a_change_does_not_synthesize(workshop: Workshop) -> None:
    workshop.up()
    began = time.monotonic()
    workshop.up()
    assert time.monotonic() - began < SYNTHESIS_SECONDS


def test_a_changed_function_is_deployed_without_losing_data(workshop: Workshop) -> None:
    stack = workshop.up()
    put_post(stack, "before-the-change")
    token, before = stack.token("alice"), code_hashes(stack)
    workshop.edit("functions/__init__.py", "\n# Changed.\n")
    after = workshop.up()
    assert code_hashes(after) != before
    assert has_post(after, "before-the-change")
    assert status_of(after, token) == 200


def overriding(module: str, kind: str, path: str, value: int) -> str:
    """Appended to the app: a change of all constructs of a kind, however the app makes them."""
    return f"""

from aws_cdk import {module}

_init = {module}.{kind}.__init__


def _changed(self, *args, **kwargs):
    _init(self, *args, **kwargs)
    self.node.default_child.add_property_override('{path}', {value})


{module}.{kind}.__init__ = _changed
"""


SLOWER_QUEUES = overriding("aws_sqs", "Queue", "DelaySeconds", 1)
WARMER_TABLES = overriding("aws_dynamodb", "TableV2", "WarmThroughput.WriteUnitsPerSecond", 5000)
# The engine knows this type, and refuses the alarm only once it has updated the queues.
AND_AN_ALARM_THAT_FAILS = """

import aws_cdk

_synth = aws_cdk.App.synth


def _with_an_alarm_on_metric_math(app, **kwargs):
    stack = app.node.children[-1]
    alarm = aws_cdk.CfnResource(stack, 'Broken', type='AWS::CloudWatch::Alarm', properties={
        'Metrics': [{'Id': 'a', 'Expression': '1'}], 'EvaluationPeriods': 1, 'Threshold': 1,
        'ComparisonOperator': 'GreaterThanThreshold'})
    for each in stack.node.find_all():
        if isinstance(each, aws_cdk.aws_sqs.CfnQueue):
            alarm.node.add_dependency(each)
    return _synth(app, **kwargs)


aws_cdk.App.synth = _with_an_alarm_on_metric_math
"""


def delay_of_bulk(stack: Deployment) -> str:
    answer = stack.client("sqs").get_queue_attributes(
        QueueUrl=stack.settings().bulk_queue_url, AttributeNames=["DelaySeconds"]
    )
    return str(answer["Attributes"]["DelaySeconds"])


@pytest.mark.slow
def test_a_changed_table_is_refused_and_the_old_stack_keeps_running(workshop: Workshop) -> None:
    stack = workshop.up()
    put_post(stack, "before-the-refusal")
    refused = pytest.raises(ExpectedError, match=r"The table .*WarmThroughput[\s\S]*--fresh")
    with workshop.with_in_infra(WARMER_TABLES), refused:
        workshop.up()
    assert has_post(stack, "before-the-refusal")
    assert status_of(stack, stack.token("alice")) == 200


def test_a_changed_queue_keeps_its_messages(workshop: Workshop) -> None:
    stack = workshop.up()
    sqs, url = stack.client("sqs"), stack.settings().bulk_dlq_url
    sqs.send_message(QueueUrl=url, MessageBody="before the change")
    with workshop.with_in_infra(SLOWER_QUEUES):
        after = workshop.up()
    assert delay_of_bulk(after) == "1"
    assert after.settings().bulk_dlq_url == url
    (kept,) = sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)["Messages"]
    assert kept["Body"] == "before the change"


@pytest.mark.slow
def test_a_failed_update_is_rolled_back_without_losing_data(workshop: Workshop) -> None:
    stack = workshop.up()
    put_post(stack, "before-the-failure")
    assert delay_of_bulk(stack) == "0"
    refused = pytest.raises(ExpectedError, match="keeps its data")
    with workshop.with_in_infra(SLOWER_QUEUES + AND_AN_ALARM_THAT_FAILS), refused:
        workshop.up()
    assert delay_of_bulk(stack) == "0"
    assert has_post(stack, "before-the-failure")
    workshop.edit("functions/__init__.py", "\n# Changed after the failure.\n")
    assert has_post(workshop.up(), "before-the-failure")


# Values of `-c`


def backfills(stack: Deployment) -> set[str]:
    """What the functions that have this setting are told of it."""
    listed = stack.client("lambda").list_functions()["Functions"]
    variables = (each.get("Environment", {}).get("Variables", {}) for each in listed)
    return {each["BACKFILL"] for each in variables if "BACKFILL" in each}


@pytest.mark.slow
def test_a_value_is_deployed_and_kept_until_it_is_given_up(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = workshop.up()
    put_post(stack, "before-the-value")
    (default,) = backfills(stack)
    try:
        assert backfills(workshop.up(backfill="7")) == {"7"}
        before = running(workshop.home)
        capsys.readouterr()
        for again in ({"backfill": "7"}, {}):
            assert backfills(workshop.up(**again)) == {"7"}
        assert running(workshop.home) == before
        assert capsys.readouterr().err.count("nothing to do") == 2
        with pytest.raises(ExpectedError, match="'backfill' must be from 0 to"):
            workshop.up(backfill="1000")
        assert backfills(workshop.up(max_follows="50")) == {"7"}
    finally:
        after = workshop.up(backfill="", max_follows="")
    assert backfills(after) == {default}
    assert running(workshop.home).context == {}
    assert has_post(after, "before-the-value")


@pytest.mark.slow
def test_a_value_that_changes_a_table_is_refused_and_forgotten(workshop: Workshop) -> None:
    stack = workshop.up()
    put_post(stack, "before-the-value-of-a-table")
    with pytest.raises(ExpectedError, match=r"The table [\s\S]*--fresh[\s\S]*same values of -c"):
        workshop.up(max_write_request_units="30000")
    assert running(workshop.home).context == {}
    assert has_post(workshop.up(), "before-the-value-of-a-table")


# The life of an engine


@pytest.mark.parametrize("has_supervisor", [True, False])
def test_down_ends_all_processes_and_can_be_repeated(tmp_path: Path, has_supervisor: bool) -> None:
    home = Home(tmp_path)
    state = engines.start(home, lifetime_seconds=60, port=None)
    if not has_supervisor:
        os.kill(state.supervisor_pid, 9)
    assert deploy.take_down(home)
    assert not processes.group_is_alive(state.pid)
    assert not processes.is_alive(state.supervisor_pid, state.supervisor_mark)
    assert not deploy.take_down(home)


@pytest.mark.parametrize("has_supervisor", [True, False])
def test_an_engine_ends_at_the_end_of_its_lifetime(tmp_path: Path, has_supervisor: bool) -> None:
    home = Home(tmp_path)
    # Far longer than a busy machine takes to start it.
    state = engines.start(home, lifetime_seconds=20, port=None)
    if not has_supervisor:
        os.kill(state.supervisor_pid, 9)
    assert processes.wait_until_gone(state.pid, state.pid_mark, seconds=60)
    eventually(lambda: not processes.group_is_alive(state.pid), patience=60)
    assert home.running() is None


def test_two_engines_live_side_by_side(tmp_path: Path) -> None:
    homes = [Home(tmp_path / name) for name in ("one", "two")]
    try:
        first, second = (engines.start(home, lifetime_seconds=60, port=None) for home in homes)
        assert first.endpoint != second.endpoint
        deploy.take_down(homes[0])
        assert running(homes[1]) == second
    finally:
        for home in homes:
            deploy.take_down(home)
