"""The whole service as one construct."""

from collections.abc import Mapping
from typing import Any, Final

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from fanfold import names
from fanfold.budgets import WRITER_MEMORY_MB
from fanfold.names import API, DELIVER, PLAN, RELATE, SWEEP, TIMELINE
from fanfold.settings import Settings
from infra.alarms import Alarms
from infra.api import HttpDoor
from infra.bundling import service_code
from infra.identity import Identity
from infra.service_function import ServiceFunction
from infra.stages import Stage
from infra.tables import HouseTable
from infra.work_queue import WorkQueue

# All rights on tables. No function may scan one, or delete anything but an edge.
TABLE_ACTIONS: Final[dict[names.Table, Mapping[names.Function, tuple[str, ...]]]] = {
    names.TIMELINES: {
        TIMELINE: ("Query",),
        PLAN: ("BatchWriteItem",),
        DELIVER: ("BatchWriteItem",),
        RELATE: ("BatchGetItem", "BatchWriteItem"),
    },
    names.FOLLOWERS: {
        API: ("Query", "GetItem", "PutItem", "DeleteItem"),
        PLAN: ("Query", "GetItem", "PutItem", "DeleteItem"),
        DELIVER: ("Query",),
        RELATE: ("GetItem", "PutItem", "DeleteItem"),
    },
    names.FOLLOWING: {
        API: ("GetItem", "UpdateItem", "Query"),
        PLAN: ("GetItem", "UpdateItem"),
        TIMELINE: ("BatchGetItem",),
        RELATE: ("GetItem",),
    },
    names.PUBLISHERS: {
        API: ("GetItem", "UpdateItem"),
        PLAN: ("GetItem", "BatchGetItem", "UpdateItem"),
        DELIVER: ("GetItem", "BatchGetItem"),
        RELATE: ("GetItem", "UpdateItem"),
    },
    names.POSTS: {
        API: ("PutItem", "UpdateItem"),
        TIMELINE: ("GetItem", "BatchGetItem"),
        PLAN: ("BatchGetItem", "PutItem", "UpdateItem"),
        # GetItem is what the version before calls: while both are deployed, its rights go first.
        DELIVER: ("GetItem", "BatchGetItem"),
    },
    names.FANOUTS: {
        API: ("GetItem", "PutItem"),
        PLAN: ("GetItem", "BatchGetItem", "PutItem", "UpdateItem"),
        DELIVER: ("GetItem", "BatchGetItem", "UpdateItem"),
        SWEEP: ("GetItem", "BatchGetItem", "UpdateItem"),
    },
    names.READERS: {
        API: ("GetItem", "UpdateItem"),
        TIMELINE: ("GetItem",),
        PLAN: ("GetItem", "UpdateItem"),
    },
}
SENDERS: Final[Mapping[names.Queue, tuple[names.Function, ...]]] = {
    names.PUBLISH: (API, SWEEP),
    names.EXPRESS: (PLAN, DELIVER, SWEEP),
    names.BULK: (PLAN, DELIVER, SWEEP),
    names.RELATION: (API, PLAN, RELATE),
}
# One vCPU. By estimate, boto3 takes 4 s of it to list and read 10,000 open fan-outs, and 3 ms for
# each question; on the 0.29 of a function of 512 MB a run would not end within its minute.
SWEEP_MEMORY_MB: Final = 1_769
# SWEEP sends lost messages to these queues again, unless one is paused.
SWEPT: Final = (names.PUBLISH, names.EXPRESS, names.BULK)


class FollowTimeline(Construct):
    """Tables, queues, functions and the HTTP API of a follow timeline.

    `outputs` are what clients and operators need to know, by public name.
    """

    def __init__(self, scope: Construct, id_: str, *, stage: Stage) -> None:
        super().__init__(scope, id_)
        stage.check()
        self._stage = stage
        self.tables = {table: HouseTable(self, table, stage=stage) for table in names.TABLES}
        self.queues = {queue: WorkQueue(self, queue, stage=stage) for queue in names.QUEUES}
        self.identity = Identity(self, "Identity", stage=stage)
        self._place_functions()
        self._grant_tables()
        self._grant_queues()
        self._order_updates()
        self._start_functions()
        self.http = HttpDoor(
            self,
            "Http",
            stage=stage,
            identity=self.identity,
            doors={door.name: self.functions[door] for door in (API, TIMELINE)},
            default_door=API.name,
        )
        self.alarms = Alarms(
            self,
            "Alarms",
            stage=stage,
            queues=self.queues,
            tables=self.tables,
            functions=self.functions,
            api=self.http.api,
        )

    @property
    def outputs(self) -> dict[str, str]:
        outputs = {names.API_URL_OUTPUT: self.http.url}
        if self.identity.pool is not None and self.identity.client is not None:
            outputs[names.USER_POOL_ID_OUTPUT] = self.identity.pool.user_pool_id
            outputs[names.USER_POOL_CLIENT_ID_OUTPUT] = self.identity.client.user_pool_client_id
        for table, placed in self.tables.items():
            outputs[table.output] = placed.table_name
        for queue, work in self.queues.items():
            outputs[queue.url_output] = work.queue.queue_url
            outputs[queue.dlq_url_output] = work.dead_letters.queue_url
        return outputs

    def _place_functions(self) -> None:
        memory_mb = WRITER_MEMORY_MB[self._stage.transport]
        options: dict[names.Function, dict[str, Any]] = {
            PLAN: {"memory_mb": memory_mb},
            DELIVER: {
                "memory_mb": memory_mb,
                # It sends the rest of a segment to its own lane, up to a limit of hops, which
                # Lambda would stop as a runaway loop.
                "recursive_loop": lambda_.RecursiveLoop.ALLOW,
            },
            RELATE: {
                # It sends an order to its own queue for each edge that it puts, which ends at the
                # next: the edge is found. But batches mix the chains.
                "recursive_loop": lambda_.RecursiveLoop.ALLOW,
            },
            SWEEP: {
                "memory_mb": SWEEP_MEMORY_MB,
                # The next minute's run is the retry; another one would only overlap with it.
                "retry_attempts": 0,
                # Lambda keeps runs that it throttles, by default for six hours, and would carry
                # them out all at once. (It has the event by then, so the rule cannot limit this.)
                "max_event_age": Duration.minutes(1),
            },
        }
        code, settings = service_code(self._stage), self._run_time_settings()
        self.functions = {
            function: ServiceFunction(
                self,
                function,
                stage=self._stage,
                code=code,
                settings=settings,
                **options.get(function, {}),
            )
            for function in names.FUNCTIONS
        }

    def _grant_tables(self) -> None:
        for table, placed in self.tables.items():
            for function, actions in TABLE_ACTIONS[table].items():
                placed.allow(self.functions[function], *actions)
        for reader in (TIMELINE, RELATE):
            self.tables[names.POSTS].allow_index(self.functions[reader], names.OUTBOX, "Query")
        for index in (names.OPEN, names.GIVEN_UP):
            self.tables[names.FANOUTS].allow_index(self.functions[SWEEP], index, "Scan")

    def _grant_queues(self) -> None:
        sweep = self.functions[SWEEP]
        for queue, work in self.queues.items():
            for function in SENDERS[queue]:
                work.allow_sending(self.functions[function])
            work.allow_rejecting(self.functions[queue.consumer])
            work.allow_peeking_at_dead_letters(sweep)

    def _order_updates(self) -> None:
        """Have whoever takes messages updated before those who send them, perhaps of a new kind."""
        for queue, senders in SENDERS.items():
            taker = self.functions[queue.consumer].node.default_child
            assert isinstance(taker, lambda_.CfnFunction)
            for sender in set(senders) - {queue.consumer}:
                placed = self.functions[sender].node.default_child
                assert isinstance(placed, lambda_.CfnFunction)
                placed.add_dependency(taker)

    def _start_functions(self) -> None:
        """Let queues start the workers, and the clock SWEEP."""
        workers = self._stage.budget.workers
        for queue, work in self.queues.items():
            work.start(self.functions[queue.consumer], max_concurrency=workers[queue])
        for queue in SWEPT:
            self.queues[queue].allow_seeing_pauses(self.functions[SWEEP])
        events.Rule(
            self,
            "EveryMinute",
            schedule=events.Schedule.rate(Duration.minutes(1)),
            targets=[targets.LambdaFunction(self.functions[SWEEP], retry_attempts=0)],
        )

    def _run_time_settings(self) -> Settings:
        physical: dict[str, Any] = {
            table.setting: placed.table_name for table, placed in self.tables.items()
        }
        for queue, work in self.queues.items():
            physical[queue.url_setting] = work.queue.queue_url
            physical[queue.dlq_url_setting] = work.dead_letters.queue_url
        stage, budget = self._stage, self._stage.budget
        return Settings(
            **physical,
            transport=stage.transport,
            publish_worker_rate=budget.publish.worker_rate,
            publish_slowest_rate=budget.publish.slowest_rate,
            publish_burst=budget.publish_burst,
            express_worker_rate=budget.express.worker_rate,
            express_slowest_rate=budget.express.slowest_rate,
            express_burst=budget.express_burst,
            bulk_worker_rate=budget.bulk.worker_rate,
            bulk_slowest_rate=budget.bulk.slowest_rate,
            relation_worker_rate=budget.relation.worker_rate,
            user_claim=stage.user_claim,
            post_readers=stage.post_readers,
            follower_readers=stage.follower_readers,
            retention_days=stage.retention_days,
            max_follows=stage.max_follows,
            backfill=stage.backfill,
            max_level=stage.max_level,
        )
