"""SWEEP: what the clock starts every minute."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import names
from fanfold.aws import boto
from fanfold.aws.dead_letters import DeadLetterQueue, DeadLetterReports
from fanfold.aws.event_sources import EventSourceMappings
from fanfold.aws.queues import WorkQueue
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.sweep import Sweeping
from fanfold.settings import Settings
from functions import _wiring

settings = Settings.from_env()
sweeping = Sweeping(
    Ledger(boto.dynamodb(), settings.fanouts_table),
    WorkQueue(boto.sqs(), settings.publish_queue_url),
    _wiring.lanes(settings, boto.sqs()),
    names.BULK.visibility_seconds,
    EventSourceMappings(
        boto.lambda_(),
        {
            settings.publish_queue_url: settings.publish_mapping,
            settings.express_queue_url: settings.express_mapping,
            settings.bulk_queue_url: settings.bulk_mapping,
        },
    ),
)
dead_letters = DeadLetterReports(
    {
        queue.name: DeadLetterQueue(boto.sqs(), getattr(settings, queue.dlq_url_setting))
        for queue in names.QUEUES
    }
)
logger = Logger()
metrics = Metrics(namespace=names.METRICS_NAMESPACE)


@metrics.log_metrics
@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Send again what was lost, and report dead letters that have no reason."""
    metrics.add_metric(names.FANOUTS_STALLED, MetricUnit.Count, 0)  # also if the run fails
    # A gauge: emitted first and every minute, so the alarm holds while any fan-out is stalled.
    metrics.add_metric(names.FANOUTS_STALLED, MetricUnit.Count, sweeping.stalled())
    for swept in sweeping.sweep():
        logger.warning("A fan-out was mended.", fanout_id=swept.fanout_id, what=swept.what)
    for queue, message in dead_letters.new():
        logger.error(
            "A dead letter waits.",
            message_id=message.message_id,
            queue=queue,
            receives=message.receives,
            size=message.size,
        )
