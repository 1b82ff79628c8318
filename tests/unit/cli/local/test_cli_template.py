"""What `fanfold local up` reads from templates, without an engine."""

from typing import Any

import pytest

from fanfold_cli.local import template

QUEUE = {
    "Type": "AWS::SQS::Queue",
    "Properties": {"VisibilityTimeout": 360},
    "Metadata": {"aws:cdk:path": "Fanfold-local/Bulk/Queue/Resource"},
}
TABLE = {
    "Type": "AWS::DynamoDB::GlobalTable",
    "Properties": {"TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True}},
    "Metadata": {"aws:cdk:path": "Fanfold-local/Posts/Resource"},
}
SINGLE_TABLE = {**TABLE, "Type": "AWS::DynamoDB::Table"}
BARE = {name: value for name, value in TABLE.items() if name != "Metadata"}
POSTS = "The table Fanfold-local/Posts"


def stack(**resources: Any) -> dict[str, Any]:
    return {"Resources": resources}


def changed(resource: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {**resource, "Properties": {**resource["Properties"], **properties}}


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (TABLE, TABLE, None),
        (None, TABLE, None),
        (QUEUE, changed(QUEUE, VisibilityTimeout=60), None),
        (QUEUE, None, None),
        (TABLE, changed(TABLE, BillingMode="PROVISIONED"), f"{POSTS} changed (BillingMode)."),
        (TABLE, None, f"{POSTS} is no longer in the stack."),
        (TABLE, SINGLE_TABLE, f"{POSTS} is no longer in the stack."),
        (BARE, None, "The table It is no longer in the stack."),
    ],
)
def test_changes_that_would_delete_items_are_found(
    before: dict[str, Any] | None, after: dict[str, Any] | None, sentence: str | None
) -> None:
    deployed, synthesized = (
        stack(Other=QUEUE, **({"It": resource} if resource else {})) for resource in (before, after)
    )
    lost = template.lost_tables(deployed, synthesized)
    assert [table.sentence() for table in lost] == ([sentence] if sentence else [])


def forgotten(deployed: dict[str, Any], synthesized: dict[str, Any]) -> int:
    return template.forgotten_days(template.entry_days(deployed), template.entry_days(synthesized))


def function(**variables: Any) -> dict[str, Any]:
    known = {"TIMELINES_TABLE": {"Ref": "It"}, **variables}
    return {"Type": "AWS::Lambda::Function", "Properties": {"Environment": {"Variables": known}}}


@pytest.mark.parametrize(
    ("now", "days"), [(("7",), 60), (("7", "59"), 60), (("7", "60"), 0), (("60",), 0), (("90",), 0)]
)
def test_a_deploy_that_forgets_how_long_entries_have_lived_is_found(
    now: tuple[str, ...], days: int
) -> None:
    names = ("RETENTION_DAYS", "LONGEST_RETENTION_DAYS")
    for lived in (("60",), ("30", "60"), ("60", "30")):
        deployed = stack(F=function(**dict(zip(names, lived, strict=False))))
        synthesized = stack(F=function(**dict(zip(names, now, strict=False))), New=TABLE)
        assert forgotten(deployed, synthesized) == days


def test_each_timeline_of_a_stack_remembers_for_itself() -> None:
    long, short = function(RETENTION_DAYS="60"), function(RETENTION_DAYS="7")
    foreign = {"Type": "AWS::Lambda::Function", "Properties": {}}
    of_an_app = function(RETENTION_DAYS="for ever")
    del of_an_app["Properties"]["Environment"]["Variables"]["TIMELINES_TABLE"]
    both = stack(Long=long, Short=short, Foreign=foreign, OfAnApp=of_an_app)
    assert forgotten(both, both) == 0
    assert forgotten(both, stack(Short=short)) == 0  # the other one is removed
    assert forgotten(both, both | stack(Long=short, Short=long)) == 60
    assert forgotten(stack(), both) == 0
