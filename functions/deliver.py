"""DELIVER: takes the segments of both lanes."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import names
from fanfold.aws.items import MAX_PUTS
from fanfold.fanout.deliver import HAND_BACK_SECONDS, Delivering
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.pacing import Pace
from fanfold.messages import DeliverSegment, parse
from fanfold.settings import Settings
from fanfold.stores import Stores
from functions import _clients, _wiring
from functions._worker import Received, logger, queue_name, source_name, sources, work

settings = Settings.from_env()
stores, sqs = Stores(_clients.dynamodb(settings), settings), _clients.sqs(settings)
delivering = Delivering(
    _wiring.lookup(stores, _clients.together(settings)),
    stores.ledger,
    Lanes.of(settings, sqs),
    _clients.transport(settings),
)
history = _wiring.history(settings)
SOURCES = sources(settings, sqs, *names.LANES)
LANES = {queue_name(getattr(settings, lane.url_setting)): lane.lane for lane in names.LANES}
# Kept between invocations: a pace has learnt what the table takes.
PACES = {
    queue_name(settings.express_queue_url): Pace(
        settings.express_worker_rate,
        burst=settings.express_burst,
        slowest=settings.express_slowest_rate,
    ),
    # Without a burst: many bulk workers begin at once, and must keep to their share together.
    queue_name(settings.bulk_queue_url): Pace(
        settings.bulk_worker_rate, burst=MAX_PUTS, slowest=settings.bulk_slowest_rate
    ),
}
metrics = Metrics(namespace=names.METRICS_NAMESPACE)


def _read(body: str) -> DeliverSegment:
    return DeliverSegment.from_content(parse(body))


def take(received: Received[DeliverSegment]) -> None:
    command = received.message
    outcome = delivering.deliver(
        command,
        publisher_id=received.group,
        pace=PACES[received.queue],
        redelivered=received.redelivered,
        sent_at=received.sent_at,
        stop_at=received.stop_at - HAND_BACK_SECONDS,
    )
    logger.info(
        "A segment was worked on.",
        outcome=outcome.what,
        fanout_id=command.fanout_id,
        segment=command.segment,
        segments=command.segments,
        written=outcome.written,
    )
    metrics.add_metric(names.ENTRIES_DELIVERED, MetricUnit.Count, outcome.written)
    if outcome.seconds is not None:
        metrics.add_metric(names.DELIVERY_SECONDS, MetricUnit.Seconds, outcome.seconds)
        if history:
            history.completed(command.fanout_id)


@metrics.log_metrics
@logger.inject_lambda_context(log_event=False)  # whatever the environment says
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    # All messages of an event are of one queue.
    metrics.add_dimension(names.LANE, LANES[source_name(event["Records"][0])])
    metrics.add_metric(names.ENTRIES_DELIVERED, MetricUnit.Count, 0)  # also if it is rejected
    return work(event, context, _read, take, sources=SOURCES)
