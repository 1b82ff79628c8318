"""The alarm on what a stage spends: write units, which are nearly all that a flood costs."""

from collections.abc import Iterator, Mapping
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from fanfold import names

from .alarm_rules import Rule, math
from .stages import Stage
from .tables import HouseTable

# CloudWatch's window slides: at each minute, the day that ends then.
DAY: Final = Duration.days(1)


def of_writes(stage: Stage, tables: Mapping[names.Table, HouseTable]) -> Iterator[Rule]:
    """The alarm, if the stage has a budget. Its metrics are as many as one alarm may have: ten."""
    if stage.daily_write_units is None:
        return
    metrics = dict(_metrics(tables))
    yield Rule(
        name="WritesOverBudget",
        says=f"Within a day the tables took {stage.daily_write_units:,} write units or more, the "
        "budget that -c daily_write_units= sets. See 'A budget' in docs/operations.md: which table "
        "it is, who publishes or follows that much, and how to pause.",
        metric=math(" + ".join(f"FILL({each}, 0)" for each in metrics), period=DAY)(**metrics),
        threshold=stage.daily_write_units,
    )


def _metrics(
    tables: Mapping[names.Table, HouseTable],
) -> Iterator[tuple[str, cloudwatch.IMetric]]:
    """What each table and each index takes; CloudWatch counts indexes by themselves."""
    for table, placed in tables.items():
        yield table.name.lower(), _consumed(TableName=placed.table_name)
        for index in table.indexes:
            yield (
                f"{table.name.lower()}_{index.name}",
                _consumed(TableName=placed.table_name, GlobalSecondaryIndexName=index.name),
            )


def _consumed(**dimensions: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace="AWS/DynamoDB",
        metric_name="ConsumedWriteCapacityUnits",
        dimensions_map=dimensions,
        period=DAY,
        statistic="Sum",
    )
