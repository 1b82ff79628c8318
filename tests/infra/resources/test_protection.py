"""Data is kept; a first deploy that fails leaves nothing behind, and can be repeated."""

import copy

import pytest

from infra.settings.context import choose
from infra.stack import FanfoldStack
from tests.infra.template import Template, make_stack, of_type, template_of

TABLE, POOL = "AWS::DynamoDB::GlobalTable", "AWS::Cognito::UserPool"
HOLD_DATA = (TABLE, "AWS::SQS::Queue", POOL, "AWS::Logs::LogGroup")
PROD = {"stage": "prod", "user_pool": "true", "alarms_unwatched": "true"}


@pytest.fixture(scope="module")
def first() -> FanfoldStack:
    return make_stack(**PROD, first_deploy="true")


def test_prod_keeps_what_holds_data_and_nothing_else_even_if_a_first_deploy_is_taken_back(
    pooled: Template, first: FanfoldStack
) -> None:
    for template in (pooled, template_of(first)):
        assert set(HOLD_DATA) <= {each["Type"] for each in template["Resources"].values()}
        for resource in template["Resources"].values():
            policy = resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")
            if resource["Type"] in HOLD_DATA:
                assert policy == ("RetainExceptOnCreate", "Retain")
            else:
                assert policy in ((None, None), ("Delete", "Delete"))


def test_a_first_deploy_differs_only_in_its_protections(
    pooled: Template, first: FanfoldStack
) -> None:
    kept = copy.deepcopy(pooled)
    assert kept != template_of(first)
    for table in of_type(kept, TABLE).values():
        table["Replicas"][0]["DeletionProtectionEnabled"] = False
    for pool in of_type(kept, POOL).values():
        pool["DeletionProtection"] = "INACTIVE"
    assert kept == template_of(first)


def test_only_the_ordinary_deploy_of_prod_protects_the_stack_itself(first: FanfoldStack) -> None:
    assert not choose({"stage": "dev"}).is_protected
    for stack, is_protected in ((make_stack(**PROD), True), (first, False)):
        assert stack.termination_protection is is_protected
        said = [each for each in stack.node.metadata if each.type == "aws:cdk:warning"]
        assert bool(said) is not is_protected
        assert all("deploy again without first_deploy" in str(each.data) for each in said)
