"""Reads a stack for the console: ledger, queues, a sample of entries, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fanfold import names
from fanfold.aws import dynamodb
from fanfold.aws.items import get_text, text
from fanfold.fanout.row import Fanout
from fanfold.fanout.segment_size import segment_range
from fanfold.follows import ring
from fanfold.follows.ring_reader import RingRead
from fanfold_cli.console.views import CELLS, Depth
from fanfold_cli.cost.prices import (
    DOLLARS_PER_MILLION_API_REQUESTS,
    DOLLARS_PER_MILLION_SQS_REQUESTS,
    DOLLARS_PER_THOUSAND_METRICS_READ,
    PRICES,
)
from fanfold_cli.deliveries import fanouts, pauses
from fanfold_cli.deliveries.pauses import Paused
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import counted

# Open fan-outs whose rows are read; the others are only counted.
LIMIT: Final = 20
# Followers of the largest fan-out, spread evenly over the ring, whose entries are looked up.
SAMPLES: Final = 32
METRIC_SECONDS: Final = 60
# A key of the index `open` has about 100 bytes; an eventual read of 8 KB takes one unit.
KEYS_A_READ_UNIT: Final = 80
KINDS: Final = {
    "waiting": "ApproximateNumberOfMessages",
    "at_work": "ApproximateNumberOfMessagesNotVisible",
    "delayed": "ApproximateNumberOfMessagesDelayed",
}


@dataclass
class Spent:
    """What a refresh has read from AWS, and how many metrics are read once a minute."""

    read_units: float = 0.0
    queue_calls: int = 0
    readers: int = 0  # each makes one API request
    metrics: int = 0

    def dollars_an_hour(self, every_seconds: float) -> float:
        refresh = (
            self.read_units * PRICES.dollars_per_million_reads
            + self.queue_calls * DOLLARS_PER_MILLION_SQS_REQUESTS
            + self.readers * DOLLARS_PER_MILLION_API_REQUESTS
        ) / 1e6
        minute = self.metrics / 1_000 * DOLLARS_PER_THOUSAND_METRICS_READ
        return 3600 * (refresh / every_seconds + minute / METRIC_SECONDS)

    def sentence(self, every_seconds: float) -> str:
        """What one refresh reads, and what an hour costs by list prices of us-east-1."""
        reading = f", {counted(self.readers, 'read')} of a timeline" if self.readers else ""
        return (
            f"A refresh takes about {self.read_units:,.0f} read units of DynamoDB and "
            f"{self.queue_calls} calls of SQS{reading}, every {every_seconds:g} s while this "
            f"page is visible: about ${self.dollars_an_hour(every_seconds):,.3f} an hour."
        )


@dataclass
class EntrySample:
    """Followers of one fan-out, at even distances on the ring."""

    ref_id: str = ""
    followers: tuple[tuple[int, str], ...] = ()  # cell and user
    read_units: float = 0.0  # for finding them; the next refresh counts them


@dataclass
class StackReading:
    """Reads a deployment; remembers the fan-out that the ring shows, and its sample.

    Methods raise errors of AWS and `TryLater`; the next refresh tries again.
    """

    deployment: Deployment
    spent: Spent = field(default_factory=Spent)
    chosen: Fanout | None = None
    sample: EntrySample = field(default_factory=EntrySample)
    watched: dict[str, Fanout] = field(default_factory=dict)
    _metric: tuple[float, float] = (0.0, 0.0)  # the end of its minute, and the rate
    _asked_at: float = 0.0  # when the metric was last read
    _service: str = ""

    def queues(self) -> dict[str, Depth]:
        sqs = self.deployment.client("sqs")

        def count(output: str, kinds: Iterable[str]) -> list[int]:
            self.spent.queue_calls += 1
            answer = sqs.get_queue_attributes(
                QueueUrl=self.deployment.output(output), AttributeNames=list(kinds)
            )
            return [int(answer["Attributes"][kind]) for kind in kinds]

        found = {}
        for queue in names.QUEUES:
            depths = dict(zip(KINDS, count(queue.url_output, KINDS.values()), strict=True))
            dead = count(queue.dlq_url_output, [KINDS["waiting"], KINDS["at_work"]])
            found[queue.name.lower()] = Depth(**depths, dead=sum(dead))
        return found

    def fanouts(self, also: Iterable[str] = ()) -> tuple[list[Fanout], int, int]:
        """Open, stalled and just ended fan-outs, and how many are open and stalled in all.

        Includes the ids in `also`, since a small one ends before anybody sees it open, and always
        the one that the ring shows.
        """
        found = fanouts.listed(self.deployment, stalled=True, is_open=True, limit=LIMIT)
        rows = {row.fanout_id: row for row in found.rows}
        shown = [self.chosen.fanout_id] if self.chosen else []
        asked = dict.fromkeys((*shown, *self.watched, *also))
        gone = [each for each in asked if each not in rows]
        if gone:
            # They have ended since; their rows say how.
            table = self.deployment.stores().open_fanouts
            rows |= {row.fanout_id: row for row in fanouts.rows_of(table, gone)}
        self.spent.read_units += 1 + found.counts["open"] / KEYS_A_READ_UNIT + len(rows)
        newest = sorted(rows.values(), key=lambda row: row.accepted_at, reverse=True)
        self.watched = {row.fanout_id: row for row in newest[:LIMIT]}
        return newest, found.counts["open"], found.counts["stalled"]

    def paused(self) -> Paused:
        found = pauses.read(self.deployment)
        self.spent.queue_calls += len(found.lanes)  # Lambda's are free
        return found

    def choose(self, rows: list[Fanout]) -> Fanout | None:
        """Choose what the ring shows: the largest open fan-out, or else the last one shown."""
        largest = max((row for row in rows if row.is_open), key=_size, default=None)
        shown = self.chosen
        if shown is not None:
            shown = next((row for row in rows if row.fanout_id == shown.fanout_id), None)
        is_replaced = largest is not None and (
            shown is None or not shown.is_open or _size(largest) > 2 * _size(shown)
        )
        if is_replaced:
            shown = largest
        elif shown is None or not shown.is_open:
            # Or the largest of those accepted since.
            since = shown.completed_at or shown.changed_at if shown else ""
            later = [row for row in rows if row.accepted_at > since]
            shown = max(later, key=_size, default=shown)
        self.chosen = shown
        return shown

    def take_sample(self, row: Fanout) -> list[str]:
        """Find followers at even distances on the ring, once for a fan-out with segments.

        The reads are sequential, since no refresh waits for them.
        """
        if self.sample.ref_id != row.fanout_id and row.segments:
            self.sample = self._sample_of(row)
        return [user for _, user in self.sample.followers]

    def _sample_of(self, row: Fanout) -> EntrySample:
        found = []
        table = self.deployment.stores().edges
        for number in range(SAMPLES):
            part = segment_range(number, SAMPLES)
            read = RingRead(row.level, part.lo, part.hi, low_water=1)
            edges = next(table.edges(row.publisher_id, read, limit=1), [])
            if edges:
                cell = int(ring.position_of(edges[0])[:2], 16)
                found.append((cell, ring.follower_of(edges[0])))
        return EntrySample(row.fanout_id, tuple(found), SAMPLES * (row.level + 1))

    def found(self, row: Fanout) -> tuple[int, ...]:
        """By cell: 1 if the sampled follower has the entry, 0 if not, -1 if nobody is sampled."""
        sample = self.sample
        self.spent.read_units += sample.read_units
        sample.read_units = 0.0
        if sample.ref_id != row.fanout_id or not sample.followers:
            return ()
        settings = self.deployment.settings()
        table, key = settings.timelines_table, text(row.sort_key)
        keys = [{"user_id": text(user), "sort_key": key} for _, user in sample.followers]
        wanted = {table: {"Keys": keys, "ProjectionExpression": "user_id"}}
        items = dynamodb.rows(self.deployment.client("dynamodb"), wanted)[table]
        having = {get_text(item, "user_id") for item in items}
        self.spent.read_units += len(sample.followers) / 2
        cells = [-1] * CELLS
        for cell, user in sample.followers:
            cells[cell] = int(user in having)
        return tuple(cells)

    def metric(self, now: float) -> tuple[float, float]:
        """The end of the counted minute, and entries a second by the functions' own metric.

        Read once a minute, and only on AWS.
        """
        self.spent.metrics = len(names.LANES)
        if now - self._asked_at < METRIC_SECONDS:
            return self._metric
        self._service = self._service or self.deployment.service_names()[names.DELIVER]
        # CloudWatch has all of a minute about a minute later.
        end = datetime.fromtimestamp(now // 60 * 60, UTC) - timedelta(minutes=1)
        answer: Any = self.deployment.client("cloudwatch").get_metric_data(
            StartTime=end - timedelta(minutes=1),
            EndTime=end,
            MetricDataQueries=[self._query(lane.lane) for lane in names.LANES],
        )
        total = sum(sum(each["Values"][:1]) for each in answer["MetricDataResults"])
        self._asked_at, self._metric = now, (end.timestamp(), total / METRIC_SECONDS)
        return self._metric

    def _query(self, lane: str) -> dict[str, Any]:
        dimensions = {"service": self._service, names.LANE: lane}
        metric = {
            "Namespace": names.METRICS_NAMESPACE,
            "MetricName": names.ENTRIES_DELIVERED,
            "Dimensions": [{"Name": name, "Value": each} for name, each in dimensions.items()],
        }
        stat = {"Metric": metric, "Period": METRIC_SECONDS, "Stat": "Sum"}
        return {"Id": f"lane_{lane}", "MetricStat": stat}


def _size(row: Fanout) -> int:
    return max(row.followers, row.delivered)
