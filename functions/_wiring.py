"""What the doors that write edges share: edges that grow write shards, and tell of it."""

from __future__ import annotations

from threading import Lock

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit

from fanfold import names
from fanfold.aws import boto
from fanfold.follows.edges import Edges
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.growth import Growing
from fanfold.follows.levels import Levels
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.sharding import NotGrown, Shards
from fanfold.settings import Settings
from functions._worker import logger


def edges(settings: Settings) -> Edges:
    """The edges of all publishers."""
    return Edges(
        # No retries inside boto3: `Edges` retries, and has to see every throttle.
        EdgesTable(boto.dynamodb(attempts=1), settings.followers_table),
        Growing(
            Levels(PublishersTable(boto.dynamodb(attempts=1), settings.publishers_table)),
            settings.max_level,
            settings.growth_cooldown_ms,
            notify,
        ),
    )


# All metrics of a process are kept in one place until they are flushed.
_one_at_a_time = Lock()


def notify(publisher_id: str, what: Shards | NotGrown) -> None:
    """Log a growth or a refused one, and count it in a metric of its own line."""
    if isinstance(what, NotGrown):
        logger.info("A publisher does not grow.", publisher_id=publisher_id, why=what.reason)
        _count("GrowthsRefused")
    else:
        logger.warning(
            "A publisher has grown.",
            publisher_id=publisher_id,
            level=what.level,
            follows_per_second=what.history[-1].rate,
        )
        _count("Growths")


def _count(metric: str) -> None:
    with _one_at_a_time:
        metrics = Metrics(namespace=names.METRICS_NAMESPACE)
        metrics.add_metric(metric, MetricUnit.Count, 1)
        metrics.flush_metrics()
