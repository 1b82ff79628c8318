"""What a synthesized stack needs in the account, read from its template."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fanfold import names
from fanfold_cli.local.assembly import SynthesizedStack
from fanfold_cli.local.template import entry_days, of_type

TABLE_TYPES: Final = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")
SUBSCRIPTION_TYPE: Final = "AWS::SNS::Subscription"


@dataclass(frozen=True)
class Slack:
    """The channel for alarms; the name of its configuration contains `{region}`."""

    workspace: str
    channel: str
    configuration: str


@dataclass(frozen=True)
class Wanted:
    stack: str
    bootstrap_parameter: str
    bootstrap_version: int
    keeps_data: bool
    is_protected: bool  # from deletion: stack, tables and pool
    stack_is_protected: bool  # the stack, perhaps without its tables
    bursting: Mapping[str, str]  # logical ids of the tables that take bursts, by their names
    issuer: str | None  # None if the stack has its own pool
    emails: Mapping[str, str]  # that get the alarms, by the logical ids of their subscriptions
    slack: Slack | None
    workers: int  # of all queues together
    max_write_units: int | None
    warm_write_units: int | None
    entry_days: Mapping[str, int]  # of the functions, by their logical ids
    requests_per_second: int
    private_by_default: bool = False

    @classmethod
    def by(cls, stack: SynthesizedStack) -> "Wanted":
        template = stack.template
        tables = of_type(template, *TABLE_TYPES)
        outputs = template["Outputs"]
        return cls(
            stack.name,
            template["Parameters"]["BootstrapVersion"]["Default"],
            stack.bootstrap_version,
            keeps_data=any(table["DeletionPolicy"] != "Delete" for table in tables.values()),
            is_protected=stack.is_protected
            and all(_is_protected(table) for table in tables.values()),
            stack_is_protected=stack.is_protected,
            bursting={
                table.name.lower(): outputs[table.output]["Value"]["Ref"]
                for table in names.TABLES
                if table.takes_bursts
            },
            issuer=_issuer(template),
            emails={
                logical_id: each["Properties"]["Endpoint"]
                for logical_id, each in of_type(template, SUBSCRIPTION_TYPE).items()
            },
            slack=_slack(template),
            workers=sum(
                mapping["Properties"]["ScalingConfig"]["MaximumConcurrency"]
                for mapping in of_type(template, "AWS::Lambda::EventSourceMapping").values()
            ),
            max_write_units=_max_write_units(tables),
            warm_write_units=template.get("Metadata", {}).get("Fanfold", {}).get("WarmWriteUnits"),
            entry_days=entry_days(template),
            requests_per_second=max(
                stage["Properties"]["DefaultRouteSettings"]["ThrottlingRateLimit"]
                for stage in of_type(template, "AWS::ApiGatewayV2::Stage").values()
            ),
            private_by_default='"PRIVATE_BY_DEFAULT": "True"' in json.dumps(template),
        )


def _is_protected(table: Mapping[str, Any]) -> bool:
    (replica,) = table["Properties"]["Replicas"]
    return bool(replica["DeletionProtectionEnabled"])


def _issuer(template: Mapping[str, Any]) -> str | None:
    for authorizer in of_type(template, "AWS::ApiGatewayV2::Authorizer").values():
        issuer = authorizer["Properties"]["JwtConfiguration"]["Issuer"]
        if isinstance(issuer, str):  # otherwise it has the id of the stack's own pool
            return issuer
    return None


def _slack(template: Mapping[str, Any]) -> Slack | None:
    for each in of_type(template, "AWS::Chatbot::SlackChannelConfiguration").values():
        wanted = each["Properties"]
        _, parts = wanted["ConfigurationName"]["Fn::Join"]
        name = "".join("{region}" if part == {"Ref": "AWS::Region"} else part for part in parts)
        return Slack(wanted["SlackWorkspaceId"], wanted["SlackChannelId"], name)
    return None


def _max_write_units(tables: Mapping[str, Any]) -> int | None:
    settings = (
        table["Properties"].get("WriteOnDemandThroughputSettings", {}) for table in tables.values()
    )
    return max((each["MaxWriteRequestUnits"] for each in settings if each), default=None)
