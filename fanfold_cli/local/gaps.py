"""Set by API the properties that the engine's CloudFormation ignores, and read them back."""

from collections.abc import Callable, Mapping
from typing import Any

from fanfold_cli.local import template as templates
from fanfold_cli.terminal import ExpectedError

ClientOf = Callable[[str], Any]


def physical_ids(client_of: ClientOf, stack: str) -> dict[str, str]:
    described = client_of("cloudformation").describe_stack_resources(StackName=stack)
    return {
        resource["LogicalResourceId"]: resource["PhysicalResourceId"]
        for resource in described["StackResources"]
    }


def set_times_to_live(
    dynamodb: Any, template: templates.Template, physical: Mapping[str, str]
) -> int:
    """Let the items of tables expire as the template says; return the number of such tables."""
    found = templates.times_to_live(template)
    for logical_id, attribute in found.items():
        _set_ttl(dynamodb, physical[logical_id], attribute)
    return len(found)


def _set_ttl(dynamodb: Any, table: str, attribute: str) -> None:
    def read() -> Any:
        return dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]

    wanted = {"TimeToLiveStatus": "ENABLED", "AttributeName": attribute}
    # DynamoDB rejects an update that changes nothing.
    if read() != wanted:
        dynamodb.update_time_to_live(
            TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": attribute}
        )
    if (seen := read()) != wanted:
        raise _not_kept(f"the time to live of {table}", seen)


def let_browsers_call(
    gateway: Any, template: templates.Template, physical: Mapping[str, str]
) -> int:
    """Allow CORS as the template says; return the number of such APIs.

    The engine stores the template's CORS configuration under names that its API does not read.
    """
    found = templates.cors_configurations(template)
    for logical_id, wanted in found.items():
        api = physical[logical_id]
        gateway.update_api(ApiId=api, CorsConfiguration=wanted)
        if (seen := gateway.get_api(ApiId=api).get("CorsConfiguration")) != wanted:
            raise _not_kept(f"the CORS configuration of {api}", seen)
    return len(found)


def _not_kept(what: str, seen: object) -> ExpectedError:
    return ExpectedError(
        f"The engine did not keep {what}: it answers {seen!r}. Run `make setup`, which installs "
        "the version of the engine that is known to work."
    )
