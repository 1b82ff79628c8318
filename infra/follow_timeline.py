"""The whole service as one construct, which other CDK apps can embed."""

from typing import Any, Final

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from fanfold import names
from fanfold.budgets import DELIVER_MEMORY_MB
from fanfold.settings import BATCH, Settings
from infra.alarms import Alarms
from infra.api import HttpDoor
from infra.bundling import service_code
from infra.identity import Identity
from infra.service_function import ServiceFunction
from infra.stages import Stage
from infra.tables import HouseTable
from infra.work_queue import MIN_RECEIVES, WorkQueue, visibility_seconds

# API Gateway gives up after 30 s, and people do long before.
DOOR_SECONDS: Final = 10
PLAN_SECONDS: Final = 60
# Long enough for 5,000 entries on a table that throttles; what is left is handed back.
DELIVER_SECONDS: Final = 60
RELATE_SECONDS: Final = 30
# It ends before the next minute begins.
SWEEP_SECONDS: Final = 55

# A segment that meets a throttled table fails more often than a message that is wrong.
LANE_RECEIVES: Final = 10
# A message of the other queues is a few small calls; one of a lane may take the whole timeout.
ONE_SEGMENT: Final = 1


class FollowTimeline(Construct):
    """Tables, queues, functions and the HTTP API of a follow timeline.

    `outputs` are the names and addresses that a client or an operator needs, by their public name.
    """

    def __init__(self, scope: Construct, id_: str, *, stage: Stage) -> None:
        super().__init__(scope, id_)
        stage.check()
        self._stage = stage
        self._place_tables()
        self._place_queues()
        self.identity = Identity(self, "Identity", stage=stage)
        self._place_functions()
        self._grant_tables()
        self._grant_queues()
        self._feed()
        self.http = HttpDoor(
            self,
            "Http",
            stage=stage,
            identity=self.identity,
            doors={"api": self.api, "timeline": self.timeline},
            default_door="api",
        )
        self.alarms = Alarms(
            self,
            "Alarms",
            stage=stage,
            queues=self._queues.values(),
            tables=self._tables,
            sweep=self.sweep,
        )

    @property
    def outputs(self) -> dict[str, str]:
        """Every public output by its name."""
        named = {names.API_URL_OUTPUT: self.http.url}
        if self.identity.pool is not None and self.identity.client is not None:
            named[names.USER_POOL_ID_OUTPUT] = self.identity.pool.user_pool_id
            named[names.USER_POOL_CLIENT_ID_OUTPUT] = self.identity.client.user_pool_client_id
        for table, placed in self._tables.items():
            named[table.output] = placed.table_name
        for queue, work in self._queues.items():
            named[queue.url_output] = work.queue.queue_url
            named[queue.dlq_url_output] = work.dead_letters.queue_url
        return named

    def _place_tables(self) -> None:
        stage = self._stage
        # Many meet at one key of the tables whose keys run hot: all who follow a publisher at its
        # shards and, with each segment of its deliveries, at its row; all whom a reader follows at
        # the reader's timeline. Elsewhere a key is one user's own, or one post's, which is read
        # through a cache; and with those tables their indexes would be recorded and billed too.
        self.timelines = HouseTable(
            self, names.TIMELINES, stage=stage, takes_bursts=True, keys_run_hot=True
        )
        self.followers = HouseTable(
            self, names.FOLLOWERS, stage=stage, takes_bursts=True, keys_run_hot=True
        )
        self.following = HouseTable(self, names.FOLLOWING, stage=stage)
        self.publishers = HouseTable(self, names.PUBLISHERS, stage=stage, keys_run_hot=True)
        self.posts = HouseTable(self, names.POSTS, stage=stage)
        self.fanouts = HouseTable(self, names.FANOUTS, stage=stage)
        self.readers = HouseTable(self, names.READERS, stage=stage)
        self._tables = {
            names.TIMELINES: self.timelines,
            names.FOLLOWERS: self.followers,
            names.FOLLOWING: self.following,
            names.PUBLISHERS: self.publishers,
            names.POSTS: self.posts,
            names.FANOUTS: self.fanouts,
            names.READERS: self.readers,
        }

    def _place_queues(self) -> None:
        self.publish = self._queue(names.PUBLISH, PLAN_SECONDS)
        self.express = self._queue(names.EXPRESS, DELIVER_SECONDS, LANE_RECEIVES)
        self.bulk = self._queue(names.BULK, DELIVER_SECONDS, LANE_RECEIVES)
        self.relation = self._queue(names.RELATION, RELATE_SECONDS)
        self._queues = {
            work.name: work for work in (self.publish, self.express, self.bulk, self.relation)
        }

    def _place_functions(self) -> None:
        self._code = service_code(self._stage)
        self._settings = self._run_time_settings()
        self.api = self._function("api", DOOR_SECONDS)
        self.timeline = self._function("timeline", DOOR_SECONDS)
        self.plan = self._function("plan", PLAN_SECONDS)
        self.deliver = self._function(
            "deliver",
            DELIVER_SECONDS,
            memory_mb=DELIVER_MEMORY_MB[self._stage.transport],
            # It sends the rest of a segment to its own lane, bounded by a limit of hops. Lambda
            # would take that for a runaway loop and stop it.
            recursive_loop=lambda_.RecursiveLoop.ALLOW,
        )
        self.relate = self._function("relate", RELATE_SECONDS)
        # The next minute is its retry; another one meanwhile would only run beside it.
        self.sweep = self._function("sweep", SWEEP_SECONDS, retry_attempts=0)

    def _grant_tables(self) -> None:
        """Who may do what to which table. Nobody scans one, or deletes anything but an edge."""
        self.timelines.allow(self.timeline, "Query")
        self.timelines.allow(self.deliver, "BatchWriteItem")

        self.followers.allow(self.api, "GetItem", "PutItem", "DeleteItem")
        self.followers.allow(self.plan, "Query", "GetItem", "PutItem", "DeleteItem")
        self.followers.allow(self.deliver, "Query")
        self.followers.allow(self.relate, "GetItem", "PutItem", "DeleteItem")

        self.following.allow(self.api, "GetItem", "UpdateItem", "Query")
        self.following.allow(self.plan, "GetItem", "UpdateItem")
        self.following.allow(self.relate, "GetItem")

        self.publishers.allow(self.api, "GetItem", "UpdateItem")
        self.publishers.allow(self.plan, "GetItem", "UpdateItem")
        self.publishers.allow(self.deliver, "GetItem")
        self.publishers.allow(self.relate, "GetItem", "UpdateItem")

        self.posts.allow(self.api, "PutItem", "UpdateItem")
        self.posts.allow(self.timeline, "BatchGetItem")
        self.posts.allow(self.plan, "PutItem", "UpdateItem")
        self.posts.allow(self.deliver, "GetItem")

        self.fanouts.allow(self.api, "GetItem", "PutItem")
        self.fanouts.allow(self.plan, "GetItem", "PutItem", "UpdateItem")
        self.fanouts.allow(self.deliver, "GetItem", "UpdateItem")
        self.fanouts.allow(self.sweep, "GetItem", "UpdateItem")
        self.fanouts.allow_index(self.sweep, names.OPEN, "Scan")
        self.fanouts.allow_index(self.sweep, names.GIVEN_UP, "Scan")

        self.readers.allow(self.api, "UpdateItem")
        self.readers.allow(self.plan, "UpdateItem")

    def _grant_queues(self) -> None:
        """Who may send to which queue, and what a consumer may give up on."""
        self.publish.allow_sending(self.api)
        self.publish.allow_sending(self.sweep)
        self.publish.allow_measuring(self.sweep)
        self.publish.allow_rejecting(self.plan)

        for lane in (self.express, self.bulk):
            lane.allow_sending(self.plan)
            lane.allow_sending(self.deliver)
            lane.allow_sending(self.sweep)
            lane.allow_measuring(self.sweep)
            lane.allow_rejecting(self.deliver)

        self.relation.allow_sending(self.api)
        self.relation.allow_sending(self.plan)
        self.relation.allow_rejecting(self.relate)

        for work in self._queues.values():
            work.allow_looking_at_dead_letters(self.sweep)

    def _feed(self) -> None:
        """Which function consumes which queue, and what the clock starts."""
        stage, budget = self._stage, self._stage.budget
        self.publish.feed(self.plan, batch_size=BATCH, max_concurrency=stage.publish_concurrency)
        for work, lane in ((self.express, budget.express), (self.bulk, budget.bulk)):
            work.feed(self.deliver, batch_size=ONE_SEGMENT, max_concurrency=lane.max_concurrency)
        self.relation.feed(
            self.relate, batch_size=BATCH, max_concurrency=budget.relation.max_concurrency
        )
        for work in (self.publish, self.express, self.bulk):
            work.tell_whether_paused(self.sweep)
        events.Rule(
            self,
            "EveryMinute",
            schedule=events.Schedule.rate(Duration.minutes(1)),
            targets=[targets.LambdaFunction(self.sweep, retry_attempts=0)],
        )

    def _queue(
        self, name: names.Queue, consumer_seconds: int, receives: int = MIN_RECEIVES
    ) -> WorkQueue:
        return WorkQueue(
            self,
            name,
            stage=self._stage,
            consumer_timeout_seconds=consumer_seconds,
            max_receive_count=receives,
        )

    def _function(self, module: str, timeout_seconds: int, **options: Any) -> ServiceFunction:
        return ServiceFunction(
            self,
            module,
            stage=self._stage,
            code=self._code,
            settings=self._settings,
            timeout_seconds=timeout_seconds,
            **options,
        )

    def _run_time_settings(self) -> Settings:
        told: dict[str, Any] = {
            table.setting: self._tables[table].table_name for table in names.TABLES
        }
        for queue in names.QUEUES:
            work = self._queues[queue]
            told[queue.url_setting] = work.queue.queue_url
            told[queue.dlq_url_setting] = work.dead_letters.queue_url
            told[queue.max_receives_setting] = work.max_receive_count
        budget = self._stage.budget
        return Settings(
            **told,
            transport=self._stage.transport,
            express_worker_rate=budget.express.worker_rate,
            bulk_worker_rate=budget.bulk.worker_rate,
            user_claim=self._stage.user_claim,
            retention_days=self._stage.retention_days,
            max_follows=self._stage.max_follows,
            max_level=self._stage.max_level,
            door_timeout_seconds=DOOR_SECONDS,
            plan_timeout_seconds=PLAN_SECONDS,
            lane_visibility_seconds=visibility_seconds(DELIVER_SECONDS),
        )
