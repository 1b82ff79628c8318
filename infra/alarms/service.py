"""Alarms about requests, functions and tables: failures, throttling, and the budget of writes."""

from collections.abc import Iterator, Mapping
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_

from fanfold import names

from ..settings.stages import Stage
from ..tables import HouseTable
from .rules import MINUTE, Rule, math, ours

# Far above what fails on a good day. A publisher that grows to the highest level refuses follows
# for less than three minutes, so five are another matter. They need not be in a row: a quiet
# service has minutes without any request.
FAILING_PERCENT: Final = 1
FAILING_MINUTES: Final = (5, 15)
# SWEEP runs every minute. One failure may be transient; three of five are not.
SWEEP_FAILURES: Final = (3, 5)
# Lambda throttles for seconds while it adds instances.
THROTTLED_MINUTES: Final = (5, 15)

# DynamoDB has data only about minutes with throttles, and its alarms may keep their state without
# data (its API reference says always), so gaps are filled with zeros. That fills the newest minutes
# too, whose data comes late: so more minutes are looked at than must be bad.
#
# A key of an index is shared at most by the posts of one publisher, so no throttle is expected. But
# DynamoDB throttles a burst on a cold index until it has split it, which takes minutes; a hot key
# stays throttled longer.
INDEX_MINUTES: Final = (5, 10)
# A crowd on one key is throttled until its publisher has grown or DynamoDB has split the partition.
TABLE_MINUTES: Final = (15, 20)
# Its writers ask for more than it takes, by design, and adapt to what they get. If that went wrong,
# a lane would stand still, or open fan-outs grow old.
WRITTEN_UNTIL_THROTTLED: Final = (names.TIMELINES,)
THROTTLES: Final = {"reads": "ReadThrottleEvents", "writes": "WriteThrottleEvents"}
# The functions that write edges grow publishers. A refusal is right while a growth is young; if
# refusals last, more shards do not help.
GROWERS: Final = (names.API, names.PLAN, names.RELATE)
GROWTH_MINUTES: Final = (15, 20)
# CloudWatch's window slides: at each minute, the day that ends then.
DAY: Final = Duration.days(1)
MOST_METRICS: Final = 10  # in one alarm, by CloudWatch's limit


def of_requests(api: gateway.HttpApi) -> Iterator[Rule]:
    bad, of = FAILING_MINUTES
    yield Rule(
        name="RequestsFailing",
        says=f"In {bad} of {of} minutes, at least {FAILING_PERCENT} % of the HTTP requests were "
        "answered with a 5xx. The API's access log names the routes, and the logs of the functions "
        "api and timeline say why. After a 503, look for the alarm of a table.",
        metric=math("100 * errors / requests")(
            errors=api.metric_server_error(period=MINUTE, statistic="Sum"),
            requests=api.metric_count(period=MINUTE, statistic="Sum"),
        ),
        threshold=FAILING_PERCENT,
        bad=bad,
        of=of,
    )


def of_function(function: names.Function, placed: lambda_.IFunction) -> Iterator[Rule]:
    name = function.name.title()
    errors = placed.metric_errors(period=MINUTE, statistic="Sum")
    if function is names.SWEEP:
        bad, of = SWEEP_FAILURES
        yield Rule(
            name="SweepFailing",
            says=f"{bad} of the last {of} runs of SWEEP have failed: lost messages are not sent "
            "again meanwhile. The log of the function sweep says why; it runs again each minute.",
            metric=errors,
            threshold=1,
            bad=bad,
            of=of,
        )
    else:
        bad, of = FAILING_MINUTES
        yield Rule(
            name=f"{name}FunctionFailing",
            says=f"In {bad} of {of} minutes, at least {FAILING_PERCENT} % of the runs of the "
            f"function {function.name} ended with an error, out of time or out of memory. Its log "
            "says why. If this began with a deploy, deploy the version before.",
            metric=math("100 * errors / runs")(
                errors=errors, runs=placed.metric_invocations(period=MINUTE, statistic="Sum")
            ),
            threshold=FAILING_PERCENT,
            bad=bad,
            of=of,
        )
    bad, of = THROTTLED_MINUTES
    yield Rule(
        name=f"{name}FunctionThrottled",
        says=f"Lambda refuses to run the function {function.name}: the account has too few "
        "concurrent executions, or too few are reserved for this function. Ask AWS for more, and "
        "deploy with -c concurrency= as many as it has: see 'A new account' in docs/operations.md.",
        metric=placed.metric_throttles(period=MINUTE, statistic="Sum"),
        threshold=1,
        bad=bad,
        of=of,
    )


def of_table(table: names.Table, placed: HouseTable) -> Iterator[Rule]:
    bad, of = TABLE_MINUTES
    kinds = ("reads",) if table in WRITTEN_UNTIL_THROTTLED else ("reads", "writes")
    yield Rule(
        name=f"{table.name}TableThrottled",
        says=f"For {bad} minutes the table {table.name.lower()} has throttled "
        f"{' and '.join(kinds)}: requests are answered with 503, and messages come again. See 'A "
        "throttled table' in docs/operations.md.",
        metric=math(" + ".join(f"FILL({kind}, 0)" for kind in kinds))(
            **{
                kind: _of_dynamodb(THROTTLES[kind], {"TableName": placed.table_name})
                for kind in kinds
            }
        ),
        threshold=1,
        bad=bad,
        of=of,
    )
    for index in table.indexes:
        yield _of_index(index, table, placed)


def _of_index(index: names.Index, table: names.Table, placed: HouseTable) -> Rule:
    bad, of = INDEX_MINUTES
    return Rule(
        name=f"{table.name}{index.name.title()}IndexThrottled",
        says=f"For {bad} minutes the index {index.name} has throttled writes, and with them those "
        f"of its table, {table.name.lower()}. See 'A throttled index' in docs/operations.md.",
        metric=math("FILL(writes, 0)")(
            writes=_of_dynamodb(THROTTLES["writes"], _dimensions(placed, index))
        ),
        threshold=1,
        bad=bad,
        of=of,
    )


def of_growth(stage: Stage) -> Iterator[Rule]:
    bad, of = GROWTH_MINUTES
    yield Rule(
        name="GrowthRefused",
        says=f"For {bad} minutes follows have been throttled where more write shards would not "
        "help. The log line 'A publisher does not grow.' says which publisher it is, and why; see "
        "'Hot publishers' in docs/operations.md.",
        metric=math(" + ".join(f"FILL({each.name}, 0)" for each in GROWERS))(
            **{each.name: ours(names.GROWTHS_REFUSED, stage, each, "Sum") for each in GROWERS}
        ),
        threshold=1,
        bad=bad,
        of=of,
    )


def of_invariants(stage: Stage) -> Iterator[Rule]:
    yield Rule(
        name="InvariantBroken",
        says="A row, an answer or a page says what can never be. The log line 'An invariant is "
        "broken.' names what it is; see 'A broken invariant' in docs/operations.md.",
        # One metric for all functions: each is billed.
        metric=ours(names.INVARIANT_BROKEN, stage, None, "Sum"),
        threshold=1,
    )


def of_writes(stage: Stage, tables: Mapping[names.Table, HouseTable]) -> Iterator[Rule]:
    """The alarm, if the stage has a budget; others, with the same one, for what it cannot sum."""
    if stage.daily_write_units is None:
        return
    consumed = list(_consumed(tables))
    for number, start in enumerate(range(0, len(consumed), MOST_METRICS), 1):
        metrics = dict(consumed[start : start + MOST_METRICS])
        yield Rule(
            name=f"WritesOverBudget{number if number > 1 else ''}",
            says=f"Within a day the tables took {stage.daily_write_units:,} write units or more, "
            "the budget that -c daily_write_units= sets. See 'A budget' in docs/operations.md: "
            "which table it is, who publishes or follows that much, and how to pause.",
            metric=math(" + ".join(f"FILL({each}, 0)" for each in metrics), period=DAY)(**metrics),
            threshold=stage.daily_write_units,
        )


def _consumed(
    tables: Mapping[names.Table, HouseTable],
) -> Iterator[tuple[str, cloudwatch.IMetric]]:
    """The write units of each table and each index."""
    metric = "ConsumedWriteCapacityUnits"
    for table, placed in tables.items():
        name = table.name.lower()
        yield name, _of_dynamodb(metric, {"TableName": placed.table_name}, DAY)
        for index in table.indexes:
            dimensions = _dimensions(placed, index)
            yield f"{name}_{index.name}", _of_dynamodb(metric, dimensions, DAY)


def _dimensions(placed: HouseTable, index: names.Index) -> dict[str, str]:
    # CloudWatch does not count indexes in the metric of the table.
    return {"TableName": placed.table_name, "GlobalSecondaryIndexName": index.name}


def _of_dynamodb(
    metric: str, dimensions: Mapping[str, str], period: Duration = MINUTE
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace="AWS/DynamoDB",
        metric_name=metric,
        dimensions_map=dimensions,
        period=period,
        statistic="Sum",
    )
