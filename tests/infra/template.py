"""Synthesizes templates without bundling, and finds resources in them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.settings.context import choose

if TYPE_CHECKING:  # others only read templates, and need not wait for the CDK
    from aws_cdk import App, Stack

    from infra.stack import FanfoldStack

Template = dict[str, Any]

CDK_JSON = Path(__file__).parents[2] / "cdk.json"


def make_app(outdir: str | None = None, **context: str) -> App:
    """Make an app as `cdk -c name=value …` does, with the feature flags of a deployment."""
    from aws_cdk import App

    flags = json.loads(CDK_JSON.read_text(encoding="utf-8"))["context"]
    return App(outdir=outdir, context={**flags, "aws:cdk:bundling-stacks": [], **context})


def make_stack(**context: str) -> FanfoldStack:
    """Make the app's own stack in the stage that the context names."""
    from infra.stack import FanfoldStack

    app = make_app(**context)
    return FanfoldStack(app, "Fanfold", stage=choose(app.node.get_all_context()))


def template_of(stack: Stack) -> Template:
    from aws_cdk import App

    app = stack.node.root
    assert isinstance(app, App)
    found: Template = app.synth().get_stack_by_name(stack.stack_name).template
    return found


@cache
def made(**context: str) -> FanfoldStack:
    """The stack of the stage that the context names; all tests share it, and none changes it."""
    return make_stack(**context)


@cache
def synthesized(**context: str) -> Template:
    """The template of that stack."""
    return template_of(made(**context))


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


def only(template: Template, kind: str) -> Template:
    """The properties of the only resource of a type."""
    (found,) = of_type(template, kind).values()
    return found


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


def setting(template: Template, name: str) -> Any:
    """The value of an environment variable, which all functions share."""
    first, *others = (given[name] for given in variables(template).values())
    assert all(each == first for each in others), name
    return first


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
