"""Data is kept; a first deploy that fails leaves nothing behind, and can be repeated."""

import copy

import pytest

from infra.settings.context import choose
from tests.infra.recorded import STAGES
from tests.infra.template import Template, made, of_type, synthesized

TABLE, POOL = "AWS::DynamoDB::GlobalTable", "AWS::Cognito::UserPool"
HOLD_DATA = (TABLE, "AWS::SQS::Queue", POOL, "AWS::Logs::LogGroup")
POOLED = STAGES["pooled"]
FIRST = {**POOLED, "first_deploy": "true"}


@pytest.fixture
def first() -> Template:
    return synthesized(**FIRST)


def test_prod_keeps_what_holds_data_and_nothing_else_even_if_a_first_deploy_is_taken_back(
    pooled: Template, first: Template
) -> None:
    for template in (pooled, first):
        assert set(HOLD_DATA) <= {each["Type"] for each in template["Resources"].values()}
        for resource in template["Resources"].values():
            policy = resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")
            if resource["Type"] in HOLD_DATA:
                assert policy == ("RetainExceptOnCreate", "Retain")
            else:
                assert policy in ((None, None), ("Delete", "Delete"))


def test_a_first_deploy_differs_only_in_its_protections(pooled: Template, first: Template) -> None:
    kept = copy.deepcopy(pooled)
    assert kept != first
    for table in of_type(kept, TABLE).values():
        table["Replicas"][0]["DeletionProtectionEnabled"] = False
    for pool in of_type(kept, POOL).values():
        pool["DeletionProtection"] = "INACTIVE"
    assert kept == first


def test_only_the_ordinary_deploy_of_prod_protects_the_stack_itself() -> None:
    assert not choose({"stage": "dev"}).is_protected
    for stack, is_protected in ((made(**POOLED), True), (made(**FIRST), False)):
        assert stack.termination_protection is is_protected
        said = [each for each in stack.node.metadata if each.type == "aws:cdk:warning"]
        assert bool(said) is not is_protected
        assert all("deploy again without first_deploy" in str(each.data) for each in said)
