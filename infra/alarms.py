"""Alarms: failed and late messages, stalled deliveries, a failing SWEEP, throttled indexes."""

from collections.abc import Iterable, Mapping
from typing import Final

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_chatbot as chatbot
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from fanfold import names
from infra.service_function import service_name
from infra.stages import Stage
from infra.tables import HouseTable
from infra.work_queue import WorkQueue

# The oldest message of a queue may be this old. Commands and small fan-outs take seconds, but huge
# fan-outs take long, and a burst of follows waits for the rate of RELATE.
MAX_AGE: Final[Mapping[names.Queue, Duration]] = {
    names.PUBLISH: Duration.minutes(5),
    names.EXPRESS: Duration.minutes(5),
    names.RELATION: Duration.minutes(30),
    names.BULK: Duration.hours(1),
}
# SWEEP runs every minute. One failure may be transient; three in a row are not.
SWEEP_FAILURES: Final = 3
# A key of an index is shared at most by the posts of one publisher, so no throttle is expected. But
# DynamoDB throttles a burst on a cold index until it has split it, which takes minutes; a hot key
# stays throttled longer.
INDEX_THROTTLES: Final = 1
INDEX_MINUTES: Final = 5


class Alarms(Construct):
    """All alarms, and the topic that they are sent to."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: Stage,
        queues: Iterable[WorkQueue],
        tables: Mapping[names.Table, HouseTable],
        sweep: lambda_.IFunction,
    ) -> None:
        super().__init__(scope, id_)
        self.topic = _topic(self, stage)
        _notify_slack(self, stage, self.topic)
        for queue in queues:
            self._failed_work(queue)
            self._late_work(queue)
        for table, placed in tables.items():
            for index in table.indexes:
                self._throttled_index(table, index, placed)
        self._stalled(stage)
        self._failing_sweep(sweep)

    def _failed_work(self, queue: WorkQueue) -> None:
        self._alarm(
            f"{queue.name.name}Failed",
            f"Messages wait in the dead-letter queue of {queue.name.name}: see why, then redrive.",
            # A maximum, because the metric is a gauge.
            queue.dead_letters.metric_approximate_number_of_messages_visible(
                period=Duration.minutes(1), statistic="Maximum"
            ),
            threshold=1,
        )

    def _late_work(self, queue: WorkQueue) -> None:
        self._alarm(
            f"{queue.name.name}Late",
            f"The oldest message of {queue.name.name} waits longer than it should.",
            queue.queue.metric_approximate_age_of_oldest_message(
                period=Duration.minutes(1), statistic="Maximum"
            ),
            threshold=MAX_AGE[queue.name].to_seconds(),
            periods=3,
        )

    def _throttled_index(self, table: names.Table, index: names.Index, placed: HouseTable) -> None:
        self._alarm(
            f"{table.name}{index.name.title()}IndexThrottled",
            f"The index {index.name} is throttled, and with it the writes of {table.name}.",
            cloudwatch.Metric(
                namespace="AWS/DynamoDB",
                metric_name="WriteThrottleEvents",
                # CloudWatch does not count indexes in the metric of the table.
                dimensions_map={
                    "TableName": placed.table_name,
                    "GlobalSecondaryIndexName": index.name,
                },
                period=Duration.minutes(1),
                statistic="Sum",
            ),
            threshold=INDEX_THROTTLES,
            periods=INDEX_MINUTES,
        )

    def _stalled(self, stage: Stage) -> None:
        self._alarm(
            "FanoutsStalled",
            "A publish was accepted and stays incomplete: SWEEP has sent it again in vain.",
            cloudwatch.Metric(
                namespace=names.METRICS_NAMESPACE,
                metric_name=names.FANOUTS_STALLED,
                dimensions_map={"service": service_name(stage, names.SWEEP)},
                period=Duration.minutes(1),
                statistic="Sum",
            ),
            threshold=1,
        )

    def _failing_sweep(self, sweep: lambda_.IFunction) -> None:
        self._alarm(
            "SweepFailing",
            "SWEEP fails again and again: what was lost on its way is not sent again.",
            sweep.metric_errors(period=Duration.minutes(1), statistic="Sum"),
            threshold=1,
            periods=SWEEP_FAILURES,
        )

    def _alarm(
        self,
        id_: str,
        description: str,
        metric: cloudwatch.IMetric,
        *,
        threshold: float,
        periods: int = 1,
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            id_,
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            # An idle queue and an index without throttles have no data.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))


def _topic(scope: Construct, stage: Stage) -> sns.Topic:
    topic = sns.Topic(scope, "Topic", enforce_ssl=True)
    # `enforce_ssl` replaces the default policy, which allows CloudWatch to publish.
    stack = Stack.of(scope)
    alarms = stack.format_arn(
        service="cloudwatch",
        resource="alarm",
        resource_name="*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    topic.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=["sns:Publish"],
            resources=[topic.topic_arn],
            conditions={
                "ArnLike": {"aws:SourceArn": alarms},
                "StringEquals": {"aws:SourceAccount": stack.account},
            },
        )
    )
    if stage.alarm_email is not None:
        topic.add_subscription(subscriptions.EmailSubscription(stage.alarm_email))
    return topic


def _notify_slack(scope: Construct, stage: Stage, topic: sns.Topic) -> None:
    if stage.slack_workspace_id is None or stage.slack_channel_id is None:
        return
    chatbot.SlackChannelConfiguration(
        scope,
        "Slack",
        slack_channel_configuration_name=f"fanfold-{stage.name}",
        slack_workspace_id=stage.slack_workspace_id,
        slack_channel_id=stage.slack_channel_id,
        notification_topics=[topic],
        # Members of the channel may only read CloudWatch. AWS's default is AdministratorAccess.
        guardrail_policies=[
            iam.ManagedPolicy.from_aws_managed_policy_name("CloudWatchReadOnlyAccess")
        ],
    )
