"""What the functions report about the growth of publishers: a log line and a metric."""

from __future__ import annotations

from threading import Lock

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit

from fanfold import names
from fanfold.follows.sharding import NotGrown, Shards
from functions._worker import logger

# Powertools keeps one set of metrics per process until it is flushed.
_one_at_a_time = Lock()


def report_growth(publisher_id: str, what: Shards | NotGrown) -> None:
    """Log a growth, or the reason against one, and count it."""
    if isinstance(what, NotGrown):
        logger.info("A publisher does not grow.", publisher_id=publisher_id, why=what.reason)
        _count(names.GROWTHS_REFUSED)
    else:
        logger.warning(
            "A publisher has grown.",
            publisher_id=publisher_id,
            level=what.level,
            follows_per_second=what.history[-1].rate,
        )
        _count(names.GROWTHS)


def _count(metric: str) -> None:
    with _one_at_a_time:
        metrics = Metrics(namespace=names.METRICS_NAMESPACE)
        metrics.add_metric(metric, MetricUnit.Count, 1)
        metrics.flush_metrics()
