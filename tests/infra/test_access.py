"""Rights: exact actions on exact resources."""

from typing import Any

import pytest

from fanfold import names
from tests.infra.template import Template, functions, of_type, output_id

CONSUME = {"sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"}
POSTPONE = {"sqs:ChangeMessageVisibility"}
READ_WRITE = {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}
EDIT_EDGES = {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:DeleteItem"}
GET, UPDATE = {"dynamodb:GetItem"}, {"dynamodb:UpdateItem"}
GET_MANY, WRITE_MANY = {"dynamodb:BatchGetItem"}, {"dynamodb:BatchWriteItem"}
QUERY, SCAN = {"dynamodb:Query"}, {"dynamodb:Scan"}
SEND, LOOK = {"sqs:SendMessage"}, {"sqs:ReceiveMessage"}
ASK = {"lambda:GetEventSourceMapping"}

# All rights of each function, besides writing its own log.
EXPECTED = {
    "api": {
        "Followers": QUERY | EDIT_EDGES,
        "Following": GET | UPDATE | QUERY,
        "Readers": GET | UPDATE,
        "Publishers": GET | UPDATE,
        # GET: whether what comes over the rate is a repeat.
        "Posts": GET | {"dynamodb:PutItem"} | UPDATE,
        "Fanouts": GET | {"dynamodb:PutItem"},
        "PublishQueue": SEND,
        "RelationQueue": SEND,
    },
    "timeline": {
        "Timelines": QUERY,
        "Following": GET_MANY,
        "Readers": GET,
        "Posts": GET | GET_MANY,
        "Posts/index/outbox": QUERY,
    },
    "plan": {
        "Timelines": WRITE_MANY,
        "Followers": QUERY | EDIT_EDGES,
        "Following": GET | UPDATE,
        "Readers": GET | UPDATE,
        "Publishers": GET | GET_MANY | UPDATE,
        "Posts": {"dynamodb:PutItem"} | GET_MANY | UPDATE,
        "Fanouts": READ_WRITE | GET_MANY,
        "PublishQueue": CONSUME | POSTPONE,
        "PublishDlq": SEND,
        "ExpressQueue": SEND,
        "BulkQueue": SEND,
        "RelationQueue": SEND,
    },
    "deliver": {
        "Timelines": WRITE_MANY,
        "Followers": QUERY,
        "Publishers": GET | GET_MANY,
        "Posts": GET | GET_MANY,  # the version before reads one
        "Fanouts": GET | GET_MANY | UPDATE,
        "ExpressQueue": CONSUME | SEND,
        "ExpressDlq": SEND,
        "BulkQueue": CONSUME | SEND,
        "BulkDlq": SEND,
    },
    "relate": {
        "Timelines": GET_MANY | WRITE_MANY,
        "Posts/index/outbox": QUERY,
        "Followers": EDIT_EDGES,
        "Following": GET,
        "Publishers": GET | UPDATE,
        "RelationQueue": CONSUME | SEND,
        "RelationDlq": SEND,
    },
    "sweep": {
        "Fanouts": GET | UPDATE | GET_MANY,
        "Fanouts/index/open": SCAN,
        "Fanouts/index/stalled": SCAN,
        "PublishQueue": SEND,
        "PublishDlq": LOOK,
        "PublishMapping": ASK,
        "ExpressQueue": SEND,
        "ExpressDlq": LOOK,
        "ExpressMapping": ASK,
        "BulkQueue": SEND,
        "BulkDlq": LOOK,
        "BulkMapping": ASK,
        "RelationDlq": LOOK,
    },
}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def known_ids(template: Template) -> dict[str, str]:
    """Short names of tables, queues and event source mappings by logical id."""
    known = {output_id(template, table.output): table.name for table in names.TABLES}
    for queue in names.QUEUES:
        known[output_id(template, queue.url_output)] = f"{queue.name}Queue"
        known[output_id(template, queue.dlq_url_output)] = f"{queue.name}Dlq"
    for logical_id, mapping in of_type(template, "AWS::Lambda::EventSourceMapping").items():
        queue_id = mapping["EventSourceArn"]["Fn::GetAtt"][0]
        known[logical_id] = known[queue_id].replace("Queue", "Mapping")
    return known


def target(template: Template, resource: Any) -> str:
    """The short name of a statement's resource, with the path below it."""
    match resource:
        case {"Fn::GetAtt": [logical_id, "Arn"]}:
            below = ""
        case {"Fn::Join": ["", [{"Fn::GetAtt": [logical_id, "Arn"]}, below]]}:
            pass
        case {"Fn::Join": ["", [*_, str(before), {"Ref": logical_id}]]} if before.endswith(
            ":event-source-mapping:"
        ):
            below = ""
        case _:
            raise AssertionError(f"Not the ARN of a resource of this stack: {resource!r}")
    return f"{known_ids(template).get(logical_id, logical_id)}{below}"


def granted(template: Template) -> dict[str, dict[str, set[str]]]:
    """The actions that each module's role allows, by resource."""
    modules = {
        properties["Role"]["Fn::GetAtt"][0]: (module, properties)
        for module, properties in functions(template).items()
    }
    found: dict[str, dict[str, set[str]]] = {module: {} for module, _ in modules.values()}
    for policy in of_type(template, "AWS::IAM::Policy").values():
        for role in policy["Roles"]:
            module, _ = modules[role["Ref"]]
            for statement in policy["PolicyDocument"]["Statement"]:
                assert statement["Effect"] == "Allow"
                for about in as_list(statement["Resource"]):
                    actions = found[module].setdefault(target(template, about), set())
                    actions |= set(as_list(statement["Action"]))
    return {
        module: {
            about: actions
            for about, actions in found[module].items()
            if about != properties["LoggingConfig"]["LogGroup"]["Ref"]
        }
        for module, properties in modules.values()
    }


@pytest.mark.parametrize("module", EXPECTED)
def test_a_function_has_exactly_the_rights_that_it_uses(dev: Template, module: str) -> None:
    assert granted(dev)[module] == EXPECTED[module]


def test_all_stages_grant_the_same_rights(dev: Template, prod: Template) -> None:
    assert granted(dev) == granted(prod)


def test_no_function_may_delete_anything_but_edges(template: Template) -> None:
    for accesses in granted(template).values():
        for about, actions in accesses.items():
            assert about == "Followers" or "dynamodb:DeleteItem" not in actions


def test_no_role_has_a_wildcard_or_a_managed_policy(template: Template) -> None:
    for role in of_type(template, "AWS::IAM::Role").values():
        assert "ManagedPolicyArns" not in role
        assert "Policies" not in role
    for policy in of_type(template, "AWS::IAM::Policy").values():
        for statement in policy["PolicyDocument"]["Statement"]:
            assert not [action for action in as_list(statement["Action"]) if "*" in action]
            assert "*" not in str(statement["Resource"])


def test_resource_policies_use_wildcards_only_to_deny(template: Template) -> None:
    for kind in ("AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy"):
        for policy in of_type(template, kind).values():
            for statement in policy["PolicyDocument"]["Statement"]:
                if "*" in str([statement["Action"], statement["Principal"]]):
                    assert statement["Effect"] == "Deny"


def test_only_alarms_of_this_account_may_publish_to_the_topic(template: Template) -> None:
    (policy,) = of_type(template, "AWS::SNS::TopicPolicy").values()
    (allowed,) = [s for s in policy["PolicyDocument"]["Statement"] if s["Effect"] == "Allow"]
    assert allowed["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert allowed["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
