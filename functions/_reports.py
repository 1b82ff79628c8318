"""What the functions report about publishers and channels, and metrics from any thread."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from fanfold import clock, invariants, names
from fanfold.follows.sharding import NotGrown, Shards
from functions._logs import writing
from functions._worker import logger

if TYPE_CHECKING:
    from fanfold.channels.promotion import Choice
    from fanfold.fanout.deliver import Outcome

Value: TypeAlias = tuple[MetricUnit, float]

# A row that every page reads breaks the same invariant each time.
_QUIET_MS = 60_000
_reported_at: dict[str, int] = {}  # in epoch milliseconds, by name


def count(metric: str, number: int) -> None:
    """Emit a count."""
    _emit({metric: (MetricUnit.Count, number)})


def report_delivery(lane: str, outcome: Outcome) -> None:
    """Emit how many entries a worker of this lane wrote, and how long a fan-out has taken."""
    values: dict[str, Value] = {}
    if outcome.written:
        values[names.ENTRIES_DELIVERED] = MetricUnit.Count, outcome.written
    if outcome.seconds is not None:
        values[names.DELIVERY_SECONDS] = MetricUnit.Seconds, outcome.seconds
    if values:
        _emit(values, {names.LANE: lane})


def _emit(
    values: Mapping[str, Value], dimensions: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Emit metrics with these dimensions, beside that of the service."""
    # Not Powertools' `Metrics`: a process has one, and threads would share its dimensions.
    metrics = EphemeralMetrics(namespace=names.METRICS_NAMESPACE)
    for name, value in dimensions.items():
        metrics.add_dimension(name, value)
    for metric, (unit, amount) in values.items():
        metrics.add_metric(metric, unit, amount)
    with writing:
        metrics.flush_metrics()


def report_broken(name: str, ids: Mapping[str, Any]) -> None:
    """Log and count a broken invariant: each one once a minute, at most.

    All functions count into one metric of the stage, whose name their own begins with.
    """
    now_ms = clock.now_ms()
    if now_ms - _reported_at.get(name, 0) < _QUIET_MS:
        return
    _reported_at[name] = now_ms
    logger.error("An invariant is broken.", invariant=name, what=invariants.INVARIANTS[name], **ids)
    function = os.environ["POWERTOOLS_SERVICE_NAME"]
    one: Value = MetricUnit.Count, 1
    _emit({names.INVARIANT_BROKEN: one}, {"service": function.rpartition("-")[0] or function})


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
