"""A stage with channels on the model of DynamoDB: one reader, several containers of `timeline`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fanfold import cursor, names, times
from fanfold.aws.items import number, text
from fanfold.aws.threads import together
from fanfold.channels.head import partition_of
from fanfold.channels.known_head import KnownHead
from fanfold.channels.reading import ChannelPage, ChannelReading
from fanfold.timeline.entries import Entry
from fanfold.timeline.paging import Asked
from fanfold.timeline.post_cache import Hydration
from fanfold.timeline.visibility import Reading, Visibility
from proof.model.clock import START_MS, Clock
from proof.model.dynamodb.capacity import READ, Meter
from proof.model.dynamodb.tables import Hooks
from proof.simulation.stage import stores
from tests.stores import client_of

READER = "b0b00000-0000-4000-8000-000000000001"
RETENTION_DAYS = 30


def publisher(place: int) -> str:
    """Ids are UUIDs, so that an entry has 177 bytes."""
    return f"ada00000-0000-4000-8000-{place:012d}"


@dataclass
class Stage:
    """It has as many containers as are asked for, each with caches of its own."""

    meter: Meter = field(default_factory=Meter)
    clock: Clock = field(default_factory=Clock)
    hooks: Hooks = field(default_factory=Hooks)
    containers: dict[int, Reading] = field(default_factory=dict)
    posts: int = 0

    def __post_init__(self) -> None:
        about: dict[str, Any] = {"hooks": self.hooks, "meter": self.meter, "validates": False}
        self.client = client = client_of(*names.TABLES, clock=self.clock, **about)
        self.timelines = stores(client).entries
        self.stored = stores(client).posts
        self.heads = stores(client).heads
        self.readers = stores(client).readers
        self.follows = stores(client).follows()

    def container(self, place: int = 0) -> Reading:
        return self.containers.setdefault(place, self._container())

    def _container(self) -> Reading:
        channels = ChannelReading(KnownHead(self.heads), self.timelines)
        calls = partial(together, self.client, None)
        visibility = Visibility(
            self.timelines,
            self.readers,
            calls,
            self.follows.active_among,
            RETENTION_DAYS,
            partial(ChannelPage, channels),
        )
        return Reading(Hydration(self.stored), visibility)

    def follow(self, *publishers: str) -> None:
        """The rows of one who follows these."""
        for each in publishers:
            item = {"user_id": text(READER), "publisher_id": text(each), "state": text("followed")}
            self.client.put_item(TableName=names.FOLLOWING.name, Item=item)
        item = {"user_id": text(READER), "follows": number(len(publishers))}
        self.client.put_item(TableName=names.READERS.name, Item=item)

    def promote(self, publisher_id: str) -> None:
        assert self.heads.add(publisher_id, self.heads.get(), followers=1)

    def entry(self, publisher_id: str, ms: int) -> Entry:
        """Of a new post, at an epoch millisecond."""
        self.posts += 1
        key = f"{times.to_text(ms)}#90570000-0000-4000-8000-{self.posts:012d}"
        return Entry(key, publisher_id, START_MS // 1000 + RETENTION_DAYS * 86_400)

    def put(self, entry: Entry, *, is_told: bool = True) -> None:
        """Put it into its publisher's channel, and tell the head of it."""
        self.timelines.push(entry, [partition_of(entry.publisher_id)])
        if is_told:
            self.heads.raise_seq(entry.publisher_id, entry.sort_key)

    def push(self, entry: Entry) -> None:
        self.timelines.push(entry, [READER])

    def page(
        self, limit: int = 50, *, container: int = 0, hydrate: bool = False, **query: Any
    ) -> dict[str, Any]:
        """A page of ids, or with content; cursors are texts."""
        for name in {"before", "after"} & query.keys():
            query[name] = cursor.decode(query[name], is_position=bool)
        return self.container(container).page(READER, Asked(limit, **query), hydrate=hydrate)

    @property
    def units(self) -> float:
        """The read units that were used so far."""
        return float(sum(units for (_, kind), units in self.meter.units.items() if kind == READ))
