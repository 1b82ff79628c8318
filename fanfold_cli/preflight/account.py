"""Reads what an account has, and changes nothing."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import names
from fanfold.aws.dynamodb import pages
from fanfold.aws.items import Item, text
from fanfold.follows.relation import REQUESTED
from fanfold_cli import aws
from fanfold_cli.local.template import entry_days
from fanfold_cli.preflight.checks import FoundStack, FoundTable
from fanfold_cli.preflight.wanted import SUBSCRIPTION_TYPE, TABLE_TYPES, Slack

Read = TypeVar("Read")

# A check fails after two attempts of ten seconds.
READ_SECONDS: Final = 10
ATTEMPTS: Final = 2
# It has endpoints in four regions, each for all regions:
# https://docs.aws.amazon.com/chatbot/latest/APIReference/Welcome.html
CHATBOT_REGION: Final = "us-east-2"
# SNS returns these in place of an ARN.
PENDING: Final = "PendingConfirmation"
DELETED: Final = "Deleted"
SAYS: Final = "#name = :value"


@dataclass(frozen=True)
class Account:
    """The account of the user's credentials, in this region."""

    region: str

    def number(self) -> str:
        return str(self._client("sts").get_caller_identity()["Account"])

    def bootstrap_version(self, parameter: str) -> int | None:
        """The version of CDK's bootstrap stack; None if there is none."""
        ssm = self._client("ssm")
        try:
            return int(ssm.get_parameter(Name=parameter)["Parameter"]["Value"])
        except ssm.exceptions.ParameterNotFound:
            return None

    def stack(self, name: str) -> FoundStack | None:
        """The stack, with what can be read of its tables and pools; None if there is none."""
        cloudformation = self._client("cloudformation")
        try:
            (described,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=name)
        made = [
            resource
            for page in pages
            for resource in page["StackResourceSummaries"]
            if resource.get("PhysicalResourceId")
            and not resource["ResourceStatus"].startswith("DELETE_")
            and resource["ResourceStatus"] != "CREATE_FAILED"
        ]
        unread: dict[str, str] = {}
        return FoundStack(
            described["StackStatus"],
            described.get("EnableTerminationProtection", False),
            _each(self._table, _of(made, *TABLE_TYPES), unread),
            _each(self._is_pool_protected, _of(made, "AWS::Cognito::UserPool"), unread),
            next((arn for _, arn in _of(made, "AWS::SNS::Topic")), None),
            frozenset(logical for logical, _ in _of(made, SUBSCRIPTION_TYPE)),
            unread,
        )

    def entry_days(self, stack: str) -> Mapping[str, int]:
        """How long entries may have lived, by function, from the deployed template."""
        answer = self._client("cloudformation").get_template(StackName=stack)
        return entry_days(answer["TemplateBody"])

    def known_here_alone(self, stack: str) -> Counter[str]:
        """Rows that a release without private publishers would not heed, counted by two scans."""
        (described,) = self._client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        tables = {each["OutputKey"]: each["OutputValue"] for each in described["Outputs"]}
        found = Counter[str]()
        for table, condition, name, value in (
            (names.FOLLOWING, f"attribute_exists(shuts) OR {SAYS}", "state", text(REQUESTED)),
            (names.PUBLISHERS, SAYS, "private", {"BOOL": True}),
        ):
            for page in pages(
                self._client("dynamodb"),
                TableName=tables[table.output],
                FilterExpression=condition,
                ExpressionAttributeNames={"#name": name},
                ExpressionAttributeValues={":value": value},
            ):
                found.update(map(_kind, page["Items"]))
        return found

    def addresses(self, topic: str) -> dict[str, bool]:
        """The e-mail addresses that a topic has, and whether each has been confirmed."""
        pages = self._client("sns").get_paginator("list_subscriptions_by_topic")
        return {
            each["Endpoint"]: each["SubscriptionArn"] != PENDING
            for page in pages.paginate(TopicArn=topic)
            for each in page["Subscriptions"]
            if each["Protocol"].startswith("email") and each["SubscriptionArn"] != DELETED
        }

    def unreserved_concurrency(self) -> int:
        limits = self._client("lambda").get_account_settings()["AccountLimit"]
        return int(limits["UnreservedConcurrentExecutions"])

    def write_quota(self) -> int:
        """Write units a second that one table may take."""
        return int(self._client("dynamodb").describe_limits()["TableMaxWriteCapacityUnits"])

    def requests_per_second(self) -> int | None:
        """The rate limit of all APIs of the account in this region; None if AWS does not say."""
        limits = self._client("apigateway").get_account().get("throttleSettings", {})
        return int(limits["rateLimit"]) if "rateLimit" in limits else None

    def slack_configurations(self, slack: Slack) -> list[str]:
        """The names of all configurations of this channel in the account."""
        chatbot = aws.client("chatbot", None, CHATBOT_REGION, ATTEMPTS, READ_SECONDS)
        pages = chatbot.get_paginator("describe_slack_channel_configurations").paginate()
        return [
            each["ConfigurationName"]
            for page in pages
            for each in page["SlackChannelConfigurations"]
            if (each["SlackTeamId"], each["SlackChannelId"]) == (slack.workspace, slack.channel)
        ]

    def _table(self, name: str) -> FoundTable:
        table = self._client("dynamodb").describe_table(TableName=name)["Table"]
        warm = table.get("WarmThroughput", {})
        return FoundTable(
            name,
            table.get("DeletionProtectionEnabled", False),
            "UPDATING" in (table["TableStatus"], warm.get("Status")),
            int(warm.get("WriteUnitsPerSecond", 0)),
        )

    def _is_pool_protected(self, pool: str) -> bool:
        described = self._client("cognito-idp").describe_user_pool(UserPoolId=pool)["UserPool"]
        return bool(described.get("DeletionProtection") == "ACTIVE")

    def _client(self, service: str) -> Any:
        return aws.client(service, None, self.region, ATTEMPTS, READ_SECONDS)


def _kind(item: Item) -> str:
    if "private" in item:
        return "private publisher"
    return "block" if "shuts" in item else "request"


def _each(
    read: Callable[[str], Read], made: list[tuple[str, str]], unread: dict[str, str]
) -> dict[str, Read]:
    """What `read` returns for each, by logical id; errors go to `unread`."""
    found = {}
    for logical, physical in made:
        try:
            found[logical] = read(physical)
        except (ClientError, BotoCoreError) as error:
            unread[logical] = f"{physical}: {error}"
    return found


def _of(resources: Iterable[dict[str, Any]], *types: str) -> list[tuple[str, str]]:
    return [
        (resource["LogicalResourceId"], resource["PhysicalResourceId"])
        for resource in resources
        if resource["ResourceType"] in types
    ]
