"""SWEEP: runs every minute."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import clock, names
from fanfold.aws.dead_letters import DeadLetterQueue, DeadLetterReports
from fanfold.aws.event_sources import EventSourceMappings
from fanfold.aws.queues import WorkQueue
from fanfold.aws.retries import AT_A_TIME
from fanfold.channels.cleanup import OldChannels
from fanfold.fanout.lanes import Lanes
from fanfold.settings import Settings
from fanfold.stores import Stores
from fanfold.sweep.sweep import Sweeping, Swept
from functions import _clients
from functions._logs import new_logger

# The time that a run keeps for the step in hand, its metrics and the dead letters.
RESERVE_SECONDS = 10

settings = Settings.from_env()
stores, sqs = Stores(_clients.dynamodb(settings), settings), _clients.sqs(settings)
fanouts = stores.open_fanouts
sweeping = Sweeping(
    fanouts,
    stores.ledger,
    WorkQueue(sqs, settings.publish_queue_url),
    Lanes.of(settings, sqs),
    EventSourceMappings(
        _clients.lambda_(settings),
        {
            settings.publish_queue_url: settings.publish_mapping,
            settings.express_queue_url: settings.express_mapping,
            settings.bulk_queue_url: settings.bulk_mapping,
        },
    ),
    _clients.threads(AT_A_TIME),
)
dead_letters = DeadLetterReports(
    {
        queue.name: DeadLetterQueue(sqs, getattr(settings, queue.dlq_url_setting))
        for queue in names.QUEUES
    }
)
logger = new_logger()


def _log_removed(publisher_id: str) -> None:
    logger.warning("A channel was removed.", publisher_id=publisher_id)


channels = OldChannels(stores.heads, _log_removed)
metrics = Metrics(namespace=names.METRICS_NAMESPACE)


@logger.inject_lambda_context(log_event=False)  # whatever the environment says
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Send again what was lost, and report dead letters that have no reason.

    The metrics are gauges, emitted once at the end of a complete run: an earlier value could end an
    alarm while every run fails. For the same reason, a run that was frozen for long emits none.
    Seconds of deliveries wait for the next complete run, as they are as true then.
    """
    began_ms = clock.now_ms()
    seconds_left = context.get_remaining_time_in_millis() / 1000
    stop_at = clock.monotonic() + seconds_left - RESERVE_SECONDS
    oldest = sweeping.sweep(stop_at=stop_at, report=_log)
    letters = dead_letters.peek()
    for queue, message in dead_letters.new(letters):
        logger.error(
            "A dead letter waits.",
            message_id=message.message_id,
            first_message_id=message.first_message_id,
            queue=queue,
            sha256=message.sha256,
            receives=message.receives,
            size=message.size,
        )
    left, stalled = channels.remove(), fanouts.stalled()
    # The monotonic clock stands while a process is frozen.
    if clock.now_ms() - began_ms > names.SWEEP.seconds * 1000:
        logger.warning("The run took longer than it may, so it reports nothing: its ages are old.")
        return
    if left or settings.channel_threshold:
        metrics.add_metric(names.CHANNELS, MetricUnit.Count, left)
    metrics.add_metric(names.FANOUTS_STALLED, MetricUnit.Count, stalled)
    small, large = oldest.small_seconds, oldest.large_seconds
    metrics.add_metric(names.OLDEST_SMALL_OPEN_SECONDS, MetricUnit.Seconds, small)
    metrics.add_metric(names.OLDEST_LARGE_OPEN_SECONDS, MetricUnit.Seconds, large)
    age = dead_letters.oldest_seconds(letters, now_ms=clock.now_ms())
    metrics.add_metric(names.OLDEST_DEAD_LETTER_SECONDS, MetricUnit.Seconds, age)
    metrics.flush_metrics()


def _log(swept: Swept) -> None:
    logger.warning("A fan-out was mended.", fanout_id=swept.fanout_id, what=swept.what)
    if swept.seconds is not None:
        metrics.add_metric(names.DELIVERY_SECONDS, MetricUnit.Seconds, swept.seconds)
