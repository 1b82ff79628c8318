"""A timeline in somebody's stack, and what its template allows."""

from typing import Any

from aws_cdk import App, Stack

from infra import FollowTimeline, Users
from tests.infra.template import Template, of_type


def template_of(stack: Stack) -> Template:
    app = stack.node.root
    assert isinstance(app, App)
    found: Template = app.synth().get_stack_by_name(stack.stack_name).template
    return found


def embed(stack: Stack, id_: str = "Timeline", **properties: Any) -> FollowTimeline:
    return FollowTimeline(stack, id_, **{"users": Users.own_pool(), **properties})


def statements(template: Template, role: str) -> list[Template]:
    """What the policies of the role with this prefix of its logical id allow."""
    return [
        statement
        for policy in of_type(template, "AWS::IAM::Policy").values()
        if any(each["Ref"].startswith(role) for each in policy["Roles"])
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def allowed(template: Template, role: str) -> set[str]:
    found: set[str] = set()
    for statement in statements(template, role):
        actions = statement["Action"]
        found |= {actions} if isinstance(actions, str) else set(actions)
    return found
