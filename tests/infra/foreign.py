"""A timeline in somebody's stack, and what its template allows."""

from typing import Any

from aws_cdk import Stack

from infra import FollowTimeline, Users
from tests.infra.template import Template, of_type


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


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def allowed(template: Template, role: str) -> set[str]:
    return {each for stated in statements(template, role) for each in as_list(stated["Action"])}
