"""Reads templates: differences between two, and what the engine's CloudFormation ignores."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Template = Mapping[str, Any]

# The engine's CloudFormation replaces such a table by an empty one if any of its properties
# changes. AWS updates most of these properties in place.
TABLE_TYPE: Final = "AWS::DynamoDB::GlobalTable"
API_TYPE: Final = "AWS::ApiGatewayV2::Api"
FUNCTION_TYPE: Final = "AWS::Lambda::Function"
_RETENTIONS: Final = ("RETENTION_DAYS", "LONGEST_RETENTION_DAYS")


@dataclass(frozen=True)
class LostTable:
    """A table whose items an update would delete: it is removed, or these properties differ."""

    path: str
    properties: tuple[str, ...]  # none if it is removed

    def sentence(self) -> str:
        if not self.properties:
            return f"The table {self.path} is no longer in the stack."
        return f"The table {self.path} changed ({', '.join(self.properties)})."


def lost_tables(deployed: Template, synthesized: Template) -> list[LostTable]:
    """List the tables whose items the engine would delete."""
    old, new = of_type(deployed, TABLE_TYPE), of_type(synthesized, TABLE_TYPE)
    lost = []
    for logical_id, table in old.items():
        differing = _differences(table, new[logical_id]) if logical_id in new else ()
        if differing or logical_id not in new:
            lost.append(LostTable(_path(logical_id, table), differing))
    return lost


def forgotten_days(deployed: Mapping[str, int], wanted: Mapping[str, int]) -> int:
    """The longest lifetime of entries that an update would make a function forget; 0 if none."""
    return max((days for id_, days in deployed.items() if wanted.get(id_, days) < days), default=0)


def entry_days(template: Template) -> dict[str, int]:
    """`Settings.entry_days` of each of our functions, of whatever version, by its logical id."""
    found = {}
    for logical_id, function in of_type(template, FUNCTION_TYPE).items():
        variables = function["Properties"].get("Environment", {}).get("Variables", {})
        if "TIMELINES_TABLE" in variables:
            known = (variables.get(name, 0) for name in _RETENTIONS)
            found[logical_id] = max(map(int, known))
    return found


def times_to_live(template: Template) -> dict[str, str]:
    """The attribute of each table whose items expire, by the table's logical id."""
    found = {}
    for logical_id, table in of_type(template, TABLE_TYPE).items():
        specification = table.get("Properties", {}).get("TimeToLiveSpecification") or {}
        if specification.get("Enabled"):
            found[logical_id] = specification["AttributeName"]
    return found


def cors_configurations(template: Template) -> dict[str, dict[str, Any]]:
    """The CORS configurations, by the logical ids of their APIs."""
    found = {}
    for logical_id, api in of_type(template, API_TYPE).items():
        if cors := api.get("Properties", {}).get("CorsConfiguration"):
            found[logical_id] = cors
    return found


def of_type(template: Template, *types: str) -> dict[str, Any]:
    """The resources of these types, by their logical ids."""
    resources = template.get("Resources", {}).items()
    return {logical_id: each for logical_id, each in resources if each["Type"] in types}


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    before, after = old.get("Properties", {}), new.get("Properties", {})
    return tuple(
        name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)
    )


def _path(logical_id: str, resource: Mapping[str, Any]) -> str:
    # CDK adds the construct's path, which is easier to read than a logical id with a hash.
    path: str = resource.get("Metadata", {}).get("aws:cdk:path", logical_id)
    return path.removesuffix("/Resource")
