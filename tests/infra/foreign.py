"""Timelines in somebody's stack, and what its template allows."""

from dataclasses import dataclass, replace
from typing import Any

from aws_cdk import App, Duration, RemovalPolicy, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_

from infra import DEV, FollowTimeline, Sender, TableOptions, Users
from tests.infra.template import Template, of_type, template_of


def embed(stack: Stack, id_: str = "Timeline", **properties: Any) -> FollowTimeline:
    return FollowTimeline(stack, id_, **{"users": Users.own_pool(), **properties})


def foreign_stack() -> Stack:
    """A stack of a foreign app: it has no feature flags of this one."""
    return Stack(App(context={"aws:cdk:bundling-stacks": []}), "Shop")


@dataclass(frozen=True)
class Shop:
    """A stack whose timeline has what may be chosen in an app, and whoever works with it."""

    stack: Stack
    timeline: FollowTimeline
    key: kms.Key
    boundary: iam.IManagedPolicy
    bus: events.EventBus
    template: Template

    def resolved(self, value: Any) -> Any:
        return self.stack.resolve(value)


def opened_shop() -> Shop:
    stack = foreign_stack()
    key, bus = kms.Key(stack, "Key"), events.EventBus(stack, "Bus")
    boundary = iam.ManagedPolicy.from_managed_policy_name(stack, "Boundary", "developers")
    news = iam.Role(stack, "News", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    timeline = embed(
        stack,
        stage=replace(DEV, alarms_unwatched=True),
        name="shop-eu",
        users=Users.of_issuer("https://login.example.com", "shop", claim="email"),
        retention=Duration.days(7),
        longest_retention=Duration.days(30),
        removal_policy=RemovalPolicy.RETAIN,
        cors_origins=["https://shop.example.com"],
        channel_threshold=5_000,
        tags={"team": "feed"},
        encryption_key=key,
        permissions_boundary=boundary,
        tables=TableOptions(
            point_in_time_recovery=False,
            deletion_protection=True,
            contributor_insights=True,
            max_write_request_units=20_000,
            daily_write_units=1_000_000,
            streams=True,
        ),
        senders=[
            Sender.role(news, "news-*", "tv", ref_ids=("news:*", "tv:*")),
            Sender("AIDAEXAMPLEOPS", ("*",)),
        ],
    )
    timeline.add_outputs()
    timeline.grant_publish(client_function(stack, "Publisher"))
    timeline.grant_read(client_function(stack, "Reader"))
    timeline.grant_streams(client_function(stack, "Consumer"))
    timeline.publish_events(
        "Shop", event_bus=bus, event_pattern=events.EventPattern(source=["shop"])
    )
    return Shop(stack, timeline, key, boundary, bus, template_of(stack))


def client_function(stack: Stack, name: str) -> lambda_.Function:
    return lambda_.Function(
        stack,
        name,
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
        handler="index.handler",
        runtime=lambda_.Runtime.PYTHON_3_13,
    )


def part(template: Template, prefix: str) -> Template:
    """The resources whose logical ids begin so: those of one construct of a stack."""
    found = template["Resources"].items()
    return {"Resources": {id_: each for id_, each in found if id_.startswith(prefix)}}


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
