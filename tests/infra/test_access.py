"""Who may do what: exact actions on exact resources."""

from typing import Any

import pytest

from fanfold import names

Template = dict[str, Any]

CONSUME = {
    "sqs:ChangeMessageVisibility",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    "sqs:GetQueueUrl",
    "sqs:ReceiveMessage",
}
READ_WRITE = {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}
EDIT_EDGES = {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:DeleteItem"}
GET, UPDATE = {"dynamodb:GetItem"}, {"dynamodb:UpdateItem"}
QUERY, SCAN = {"dynamodb:Query"}, {"dynamodb:Scan"}
SEND, MEASURE, LOOK = {"sqs:SendMessage"}, {"sqs:GetQueueAttributes"}, {"sqs:ReceiveMessage"}
ASK = {"lambda:GetEventSourceMapping"}

# The whole of what each function may do, besides writing its own log.
EXPECTED = {
    "api": {
        "Followers": EDIT_EDGES,
        "Following": GET | UPDATE | QUERY,
        "Readers": UPDATE,
        "Publishers": GET | UPDATE,
        "Posts": {"dynamodb:PutItem"} | UPDATE,
        "Fanouts": GET | {"dynamodb:PutItem"},
        "PublishQueue": SEND,
        "RelationQueue": SEND,
    },
    "timeline": {"Timelines": QUERY, "Posts": {"dynamodb:BatchGetItem"}},
    "plan": {
        "Followers": QUERY | EDIT_EDGES,
        "Following": GET | UPDATE,
        "Readers": UPDATE,
        "Publishers": GET | UPDATE,
        "Posts": {"dynamodb:PutItem"} | UPDATE,
        "Fanouts": READ_WRITE,
        "PublishQueue": CONSUME,
        "PublishDlq": SEND,
        "ExpressQueue": SEND,
        "BulkQueue": SEND,
        "RelationQueue": SEND,
    },
    "deliver": {
        "Timelines": {"dynamodb:BatchWriteItem"},
        "Followers": QUERY,
        "Publishers": GET,
        "Posts": GET,
        "Fanouts": GET | UPDATE,
        "ExpressQueue": CONSUME | SEND,
        "ExpressDlq": SEND,
        "BulkQueue": CONSUME | SEND,
        "BulkDlq": SEND,
    },
    "relate": {
        "Followers": EDIT_EDGES,
        "Following": GET,
        "Publishers": GET | UPDATE,
        "RelationQueue": CONSUME,
        "RelationDlq": SEND,
    },
    "sweep": {
        "Fanouts": GET | UPDATE,
        "Fanouts/index/open": SCAN,
        "Fanouts/index/stalled": SCAN,
        "PublishQueue": SEND | MEASURE,
        "PublishDlq": LOOK,
        "PublishMapping": ASK,
        "ExpressQueue": SEND | MEASURE,
        "ExpressDlq": LOOK,
        "ExpressMapping": ASK,
        "BulkQueue": SEND | MEASURE,
        "BulkDlq": LOOK,
        "BulkMapping": ASK,
        "RelationDlq": LOOK,
    },
}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def known_ids(template: Template) -> dict[str, str]:
    """Short names of tables, queues and what feeds them by their logical id."""
    known = {template["Outputs"][t.output]["Value"]["Ref"]: t.name for t in names.TABLES}
    for queue in names.QUEUES:
        known[template["Outputs"][queue.url_output]["Value"]["Ref"]] = f"{queue.name}Queue"
        known[template["Outputs"][queue.dlq_url_output]["Value"]["Ref"]] = f"{queue.name}Dlq"
    for logical_id, resource in template["Resources"].items():
        if resource["Type"] == "AWS::Lambda::EventSourceMapping":
            queue_id = resource["Properties"]["EventSourceArn"]["Fn::GetAtt"][0]
            known[logical_id] = known[queue_id].replace("Queue", "Mapping")
    return known


def target(template: Template, resource: Any) -> str:
    """The short name of what a statement is about, with the path below it."""
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
    """By module: what its role may do to what."""
    modules = {}
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Lambda::Function":
            properties = resource["Properties"]
            module = properties["Handler"].split(".")[1]
            modules[properties["Role"]["Fn::GetAtt"][0]] = (module, properties)
    found: dict[str, dict[str, set[str]]] = {module: {} for module, _ in modules.values()}
    for resource in template["Resources"].values():
        if resource["Type"] != "AWS::IAM::Policy":
            continue
        for role in resource["Properties"]["Roles"]:
            module, _ = modules[role["Ref"]]
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
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
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::IAM::Role":
            assert "ManagedPolicyArns" not in resource["Properties"]
            assert "Policies" not in resource["Properties"]
        if resource["Type"] == "AWS::IAM::Policy":
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                assert not [action for action in as_list(statement["Action"]) if "*" in action]
                assert "*" not in str(statement["Resource"])


def test_resource_policies_use_wildcards_only_to_deny(template: Template) -> None:
    for resource in template["Resources"].values():
        if resource["Type"] in ("AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy"):
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                if "*" in str([statement["Action"], statement["Principal"]]):
                    assert statement["Effect"] == "Deny"


def test_only_alarms_of_this_account_may_publish_to_the_topic(template: Template) -> None:
    (policy,) = [
        resource["Properties"]["PolicyDocument"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::SNS::TopicPolicy"
    ]
    (allowed,) = [s for s in policy["Statement"] if s["Effect"] == "Allow"]
    assert allowed["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert allowed["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
