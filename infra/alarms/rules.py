"""What an alarm is here, and the metrics that alarms are made of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from fanfold import names

from ..functions import service_name
from ..settings.stages import Stage

# What it means that a period has no data.
CALM: Final = cloudwatch.TreatMissingData.NOT_BREACHING  # nothing happened
UNCHANGED: Final = cloudwatch.TreatMissingData.IGNORE  # nobody looked, so the alarm stays as it is
BROKEN: Final = cloudwatch.TreatMissingData.BREACHING  # what should report does not

AT_LEAST: Final = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
BELOW: Final = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD

MINUTE: Final = Duration.minutes(1)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """An alarm: it rings if `bad` of the last `of` periods are on the wrong side of the threshold.

    `says` is what it means and what to do, for somebody who reads it in an e-mail.
    """

    name: str
    says: str
    metric: cloudwatch.IMetric
    threshold: float
    bad: int = 1
    of: int = 1
    missing: cloudwatch.TreatMissingData = CALM
    operator: cloudwatch.ComparisonOperator = AT_LEAST


def math(expression: str, *, period: Duration = MINUTE) -> Callable[..., cloudwatch.MathExpression]:
    """An expression, to be called with the metrics that it names. Each is billed as an alarm."""

    def over(**metrics: cloudwatch.IMetric) -> cloudwatch.MathExpression:
        return cloudwatch.MathExpression(
            expression=expression, using_metrics=metrics, period=period
        )

    return over


def ours(
    metric: str, stage: Stage, function: names.Function | None, statistic: str, **dimensions: str
) -> cloudwatch.Metric:
    """A metric that this function emits, or any; Powertools adds the dimension `service`."""
    return cloudwatch.Metric(
        namespace=names.METRICS_NAMESPACE,
        metric_name=metric,
        dimensions_map={"service": service_name(stage, function), **dimensions},
        period=MINUTE,
        statistic=statistic,
    )
