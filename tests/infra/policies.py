"""The policies of a template's functions, with ARNs of the model in place of references."""

from __future__ import annotations

from typing import Any

from fanfold import names
from proof.model.iam import Need, arn
from proof.model.sqs.messages import ACCOUNT, REGION
from tests.infra.template import Template, functions, of_type, variables

PSEUDO = {"AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::Partition": "aws"}
# As a table's, queue's or key's ARN is built of its name, by the type of the resource.
ARNS = {
    "AWS::DynamoDB::GlobalTable": ("dynamodb", "table/{}"),
    "AWS::SQS::Queue": ("sqs", "{}"),
    "AWS::Logs::LogGroup": ("logs", "log-group:{}:*"),
    "AWS::KMS::Key": ("kms", "key/{}"),
}
# What Lambda does by a function's role, so that no call of the function shows it. By action: why.
BY_THE_SERVICE = {
    "logs:CreateLogStream": "Lambda writes the function's log",
    "logs:PutLogEvents": "Lambda writes the function's log",
    "sqs:ReceiveMessage": "the event source mapping polls",
    "sqs:DeleteMessage": "the event source mapping deletes what the function has done",
    "sqs:GetQueueAttributes": "the event source mapping counts what waits, to scale",
    # AWS takes no resource for these.
    **dict.fromkeys(
        (
            "ec2:AssignPrivateIpAddresses",
            "ec2:CreateNetworkInterface",
            "ec2:DeleteNetworkInterface",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSubnets",
            "ec2:UnassignPrivateIpAddresses",
        ),
        "Lambda attaches the function to its VPC",
    ),
}


def policies(template: Template) -> dict[str, Template]:
    """The policy document of each function by its module, all statements of its role together."""
    known = _names(template)
    modules = {each["Role"]["Fn::GetAtt"][0]: name for name, each in functions(template).items()}
    found: dict[str, list[Template]] = {module: [] for module in modules.values()}
    for policy in of_type(template, "AWS::IAM::Policy").values():
        for role in policy["Roles"]:
            if role["Ref"] in modules:  # and not that of an app's own function
                found[modules[role["Ref"]]] += policy["PolicyDocument"]["Statement"]
    return {
        module: {"Version": "2012-10-17", "Statement": _resolved(statements, template, known)}
        for module, statements in found.items()
    }


def needed_by_the_service(template: Template) -> dict[str, set[Need]]:
    """What Lambda needs of each function's role."""
    known = _names(template)
    placed = functions(template)
    ids = {
        logical_id: resource["Properties"]["Handler"].split(".")[1]
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == "AWS::Lambda::Function" and "Handler" in resource["Properties"]
    }
    found: dict[str, set[Need]] = {}
    for module, properties in placed.items():
        group = properties["LoggingConfig"]["LogGroup"]
        log = _arn(group["Ref"], template, known)
        found[module] = {Need(each, log) for each in _by_the_service("logs")}
        if "VpcConfig" in properties:
            found[module] |= {Need(each, "*") for each in _by_the_service("ec2")}
    for mapping in of_type(template, "AWS::Lambda::EventSourceMapping").values():
        queue = _resolved(mapping["EventSourceArn"], template, known)
        found[ids[mapping["FunctionName"]["Ref"]]] |= {
            Need(each, queue) for each in _by_the_service("sqs")
        }
    return found


def _by_the_service(service: str) -> list[str]:
    return [action for action in BY_THE_SERVICE if action.startswith(f"{service}:")]


def _names(template: Template) -> dict[str, str]:
    """The model's names of tables, queues and mappings by logical id, as functions get them."""
    settings = {table.setting: table.name for table in names.TABLES}
    for queue in names.QUEUES:
        settings[queue.url_setting] = queue.name
        settings[queue.dlq_url_setting] = f"{queue.name}Dlq"
        settings[queue.mapping_setting] = queue.name
    found: dict[str, str] = {}
    for environment in variables(template).values():
        for setting, name in settings.items():
            match environment.get(setting.upper()):
                case {"Ref": str(logical_id)}:
                    assert found.setdefault(logical_id, name) == name
    return found


def _resolved(value: Any, template: Template, known: dict[str, str]) -> Any:
    """The value with all references replaced."""
    match value:
        case {"Fn::GetAtt": [str(logical_id), "Arn"]}:
            return _arn(logical_id, template, known)
        case {"Fn::Join": [str(separator), [*parts]]}:
            return separator.join(_resolved(part, template, known) for part in parts)
        case {"Ref": str(name)}:
            return PSEUDO.get(name) or known[name]
        case dict():
            return {key: _resolved(each, template, known) for key, each in value.items()}
        case list():
            return [_resolved(each, template, known) for each in value]
    return value


def _arn(logical_id: str, template: Template, known: dict[str, str]) -> str:
    service, form = ARNS[template["Resources"][logical_id]["Type"]]
    return arn(service, form.format(known.get(logical_id, logical_id)))
