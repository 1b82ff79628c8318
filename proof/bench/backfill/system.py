"""The capacity model with follows: their door, and RELATE with its queue."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec, module_from_spec
from typing import Any
from unittest.mock import patch

from fanfold import clock, contract, names, times
from fanfold.aws.items import MAX_PUTS
from fanfold.aws.queues import WorkQueue
from fanfold.errors import TryLater
from fanfold.fanout.pacing import Pace
from fanfold.follows import backfill
from fanfold.follows.backfill import Backfilling, NewestPosts
from fanfold.follows.edges import Edges
from fanfold.follows.follow import Following
from fanfold.follows.levels import Growing, Levels
from fanfold.settings import Settings
from fanfold.timeline.entries import entries_expire_at
from fanfold.timeline.posts import OUTLIVES_SECONDS, Post
from functions import _clients
from functions._worker import Received
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.capacity import Limits
from proof.model.dynamodb.partitions import Key, Partition, Row
from proof.model.dynamodb.values import Item, size_of_item
from proof.simulation.stage import stores
from proof.simulation.timed.calls import TimedCalls
from proof.simulation.timed.mappings import Arrived, Environments, SideBySide
from proof.simulation.timed.system import BODY, RETENTION_DAYS, System
from proof.simulation.timed.tables import CountedTimelines
from proof.simulation.world import lambdas

# Posts of a publisher before anybody follows it: more than a backfill brings.
OLD_POSTS = 40
OLD_POST = "90570000-0000-4000-8001-{:012d}"


@dataclass(frozen=True)
class Way:
    """How RELATE backfills; without arguments as the product does."""

    posts: int = Settings.backfill
    looks_twice: bool = True
    is_careful: bool = True  # which remembered pages it believes: by its rule, or all
    remembers_seconds: float = backfill.PAGE_SECONDS

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let RELATE go this way for a while."""
        lag_ms = backfill.OUTBOX_LAG_MS if self.is_careful else -(10**9)
        with (
            patch.object(backfill, "OUTBOX_LAG_MS", lag_ms),
            patch.object(backfill, "PAGE_SECONDS", self.remembers_seconds),
        ):
            yield


class KnownTimelines(CountedTimelines):
    """Timelines that know which entries they hold, for RELATE's second pass."""

    def change(self, key: Key, new: Row | None, *, at: float | None = None) -> None:
        # One string for all entries of a user: millions of copies would fill the memory.
        super().change(Key(sys.intern(key.partition), key.place), new, at=at)

    def partition(self, key: Any, moment: float | None) -> Partition:
        del moment
        rows: Any = Held(self, key)
        return Partition(rows)


@dataclass(frozen=True)
class Held:
    """The rows of one timeline, made up as they are asked for."""

    timelines: KnownTimelines
    user: str

    def get(self, place: tuple[str]) -> Row | None:
        (sort_key,) = place
        written = self.timelines.written.get(sort_key)
        if written is None or self.user not in written.users:
            return None
        item: Item = {"user_id": ("S", self.user), "sort_key": ("S", sort_key)}
        return Row(item, size_of_item(item))


@dataclass(frozen=True)
class Once(TimedCalls):
    """A client that does not retry, as the product has one for edges and one for RELATE."""

    def _call(self, operation: str, **request: Any) -> Any:
        return self._try(operation, request)


class OneLook(Backfilling):
    """A worse way: an order to settle reads no outbox."""

    def second(self, follow: Any, **_when: Any) -> int:
        del follow
        return 0


# What functions/relate.py does with a message, in a warm environment of its own.
Take = Callable[[Received[str]], None]


def relate(following: Following, backfilling: Backfilling, pace: Pace) -> Take:
    """The product's door of RELATE, with use cases on the model: a new copy of its module."""
    spec = find_spec("functions.relate")
    assert spec
    assert spec.loader
    door: Any = module_from_spec(spec)
    with ExitStack() as stack:
        # It reads the environment as it is imported, and makes clients that are not used here.
        stack.enter_context(patch.dict(os.environ, lambdas.settings().to_env()))
        for client in ("dynamodb", "sqs", "threads"):
            stack.enter_context(patch.object(_clients, client, lambda *_args, **_options: None))
        spec.loader.exec_module(door)
    door.following, door.backfilling = following, backfilling
    door.PACES = dict.fromkeys(door.PACES, pace)

    return lambda received: door.take(received._replace(message=door._read(received.message)))


class Follows(System):
    """The system of deliveries, and follows beside them."""

    def __init__(
        self, believed: int, limits: Limits | None = None, *, way: Way | None = None, seed: int = 0
    ) -> None:
        self.way = way or Way()
        self.backfilled: Counter[int] = Counter()  # entries that RELATE has put, by second
        # Seconds from each order to backfill to its end, by user.
        self.waits: dict[str, float] = {}
        self.came_again = 0
        super().__init__(believed, limits, seed=seed)
        self.door = self._following()

    def _create_tables(self, limits: Limits) -> None:
        super()._create_tables(limits)
        self.timelines = KnownTimelines(self.scheduler.clock)
        self.database.tables[names.TIMELINES.name] = self.timelines

    def _create_queues(self) -> None:
        super()._create_queues()
        timed = self.timed(self.untimed_sqs, self._poll_for)
        url, _ = self.queues.create_with_dlq(
            names.RELATION.name,
            max_receives=names.RELATION.max_receives,
            visibility_seconds=names.RELATION.visibility_seconds,
        )
        self.lanes[names.RELATION] = WorkQueue(timed, url)

    def _start_workers(self) -> None:
        super()._start_workers()
        url, workers = self.lanes[names.RELATION].url, self.budget.relation.max_concurrency
        environments = Environments(self, self._worker)
        self.mappings[url] = Relating(
            self, names.RELATION, url, workers, environments=environments, handle=self.take
        )

    def _following(self) -> Following:
        client: Any = self.dynamodb
        once: Any = Once(self.scheduler, self.untimed_dynamodb)
        growing = Growing(
            Levels(stores(client).publishers),
            Settings.max_level,
            Settings.growth_cooldown_ms,
            lambda _publisher, _result: None,
        )
        return Following(
            stores(client).follows(),
            Edges(stores(once).edges, growing),
            stores(client).privacies,
            self.lanes[names.RELATION],
            Settings.max_follows,
            names.API.seconds,
            backfills=self.way.posts > 0,
        )

    def post_before(self, publisher_id: str) -> None:
        """Give a publisher older posts, at no cost and without followers."""
        client: Any = dynamodb.Client(self.database, validates=False)
        self.database.meter = None
        for number in range(OLD_POSTS):
            now_ms = self.scheduler.clock.now_ms() - 3_600_000 + number
            at = times.to_text(now_ms)
            post = Post(
                ref_id=OLD_POST.format(number) + publisher_id[-8:],
                publisher_id=publisher_id,
                published_at=at,
                accepted_at=at,
                expires_at=entries_expire_at(now_ms, RETENTION_DAYS) + OUTLIVES_SECONDS,
                body=BODY,
            )
            stores(client).posts.add(post, now=now_ms // 1000)
        self.database.meter = self.meter

    def take(self, worker: Take, order: Arrived) -> None:
        """Carry out an order."""
        worker(
            Received(
                queue=names.RELATION.name,
                group=order.group,
                message=order.body,
                sent_at=order.sent_at,
                first_sent_at=order.sent_at,
                sender_id="",
                first_senders="",
                redelivered=order.redelivered,
                stop_at=clock.monotonic() + names.RELATE.seconds,
            )
        )
        if order.content["type"] == contract.RELATION_BACKFILL:
            self.waits[order.content["user_id"]] = (clock.now_ms() - order.sent_at) / 1000

    def _worker(self) -> Take:
        client: Any = self.dynamodb
        once: Any = Once(self.scheduler, self.untimed_dynamodb, self._count)
        newest = NewestPosts(stores(client).outbox, RETENTION_DAYS, self.way.posts)
        backfills = Backfilling if self.way.looks_twice else OneLook
        return relate(
            self._following(),
            backfills(newest, stores(once).entries),
            Pace(self.budget.relation.worker_rate, burst=MAX_PUTS),
        )

    def _count(self, operation: str, request: dict[str, Any]) -> None:
        if operation == "batch_write_item":
            puts = len(request["RequestItems"][names.TIMELINES.name])
            self.backfilled[int(self.scheduler.now)] += puts


@dataclass
class Relating(SideBySide[Take]):
    """RELATE's mapping: an order comes again only where the product asks for it."""

    system: Follows

    def comes_again(self, error: Exception) -> None:
        if not isinstance(error, TryLater):
            raise error
        self.system.came_again += 1
        super().comes_again(error)
