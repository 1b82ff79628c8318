"""The Lambda functions: same asset, same runtime, same settings."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from fanfold import names
from fanfold.budgets import WRITER_MEMORY_MB
from fanfold.names import API, DELIVER, PLAN, RELATE, SWEEP, TIMELINE
from fanfold.settings import Settings, StageSettings

from .embedding.network import Attachment
from .queues import WorkQueue
from .rights import SENDERS
from .settings.stages import Stage
from .tables import HouseTable, removal_policy

ARCHITECTURES: Final = {"arm64": lambda_.Architecture.ARM_64, "x86_64": lambda_.Architecture.X86_64}
# 0.29 vCPU keeps a cold start short, and is enough for a function that waits for DynamoDB.
MEMORY_MB: Final = 512
# One vCPU. By estimate, boto3 takes 4 s of it to list and read 10,000 open fan-outs, and 3 ms for
# each question; on the 0.29 of a function of 512 MB a run would not end within its minute.
SWEEP_MEMORY_MB: Final = 1_769


class ServiceFunction(lambda_.Function):
    """A function whose role may write to its own log group, and gets other rights by grants."""

    def __init__(
        self,
        scope: Construct,
        function: names.Function,
        *,
        stage: Stage,
        code: lambda_.Code,
        settings: Settings,
        key: kms.IKey | None = None,
        network: Attachment | None = None,
        memory_mb: int = MEMORY_MB,
        recursive_loop: lambda_.RecursiveLoop | None = None,
        retry_attempts: int | None = None,
        max_event_age: Duration | None = None,
    ) -> None:
        name = f"{function.name.title()}Function"
        log_group = logs.LogGroup(
            scope, f"{name}Logs", encryption_key=key, removal_policy=removal_policy(stage)
        )
        keep_for_days(log_group, stage.log_retention_days)
        # CDK's default role has a managed policy that allows every log group.
        role = iam.Role(
            scope, f"{name}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")
        )
        log_group.grant_write(role)
        if network is not None:
            network.allow(role)
        super().__init__(
            scope,
            name,
            code=code,
            handler=f"functions.{function.name}.handler",
            runtime=lambda_.Runtime(stage.runtime, lambda_.RuntimeFamily.PYTHON),
            architecture=ARCHITECTURES[stage.architecture],
            memory_size=memory_mb,
            timeout=Duration.seconds(function.seconds),
            role=role,
            log_group=log_group,
            vpc=network.vpc if network else None,
            vpc_subnets=network.subnets if network else None,
            security_groups=network.security_groups if network else None,
            recursive_loop=recursive_loop,
            retry_attempts=retry_attempts,
            max_event_age=max_event_age,
            environment={
                # A dimension of the metrics. It contains the stage, so that two stages in one
                # account do not raise each other's alarms.
                names.SERVICE_NAME: service_name(stage, function),
                **settings.to_env(),
            },
        )


def run_time_settings(
    stage: Stage, tables: Mapping[names.Table, HouseTable], queues: Mapping[names.Queue, WorkQueue]
) -> Settings:
    """The settings of every function at run time."""
    physical: dict[str, Any] = {
        table.setting: placed.table_name for table, placed in tables.items()
    }
    for queue, work in queues.items():
        physical[queue.url_setting] = work.queue.queue_url
        physical[queue.dlq_url_setting] = work.dead_letters.queue_url
    chosen = {field.name: getattr(stage, field.name) for field in fields(StageSettings)}
    budget = stage.budget
    return Settings(
        **physical,
        **chosen,
        senders=",".join(stage.senders),
        publish_worker_rate=budget.publish.worker_rate,
        publish_slowest_rate=budget.publish.slowest_rate,
        publish_burst=budget.publish_burst,
        express_worker_rate=budget.express.worker_rate,
        express_slowest_rate=budget.express.slowest_rate,
        express_burst=budget.express_burst,
        bulk_worker_rate=budget.bulk.worker_rate,
        bulk_slowest_rate=budget.bulk.slowest_rate,
        relation_worker_rate=budget.relation.worker_rate,
    )


def special(function: names.Function, stage: Stage) -> dict[str, Any]:
    """The properties in which this function differs from the others."""
    memory_mb = WRITER_MEMORY_MB[stage.transport]
    options: dict[names.Function, dict[str, Any]] = {
        PLAN: {"memory_mb": memory_mb},
        DELIVER: {
            "memory_mb": memory_mb,
            # It sends the rest of a segment to its own lane, up to a limit of hops, which Lambda
            # would stop as a runaway loop.
            "recursive_loop": lambda_.RecursiveLoop.ALLOW,
        },
        RELATE: {
            # It sends a command to its own queue for each edge that it puts; the chain ends at the
            # next one, which finds the edge. But batches mix such chains.
            "recursive_loop": lambda_.RecursiveLoop.ALLOW,
        },
        SWEEP: {
            "memory_mb": SWEEP_MEMORY_MB,
            # The next minute's run is the retry; another one would only overlap with it.
            "retry_attempts": 0,
            # Lambda keeps throttled runs, by default for six hours, and would then start all of
            # them at once. (Lambda has the event by then, so the rule cannot limit this.)
            "max_event_age": Duration.minutes(1),
        },
    }
    return options.get(function, {})


def order_updates(placed: Mapping[names.Function, lambda_.Function], stage: Stage) -> None:
    """Update the consumers of messages before their senders, which may send a new kind.

    But PLAN comes after the functions that read channels and note what readers know of them, so
    that a deploy that begins with channels puts no post into one that pages do not read. Then the
    old PLAN may receive a command of a new kind, and refuses it; SWEEP sends it again.
    """
    before = {
        (queue.consumer, sender)
        for queue, senders in SENDERS.items()
        for sender in senders
        if sender != queue.consumer
    } | {(TIMELINE, API)}  # that it shows nobody what API has made private
    if stage.channel_threshold:
        before = before - {(PLAN, API)} | {(API, PLAN), (TIMELINE, PLAN)}
    for first, second in before:
        _resource(placed[second]).node.add_dependency(_resource(placed[first]))


def _resource(function: lambda_.Function) -> lambda_.CfnFunction:
    resource = function.node.default_child
    assert isinstance(resource, lambda_.CfnFunction)
    return resource


def service_name(stage: Stage, function: names.Function | None) -> str:
    """The function's name in logs and metrics, or that of the stage for all of them."""
    return f"fanfold-{stage.name}" + (f"-{function.name}" if function else "")


def keep_for_days(log_group: logs.LogGroup, days: int) -> None:
    """Set how long logs live; CDK has a name of its own for each period."""
    resource = log_group.node.default_child
    assert isinstance(resource, logs.CfnLogGroup)
    resource.retention_in_days = days
