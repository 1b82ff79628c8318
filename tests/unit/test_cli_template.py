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
    ("before", "after", "sentences"),
    [
        pytest.param(
            stack(Queue=QUEUE, Dead=DEAD, Table=TABLE),
            stack(Queue=QUEUE, Dead=DEAD, Table=TABLE),
            [],
            id="equal templates",
        ),
        pytest.param(
            stack(Function=FUNCTION, Client=CLIENT),
            stack(Function=changed(FUNCTION, Timeout=10), Client=changed(CLIENT, ClientName="x")),
            [],
            id="resources without data",
        ),
        pytest.param(stack(Dead=DEAD), stack(Dead=DEAD, Table=TABLE), [], id="a new table"),
        pytest.param(
            stack(Queue=QUEUE),
            stack(Queue=changed(QUEUE, VisibilityTimeout=60)),
            ["The queue Fanfold-local/Bulk/Queue changed (VisibilityTimeout)."],
            id="a changed queue, named by its path",
        ),
        pytest.param(
            stack(Pool=POOL),
            stack(Pool=changed(POOL, UserPoolName="x")),
            ["The user pool Pool changed (UserPoolName)."],
            id="a changed user pool",
        ),
        pytest.param(
            stack(Table=TABLE),
            stack(),
            ["The table Table is no longer in the stack."],
            id="a removed table",
        ),
        pytest.param(
            stack(Table=TABLE),
            stack(Table=SINGLE_TABLE),
            ["The table Table is no longer in the stack."],
            id="another type under the same logical id",
        ),
    ],
)
def test_changes_that_would_delete_data_are_found(
    before: dict[str, Any], after: dict[str, Any], sentences: list[str]
) -> None:
    assert [c.sentence() for c in template.stateful_changes(before, after)] == sentences


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
