"""`fanfold status`: what it reads of a stage, and what it says if it may not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from typer.testing import CliRunner

from fanfold import names, times
from fanfold_cli import aws
from fanfold_cli.app import app
from fanfold_cli.deliveries.pauses import Pause, note
from fanfold_cli.health.verdict import NOT_KNOWN
from fanfold_cli.terminal import ExpectedError
from tests.commands import Stack, client_of, outputs, run, run_on
from tests.integration.cli.test_cli_dlq import bury
from tests.integration.cli.test_cli_fanout import accept
from tests.service import ACCOUNT, AT, AT_MS, REGION, System, settings, through_lanes

STACK = "Fanfold-test"
SERVICE = "fanfold-test-"
# What the tables and queues of the tests are: no metric of theirs has a value.
CALM = "Everything is well: no delivery is open, and no alarm rings."

Key = tuple[str, str, frozenset[tuple[str, str]]]


def key(metric: str, statistic: str, **dimensions: str) -> Key:
    return metric, statistic, frozenset(dimensions.items())


@dataclass
class CloudWatch:
    """The values of metrics, newest first, and the alarms that ring, by their whole names."""

    values: dict[Key, list[float]] = field(default_factory=dict)
    ringing: list[str] = field(default_factory=list)
    windows: list[timedelta] = field(default_factory=list)

    def describe_alarms(self, **request: Any) -> Any:
        assert request["StateValue"] == "ALARM"
        prefix = request["AlarmNamePrefix"]
        found = [name for name in self.ringing if name.startswith(prefix)]
        return {"MetricAlarms": [{"AlarmName": name} for name in found]}

    def get_metric_data(self, **request: Any) -> Any:
        assert request["ScanBy"] == "TimestampDescending"
        end = request["EndTime"]
        self.windows.append(end - request["StartTime"])
        found = []
        for query in request["MetricDataQueries"]:
            about = query["MetricStat"]
            metric = about["Metric"]
            dimensions = {each["Name"]: each["Value"] for each in metric["Dimensions"]}
            values = self.values.get(key(metric["MetricName"], about["Stat"], **dimensions), [])
            stamps = [end - timedelta(minutes=number + 1) for number in range(len(values))]
            found.append({"Id": query["Id"], "Values": values, "Timestamps": stamps})
        return {"MetricDataResults": found}

    def take(self, out: str) -> None:
        """Take the metrics that functions have printed."""
        for line in (json.loads(each) for each in out.splitlines()):
            for directive in line.get("_aws", {}).get("CloudWatchMetrics", ()):
                for metric in directive["Metrics"]:
                    samples = sorted(line[metric["Name"]])
                    dimensions = {name: line[name] for name in directive["Dimensions"][0]}
                    for statistic, value in (
                        ("p50", samples[len(samples) // 2]),
                        ("p99", samples[-1]),
                        ("SampleCount", len(samples)),
                    ):
                        self.values[key(metric["Name"], statistic, **dimensions)] = [value]


class Lambda:
    """Event source mappings of the queues, all of which PLAN's function takes."""

    def __init__(self, *paused: str) -> None:
        self.paused = paused

    def list_event_source_mappings(self, EventSourceArn: str = "") -> Any:  # noqa: N803
        mappings = [
            {
                "FunctionArn": "the-plan",
                "EventSourceArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue.name}",
                "State": "Disabled" if queue.name in self.paused else "Enabled",
            }
            for queue in names.QUEUES
        ]
        wanted = EventSourceArn.rpartition(":")[2]
        return {
            "EventSourceMappings": [
                each for each in mappings if each["EventSourceArn"].endswith(wanted)
            ]
        }

    def get_function_configuration(self, *, FunctionName: str) -> Any:  # noqa: N803
        assert FunctionName == "the-plan"
        return {"Environment": {"Variables": {names.SERVICE_NAME: f"{SERVICE}plan"}}}


@pytest.fixture
def cloudwatch() -> CloudWatch:
    return CloudWatch()


def clients(cloudwatch: Any, **more: Any) -> Mapping[str, Any]:
    return {"cloudwatch": cloudwatch, "lambda_": Lambda()} | more


@pytest.mark.usefixtures("system")
def test_an_empty_stage_is_well(cloudwatch: CloudWatch) -> None:
    ran = run("status", **clients(cloudwatch))
    assert (ran.exit_code, ran.stdout.splitlines()[-1]) == (0, CALM)
    assert "none rings" in ran.stdout
    assert "none in 14 days" in ran.stdout
    assert "0 active and 0 demoted, of 64" in ran.stdout
    shown = run("status", "--json", **clients(cloudwatch)).json
    nothing = {"count": 0, "oldest_seconds": None}
    counts = {"1 min": 0, "15 min": 0, "1 h": 0, "older": 0}
    lanes = ("publish", "express", "bulk")
    assert shown["open"] == {lane: {**nothing, "by_age": counts} for lane in lanes}
    assert shown["queues"]["relation"] == {"waiting": 0, "at_work": 0, "delayed": 0, "dead": 0}
    assert (shown["stalled"], shown["paused"], shown["alarms"]) == (0, [], [])
    assert (shown["lag_seconds"], shown["throttles"], shown["last_audit"]) == ({}, {}, None)
    assert cloudwatch.windows[:3] == [timedelta(days=1), timedelta(days=1), timedelta(days=14)]


def test_open_deliveries_are_counted_by_lane_and_age(
    system: System, cloudwatch: CloudWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.give_followers(40)
    with through_lanes():
        system.publish("small")
        system.pump_once("Publish")
    system.clock.advance(3_541)
    monkeypatch.setattr("fanfold.fanout.plan.count_for", lambda _followers: 4)
    system.publish("large")
    system.pump_once("Publish")
    system.clock.advance(60)
    accept(system, "new")
    shown = run("status", "--json", **clients(cloudwatch)).json
    found = {lane: (each["count"], each["oldest_seconds"]) for lane, each in shown["open"].items()}
    assert found == {"publish": (1, 0), "express": (1, 3_601), "bulk": (1, 60)}
    counts = {lane: +Counter(each["by_age"]) for lane, each in shown["open"].items()}
    assert counts == {"publish": {"1 min": 1}, "express": {"older": 1}, "bulk": {"1 min": 1}}
    ran = run("status", **clients(cloudwatch))
    said = "1 small delivery has taken more than 15 minutes, the oldest 1 h 0 min"
    assert (ran.exit_code, ran.stdout.splitlines()[-1]) == (1, f"Not everything is well: {said}.")
    assert "fanfold fanout list --open" in ran.stderr
    monkeypatch.setattr("fanfold_cli.health.reading.MAX_ROWS", 1)
    few = run("status", "--json", **clients(cloudwatch)).json["open"]
    counted = {lane: each["count"] for lane, each in few.items()}
    assert counted == {"publish": 1, "express": 1, "bulk": 1}, "the newest, by their keys"


def test_a_delivery_that_has_ended_while_the_index_lags_is_not_open(
    system: System, cloudwatch: CloudWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept(system, "gone")
    keys = list(system.sweeper.key_pages())
    system.fanouts.complete_at_once("gone", followers=0, now=AT)
    monkeypatch.setattr(type(system.sweeper), "key_pages", lambda _: iter(keys))
    assert run("status", **clients(cloudwatch)).stdout.splitlines()[-1] == CALM


def test_what_waits_for_a_person_is_said(system: System, cloudwatch: CloudWatch) -> None:
    accept(system, "stalled")
    system.give_up("stalled")
    system.bodies("Publish")
    bury(system, "Bulk", "1")
    system.promote("bea")
    ran = run("status", "--json", **clients(cloudwatch))
    assert ran.exit_code == 1
    assert ran.json["sentence"] == (
        "Not everything is well: 1 delivery has stalled; 1 dead letter (bulk 1)."
    )
    assert (ran.json["stalled"], ran.json["queues"]["bulk"]["dead"]) == (1, 1)
    assert ran.json["channels"] == {"active": 1, "demoted": 0, "most": 64}
    assert [problem["what"] for problem in ran.json["problems"]] == [
        "1 delivery has stalled",
        "1 dead letter (bulk 1)",
    ]


def test_a_pause_is_said_with_who_paused_and_why(system: System, cloudwatch: CloudWatch) -> None:
    note(system.sqs, system.url("Bulk"), Pause("ann", AT, "", "a restore"))
    ran = run("status", **clients(cloudwatch, lambda_=Lambda("Bulk")))
    assert (ran.exit_code, "Not everything is well: bulk is paused." in ran.stdout) == (1, True)
    assert f"by ann since {AT}: a restore" in ran.stderr
    assert run("status", "--json", **clients(cloudwatch, lambda_=Lambda("Bulk"))).json[
        "paused"
    ] == ["bulk"]


def test_the_time_that_deliveries_took_is_that_of_the_metric_that_the_functions_emit(
    system: System,
    cloudwatch: CloudWatch,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", f"{SERVICE}plan")
    system.give_followers(3)
    system.publish()
    system.clock.advance(2)
    system.pump("Publish")
    cloudwatch.take(capsys.readouterr().out)
    for function, lane, took in (("deliver", "express", 4.0), ("deliver", "bulk", 90.0)):
        about = {"service": f"{SERVICE}{function}", names.LANE: lane}
        for statistic in ("p50", "p99", "SampleCount"):
            cloudwatch.values[key(names.DELIVERY_SECONDS, statistic, **about)] = [took, 1.0]
    for statistic in ("p50", "p99", "SampleCount"):
        about = {"service": f"{SERVICE}sweep"}
        cloudwatch.values[key(names.DELIVERY_SECONDS, statistic, **about)] = [700.0]
    lags = run("status", "--json", **clients(cloudwatch)).json["lag_seconds"]
    assert lags["publish"] == {"p50": 2, "p99": 2, "posts": 1}
    assert (lags["express"]["p50"], lags["bulk"]["p99"], lags["sweep"]["posts"]) == (4, 90, 700)
    assert "1 min 30 s" in run("status", **clients(cloudwatch)).stdout


@pytest.mark.usefixtures("system")
def test_throttles_are_shown_and_the_last_audit_is_judged(cloudwatch: CloudWatch) -> None:
    for metric, table, count in (
        ("ReadThrottleEvents", settings().timelines_table, 2.0),
        ("WriteThrottleEvents", settings().timelines_table, 3.0),
        ("WriteThrottleEvents", settings().posts_table, 1.0),
    ):
        cloudwatch.values[key(metric, "Sum", TableName=table)] = [count]
    shown = run("status", "--json", **clients(cloudwatch))
    assert (shown.exit_code, shown.json["throttles"]) == (0, {"posts": 1, "timelines": 5})
    audited = key(names.AUDIT_MISSING, "Maximum", FanoutsTable=settings().fanouts_table)
    cloudwatch.values[audited] = [0.0, 5.0]
    shown = run("status", "--json", **clients(cloudwatch))
    minute = times.to_text((AT_MS // 60_000 - 1) * 60_000)
    assert (shown.exit_code, shown.json["last_audit"]) == (0, {"at": minute, "missing": 0})
    cloudwatch.values[audited] = [5.0, 0.0]
    ran = run("status", **clients(cloudwatch))
    assert (ran.exit_code, "5 entries were missing" in ran.stdout) == (1, True)


@pytest.mark.usefixtures("system")
def test_the_alarms_that_ring_have_the_names_of_the_operations_page(cloudwatch: CloudWatch) -> None:
    # They load the CDK, which other modules with these clients need not.
    from tests.infra.pinned_alarms import alarm_name
    from tests.infra.recorded import RECORDED

    resources = json.loads(RECORDED.read_text())["dev"]["Resources"]
    ids = [id_ for id_, each in resources.items() if each["Type"] == "AWS::CloudWatch::Alarm"]
    assert len(ids) > 40
    # Those of another stack, and one of this stack's that is not ours.
    others = [f"{STACK}-2-{ids[0]}-1ABC2DEF3GHI", f"{STACK}-TheirAlarm1234ABCD-1ABC2DEF3GHI"]
    cloudwatch.ringing = [*others, *(f"{STACK}-{id_}-1ABC2DEF3GHI" for id_ in ids)]
    shown = run("status", "--json", **clients(cloudwatch))
    assert (shown.exit_code, shown.json["alarms"]) == (1, sorted(map(alarm_name, ids)))


class Denying:
    """A client of which one operation is denied."""

    def __init__(self, plain: Any, operation: str) -> None:
        self.plain, self.operation = plain, operation

    def __getattr__(self, name: str) -> Any:
        return self._deny if name == self.operation else getattr(self.plain, name)

    def _deny(self, **_: Any) -> Any:
        action = "".join(part.title() for part in self.operation.split("_"))
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "No."}}, action)


@pytest.mark.parametrize(
    ("service", "operation", "what", "action"),
    [
        ("dynamodb", "scan", "the ledger", "dynamodb:Scan"),
        ("dynamodb", "get_item", "the channels", "dynamodb:GetItem"),
        ("sqs", "get_queue_attributes", "the queues", "sqs:GetQueueAttributes"),
        ("lambda_", "list_event_source_mappings", "pauses", "lambda:ListEventSourceMappings"),
        ("lambda_", "get_function_configuration", "metrics", "lambda:GetFunctionConfiguration"),
        ("cloudwatch", "get_metric_data", "metrics", "cloudwatch:GetMetricData"),
        ("cloudwatch", "describe_alarms", "alarms", "cloudwatch:DescribeAlarms"),
    ],
)
def test_a_missing_permission_is_named_and_then_nobody_knows_whether_all_is_well(
    system: System, cloudwatch: CloudWatch, service: str, operation: str, what: str, action: str
) -> None:
    plain = {"cloudwatch": cloudwatch, "lambda_": Lambda(), "sqs": system.sqs}
    plain["dynamodb"] = client_of("dynamodb", None, REGION)
    some = {**plain, service: Denying(plain[service], operation)}
    ran = run("status", **some)
    assert ran.exit_code == NOT_KNOWN
    assert ran.stdout.splitlines()[-1].startswith("Whether everything is well is not known: ")
    assert f"{what} could not be read: The permission {action} is missing:" in ran.stderr
    assert "not known" in ran.stdout or "?" in ran.stdout
    unread = run("status", "--json", **some).json["unread"]
    assert action in unread[what]
    bury(system, "Relation", "1")
    assert run("status", **some).exit_code == (NOT_KNOWN if what == "the queues" else 1)


@pytest.mark.usefixtures("system")
def test_where_no_cloudwatch_answers_the_rest_is_judged() -> None:
    gone = EndpointConnectionError(endpoint_url="https://monitoring.example")
    fails = Mock(side_effect=gone)
    cloudwatch = Mock(describe_alarms=fails, get_metric_data=fails)
    ran = run("status", **clients(cloudwatch))
    assert ran.exit_code == 0
    last = ran.stdout.splitlines()[-1]
    assert last.startswith("Everything is well, as far as is known: no delivery is open; alarms ")
    assert "because CloudWatch does not answer" in last


def test_the_local_engine_is_asked_for_no_metric(system: System) -> None:
    known = {"lambda": Lambda(), "sqs": system.sqs}
    known["dynamodb"] = client_of("dynamodb", None, REGION)
    engine = Stack(REGION, aws.LocalEndpoint("http://127.0.0.1:9", "key"), outputs(), known)
    ran = run_on(engine, "status")
    assert (ran.exit_code, "because the local engine keeps none" in ran.stdout) == (0, True)
    assert ran.stdout.count("not known") == 4


def test_of_a_stack_that_is_not_found_nothing_is_known(tmp_path: Any) -> None:
    ran = CliRunner().invoke(app, ["status", "--home", str(tmp_path)])
    assert isinstance(ran.exception, ExpectedError)
    assert (ran.exception.exit_code, "No local engine" in str(ran.exception)) == (NOT_KNOWN, True)
