"""Reads a stack for `fanfold status`: ledger, queues, pauses, channels, and CloudWatch."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError

from fanfold import clock, names, times
from fanfold.errors import FanfoldError
from fanfold.fanout.row import Fanout
from fanfold.sweep.run_limits import MAX_ROWS
from fanfold_cli.console.stack_reading import StackReading
from fanfold_cli.deliveries import fanouts, pauses
from fanfold_cli.health.verdict import BULK, EXPRESS, PUBLISH, Audit, Health, Lag, Open
from fanfold_cli.publishers.channels import threshold_of
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError

# The window of lags and throttles, as one period.
DAY: Final = timedelta(days=1)
# For so long CloudWatch keeps minutes, and so the time of an audit.
AUDIT_DAYS: Final = timedelta(days=14)
MINUTE_SECONDS: Final = 60
STATISTICS: Final = ("p50", "p99", "SampleCount")
THROTTLES: Final = ("ReadThrottleEvents", "WriteThrottleEvents")
# More than a stage has; others may begin with the name of its stack, too.
MOST_ALARMS: Final = 100
# The actions that this needs, by service; an error of AWS names only the action.
ACTIONS: Final = {
    "dynamodb": ("Scan", "BatchGetItem", "GetItem"),
    "sqs": ("GetQueueAttributes", "ListQueueTags"),
    "lambda": ("ListEventSourceMappings", "GetFunctionConfiguration"),
    "cloudwatch": ("GetMetricData", "DescribeAlarms"),
}
_DENIED = re.compile(r"\((?:AccessDenied|NotAuthorized|Unauthorized)\w*\) when calling the (\w+)")
T = TypeVar("T")


def read(deployment: Deployment) -> Health:
    """Read all that can be read; each failure is kept with its reason, and hides nothing else."""
    unread: dict[str, str] = {}

    def attempt(what: str, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except (ClientError, BotoCoreError, FanfoldError, ExpectedError) as error:
            unread[what] = why(str(error))
            return None

    now_ms = clock.now_ms()
    without, lags, throttles, alarms, audit = _without_metrics(deployment), None, None, None, None
    if not without:
        try:
            alarms = attempt("alarms", lambda: _alarms(deployment))
            lags = attempt("metrics", lambda: _lags(deployment, now_ms))
            throttles = attempt("metrics", lambda: _throttles(deployment, now_ms))
            audit = attempt("metrics", lambda: _audit(deployment, now_ms))
        except _Unreachable as error:
            without = str(error)
    paused = attempt("pauses", lambda: pauses.read(deployment))
    if paused and paused.failure:
        unread["pauses"], paused = why(paused.failure), None
    return Health(
        now_ms=now_ms,
        open=attempt("the ledger", lambda: _open(deployment)),
        stalled=attempt("the ledger", lambda: deployment.stores().open_fanouts.stalled()),
        queues=attempt("the queues", StackReading(deployment).queues),
        paused=paused,
        channels=attempt("the channels", lambda: _channels(deployment)),
        channel_threshold=threshold_of(deployment),
        lags=lags,
        throttles=throttles,
        alarms=alarms,
        audit=audit,
        unread=unread,
        without_metrics=without,
    )


def why(failure: str) -> str:
    """The failure, and which permission is missing if AWS has denied a call."""
    denied = _DENIED.search(failure)
    if denied is None:
        return failure
    action = denied[1]
    service = next((each for each, actions in ACTIONS.items() if action in actions), "")
    return f"The permission {f'{service}:{action}'.lstrip(':')} is missing: {failure}"


def _open(deployment: Deployment) -> tuple[Open, ...]:
    """The open deliveries. The newest of more than `MAX_ROWS` are placed by their keys alone.

    A key does not tell publish from express; the newest wait in publish.
    """
    table = deployment.stores().open_fanouts
    # By id, because a key that moves during the read may be seen twice.
    keys = {key.fanout_id: key for page in table.key_pages() for key in page}
    oldest = sorted(keys.values(), key=lambda key: key.accepted_at)[:MAX_ROWS]
    rows = fanouts.rows_of(table, [key.fanout_id for key in oldest])
    found = [_placed(row) for row in rows if row.is_open]  # the index lags behind
    for key in oldest:
        del keys[key.fanout_id]
    for key in keys.values():
        lane = BULK if key.is_large else PUBLISH
        found.append(Open(lane, times.to_ms(key.accepted_at), 0))
    return tuple(found)


def _placed(row: Fanout) -> Open:
    lane = PUBLISH if row.awaits_plan else BULK if row.is_bulk else EXPRESS
    return Open(lane, times.to_ms(row.accepted_at), row.changed_ms)


def _channels(deployment: Deployment) -> tuple[int, int]:
    channels = deployment.stores().heads.get().channels.values()
    active = sum(channel.is_active for channel in channels)
    return active, len(channels) - active


# CloudWatch


class _Unreachable(Exception):
    """No CloudWatch answers in this region."""


def _without_metrics(deployment: Deployment) -> str:
    return "because the local engine keeps none" if deployment.is_local else ""


def _alarms(deployment: Deployment) -> tuple[str, ...]:
    """The names of the stage's alarms that ring, as docs/operations.md has them."""
    answer = _call(
        deployment,
        "describe_alarms",
        AlarmNamePrefix=f"{deployment.stack}-",
        StateValue="ALARM",
        AlarmTypes=["MetricAlarm"],
        MaxRecords=MOST_ALARMS,
    )
    # CloudFormation names an alarm by its stack, its logical id and a suffix. The logical id ends
    # with that of the group, the alarm's name and the hash of both.
    ours = re.compile(rf"{re.escape(deployment.stack)}-\w*?Alarms(\w+)[0-9A-F]{{8}}-\w+")
    found = (ours.fullmatch(each["AlarmName"]) for each in answer["MetricAlarms"])
    return tuple(sorted(match[1] for match in found if match))


def _lags(deployment: Deployment, now_ms: int) -> dict[str, Lag]:
    """How long deliveries took in the last day, by lane; without lanes that completed none."""
    services = deployment.service_names()
    lanes = {
        PUBLISH: {"service": services[names.PLAN], names.LANE: PUBLISH},
        EXPRESS: {"service": services[names.DELIVER], names.LANE: EXPRESS},
        BULK: {"service": services[names.DELIVER], names.LANE: BULK},
        names.SWEEP.name: {"service": services[names.SWEEP]},
    }
    queries = [
        _query(f"{lane}_{each}", names.METRICS_NAMESPACE, names.DELIVERY_SECONDS, each, dimensions)
        for lane, dimensions in lanes.items()
        for each in STATISTICS
    ]
    values = _values(deployment, queries, now_ms)
    return {
        lane: Lag(values[f"{lane}_p50"], values[f"{lane}_p99"], int(values[f"{lane}_SampleCount"]))
        for lane in lanes
        if f"{lane}_SampleCount" in values
    }


def _throttles(deployment: Deployment, now_ms: int) -> dict[str, int]:
    """Throttled reads and writes of the last day, by table; without those that throttled none."""
    tables = {table.name.lower(): deployment.output(table.output) for table in names.TABLES}
    queries = [
        _query(f"{name}_{each}", "AWS/DynamoDB", each, "Sum", {"TableName": placed})
        for name, placed in tables.items()
        for each in THROTTLES
    ]
    values = _values(deployment, queries, now_ms)
    sums = {name: sum(values.get(f"{name}_{each}", 0) for each in THROTTLES) for name in tables}
    return {name: int(count) for name, count in sums.items() if count}


def _audit(deployment: Deployment, now_ms: int) -> Audit | None:
    """What the last audit has reported; None if there was none of late."""
    table = {"FanoutsTable": deployment.settings().fanouts_table}
    query = _query(
        "audit", names.METRICS_NAMESPACE, names.AUDIT_MISSING, "Maximum", table, MINUTE_SECONDS
    )
    (found,) = _data(deployment, [query], now_ms, AUDIT_DAYS)
    if not found["Values"]:
        return None
    return Audit(int(found["Timestamps"][0].timestamp() * 1000), int(found["Values"][0]))


def _values(deployment: Deployment, queries: list[Any], now_ms: int) -> dict[str, float]:
    """The values of the last day by id, of metrics that have one.

    The higher one, if CloudWatch has cut the day in two.
    """
    found = _data(deployment, queries, now_ms, DAY)
    return {each["Id"]: max(each["Values"]) for each in found if each["Values"]}


def _data(deployment: Deployment, queries: list[Any], now_ms: int, window: timedelta) -> list[Any]:
    # The newest value comes first. A whole minute, or CloudWatch would round it.
    end = datetime.fromtimestamp(now_ms // 60_000 * 60, UTC)
    answer = _call(
        deployment,
        "get_metric_data",
        StartTime=end - window,
        EndTime=end,
        MetricDataQueries=queries,
        ScanBy="TimestampDescending",
    )
    found: list[Any] = answer["MetricDataResults"]
    return found


def _query(
    id_: str,
    namespace: str,
    metric: str,
    statistic: str,
    dimensions: dict[str, str],
    seconds: int = int(DAY.total_seconds()),
) -> dict[str, Any]:
    named = [{"Name": name, "Value": value} for name, value in dimensions.items()]
    found = {"Namespace": namespace, "MetricName": metric, "Dimensions": named}
    return {"Id": id_, "MetricStat": {"Metric": found, "Period": seconds, "Stat": statistic}}


def _call(deployment: Deployment, operation: str, **request: Any) -> Any:
    try:
        return getattr(deployment.client("cloudwatch"), operation)(**request)
    except EndpointConnectionError as error:
        raise _Unreachable(f"because CloudWatch does not answer: {error}") from error
