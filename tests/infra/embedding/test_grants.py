"""What an app may let its own functions and events do with a timeline."""

import json

from tests.infra.foreign import Shop, statements
from tests.infra.template import of_type


def test_whoever_may_publish_may_send_to_the_publish_queue_and_nothing_else(shop: Shop) -> None:
    sending, of_key = statements(shop.template, "Publisher")
    assert sending["Resource"] == shop.resolved(shop.timeline.publish_queue.queue_arn)
    assert set(sending["Action"]) == {
        "sqs:SendMessage",
        "sqs:GetQueueAttributes",
        "sqs:GetQueueUrl",
    }
    assert all(action.startswith("kms:") for action in of_key["Action"])


def test_whoever_may_read_may_do_what_the_door_of_timelines_may_and_write_nothing(
    shop: Shop,
) -> None:
    door = [
        each
        for each in statements(shop.template, "TimelineTimelineFunctionRole")
        if "dynamodb:" in json.dumps(each["Action"]) and each["Action"] != "dynamodb:UpdateItem"
    ]
    *rows, of_key = statements(shop.template, "Reader")
    assert rows == door
    assert of_key["Action"] == ["kms:Decrypt", "kms:DescribeKey"]


def test_a_rule_publishes_what_events_hold(shop: Shop) -> None:
    rules = of_type(shop.template, "AWS::Events::Rule").values()
    (rule,) = [each for each in rules if "EventPattern" in each]
    arn = shop.resolved(shop.timeline.publish_queue.queue_arn)
    assert rule["EventPattern"] == {"source": ["shop"]}
    assert rule["EventBusName"] == shop.resolved(shop.bus.event_bus_name)
    assert rule["Targets"] == [{"Arn": arn, "Id": "Target0", "InputPath": "$.detail"}]
    policies = of_type(shop.template, "AWS::SQS::QueuePolicy").values()
    assert "events.amazonaws.com" in json.dumps(list(policies))
