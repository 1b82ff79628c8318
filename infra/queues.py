"""A work queue: a message that keeps failing ends in the dead-letter queue and is not lost."""

from typing import Final

from aws_cdk import Duration, Names
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from fanfold import names

from .rights import FROM_CODE
from .settings.stages import Stage
from .tables import grant, removal_policy

# SQS's maximum: two weeks to notice a failure and to repair its cause.
RETENTION: Final = Duration.days(names.QUEUE_DAYS)
# What an event source mapping does with the function's role, according to AWS's own policy for it
# (AWSLambdaSQSQueueExecutionRole).
POLLING: Final = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")


class WorkQueue(Construct):
    """A standard queue and its own dead-letter queue, both over TLS only."""

    def __init__(
        self, scope: Construct, name: names.Queue, *, stage: Stage, key: kms.IKey | None = None
    ) -> None:
        super().__init__(scope, name.name)
        self.name = name
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            enforce_ssl=True,
            encryption_master_key=key,
            retention_period=RETENTION,
            removal_policy=removal_policy(stage),
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            enforce_ssl=True,
            encryption_master_key=key,
            retention_period=RETENTION,
            visibility_timeout=Duration.seconds(name.visibility_seconds),
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=self.dead_letters, max_receive_count=name.max_receives
            ),
            removal_policy=removal_policy(stage),
        )

    def start(self, consumer: lambda_.IFunction, *, max_concurrency: int) -> None:
        """Invoke the function with messages; only those that it names as failed are redelivered."""
        # `SqsEventSource`, whose id this is, would also grant what neither Lambda's poller nor a
        # handler calls.
        self.source = consumer.add_event_source_mapping(
            f"SqsEventSource:{Names.node_unique_id(self.queue.node)}",
            event_source_arn=self.queue.queue_arn,
            batch_size=self.name.batch_size,
            max_concurrency=max_concurrency,
            report_batch_item_failures=True,
        )
        _grant(consumer, self.queue, *POLLING)
        # The poller takes and deletes messages; if code did, posts could be lost.
        consumer.add_to_role_policy(
            iam.PolicyStatement(
                effect=iam.Effect.DENY,
                actions=["sqs:ReceiveMessage", "sqs:DeleteMessage"],
                resources=[self.queue.queue_arn],
                conditions=FROM_CODE,
            )
        )

    def allow_postponing(self, who: iam.IGrantable) -> None:
        """Grant hiding a received message for a time that the function chooses."""
        _grant(who, self.queue, "sqs:ChangeMessageVisibility")

    def allow_sending(self, who: iam.IGrantable) -> None:
        _grant(who, self.queue, "sqs:SendMessage")

    def allow_rejecting(self, who: iam.IGrantable) -> None:
        """Grant sending messages that would always fail to the dead-letter queue."""
        _grant(who, self.dead_letters, "sqs:SendMessage")

    def allow_peeking_at_dead_letters(self, who: iam.IGrantable) -> None:
        """Grant reading the dead-letter queue, but not deleting from it."""
        _grant(who, self.dead_letters, "sqs:ReceiveMessage")

    def allow_seeing_pauses(self, who: lambda_.Function) -> None:
        """Give the function the id of the event source mapping, and grant reading its state."""
        who.add_environment(self.name.mapping_setting.upper(), self.source.event_source_mapping_id)
        grant(who, ["lambda:GetEventSourceMapping"], self.source.event_source_mapping_arn)


def _grant(who: iam.IGrantable, queue: sqs.Queue, *actions: str) -> None:
    # `grant_send_messages` would add GetQueueAttributes and GetQueueUrl, which no function needs.
    grant(who, list(actions), queue.queue_arn)
