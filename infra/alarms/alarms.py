"""Every alarm, and whom it tells."""

from collections.abc import Iterator, Mapping

from aws_cdk import ArnFormat, Aws, Stack
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_chatbot as chatbot
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from fanfold import names

from ..queues import WorkQueue
from ..settings.stages import Stage
from ..tables import HouseTable
from . import deliveries, service
from .rules import Rule


class Alarms(Construct):
    """All alarms, and the topic that they are sent to.

    Each is a fault that somebody must look at. None rings by design: not in a large event, while
    a table warms up or while a publisher grows.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: Stage,
        queues: Mapping[names.Queue, WorkQueue],
        tables: Mapping[names.Table, HouseTable],
        functions: Mapping[names.Function, lambda_.IFunction],
        api: gateway.HttpApi,
        topic: sns.ITopic | None = None,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id_)
        self._stage = stage
        self.topic = topic or _topic(self, key)
        if stage.alarm_email is not None:
            self.topic.add_subscription(subscriptions.EmailSubscription(stage.alarm_email))
        _notify_slack(self, stage, self.topic)
        for queue in queues.values():
            self._add(deliveries.of_queue(queue))
        for lane in names.LANES:
            self._add(deliveries.of_lane(queues[lane], stage))
        self._add(deliveries.of_sweep(stage))
        self._add(deliveries.of_channels(stage))
        self._add(deliveries.of_audits(tables[names.FANOUTS]))
        self._add(service.of_requests(api))
        for function, placed in functions.items():
            self._add(service.of_function(function, placed))
        for table, stored in tables.items():
            self._add(service.of_table(table, stored))
        self._add(service.of_growth(stage))
        self._add(service.of_invariants(stage))
        self._add(service.of_writes(stage, tables))

    def _add(self, rules: Iterator[Rule]) -> None:
        for rule in rules:
            if isinstance(rule.metric, cloudwatch.MathExpression) and not self._stage.metric_math:
                continue  # The local engine makes no metrics either.
            alarm_of(self, rule).add_alarm_action(actions.SnsAction(self.topic))


def alarm_of(scope: Construct, rule: Rule) -> cloudwatch.Alarm:
    """An alarm by a rule, which tells nobody yet."""
    return cloudwatch.Alarm(
        scope,
        rule.name,
        alarm_description=rule.says,
        metric=rule.metric,
        threshold=rule.threshold,
        datapoints_to_alarm=rule.bad,
        evaluation_periods=rule.of,
        comparison_operator=rule.operator,
        treat_missing_data=rule.missing,
    )


def _topic(scope: Construct, key: kms.IKey | None) -> sns.Topic:
    topic = sns.Topic(scope, "Topic", enforce_ssl=True, master_key=key)
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
    return topic


def _notify_slack(scope: Construct, stage: Stage, topic: sns.ITopic) -> None:
    if stage.slack_workspace_id is None or stage.slack_channel_id is None:
        return
    chatbot.SlackChannelConfiguration(
        scope,
        "Slack",
        # A name stands once in an account, in all regions together.
        slack_channel_configuration_name=f"fanfold-{stage.name}-{Aws.REGION}",
        slack_workspace_id=stage.slack_workspace_id,
        slack_channel_id=stage.slack_channel_id,
        notification_topics=[topic],
        # Members of the channel may only read CloudWatch. AWS's default is AdministratorAccess.
        guardrail_policies=[
            iam.ManagedPolicy.from_aws_managed_policy_name("CloudWatchReadOnlyAccess")
        ],
    )
