"""Finds resources in a synthesized template."""

from typing import Any

Template = dict[str, Any]


def resources(template: Template, kind: str) -> dict[str, Template]:
    """Whole resources of a type by logical id."""
    return {
        logical_id: resource
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == kind
    }


def of_type(template: Template, kind: str) -> dict[str, Template]:
    """The properties of the resources of a type by logical id."""
    return {id_: each.get("Properties", {}) for id_, each in resources(template, kind).items()}


def functions(template: Template) -> dict[str, Template]:
    """The properties of each function by its module."""
    found = of_type(template, "AWS::Lambda::Function").values()
    return {properties["Handler"].split(".")[1]: properties for properties in found}


def variables(template: Template) -> dict[str, Template]:
    """The environment of each function by its module."""
    return {
        module: properties["Environment"]["Variables"]
        for module, properties in functions(template).items()
    }


def output_id(template: Template, output: str) -> str:
    """The logical id of the resource that an output refers to."""
    return str(template["Outputs"][output]["Value"]["Ref"])


def updated_before(template: Template) -> dict[str, set[str]]:
    """The functions that CloudFormation updates before each function, by module."""
    placed = resources(template, "AWS::Lambda::Function")
    modules = {name: each["Properties"]["Handler"].split(".")[1] for name, each in placed.items()}
    return {
        modules[name]: {modules[other] for other in whole["DependsOn"] if other in modules}
        for name, whole in placed.items()
    }
