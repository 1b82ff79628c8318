"""What two synthesized templates differ in, and what the engine will not do by itself: no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Template = Mapping[str, Any]

# The engine's CloudFormation makes one of these anew when any property of it changes, and what it
# held is gone. (DynamoDB and SQS would change most properties in place.)
STATEFUL_TYPES: Final = {
    "AWS::DynamoDB::Table": "table",
    "AWS::DynamoDB::GlobalTable": "table",
    "AWS::SQS::Queue": "queue",
    "AWS::Cognito::UserPool": "user pool",
}
TABLE_TYPES: Final = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")


@dataclass(frozen=True)
class StatefulChange:
    """A resource whose data an update would destroy, and why."""

    logical_id: str
    kind: str
    path: str
    removed: bool
    properties: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Say what happened to the resource, for a person."""
        if self.removed:
            return f"The {self.kind} {self.path} is no longer in the stack."
        return f"The {self.kind} {self.path} changed ({', '.join(self.properties)})."


@dataclass(frozen=True)
class Redrive:
    """After how many receives a queue moves a message, and where to."""

    queue: str
    dead_letters: str
    max_receive_count: int


@dataclass(frozen=True)
class TimeToLive:
    """The attribute of a table that tells when an item may be deleted."""

    table: str
    attribute: str


@dataclass(frozen=True)
class Recursion:
    """Whether Lambda may break a loop that this function is part of."""

    function: str
    mode: str


def stateful_changes(deployed: Template, synthesized: Template) -> list[StatefulChange]:
    """List the tables, queues and user pools whose data the engine would throw away."""
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
    found = []
    for logical_id, resource in _of_type(template, "AWS::SQS::Queue"):
        policy = resource.get("Properties", {}).get("RedrivePolicy")
        if policy:
            target = _logical_id(policy["deadLetterTargetArn"])
            found.append(Redrive(logical_id, target, int(policy["maxReceiveCount"])))
    return found


def times_to_live(template: Template) -> list[TimeToLive]:
    """List the tables of a template that let items expire."""
    found = []
    for logical_id, resource in _of_type(template, *TABLE_TYPES):
        spec = resource.get("Properties", {}).get("TimeToLiveSpecification") or {}
        if spec.get("Enabled"):
            found.append(TimeToLive(logical_id, spec["AttributeName"]))
    return found


def recursions(template: Template) -> list[Recursion]:
    """List the functions of a template that say how their loops are treated."""
    return [
        Recursion(logical_id, resource["Properties"]["RecursiveLoop"])
        for logical_id, resource in _of_type(template, "AWS::Lambda::Function")
        if resource.get("Properties", {}).get("RecursiveLoop")
    ]


def _of_type(template: Template, *types: str) -> list[tuple[str, Mapping[str, Any]]]:
    resources = template.get("Resources", {}).items()
    return [
        (logical_id, resource) for logical_id, resource in resources if resource["Type"] in types
    ]


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    before, after = old.get("Properties", {}), new.get("Properties", {})
    return tuple(
        name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)
    )


def _path(logical_id: str, resource: Mapping[str, Any]) -> str:
    # CDK writes the path of the construct, which a person knows; the logical id ends in a hash.
    path: str = resource.get("Metadata", {}).get("aws:cdk:path", logical_id)
    return path.removesuffix("/Resource")


def _logical_id(arn: Any) -> str:
    match arn:
        case {"Fn::GetAtt": [logical_id, "Arn"]} if isinstance(logical_id, str):
            return logical_id
        case _:
            raise ValueError(f"The dead-letter queue {arn!r} is not a queue of the same stack.")
