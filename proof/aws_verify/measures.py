"""Reads what CloudWatch counted during a run: units, throttles and errors; and their price."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from fanfold import names
from fanfold_cli.cost.prices import PRICES
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment
from proof.aws_verify.own_stack import resources

# Metrics of a minute come one to five minutes later, and not all at once.
PATIENCE_SECONDS = 15 * 60.0
POLL_SECONDS = 30.0
# CloudWatch is taken to be complete after this many reads without a change.
STEADY_LOOKS = 3
PERIOD_SECONDS = 60
# CloudWatch's limit of GetMetricData.
MAX_QUERIES = 500

WRITES = "ConsumedWriteCapacityUnits"
READS = "ConsumedReadCapacityUnits"
TABLE_METRICS = (WRITES, READS, "WriteThrottleEvents", "ReadThrottleEvents")
FUNCTION_METRICS = ("Invocations", "Errors", "Throttles", "Duration")

# Sums by what is counted ("Timelines", "Posts/outbox", "deliver") and metric.
Sums = dict[tuple[str, str], float]


@dataclass(frozen=True)
class Query:
    what: str
    metric: str
    namespace: str
    dimensions: Mapping[str, str]


NEVER = Query("", "NeverWas", names.METRICS_NAMESPACE, {})


def queries(deployment: Deployment, stack: str) -> tuple[list[Query], dict[str, int]]:
    """The metrics to read, and the memory of each function in MB."""
    settings = deployment.settings()
    found = []
    for table in names.TABLES:
        physical = {"TableName": getattr(settings, table.setting)}
        found += [Query(table.name, metric, "AWS/DynamoDB", physical) for metric in TABLE_METRICS]
        for index in table.indexes:
            dimensions = {**physical, "GlobalSecondaryIndexName": index.name}
            found += [
                Query(f"{table.name}/{index.name}", metric, "AWS/DynamoDB", dimensions)
                for metric in TABLE_METRICS
            ]
    memory: dict[str, int] = {}
    for name, configuration in _functions(deployment, stack):
        memory[name] = int(configuration["MemorySize"])
        dimensions = {"FunctionName": configuration["FunctionName"]}
        found += [Query(name, metric, "AWS/Lambda", dimensions) for metric in FUNCTION_METRICS]
    return found, memory


def _functions(deployment: Deployment, stack: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    client = deployment.client("lambda")
    known = {f"functions.{function.name}.handler": function.name for function in names.FUNCTIONS}
    for resource in resources(deployment.client("cloudformation"), stack):
        if resource["ResourceType"] == "AWS::Lambda::Function":
            configuration = client.get_function_configuration(
                FunctionName=resource["PhysicalResourceId"]
            )
            if configuration["Handler"] in known:
                yield known[configuration["Handler"]], configuration


def read(
    deployment: Deployment, asked: list[Query], *, began: datetime, rows: int
) -> tuple[Sums, bool]:
    """Wait until CloudWatch has counted the writes of these rows and its counts no longer change.

    Returns the sums, and whether they are complete; after 15 minutes, this gives up.
    """
    cloudwatch = deployment.client("cloudwatch")
    end, steady, before = time.monotonic() + PATIENCE_SECONDS, 0, Sums()
    with progress_bar("Waiting for CloudWatch", total=rows, unit="write units") as bar:
        while True:
            sums = _sums(cloudwatch, asked, began)
            counted = sums.get((names.TIMELINES.name, WRITES), 0.0)
            bar.reach(min(rows, round(counted)))
            # SWEEP runs each minute, so only the writes of publishes stop changing.
            resting = {key: value for key, value in sums.items() if key[1] == WRITES}
            steady = steady + 1 if resting == before else 1
            before = resting
            if counted >= rows and steady >= STEADY_LOOKS:
                return sums, True
            if time.monotonic() > end:
                return sums, False
            time.sleep(POLL_SECONDS)


def fills_what_never_was(deployment: Deployment, known: Query, *, began: datetime) -> bool:
    """Whether FILL turns a metric without data into 0; alarms on sums of metrics rely on it."""
    answer = deployment.client("cloudwatch").get_metric_data(
        MetricDataQueries=[
            {"Id": "known", "ReturnData": False, **_sum(known)},
            {"Id": "never", "ReturnData": False, **_sum(NEVER)},
            {"Id": "sum", "Expression": "FILL(known, 0) + FILL(never, 0)"},
        ],
        **_window(began),
    )
    (filled,) = answer["MetricDataResults"]
    return bool(filled["Values"])


def _window(began: datetime) -> dict[str, datetime]:
    return {
        "StartTime": began.replace(second=0, microsecond=0),
        "EndTime": datetime.now(UTC) + timedelta(minutes=1),
    }


def _sum(query: Query) -> dict[str, Any]:
    return {
        "MetricStat": {
            "Metric": {
                "Namespace": query.namespace,
                "MetricName": query.metric,
                "Dimensions": [
                    {"Name": name, "Value": value} for name, value in query.dimensions.items()
                ],
            },
            "Period": PERIOD_SECONDS,
            "Stat": "Sum",
        }
    }


def _sums(cloudwatch: Any, asked: list[Query], began: datetime) -> Sums:
    sums: Sums = {}
    for start in range(0, len(asked), MAX_QUERIES):
        part = asked[start : start + MAX_QUERIES]
        data = [{"Id": f"q{number}", **_sum(query)} for number, query in enumerate(part)]
        pages = cloudwatch.get_paginator("get_metric_data").paginate(
            MetricDataQueries=data, **_window(began)
        )
        for page in pages:
            for result in page["MetricDataResults"]:
                query = part[int(result["Id"].removeprefix("q"))]
                key = query.what, query.metric
                sums[key] = sums.get(key, 0.0) + sum(result["Values"])
    return sums


def result(sums: Sums, memory: Mapping[str, int]) -> dict[str, Any]:
    """For the report: counts by table and function, and their price."""
    tables: dict[str, dict[str, float]] = {}
    functions: dict[str, dict[str, float]] = {}
    for (what, metric), value in sorted(sums.items()):
        kind = functions if metric in FUNCTION_METRICS else tables
        kind.setdefault(what, {})[metric] = value
    writes = sum(value for (_, metric), value in sums.items() if metric == WRITES)
    reads = sum(value for (_, metric), value in sums.items() if metric == READS)
    gb_seconds = sum(
        sums.get((name, "Duration"), 0.0) / 1000 * mb / 1024 for name, mb in memory.items()
    )
    runs = sum(sums.get((name, "Invocations"), 0.0) for name in memory)
    return {
        "tables": tables,
        "functions": functions,
        "write_units": writes,
        "read_units": reads,
        "gb_seconds": gb_seconds,
        "dynamodb_dollars": PRICES.dynamodb(writes=writes, reads=reads),
        "lambda_dollars": PRICES.functions(gb_seconds=gb_seconds, invocations=runs),
    }
