"""Set by API the properties that the engine's CloudFormation ignores, and read them back."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from fanfold_cli.console import ExpectedError, counted
from fanfold_cli.local import template as templates

ClientOf = Callable[[str], Any]


def physical_ids(client_of: ClientOf, stack: str) -> dict[str, str]:
    described = client_of("cloudformation").describe_stack_resources(StackName=stack)
    return {
        resource["LogicalResourceId"]: resource["PhysicalResourceId"]
        for resource in described["StackResources"]
    }


def close_gaps(
    client_of: ClientOf, template: templates.Template, physical: Mapping[str, str]
) -> list[str]:
    """Set redrive policies, times to live and recursion modes; return what was done, in words."""
    redrives, ttls = templates.redrives(template), templates.times_to_live(template)
    recursions = templates.recursions(template)
    for redrive in redrives:
        _set_redrive(client_of("sqs"), redrive, physical)
    for ttl in ttls:
        _set_ttl(client_of("dynamodb"), ttl, physical)
    for recursion in recursions:
        _set_recursion(client_of("lambda"), recursion, physical)
    stale = _remove_stale_routes(client_of("apigatewayv2"), template, physical)
    return [
        f"set {counted(len(redrives), 'redrive policy', 'redrive policies')}",
        f"set {counted(len(ttls), 'time to live', 'times to live')}",
        f"set {counted(len(recursions), 'recursion mode')}",
        f"removed {counted(stale, 'stale route')}",
    ]


def _set_redrive(sqs: Any, redrive: templates.Redrive, physical: Mapping[str, str]) -> None:
    target = sqs.get_queue_attributes(
        QueueUrl=physical[redrive.dead_letters], AttributeNames=["QueueArn"]
    )["Attributes"]["QueueArn"]
    wanted = {"deadLetterTargetArn": target, "maxReceiveCount": redrive.max_receive_count}
    url = physical[redrive.queue]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(wanted)})
    seen = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])
    policy = json.loads(seen.get("Attributes", {}).get("RedrivePolicy", "{}"))
    if policy != wanted:
        raise _not_kept("RedrivePolicy", url, policy)


def _set_ttl(dynamodb: Any, ttl: templates.TimeToLive, physical: Mapping[str, str]) -> None:
    table = physical[ttl.table]

    def read() -> Any:
        return dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]

    wanted = {"TimeToLiveStatus": "ENABLED", "AttributeName": ttl.attribute}
    # DynamoDB rejects an update that changes nothing.
    if read() != wanted:
        dynamodb.update_time_to_live(
            TableName=table,
            TimeToLiveSpecification={"Enabled": True, "AttributeName": ttl.attribute},
        )
    if read() != wanted:
        raise _not_kept("TimeToLiveSpecification", table, read())


def _set_recursion(lambda_: Any, wanted: templates.Recursion, physical: Mapping[str, str]) -> None:
    name = physical[wanted.function]
    lambda_.put_function_recursion_config(FunctionName=name, RecursiveLoop=wanted.mode)
    seen = lambda_.get_function_recursion_config(FunctionName=name)["RecursiveLoop"]
    if seen != wanted.mode:
        raise _not_kept("RecursiveLoop", name, seen)


def _remove_stale_routes(
    gateway: Any, template: templates.Template, physical: Mapping[str, str]
) -> int:
    # The engine cannot update a route: it creates a second one, and the first still answers.
    resources = template.get("Resources", {}).items()

    def ids_of(type_: str) -> set[str]:
        return {physical[id_] for id_, resource in resources if resource["Type"] == type_}

    kept = ids_of("AWS::ApiGatewayV2::Route")
    removed = 0
    for api in ids_of("AWS::ApiGatewayV2::Api"):
        for route in gateway.get_routes(ApiId=api)["Items"]:
            if f"{api}/{route['RouteId']}" not in kept:
                gateway.delete_route(ApiId=api, RouteId=route["RouteId"])
                removed += 1
    return removed


def _not_kept(name: str, resource: str, seen: object) -> ExpectedError:
    return ExpectedError(
        f"The engine did not keep {name} of {resource}: it answers {seen!r}. Run `make "
        "setup`, which installs the version of the engine that is known to work."
    )
