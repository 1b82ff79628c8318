"""Reads templates: what differs between two, and what the engine's CloudFormation ignores."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Template = Mapping[str, Any]

# The engine's CloudFormation replaces such a resource, and loses its data, if any of its properties
# changes. AWS updates most of these properties in place.
STATEFUL_TYPES: Final = {
    "AWS::DynamoDB::Table": "table",
    "AWS::DynamoDB::GlobalTable": "table",
    "AWS::SQS::Queue": "queue",
    "AWS::Cognito::UserPool": "user pool",
}
TABLE_TYPES: Final = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")


@dataclass(frozen=True)
class StatefulChange:
    """A resource whose data an update would delete: it is removed, or these properties differ."""

    logical_id: str
    kind: str
    path: str
    removed: bool
    properties: tuple[str, ...] = ()

    def sentence(self) -> str:
        if self.removed:
            return f"The {self.kind} {self.path} is no longer in the stack."
        return f"The {self.kind} {self.path} changed ({', '.join(self.properties)})."


@dataclass(frozen=True)
class Redrive:
    queue: str
    dead_letters: str
    max_receive_count: int


@dataclass(frozen=True)
class TimeToLive:
    table: str
    attribute: str


@dataclass(frozen=True)
class Recursion:
    function: str
    mode: str  # whether Lambda stops a loop that the function is part of


def stateful_changes(deployed: Template, synthesized: Template) -> list[StatefulChange]:
    """List the tables, queues and user pools whose data the engine would delete."""
    new_resources = synthesized.get("Resources", {})
    changes = []
    for logical_id, old in deployed.get("Resources", {}).items():
        kind = STATEFUL_TYPES.get(old["Type"])
        if kind is None:
            continue
        new = new_resources.get(logical_id)
        removed = new is None or new["Type"] != old["Type"]
        properties = () if removed else _differences(old, new)
        if removed or properties:
            path = _path(logical_id, old)
            changes.append(StatefulChange(logical_id, kind, path, removed, properties))
    return changes


def redrives(template: Template) -> list[Redrive]:
    """List the redrive policies of a template, with the logical ids of both queues."""
    return [
        Redrive(queue, _logical_id(policy["deadLetterTargetArn"]), int(policy["maxReceiveCount"]))
        for queue, policy in _property(template, "RedrivePolicy", "AWS::SQS::Queue")
    ]


def times_to_live(template: Template) -> list[TimeToLive]:
    return [
        TimeToLive(table, specification["AttributeName"])
        for table, specification in _property(template, "TimeToLiveSpecification", *TABLE_TYPES)
        if specification.get("Enabled")
    ]


def recursions(template: Template) -> list[Recursion]:
    return [
        Recursion(function, mode)
        for function, mode in _property(template, "RecursiveLoop", "AWS::Lambda::Function")
    ]


def _property(template: Template, name: str, *types: str) -> Iterator[tuple[str, Any]]:
    """The logical id of each resource of these types that has the property, and its value."""
    for logical_id, resource in template.get("Resources", {}).items():
        value = resource.get("Properties", {}).get(name)
        if resource["Type"] in types and value:
            yield logical_id, value


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    before, after = old.get("Properties", {}), new.get("Properties", {})
    return tuple(
        name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)
    )


def _path(logical_id: str, resource: Mapping[str, Any]) -> str:
    # The path of the construct, which CDK adds, is easier to read than a logical id with its hash.
    path: str = resource.get("Metadata", {}).get("aws:cdk:path", logical_id)
    return path.removesuffix("/Resource")


def _logical_id(arn: Any) -> str:
    match arn:
        case {"Fn::GetAtt": [logical_id, "Arn"]} if isinstance(logical_id, str):
            return logical_id
        case _:
            raise ValueError(f"The dead-letter queue {arn!r} is not a queue of the same stack.")
