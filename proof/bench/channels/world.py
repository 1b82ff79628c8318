"""The capacity model with channels: publishers with one, containers of `timeline`, readers."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from unittest.mock import patch

from fanfold import ids, invariants, names, times
from fanfold.aws import curl
from fanfold.aws.items import MAX_PUTS
from fanfold.aws.threads import together
from fanfold.channels.delivery import ChannelDelivery
from fanfold.channels.head import MOST, Head, partition_of
from fanfold.channels.known_head import KnownHead
from fanfold.follows.relation import FOLLOWED, Follow
from fanfold.settings import Settings
from fanfold.timeline.entries import Entry, entries_expire_at
from proof.bench import doors
from proof.bench.child import Context
from proof.model.clock import START_MS
from proof.model.dynamodb.capacity import Limits
from proof.model.dynamodb.partitions import Key, Row
from proof.model.dynamodb.tables import Table
from proof.simulation.stage import stores
from proof.simulation.timed.calls import TimedCalls
from proof.simulation.timed.system import RETENTION_DAYS, Planner, System
from proof.simulation.timed.tables import CountedTimelines, make_up_followers
from proof.simulation.timed.tasks import Threads
from proof.simulation.world import lambdas
from proof.simulation.world.function_modules import imported_anew

R = TypeVar("R")

FOLLOWERS = 10_000_000
THRESHOLD = 1_000_000
# A container keeps the newest hundred entries of a channel, and each channel has more.
CHANNEL_POSTS = 120
# How old an eventual read of the head may be: "usually one second or less", as AWS says.
READ_LAG_SECONDS = 1.0
_READER = "b0b00000-0000-4000-8000-{:012d}"
# As many as can have a channel; and one who has none.
PUBLISHERS = [f"ada00000-0000-4000-8001-{number:012d}" for number in range(MOST)]
OTHER_PUBLISHER = "ada00000-0000-4000-8002-000000000001"
# A timeline of a reader has more entries than a page, and some of them are older than a channel's.
OWN_POSTS = 120
_HOUR_MS = 60 * 60 * 1000


def reader(number: int) -> str:
    """The id of a reader of this bench."""
    return _READER.format(number)


class Stored(CountedTimelines):
    """Timelines that hold the channels, and the own entries of the readers of this bench.

    Of all others, entries are only counted.
    """

    def change(self, key: Key, new: Row | None, *, at: float | None = None) -> None:
        is_kept = key.partition.startswith(("#", "b0b0"))
        if is_kept:
            Table.change(self, key, new, at=at)
        else:
            super().change(key, new, at=at)


@dataclass(frozen=True)
class Wire(TimedCalls):
    """The client of `timeline`, which makes calls at the same time as libcurl does."""

    def together(self, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
        return together(self, Threads(self.scheduler, len(calls)), *calls)


@dataclass(frozen=True)
class Container:
    """An environment of `timeline`: the product's own door, imported anew."""

    door: Any

    def page(self, reader: str, limit: int, **query: str) -> dict[str, Any]:
        """A page of ids; raises `RuntimeError` if it is refused."""
        event = doors.timeline(limit, reader, hydrate="false", **query)
        answer = self.door.handler(event, Context())
        if answer["statusCode"] != 200:
            raise RuntimeError(f"A page was refused: {answer}")
        page: dict[str, Any] = json.loads(answer["body"])
        return page


def _broken(name: str, **ids: object) -> None:
    # Made-up followers lie where their names say, and not at their hashes.
    if name != "edge_position":
        raise AssertionError(f"The invariant {name} is broken: {ids}.")


class ChannelWorld(System):
    """A stage with channels; whatever is set up here before a run costs nothing."""

    def __init__(self, believed: int, *, seed: int = 0, has_channels: bool = True) -> None:
        super().__init__(believed, seed=seed)
        self.threshold = THRESHOLD if has_channels else 0
        client = self.untimed_dynamodb
        self.heads = stores(client).heads
        self.entries = stores(client).entries
        self.follows = stores(client).follows()
        self.wire = Wire(self.scheduler, self.untimed_dynamodb)

    def _create_tables(self, limits: Limits) -> None:
        super()._create_tables(limits)
        self.database.tables[names.TIMELINES.name] = self.timelines = Stored(self.scheduler.clock)
        self.database.hooks.read_lag = self._lag

    def _lag(self, table: str) -> float:
        is_heads = table == names.PUBLISHERS.name
        return self.random.uniform(0, READ_LAG_SECONDS) if is_heads else 0.0

    def _planner(self) -> Planner:
        """A warm environment of PLAN in a stage with channels, as in functions/plan.py."""
        planner = super()._planner()
        channels = ChannelDelivery(
            KnownHead(stores(self.dynamodb).heads, gives=self.threshold > 0),
            stores(self.dynamodb).entries,
            self.threshold,
            lambda _publisher, _followers, _choice: None,
        )
        return planner._replace(planning=replace(planner.planning, channels=channels))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the product live in this world: its clock, its settings, and `timeline`'s client."""
        with ExitStack() as ends:
            ends.enter_context(self.virtual_time())
            settings = lambdas.settings().to_env() | {"CHANNEL_THRESHOLD": str(self.threshold)}
            ends.enter_context(patch.dict(os.environ, settings))
            ends.enter_context(patch.object(curl, "dynamodb", lambda **_attempts: self.wire))
            ends.enter_context(patch.object(invariants, "broken", _broken))
            yield

    @contextmanager
    def free(self) -> Iterator[None]:
        """Set something up at no cost."""
        self.database.meter = None
        try:
            yield
        finally:
            self.database.meter = self.meter

    def container(self) -> Container:
        """A cold environment of `timeline`."""
        with imported_anew():
            return Container(importlib.import_module("functions.timeline"))

    def run(self, act: Callable[[], R]) -> R:
        """What an act returns, in a task of virtual time."""
        found: list[R] = []
        self.scheduler.start(lambda: found.append(act()))
        self.scheduler.run(lambda: bool(found))
        return found[0]

    def promote(self, *publishers: str) -> Head:
        """Give publishers of ten million followers a channel with posts in it, at no cost.

        Returns the head, once every read shows it.
        """
        with self.free():
            head = self.heads.get()
            for publisher in publishers:
                head = self.heads.add(publisher, head, followers=FOLLOWERS) or head
                self.make_celebrity(publisher)
                self._put(partition_of(publisher), self._posts(publisher, CHANNEL_POSTS))
        self.scheduler.run_to(self.scheduler.now + READ_LAG_SECONDS)
        return head

    def make_celebrity(self, publisher: str) -> None:
        """Give a publisher ten million followers."""
        make_up_followers(self.database, publisher, FOLLOWERS, seed=1)

    def fill(self, reader: str, publisher: str) -> None:
        """Give a reader entries of their own, at no cost."""
        with self.free():
            self._put(reader, self._posts(publisher, OWN_POSTS))

    def follow(self, reader: str, publishers: Sequence[str]) -> None:
        """Let a reader follow publishers, at no cost; nobody's memo of channels tells it."""
        now_ms = self.scheduler.clock.now_ms()
        seen = [
            Follow(user_id=reader, publisher_id=each, followed_at=times.to_text(now_ms))
            for each in publishers
        ]
        with self.free():
            moves = [(each, replace(each, state=FOLLOWED)) for each in seen]
            self.follows.write(moves, now_ms=now_ms, max_follows=Settings.max_follows)

    def spent(self, kind: str) -> dict[str, float]:
        """Units so far, by table or index."""
        return {
            " index ".join(filter(None, resource)): float(units)
            for (resource, of), units in self.meter.units.items()
            if of == kind
        }

    def total(self, kind: str) -> float:
        """Units so far, of all tables and indexes."""
        return sum(self.spent(kind).values())

    def _posts(self, publisher: str, count: int) -> list[Entry]:
        """Posts of the last hours; publishers differ by milliseconds."""
        offset = int(publisher[-6:]) % 1_000
        return [self._post(publisher, number, offset) for number in range(count)]

    def _post(self, publisher: str, number: int, offset: int) -> Entry:
        at = START_MS - 24 * _HOUR_MS + number * _HOUR_MS // 8 + offset
        ref_id = f"90570000-0000-4000-{number:04d}-{publisher[-12:]}"
        expires_at = entries_expire_at(at, RETENTION_DAYS)
        return Entry(ids.sort_key(times.to_text(at), ref_id), publisher, expires_at)

    def _put(self, partition: str, entries: Sequence[Entry]) -> None:
        for start in range(0, len(entries), MAX_PUTS):
            self.entries.put(partition, entries[start : start + MAX_PUTS])
