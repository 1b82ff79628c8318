"""What changes in a timeline is told to others: a search index, and a queue of push messages."""

from typing import Any

from aws_cdk import App, CfnOutput, Duration, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_sqs as sqs
from fanfold_cdk import FollowTimeline, TableOptions, Users

app = App()
stack = Stack(app, "Shop")
timeline = FollowTimeline(
    stack,
    "Timeline",
    users=Users.own_pool(claim="username"),
    removal_policy=RemovalPolicy.DESTROY,
    concurrency=10,
    tables=TableOptions(streams=True),
)
timeline.add_outputs()

found = dynamodb.TableV2(
    stack,
    "Found",
    partition_key=dynamodb.Attribute(name="ref_id", type=dynamodb.AttributeType.STRING),
    removal_policy=RemovalPolicy.DESTROY,
)
pushes = sqs.Queue(stack, "Pushes")
CfnOutput(stack, "FoundTable", value=found.table_name)
CfnOutput(stack, "PushesUrl", value=pushes.queue_url)

# Which changes of a table start a function; the others cost nothing.
NEW = {"eventName": ["INSERT"]}
CHANGED = {"eventName": ["INSERT", "MODIFY"]}
# DynamoDB deletes what has expired, in its own name. Nothing else deletes a post.
EXPIRED = {
    "eventName": ["REMOVE"],
    "userIdentity": {"type": ["Service"], "principalId": ["dynamodb.amazonaws.com"]},
}


def consumer(name: str) -> lambda_.Function:
    function = lambda_.Function(
        stack,
        name.title(),
        code=lambda_.Code.from_asset("consumer"),
        handler=f"hear.{name}",
        runtime=lambda_.Runtime.PYTHON_3_13,
        timeout=Duration.seconds(30),
        environment={
            "FOUND_TABLE": found.table_name,
            "PUSHES_URL": pushes.queue_url,
            "READERS_TABLE": timeline.readers_table.table_name,
        },
    )
    timeline.grant_streams(function)
    return function


def source(table: dynamodb.ITableV2, *filters: Any) -> sources.DynamoEventSource:
    """Repeats what failed, ever smaller parts of it, and goes on without what always fails."""
    return sources.DynamoEventSource(
        table,
        starting_position=lambda_.StartingPosition.TRIM_HORIZON,
        batch_size=100,
        filters=[lambda_.FilterCriteria.filter(each) for each in filters],
        report_batch_item_failures=True,
        bisect_batch_on_error=True,
        retry_attempts=10,
        max_record_age=Duration.hours(6),
        on_failure=sources.SqsDlq(failures),
    )


# It gets where the failed records are in the stream, which keeps them for a day.
failures = sqs.Queue(stack, "Failures", retention_period=Duration.days(14))
index, push = consumer("index"), consumer("push")
index.add_event_source(source(timeline.posts_table, CHANGED, EXPIRED))
push.add_event_source(source(timeline.timelines_table, NEW))
found.grant_write_data(index)
pushes.grant_send_messages(push)
timeline.readers_table.grant_read_data(push)
app.synth()
