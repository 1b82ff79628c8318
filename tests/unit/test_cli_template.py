"""What `fanfold local up` reads from templates, without an engine."""

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
SINGLE_TABLE = {**TABLE, "Type": "AWS::DynamoDB::Table"}
FUNCTION = {"Type": "AWS::Lambda::Function", "Properties": {"RecursiveLoop": "Allow"}}
POOL = {"Type": "AWS::Cognito::UserPool", "Properties": {}}
CLIENT = {"Type": "AWS::Cognito::UserPoolClient", "Properties": {}}


def stack(**resources: Any) -> dict[str, Any]:
    return {"Resources": resources}


def changed(resource: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {**resource, "Properties": {**resource["Properties"], **properties}}


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (QUEUE, QUEUE, None),
        (None, TABLE, None),
        (FUNCTION, changed(FUNCTION, Timeout=10), None),
        (CLIENT, changed(CLIENT, ClientName="x"), None),
        (POOL, changed(POOL, UserPoolName="x"), "The user pool It changed (UserPoolName)."),
        (
            QUEUE,
            changed(QUEUE, VisibilityTimeout=60),
            "The queue Fanfold-local/Bulk/Queue changed (VisibilityTimeout).",
        ),
        (TABLE, None, "The table It is no longer in the stack."),
        (TABLE, SINGLE_TABLE, "The table It is no longer in the stack."),
    ],
)
def test_changes_that_would_delete_data_are_found(
    before: dict[str, Any] | None, after: dict[str, Any] | None, sentence: str | None
) -> None:
    deployed, synthesized = (
        stack(Dead=DEAD, **({"It": resource} if resource else {})) for resource in (before, after)
    )
    changes = template.stateful_changes(deployed, synthesized)
    assert [change.sentence() for change in changes] == ([sentence] if sentence else [])


def test_a_redrive_policy_names_both_queues() -> None:
    found = template.redrives(stack(Queue=QUEUE, Dead=DEAD))
    assert found == [template.Redrive("Queue", "Dead", 5)]


def test_a_dead_letter_queue_of_another_stack_is_refused() -> None:
    foreign = {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:1:other", "maxReceiveCount": 1}
    with pytest.raises(ValueError, match="not a queue of the same stack"):
        template.redrives(stack(Queue=changed(QUEUE, RedrivePolicy=foreign)))


def test_enabled_times_to_live_are_read_from_both_types_of_table() -> None:
    disabled = {"AttributeName": "expires_at", "Enabled": False}
    off = changed(TABLE, TimeToLiveSpecification=disabled)
    found = template.times_to_live(stack(Global=TABLE, Single=SINGLE_TABLE, Off=off))
    assert found == [template.TimeToLive(name, "expires_at") for name in ("Global", "Single")]


def test_recursion_modes_are_read_from_the_functions_that_have_one() -> None:
    functions = stack(Function=FUNCTION, Other=changed(FUNCTION, RecursiveLoop=None))
    assert template.recursions(functions) == [template.Recursion("Function", "Allow")]
