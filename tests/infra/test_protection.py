"""Data is kept; a first deploy that fails leaves nothing behind, and can be repeated."""

import copy
import json
from collections.abc import Callable

import pytest
from aws_cdk import App, assertions

from infra.context import choose
from infra.stack import FanfoldStack
from tests.infra.template import Template, of_type, resources

HOLD_DATA = (
    "AWS::DynamoDB::GlobalTable",
    "AWS::SQS::Queue",
    "AWS::Cognito::UserPool",
    "AWS::Logs::LogGroup",
)
PROD = {"stage": "prod", "user_pool": "true", "alarms_unwatched": "true"}


@pytest.fixture(scope="module")
def kept(synthesize: Callable[..., Template]) -> Template:
    return synthesize(**PROD)


@pytest.fixture(scope="module")
def first(synthesize: Callable[..., Template]) -> Template:
    return synthesize(**PROD, first_deploy="true")


@pytest.mark.parametrize("kind", HOLD_DATA)
def test_prod_keeps_what_holds_data_except_when_its_creation_is_rolled_back(
    kept: Template, first: Template, kind: str
) -> None:
    for template in (kept, first):
        found = resources(template, kind)
        assert found
        for resource in found.values():
            assert resource["DeletionPolicy"] == "RetainExceptOnCreate"
            assert resource["UpdateReplacePolicy"] == "Retain"


def test_nothing_else_stays_behind_when_a_first_deploy_is_taken_back(
    kept: Template, first: Template
) -> None:
    for template in (kept, first):
        for resource in template["Resources"].values():
            policy = resource.get("DeletionPolicy", "Delete")
            assert policy in ("Delete", "RetainExceptOnCreate")
            assert (policy == "Delete") is (resource["Type"] not in HOLD_DATA)


def test_what_stays_behind_is_in_nobodys_way(kept: Template) -> None:
    named = [
        properties[name]
        for kind in HOLD_DATA
        for properties in of_type(kept, kind).values()
        for name in ("TableName", "QueueName", "UserPoolName", "LogGroupName")
        if name in properties
    ]
    (access_log,) = named
    assert "AWS::StackId" in json.dumps(access_log), "another stack of the same name has another"


@pytest.mark.parametrize("kind", HOLD_DATA)
def test_dev_deletes_what_holds_data(dev: Template, kind: str) -> None:
    for resource in resources(dev, kind).values():
        assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == "Delete"


def without_protection(template: Template) -> Template:
    """The template with every protection taken off."""
    plain = copy.deepcopy(template)
    for table in of_type(plain, "AWS::DynamoDB::GlobalTable").values():
        (replica,) = table["Replicas"]
        replica["DeletionProtectionEnabled"] = False
    for pool in of_type(plain, "AWS::Cognito::UserPool").values():
        pool["DeletionProtection"] = "INACTIVE"
    return plain


def test_a_first_deploy_differs_in_its_protections_alone(kept: Template, first: Template) -> None:
    assert kept != first
    assert without_protection(kept) == first


@pytest.mark.parametrize(
    ("context", "is_protected"),
    [(PROD, True), ({**PROD, "first_deploy": "true"}, False), ({"stage": "dev"}, False)],
    ids=["prod", "first deploy", "dev"],
)
def test_only_the_ordinary_deploy_of_prod_protects_the_stack_itself(
    make_app: Callable[..., App], context: dict[str, str], is_protected: bool
) -> None:
    app = make_app(**context)
    stack = FanfoldStack(app, "Fanfold", stage=choose(app.node.get_all_context()))
    assert app.synth().get_stack_by_name(stack.stack_name).termination_protection is is_protected
    said = assertions.Annotations.from_stack(stack).find_warning(
        "*", assertions.Match.string_like_regexp("no protection .* deploy again without")
    )
    assert len(said) == ("first_deploy" in context)


def test_no_deploy_sets_the_warm_throughput_which_could_not_be_rolled_back(prod: Template) -> None:
    for table in of_type(prod, "AWS::DynamoDB::GlobalTable").values():
        assert "WarmThroughput" not in table
    assert prod["Metadata"] == {"Fanfold": {"WarmWriteUnits": 20000}}


def test_a_stage_that_wants_no_warm_tables_says_nothing_of_them(dev: Template) -> None:
    assert "Metadata" not in dev
