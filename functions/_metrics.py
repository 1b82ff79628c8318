"""Metrics that are emitted at once, from whatever thread."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from types import MappingProxyType

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from fanfold import names

# A line is printed in two writes, which those of another thread could come between.
_one_at_a_time = Lock()


def count(metric: str, number: int, dimensions: Mapping[str, str] = MappingProxyType({})) -> None:
    """Emit a count with these dimensions, beside that of the service."""
    # Not Powertools' `Metrics`: all of a process are one, and one thread's dimensions another's.
    metrics = EphemeralMetrics(namespace=names.METRICS_NAMESPACE)
    for name, value in dimensions.items():
        metrics.add_dimension(name, value)
    metrics.add_metric(metric, MetricUnit.Count, number)
    with _one_at_a_time:
        metrics.flush_metrics()
