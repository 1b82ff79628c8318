"""The door of both lanes (DELIVER)."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import aws, names
from fanfold.deliver import Delivering
from fanfold.fanouts import Fanouts
from fanfold.followers import Followers
from fanfold.messages import DeliverSegment, parse
from fanfold.plan import Lanes
from fanfold.posts import Posts
from fanfold.queues import WorkQueue
from fanfold.settings import Settings
from fanfold.timelines import Timelines
from fanfold.transport_boto3 import CONNECTIONS, Boto3Transport
from functions.queue import Received, logger, sources, work

# For what is in flight to end, and then for the ledger and the hand-back, at their slowest.
HAND_BACK_SECONDS = (
    aws.CONNECT_TIMEOUT_SECONDS + aws.READ_TIMEOUT_SECONDS + (2 * aws.SLOWEST_CALL_SECONDS)
)

settings = Settings.from_env()
dynamodb = aws.dynamodb()
# The policy owns the back-off of these calls.
unretried = aws.dynamodb(attempts=1, connections=CONNECTIONS)
delivering = Delivering(
    Fanouts(dynamodb, settings.fanouts_table),
    Posts(dynamodb, settings.posts_table),
    Lanes(
        express=WorkQueue(aws.sqs(), settings.express_queue_url),
        bulk=WorkQueue(aws.sqs(), settings.bulk_queue_url),
    ),
    Boto3Transport(
        Followers(unretried, settings.followers_table),
        Timelines(unretried, settings.timelines_table),
    ),
)
SOURCES = sources(settings, names.EXPRESS, names.BULK)
metrics = Metrics(namespace=names.METRICS_NAMESPACE)


def take(received: Received) -> None:
    """Deliver one segment."""
    order = DeliverSegment.from_content(parse(received.body))
    outcome = delivering.deliver(
        order,
        redelivered=received.redelivered,
        stop_at=received.stop_at - HAND_BACK_SECONDS,
    )
    logger.info(
        "A segment was worked on.",
        outcome=outcome.what,
        fanout_id=order.fanout_id,
        segment=order.segment,
        segments=order.segments,
        written=outcome.written,
    )
    metrics.add_metric("EntriesDelivered", MetricUnit.Count, outcome.written)


@metrics.log_metrics
@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Take one message of a lane."""
    metrics.add_metric("EntriesDelivered", MetricUnit.Count, 0)  # a rejected message says so too
    return work(event, context, take, sources=SOURCES)
