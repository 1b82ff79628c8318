"""The whole service as one construct."""

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import Aws, CfnOutput, Duration, Names, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from fanfold import names
from fanfold.names import API, RELATE, SWEEP, TIMELINE

from .alarms.alarms import Alarms
from .api import HttpDoor
from .bundling import service_code
from .embedding.network import Attachment, Network
from .embedding.properties import LOCAL_CONTEXT, Properties, Sender, TableOptions, embedded
from .embedding.surroundings import Domain, Surroundings
from .embedding.users import Users
from .functions import ServiceFunction, order_updates, run_time_settings, special
from .identity import Identity
from .queues import WorkQueue
from .rights import (
    KEY_ACTIONS,
    KEY_ACTIONS_OF_READERS,
    OF_IDS_ALONE,
    ROWS,
    SENDERS,
    TABLE_ACTIONS,
)
from .settings.checks import StageError
from .settings.stages import Stage, on_this_machine
from .tables import HouseTable, grant

# SWEEP sends lost messages to these queues again, unless one is paused.
SWEPT: Final = (names.PUBLISH, names.EXPRESS, names.BULK)


class FollowTimeline(Construct):
    """Tables, queues, functions and the HTTP API of a follow timeline.

    Give its `users`; everything else has a default, which keeps data when the stack is deleted.
    Properties override those of the `stage`, which has the other settings.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        users: Users | None = None,
        # In logs and metrics: no two timelines of an account may share it.
        name: str | None = None,
        # How long entries live.
        retention: Duration | None = None,
        # The longest that entries ever lived, if longer.
        longest_retention: Duration | None = None,
        removal_policy: RemovalPolicy | None = None,
        tables: TableOptions | None = None,
        # Of browser apps.
        cors_origins: Sequence[str] | None = None,
        # How many of the account's concurrent executions it may take.
        concurrency: int | None = None,
        # How many followers give a publisher a channel; without it, there are no channels.
        channel_threshold: int | None = None,
        # Binds who may send to the publish queue; without it, every sender may act for everybody.
        senders: Sequence[Sender] | None = None,
        # Gets all alarms, and must let CloudWatch publish. Without it: `alarm_topic`.
        alarm_topic: sns.ITopic | None = None,
        # Encrypts tables, queues, logs, and the timeline's own topic.
        encryption_key: kms.IKey | None = None,
        # Bounds every role.
        permissions_boundary: iam.IManagedPolicy | None = None,
        # Where the functions run.
        network: Network | None = None,
        # The address of the HTTP API.
        domain: Domain | None = None,
        tags: Mapping[str, str] | None = None,
        stage: Stage | None = None,
        # The functions' code; without it, an asset made of what is installed here.
        code: lambda_.Code | None = None,
    ) -> None:
        super().__init__(scope, id_)
        properties = Properties(
            name=name,
            users=users,
            retention=retention,
            longest_retention=longest_retention,
            removal_policy=removal_policy,
            tables=tables,
            cors_origins=cors_origins,
            concurrency=concurrency,
            channel_threshold=channel_threshold,
            tags=tags,
            senders=senders,
            has_alarm_topic=alarm_topic is not None,
        )
        base = stage or embedded(Names.unique_resource_name(self, max_length=50, separator="-"))
        is_local = str(self.node.try_get_context(LOCAL_CONTEXT)).lower() == "true"
        chosen = properties.applied_to(base)
        self._stage = on_this_machine(chosen) if is_local else chosen
        self._stage.check()
        given = Surroundings(
            key=encryption_key, boundary=permissions_boundary, network=network, domain=domain
        ).or_of(self, self._stage)
        if is_local:
            given = given.on_this_machine()
        given.apply_to(self, self._stage)
        self._key = given.key
        self.network = (
            None if given.network is None else Attachment(self, "Network", network=given.network)
        )
        self.tables = {
            table: HouseTable(self, table, stage=self._stage, key=given.key)
            for table in names.TABLES
        }
        self.queues = {
            queue: WorkQueue(self, queue, stage=self._stage, key=given.key)
            for queue in names.QUEUES
        }
        self.identity = Identity(self, "Identity", stage=self._stage, users=users)
        self._place_functions(code)
        self._grant_tables()
        self._grant_queues()
        order_updates(self.functions, self._stage)
        self._start_functions()
        self.http = HttpDoor(
            self,
            "Http",
            stage=self._stage,
            identity=self.identity,
            doors={door.name: self.functions[door] for door in (API, TIMELINE)},
            default_door=API.name,
            domain=given.domain,
            key=given.key,
        )
        self.alarms = Alarms(
            self,
            "Alarms",
            stage=self._stage,
            queues=self.queues,
            tables=self.tables,
            functions=self.functions,
            api=self.http.api,
            topic=alarm_topic,
            key=given.key,
        )

    @property
    def api_url(self) -> str:
        """The base URL of the HTTP API, without a slash at the end."""
        return self.http.url

    @property
    def publish_queue(self) -> sqs.IQueue:
        """Takes the messages of other services, such as `post.published`."""
        return self.queues[names.PUBLISH].queue

    @property
    def alarm_topic(self) -> sns.ITopic:
        """Gets every alarm."""
        return self.alarms.topic

    def grant_publish(self, grantee: iam.IGrantable) -> iam.Grant:
        """Grant sending messages for any publisher to the publish queue."""
        return self.publish_queue.grant_send_messages(grantee)

    @property
    def timelines_table(self) -> dynamodb.ITableV2:
        """One item for each entry of a user's timeline."""
        return self.tables[names.TIMELINES]

    @property
    def posts_table(self) -> dynamodb.ITableV2:
        """One item for each post."""
        return self.tables[names.POSTS]

    @property
    def readers_table(self) -> dynamodb.ITableV2:
        """Whom each user has muted, in the item `<user_id>#muted`, and each user's own row."""
        return self.tables[names.READERS]

    def grant_streams(self, grantee: iam.IGrantable) -> None:
        """Grant reading the streams of timelines and posts (`TableOptions.streams`).

        An event source mapping grants the same, except for the key.
        """
        for table in self._streamed():
            table.grant_stream_read(grantee)
        if self._key is not None:
            self._key.grant_decrypt(grantee)

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Grant what the function `timeline` may do: read every timeline, with its posts."""
        self._grant_tables_of(TIMELINE, grantee)
        if self._key is not None:
            self._key.grant(grantee, *KEY_ACTIONS_OF_READERS)

    def publish_events(
        self,
        id_: str,
        *,
        event_pattern: events.EventPattern,
        event_bus: events.IEventBus | None = None,
        message: events.RuleTargetInput | None = None,
    ) -> events.Rule:
        """Send matching events to the publish queue, as the `message`, or their `detail` unchanged.

        It must be a message of the contract; otherwise it ends in the dead-letter queue.
        """
        sent = message or events.RuleTargetInput.from_event_path("$.detail")
        return events.Rule(
            self,
            id_,
            event_bus=event_bus,
            event_pattern=event_pattern,
            targets=[targets.SqsQueue(self.publish_queue, message=sent)],
        )

    def add_outputs(self) -> None:
        """Give the stack the outputs that `fanfold --stack` reads; for one timeline only."""
        for name, value in self.outputs.items():
            CfnOutput(Stack.of(self), name, value=value)

    @property
    def outputs(self) -> dict[str, str]:
        """What clients and operators need to know, by public name."""
        outputs = {names.API_URL_OUTPUT: self.http.url}
        if self.http.domain is not None:
            outputs[names.API_DOMAIN_TARGET_OUTPUT] = self.http.domain.regional_domain_name
        if self.identity.pool is not None and self.identity.client is not None:
            outputs[names.USER_POOL_ID_OUTPUT] = self.identity.pool.user_pool_id
            outputs[names.USER_POOL_CLIENT_ID_OUTPUT] = self.identity.client.user_pool_client_id
        if self._stage.channel_threshold:
            outputs[names.CHANNEL_THRESHOLD_OUTPUT] = str(self._stage.channel_threshold)
        for table, placed in self.tables.items():
            outputs[table.output] = placed.table_name
            if table.heard_by_others and self._stage.streams:
                # CDK has an ARN for every table, with a stream or without.
                assert placed.table_stream_arn is not None
                outputs[table.stream_output] = placed.table_stream_arn
        for queue, work in self.queues.items():
            outputs[queue.url_output] = work.queue.queue_url
            outputs[queue.dlq_url_output] = work.dead_letters.queue_url
        return outputs

    def _streamed(self) -> list[HouseTable]:
        if not self._stage.streams:
            raise StageError("There are no streams: give tables=TableOptions(streams=True).")
        return [placed for table, placed in self.tables.items() if table.heard_by_others]

    def _place_functions(self, given: lambda_.Code | None) -> None:
        code = given or service_code(self._stage)
        settings = run_time_settings(self._stage, self.tables, self.queues)
        self.functions = {
            function: ServiceFunction(
                self,
                function,
                stage=self._stage,
                code=code,
                settings=settings,
                key=self._key,
                network=self.network,
                **special(function, self._stage),
            )
            for function in names.FUNCTIONS
        }

    def _grant_tables(self) -> None:
        for function, placed in self.functions.items():
            self._grant_tables_of(function, placed)
            if self._key is not None:
                _allow_key(self._key, placed)
        # A page notes in the reader's row which channels the reader follows.
        self.tables[names.READERS].allow(self.functions[TIMELINE], "UpdateItem")
        for index in (names.OPEN, names.GIVEN_UP):
            self.tables[names.FANOUTS].allow_index(self.functions[SWEEP], index, "Scan")

    def _grant_tables_of(self, function: names.Function, who: iam.IGrantable) -> None:
        for table, placed in self.tables.items():
            actions = TABLE_ACTIONS[table].get(function, ())
            of_ids = [each for each in actions if each in OF_IDS_ALONE.get(table, ())]
            if of_all := [each for each in actions if each not in of_ids]:
                placed.allow(who, *of_all)
            if of_ids:
                placed.allow_ids(who, *of_ids)
        for rows in ROWS:
            if function in rows.actions:
                self.tables[rows.table].allow_rows(who, rows.keys, *rows.actions[function])
        if function in (TIMELINE, RELATE):
            self.tables[names.POSTS].allow_index(who, names.OUTBOX, "Query")

    def _grant_queues(self) -> None:
        sweep = self.functions[SWEEP]
        for queue, work in self.queues.items():
            for function in SENDERS[queue]:
                work.allow_sending(self.functions[function])
            work.allow_rejecting(self.functions[queue.consumer])
            work.allow_peeking_at_dead_letters(sweep)
        # A message may overtake what it needs.
        self.queues[names.PUBLISH].allow_postponing(self.functions[names.PLAN])

    def _start_functions(self) -> None:
        """Let the queues start the workers, and a schedule SWEEP."""
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


def _allow_key(key: kms.IKey, who: iam.IGrantable) -> None:
    """Let tables and queues use the key for the function; its code cannot use it directly."""
    services = [f"{service}.{Aws.REGION}.amazonaws.com*" for service in ("dynamodb", "sqs")]
    # In China the names of services end with `.cn`.
    conditions = {"StringLike": {"kms:ViaService": services}}
    grant(who, list(KEY_ACTIONS), key.key_arn, conditions=conditions)
