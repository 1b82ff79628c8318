"""Reads what only the console shows: single fan-outs, a sample of entries, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from fanfold import clock, names
from fanfold.aws import dynamodb
from fanfold.aws.items import get_text, text
from fanfold.fanout.row import Fanout
from fanfold.fanout.segment_size import segment_range
from fanfold.follows import ring
from fanfold.follows.ring_reader import RingRead
from fanfold_cli.console.views import CELLS
from fanfold_cli.cost.prices import (
    DOLLARS_PER_MILLION_API_REQUESTS,
    DOLLARS_PER_MILLION_SQS_REQUESTS,
    DOLLARS_PER_THOUSAND_METRICS_READ,
    PRICES,
)
from fanfold_cli.deliveries import fanouts
from fanfold_cli.deliveries.fanouts import Listed
from fanfold_cli.deliveries.pauses import Paused
from fanfold_cli.health.reading import Reading, open_deliveries, with_pauses
from fanfold_cli.health.verdict import Depth, Health, verdict_on
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import counted

# Open fan-outs whose rows are read; the others are only counted.
LIMIT: Final = 20
# Followers of the largest fan-out, spread evenly over the ring, whose entries are looked up.
SAMPLES: Final = 32
# Between two readings of what changes slowly: as often as a metric has a new value.
BACKGROUND_SECONDS: Final = 60
# Read each time: the entries of each lane, and the last audit.
METRICS: Final = len(names.LANES) + 1
# A key of the index `open` has about 100 bytes; an eventual read of 8 KB takes one unit.
KEYS_A_READ_UNIT: Final = 80
# A queue and its dead-letter queue are read by a call each.
DEPTH_CALLS: Final = 2 * len(names.QUEUES)


@dataclass
class Spent:
    """What a refresh has read from AWS."""

    read_units: float = 0.0
    queue_calls: int = 0
    readers: int = 0  # each makes one API request

    def dollars_an_hour(self, every_seconds: float) -> float:
        refresh = (
            self.read_units * PRICES.dollars_per_million_reads
            + self.queue_calls * DOLLARS_PER_MILLION_SQS_REQUESTS
            + self.readers * DOLLARS_PER_MILLION_API_REQUESTS
        ) / 1e6
        background = METRICS / 1_000 * DOLLARS_PER_THOUSAND_METRICS_READ
        return 3600 * (refresh / every_seconds + background / BACKGROUND_SECONDS)

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
    background: Health | None = None  # what changes slowly
    rate: tuple[float, float] = (0.0, 0.0)  # see `CloudWatch.rate`

    def read_background(self) -> None:
        """Read what changes slowly, if that is due."""
        known = self.background
        if known is None or clock.now_ms() >= known.now_ms + BACKGROUND_SECONDS * 1000:
            reading = Reading(self.deployment)
            self.rate = reading.rate()
            self.background = reading.background()

    def status(self, found: Listed, queues: dict[str, Depth], paused: Paused, now_ms: int) -> str:
        """The sentence of `fanfold status`; empty until all of it is known."""
        if self.background is None:
            return ""
        open_, stalled = open_deliveries(found), found.counts["stalled"]
        known = replace(self.background, now_ms=now_ms, open=open_, stalled=stalled, queues=queues)
        return verdict_on(with_pauses(known, paused)).sentence

    def fanouts(self, also: Iterable[str] = ()) -> tuple[list[Fanout], Listed]:
        """Open, stalled and just ended fan-outs, newest first, and what the indices list.

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
        return newest, found

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


def _size(row: Fanout) -> int:
    return max(row.followers, row.delivered)
