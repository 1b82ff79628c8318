"""Rights that no function may have, whatever it calls; test_rights.py judges them by its calls."""

from typing import Any

from fanfold import names
from tests.infra.template import Template, functions, of_type, output_id


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
                if statement["Effect"] == "Deny":
                    continue
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
