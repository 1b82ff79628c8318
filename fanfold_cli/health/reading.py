"""Reads a stage for `fanfold status` and the console: what it owes, and what is said of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from fanfold import clock, names, times
from fanfold.sweep.run_limits import MAX_ROWS
from fanfold_cli.aws import EXPECTED
from fanfold_cli.deliveries import fanouts, pauses
from fanfold_cli.health.cloudwatch import CloudWatch, Unreachable
from fanfold_cli.health.verdict import BULK, EXPRESS, PUBLISH, Depth, Health, Open
from fanfold_cli.publishers.channels import threshold_of
from fanfold_cli.stack import Deployment

# The actions that this needs, by service; an error of AWS names only the action.
ACTIONS: Final = {
    "dynamodb": ("Scan", "BatchGetItem", "GetItem"),
    "sqs": ("GetQueueAttributes", "ListQueueTags"),
    "lambda": ("ListEventSourceMappings", "GetFunctionConfiguration"),
    "cloudwatch": ("GetMetricData", "DescribeAlarms"),
}
_DENIED = re.compile(r"\((?:AccessDenied|NotAuthorized|Unauthorized)\w*\) when calling the (\w+)")
COUNTS: Final = {
    "waiting": "ApproximateNumberOfMessages",
    "at_work": "ApproximateNumberOfMessagesNotVisible",
    "delayed": "ApproximateNumberOfMessagesDelayed",
}
T = TypeVar("T")


class Reading:
    """Reads what it can; each failure is kept with its reason, and hides nothing else."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment, self.now_ms = deployment, clock.now_ms()
        self._cloudwatch = CloudWatch(deployment, self.now_ms)
        self.unread: dict[str, str] = {}
        self.without_metrics = "because the local engine keeps none" if deployment.is_local else ""

    def whole(self) -> Health:
        """All that `fanfold status` shows."""
        deployment = self.deployment
        lags = self._metric("metrics", self._cloudwatch.lags)
        throttles = self._metric("metrics", self._cloudwatch.throttles)
        paused = self._try("pauses", lambda: pauses.read(deployment))
        health = replace(
            self.background(),
            lags=lags,
            throttles=throttles,
            open=self._try("the ledger", self._open),
            stalled=self._try("the ledger", lambda: deployment.stores().open_fanouts.stalled()),
            queues=self._try("the queues", lambda: queues(deployment)),
        )
        return with_pauses(health, paused) if paused else health

    def background(self) -> Health:
        """What changes slowly: channels, alarms and the last audit."""
        alarms = self._metric("alarms", self._cloudwatch.alarms)
        audit = self._metric("metrics", self._cloudwatch.audit)
        return Health(
            now_ms=self.now_ms,
            alarms=alarms,
            audit=audit,
            channels=self._try("the channels", self._channels),
            channel_threshold=threshold_of(self.deployment),
            unread=self.unread,
            without_metrics=self.without_metrics,
        )

    def rate(self) -> tuple[float, float]:
        """See `CloudWatch.rate`; zeros if it is not known."""
        return self._metric("metrics", self._cloudwatch.rate) or (0.0, 0.0)

    def _try(self, what: str, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except EXPECTED as error:
            self.unread[what] = why(str(error))
            return None

    def _metric(self, what: str, call: Callable[[], T]) -> T | None:
        if self.without_metrics:
            return None
        try:
            return self._try(what, call)
        except Unreachable as error:
            self.without_metrics = str(error)
            return None

    def _open(self) -> tuple[Open, ...]:
        listed = fanouts.listed(self.deployment, stalled=False, is_open=True, limit=MAX_ROWS)
        return open_deliveries(listed)

    def _channels(self) -> tuple[int, int]:
        channels = self.deployment.stores().heads.get().channels.values()
        active = sum(channel.is_active for channel in channels)
        return active, len(channels) - active


def why(failure: str) -> str:
    """The failure, and which permission is missing if AWS has denied a call."""
    denied = _DENIED.search(failure)
    if denied is None:
        return failure
    action = denied[1]
    service = next((each for each, actions in ACTIONS.items() if action in actions), "")
    return f"The permission {f'{service}:{action}'.lstrip(':')} is missing: {failure}"


def with_pauses(health: Health, paused: pauses.Paused) -> Health:
    """The same with the pauses, or with the reason why they could not be read."""
    if not paused.failure:
        return replace(health, paused=paused)
    return replace(health, unread={**health.unread, "pauses": why(paused.failure)})


def queues(deployment: Deployment) -> dict[str, Depth]:
    """The messages in each queue and its dead-letter queue, by two calls; raises errors of AWS."""
    sqs = deployment.client("sqs")

    def count(output: str, *kinds: str) -> list[int]:
        wanted = [COUNTS[kind] for kind in kinds]
        answer = sqs.get_queue_attributes(QueueUrl=deployment.output(output), AttributeNames=wanted)
        return [int(answer["Attributes"][each]) for each in wanted]

    found = {}
    for queue in names.QUEUES:
        depths = dict(zip(COUNTS, count(queue.url_output, *COUNTS), strict=True))
        dead = count(queue.dlq_url_output, "waiting", "at_work")
        found[queue.lane] = Depth(**depths, dead=sum(dead))
    return found


def open_deliveries(found: fanouts.Listed) -> tuple[Open, ...]:
    """The open deliveries. Those whose rows were not read are placed by their keys alone.

    A key does not tell publish from express; the newest wait in publish.
    """
    read = (
        Open(
            PUBLISH if row.awaits_plan else BULK if row.is_bulk else EXPRESS,
            times.to_ms(row.accepted_at),
            row.changed_ms,
        )
        for row in found.rows
        if row.is_open
    )
    unread = (
        Open(BULK if key.is_large else PUBLISH, times.to_ms(key.accepted_at), 0)
        for key in found.unread
    )
    return (*read, *unread)
