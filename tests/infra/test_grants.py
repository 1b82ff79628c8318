"""What an app may let its own functions and events do with a timeline."""

import json

from aws_cdk import Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_

from tests.infra.foreign import embed, statements
from tests.infra.template import of_type, template_of


def client_function(stack: Stack) -> lambda_.Function:
    return lambda_.Function(
        stack,
        "Reader",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
        handler="index.handler",
        runtime=lambda_.Runtime.PYTHON_3_13,
    )


def test_whoever_may_publish_may_send_to_the_publish_queue_and_nothing_else(stack: Stack) -> None:
    timeline, function = embed(stack), client_function(stack)
    timeline.grant_publish(function)
    found = template_of(stack)
    (statement,) = statements(found, "Reader")
    assert statement["Resource"] == stack.resolve(timeline.publish_queue.queue_arn)
    assert set(statement["Action"]) == {
        "sqs:SendMessage",
        "sqs:GetQueueAttributes",
        "sqs:GetQueueUrl",
    }


def test_whoever_may_read_may_do_what_the_door_of_timelines_may_and_write_nothing(
    stack: Stack,
) -> None:
    timeline, function = embed(stack, encryption_key=kms.Key(stack, "Key")), client_function(stack)
    timeline.grant_read(function)
    found = template_of(stack)
    door = [
        each
        for each in statements(found, "TimelineTimelineFunctionRole")
        if "dynamodb:" in json.dumps(each["Action"]) and each["Action"] != "dynamodb:UpdateItem"
    ]
    *rows, of_key = statements(found, "Reader")
    assert rows == door
    assert of_key["Action"] == ["kms:Decrypt", "kms:DescribeKey"]


def test_a_rule_publishes_what_events_hold(stack: Stack) -> None:
    timeline = embed(stack)
    bus = events.EventBus(stack, "Bus")
    pattern = events.EventPattern(source=["shop"])
    timeline.publish_events("Shop", event_bus=bus, event_pattern=pattern)
    found = template_of(stack)
    rules = of_type(found, "AWS::Events::Rule").values()
    (rule,) = [each for each in rules if "EventPattern" in each]
    arn = stack.resolve(timeline.publish_queue.queue_arn)
    assert rule["EventPattern"] == {"source": ["shop"]}
    assert rule["EventBusName"] == stack.resolve(bus.event_bus_name)
    assert rule["Targets"] == [{"Arn": arn, "Id": "Target0", "InputPath": "$.detail"}]
    policies = of_type(found, "AWS::SQS::QueuePolicy").values()
    assert "events.amazonaws.com" in json.dumps(list(policies))
