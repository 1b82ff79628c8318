"""What `fanfold local up` reads from two templates, without an engine."""

from typing import Any

import pytest

from fanfold_cli.local import template

QUEUE = {
    "Type": "AWS::SQS::Queue",
    "Properties": {
        "VisibilityTimeout": 360,
        "RedrivePolicy": {
            "deadLetterTargetArn": {"Fn::GetAtt": ["Dead", "Arn"]},
            "maxReceiveCount": 5,
        },
    },
    "Metadata": {"aws:cdk:path": "Fanfold-local/Bulk/Queue/Resource"},
}
DEAD = {"Type": "AWS::SQS::Queue", "Properties": {}}
TABLE = {
    "Type": "AWS::DynamoDB::GlobalTable",
    "Properties": {"TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True}},
}
FUNCTION = {"Type": "AWS::Lambda::Function", "Properties": {"RecursiveLoop": "Allow"}}


def stack(**resources: Any) -> dict[str, Any]:
    """A template with these resources."""
    return {"Resources": resources}


def changed(resource: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """The resource with other properties."""
    return {**resource, "Properties": {**resource["Properties"], **properties}}


def test_an_equal_template_changes_nothing_stateful() -> None:
    deployed = stack(Queue=QUEUE, Dead=DEAD, Table=TABLE)
    assert template.stateful_changes(deployed, deployed) == []


def test_a_changed_function_is_not_a_stateful_change() -> None:
    after = stack(Queue=QUEUE, Function=changed(FUNCTION, Timeout=10))
    assert template.stateful_changes(stack(Queue=QUEUE, Function=FUNCTION), after) == []


def test_a_new_table_is_not_a_change_of_what_is_there() -> None:
    assert template.stateful_changes(stack(Dead=DEAD), stack(Dead=DEAD, Table=TABLE)) == []


def test_a_changed_queue_is_named_by_its_path_and_property() -> None:
    after = stack(Queue=changed(QUEUE, VisibilityTimeout=60))
    [change] = template.stateful_changes(stack(Queue=QUEUE), after)
    assert change.sentence() == "The queue Fanfold-local/Bulk/Queue changed (VisibilityTimeout)."


def test_a_removed_table_is_named() -> None:
    [change] = template.stateful_changes(stack(Table=TABLE), stack())
    assert change.sentence() == "The table Table is no longer in the stack."


def test_another_type_under_the_same_logical_id_counts_as_removed() -> None:
    after = stack(Table={**TABLE, "Type": "AWS::DynamoDB::Table"})
    assert [c.removed for c in template.stateful_changes(stack(Table=TABLE), after)] == [True]


def test_a_user_pool_is_stateful_and_its_client_is_not() -> None:
    pool = {"Type": "AWS::Cognito::UserPool", "Properties": {}}
    client = {"Type": "AWS::Cognito::UserPoolClient", "Properties": {}}
    after = stack(Pool=changed(pool, UserPoolName="x"), Client=changed(client, ClientName="x"))
    changes = template.stateful_changes(stack(Pool=pool, Client=client), after)
    assert [change.logical_id for change in changes] == ["Pool"]


def test_a_redrive_policy_is_read_with_both_queues() -> None:
    assert template.redrives(stack(Queue=QUEUE, Dead=DEAD)) == [
        template.Redrive("Queue", "Dead", 5)
    ]


def test_a_dead_letter_queue_of_elsewhere_is_refused() -> None:
    foreign = {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:1:other", "maxReceiveCount": 1}
    with pytest.raises(ValueError, match="not a queue of the same stack"):
        template.redrives(stack(Queue=changed(QUEUE, RedrivePolicy=foreign)))


def test_a_time_to_live_is_read_from_both_kinds_of_table() -> None:
    one = {**TABLE, "Type": "AWS::DynamoDB::Table"}
    found = template.times_to_live(stack(Global=TABLE, One=one))
    assert [(ttl.table, ttl.attribute) for ttl in found] == [
        ("Global", "expires_at"),
        ("One", "expires_at"),
    ]


def test_a_disabled_time_to_live_is_left_alone() -> None:
    off = {"AttributeName": "expires_at", "Enabled": False}
    assert template.times_to_live(stack(T=changed(TABLE, TimeToLiveSpecification=off))) == []


def test_a_recursion_mode_is_read_from_a_function() -> None:
    found = template.recursions(
        stack(Function=FUNCTION, Other=changed(FUNCTION, RecursiveLoop=None))
    )
    assert found == [template.Recursion("Function", "Allow")]
