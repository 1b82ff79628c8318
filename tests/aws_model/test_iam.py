"""The model of IAM: which rights calls need, and which policies give them."""

from typing import Any

import pytest

from proof.model.iam import (
    OF_WRITERS,
    VIA_SERVICE,
    Need,
    Unknown,
    arn,
    grants,
    is_allowed,
    needs,
    needs_of_key,
)
from proof.model.sqs.messages import REGION

TABLE, INDEX = arn("dynamodb", "table/T"), arn("dynamodb", "table/T/index/i")
QUEUE, KEY = arn("sqs", "q"), arn("kms", "key/k")
PUT = Need("dynamodb:PutItem", TABLE)


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(action: Any = "dynamodb:PutItem", resource: Any = TABLE, **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def allows(need: Need, *statements: dict[str, Any]) -> bool:
    return is_allowed(need, grants(policy(*statements)))


@pytest.mark.parametrize(
    ("call", "request_", "expected"),
    [
        ("put_item", {"TableName": "T"}, {("PutItem", TABLE)}),
        ("query", {"TableName": "T", "IndexName": "i"}, {("Query", INDEX)}),
        ("batch_write_item", {"RequestItems": {"T": []}}, {("BatchWriteItem", TABLE)}),
        (
            "batch_get_item",
            {"RequestItems": {"T": {}, "U": {}}},
            {("BatchGetItem", TABLE), ("BatchGetItem", arn("dynamodb", "table/U"))},
        ),
        (
            "transact_write_items",
            {
                "TransactItems": [
                    {"Update": {"TableName": "T"}},
                    {"ConditionCheck": {"TableName": "T"}},
                    {"Put": {"TableName": "T"}},
                    {"Delete": {"TableName": "T"}},
                ]
            },
            {
                (each, TABLE)
                for each in ("UpdateItem", "ConditionCheckItem", "PutItem", "DeleteItem")
            },
        ),
    ],
)
def test_a_call_to_tables_needs_an_action_on_each(call: str, request_: Any, expected: Any) -> None:
    found = {(need.action, need.resource) for need in needs("dynamodb", call, request_)}
    assert found == {(f"dynamodb:{action}", resource) for action, resource in expected}


@pytest.mark.parametrize(
    ("key", "context"),
    [
        ({"a": {"S": "#x"}}, (("dynamodb:LeadingKeys", ("#x",)),)),
        ({"a": {"S": "#x"}, "b": {"S": "y"}}, ()),
    ],
)
def test_a_call_to_one_row_says_its_partition_key(key: Any, context: Any) -> None:
    (need,) = needs("dynamodb", "get_item", {"TableName": "T", "Key": key})
    assert need == Need("dynamodb:GetItem", TABLE, context)


def test_a_batch_needs_what_one_message_does_a_mapping_its_id_and_s3_is_unknown() -> None:
    for call in ("send_message", "send_message_batch"):
        assert needs("sqs", call, {"QueueUrl": "http://h/1/q"}) == {Need("sqs:SendMessage", QUEUE)}
    (need,) = needs("lambda", "get_event_source_mapping", {"UUID": "m"})
    assert need == Need("lambda:GetEventSourceMapping", arn("lambda", "event-source-mapping:m"))
    with pytest.raises(Unknown):
        needs("s3", "get_object", {})


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("dynamodb:Query", {"Decrypt", "DescribeKey"}),
        ("dynamodb:PutItem", set(OF_WRITERS)),
        ("sqs:SendMessage", {"Decrypt", "GenerateDataKey"}),
        ("sqs:ReceiveMessage", {"Decrypt"}),
        ("sqs:DeleteMessage", set()),
    ],
)  # fmt: skip
def test_what_is_encrypted_needs_its_key(action: str, expected: set[str]) -> None:
    found = needs_of_key(Need(action, TABLE), KEY)
    via = ((VIA_SERVICE, (f"{action.partition(':')[0]}.{REGION}.amazonaws.com",)),)
    assert found == {Need(f"kms:{each}", KEY, via) for each in expected}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (allow(["dynamodb:GetItem", "dynamodb:putitem"]), True),
        (allow("dynamodb:*"), True),
        (allow(resource="*"), True),
        (allow(resource=f"{TABLE}/index/*"), False),
        (allow("dynamodb:GetItem"), False),
        (allow("dynamodb:Put?tem"), True),
    ],
)
def test_a_statement_allows_its_actions_on_its_resources(statement: Any, expected: bool) -> None:
    assert allows(PUT, statement) is expected
    assert not allows(PUT, statement, {**allow("*", "*"), "Effect": "Deny"})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"StringEquals": {"k": ["x", "a"]}}, True),
        ({"StringEquals": {"k": "x"}}, False),
        ({"StringLike": {"k": "?"}}, True),
        ({"ForAllValues:StringEquals": {"many": ["a", "b", "c"]}}, True),
        ({"Null": {"k": "false"}}, True),
        ({"Null": {"missing": "false"}}, False),
        ({"ForAllValues:StringEquals": {"many": ["a"]}}, False),
        ({"ForAllValues:StringEquals": {"none": ["a"]}}, True),
        ({"ForAnyValue:StringEquals": {"many": ["a"]}}, True),
        ({"StringEqualsIfExists": {"none": "a"}}, True),
        ({"Bool": {"yes": True}, "StringEquals": {"k": "a"}}, True),
        ({"Bool": {"yes": "false"}, "StringEquals": {"k": "a"}}, False),
    ],
)
def test_a_statement_counts_only_if_its_conditions_hold(condition: Any, expected: bool) -> None:
    context = (("k", ("a",)), ("many", ("a", "b")), ("yes", ("true",)))
    assert allows(PUT._replace(context=context), allow(Condition=condition)) is expected


@pytest.mark.parametrize(
    "statement",
    [
        allow(Condition={"DateLessThan": {"k": "2026-11-23"}}),
        allow(resource="arn:aws:s3:::b/${aws:username}"),
        {"Effect": "Allow", "NotAction": "s3:*", "Resource": "*"},
    ],
)
def test_what_the_model_does_not_know_is_an_error(statement: Any) -> None:
    need = PUT._replace(context=(("k", ("2026",)),))
    with pytest.raises(Unknown):
        allows(need, statement)
