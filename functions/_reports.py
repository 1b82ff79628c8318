"""What the functions report about publishers and channels, and metrics from any thread."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from fanfold import names
from fanfold.follows.sharding import NotGrown, Shards
from functions._worker import logger

if TYPE_CHECKING:
    from fanfold.channels.promotion import Choice

# A line is printed in two writes; another thread's could come between.
_one_at_a_time = Lock()


def count(metric: str, number: int, dimensions: Mapping[str, str] = MappingProxyType({})) -> None:
    """Emit a count with these dimensions, beside that of the service."""
    # Not Powertools' `Metrics`: a process has one, and threads would share its dimensions.
    metrics = EphemeralMetrics(namespace=names.METRICS_NAMESPACE)
    for name, value in dimensions.items():
        metrics.add_dimension(name, value)
    metrics.add_metric(metric, MetricUnit.Count, number)
    with _one_at_a_time:
        metrics.flush_metrics()


def report_growth(publisher_id: str, what: Shards | NotGrown) -> None:
    """Log a growth, or the reason against one, and count it."""
    if isinstance(what, NotGrown):
        logger.info("A publisher does not grow.", publisher_id=publisher_id, why=what.reason)
        count(names.GROWTHS_REFUSED, 1)
    else:
        logger.warning(
            "A publisher has grown.",
            publisher_id=publisher_id,
            level=what.level,
            follows_per_second=what.history[-1].rate,
        )
        count(names.GROWTHS, 1)


def report_choice(publisher_id: str, followers: int, choice: Choice) -> None:
    """Log that a publisher got a channel, or that there was no room for one, and count that."""
    from fanfold.channels.promotion import Choice  # PLAN alone loads channels

    if choice is Choice.REFUSE:
        logger.warning(
            "A publisher gets no channel: there is no room for more.",
            publisher_id=publisher_id,
            followers=followers,
        )
        count(names.CHANNELS_REFUSED, 1)
    else:
        logger.warning("A publisher has a channel.", publisher_id=publisher_id, followers=followers)
