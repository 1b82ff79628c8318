"""Least privilege: what the functions call, judged by the policies of the template.

`walks.walk` runs every function through its paths on the model, which sees each call. Nothing that
is called may be missing from a function's policy, and nothing in it may be without a call.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest
from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms

from fanfold import names
from fanfold.channels.head import HEAD
from fanfold.follows.relation import PRIVACY
from infra import Network
from proof.model.iam import (
    LEADING_KEYS,
    SOURCE_FUNCTION,
    Grant,
    Need,
    arn,
    grants,
    is_allowed,
    needs_of_key,
)
from proof.model.sqs.messages import ACCOUNT
from proof.simulation.__main__ import run
from proof.simulation.world.lambdas import installed
from tests.infra.foreign import embed
from tests.infra.policies import needed_by_the_service, policies
from tests.infra.template import Template, of_type, template_of
from tests.infra.walks import FUNCTION_ARN, Record, recording, walk

MODULES = [function.name for function in names.FUNCTIONS]
NOTHING: dict[str, set[object]] = {module: set() for module in MODULES}
SECOND_JUDGE = Path(__file__).parents[1] / "second_judge"
# Nobody calls these; and that is what the judge has to see.
UNCALLED = ("dynamodb:DeleteTable", "dynamodb:*", "sqs:PurgeQueue", "sqs:Send*", "lambda:*", "*")
# Runs of other worlds, in which more goes wrong.
SEEDS = 60
# What tells a call of a function's code from one that Lambda makes by its role.
FROM_CODE = ((SOURCE_FUNCTION, (FUNCTION_ARN,)),)
# Where a policy has a wildcard, and why.
WILDCARDS = {"*": "in a VPC: AWS takes no resource for the actions that attach a function"}


# Some seconds each.
walked = cache(walk)


@pytest.fixture(params=names.TRANSPORTS)
def record(request: pytest.FixtureRequest) -> Record:
    """What each function needs, by one of the transports."""
    return walked(request.param)


def missing(needed: set[Need], held: Sequence[Grant]) -> set[Need]:
    return {need for need in needed if not is_allowed(need, held)}


def unused(needed: set[Need], held: Sequence[Grant]) -> set[Grant]:
    return {
        grant for grant in held if grant.allows and not any(grant.covers(need) for need in needed)
    }


def all_needed(record: Record, template: Template) -> Record:
    """By module: what its function calls, and what Lambda does by its role."""
    by_the_service = needed_by_the_service(template).items()
    return {module: record[module] | needed for module, needed in by_the_service}


def held_by(template: Template) -> dict[str, Sequence[Grant]]:
    return {module: grants(policy) for module, policy in policies(template).items()}


def test_a_function_may_do_all_that_it_calls(record: Record, template: Template) -> None:
    held, needed = held_by(template), all_needed(record, template)
    assert sorted(record) == sorted(held) == sorted(MODULES)
    assert {each: missing(needed[each], held[each]) for each in MODULES} == NOTHING


def test_a_function_may_do_nothing_that_nothing_calls(record: Record, template: Template) -> None:
    held, needed = held_by(template), all_needed(record, template)
    assert {each: unused(needed[each], held[each]) for each in MODULES} == NOTHING


def test_each_grant_that_is_taken_away_is_missed(record: Record, dev: Template) -> None:
    needed = all_needed(record, dev)
    for module, held in held_by(dev).items():
        for grant in (each for each in held if each.allows):
            left = [each for each in held if each is not grant]
            assert missing(needed[module], left), (module, grant)


def test_the_head_is_the_only_row_of_publishers_for_pages_and_sweep(shared: Template) -> None:
    for module in (names.TIMELINE.name, names.SWEEP.name):
        held = held_by(shared)[module]
        for key, is_head in ((HEAD, True), ("ada", False), ("#all", False), ("ada#x", False)):
            assert is_allowed(of_row("dynamodb:GetItem", key), held) is is_head


def of_row(action: str, key: str) -> Need:
    """Of one row of publishers."""
    rows = arn("dynamodb", f"table/{names.PUBLISHERS.name}")
    return Need(action, rows, ((LEADING_KEYS, (key,)),))


def test_the_head_is_the_only_stage_row_among_publishers_that_may_be_updated(dev: Template) -> None:
    updaters = {names.API.name, names.PLAN.name, names.RELATE.name}
    writers_of_head = {names.PLAN.name, names.SWEEP.name}
    for module, held in held_by(dev).items():
        may = {
            key: is_allowed(of_row("dynamodb:UpdateItem", key), held)
            for key in ("ada", HEAD, "#all", f"ada{PRIVACY}")
        }
        assert may == {
            "ada": module in updaters,
            HEAD: module in writers_of_head,
            "#all": False,
            f"ada{PRIVACY}": module == names.API.name,
        }


def test_lambda_takes_messages_by_a_functions_role_and_its_code_may_not(template: Template) -> None:
    for queue in names.QUEUES:
        held = held_by(template)[queue.consumer.name]
        for action in ("sqs:ReceiveMessage", "sqs:DeleteMessage"):
            assert is_allowed(Need(action, arn("sqs", queue.name)), held)
            assert not is_allowed(Need(action, arn("sqs", queue.name), FROM_CODE), held)


def test_each_grant_that_is_added_is_noticed(record: Record, dev: Template) -> None:
    needed, all_held = all_needed(record, dev), held_by(dev)
    everything = {(each.action, each.resource) for held in all_held.values() for each in held}
    actions = {*UNCALLED, *(action for action, _ in everything)}
    added = {(action, resource) for action in actions for _, resource in everything}
    for module, held in all_held.items():
        for grant in (Grant(*each) for each in added - {(g.action, g.resource) for g in held}):
            assert grant in unused(needed[module], [grant]) or wildcards([grant]), (module, grant)


def wildcards(held: Sequence[Grant]) -> set[str]:
    """Actions with a wildcard, and resources with one, but for the streams of a log group."""
    return {
        text
        for grant in held
        for text in (grant.action, grant.resource)
        if "*" in text and not text.startswith(arn("logs", "log-group:"))
    }


def test_with_a_key_and_a_vpc_each_function_may_use_them_as_far_as_it_needs(stack: Stack) -> None:
    record = walked(names.LIBCURL)
    network, key_ = Network(vpc=ec2.Vpc(stack, "Vpc", max_azs=1)), kms.Key(stack, "Key")
    embed(stack, encryption_key=key_, network=network)
    template = template_of(stack)
    ((logical_id, _),) = of_type(template, "AWS::KMS::Key").items()
    key = arn("kms", f"key/{logical_id}")
    for module, needed in all_needed(record, template).items():
        held = grants(policies(template)[module])
        needed |= {each for need in needed for each in needs_of_key(need, key)}
        assert (missing(needed, held), unused(needed, held)) == (set(), set())
        assert wildcards(held) == set(WILDCARDS)
        assert not any(
            is_allowed(need._replace(context=FROM_CODE), held)
            for need in needed
            if need.action.startswith("kms:")
        )
        attaching = [need for need in needed if need.resource == "*"]
        assert attaching
        assert not any(is_allowed(need._replace(context=FROM_CODE), held) for need in attaching)


@pytest.mark.thorough
def test_whatever_goes_wrong_a_function_calls_nothing_else(shared: Template) -> None:
    """Some of these worlds have channels."""
    with installed(), recording() as record:
        for seed in range(SEEDS):
            run(seed)
    for module, policy in policies(shared).items():
        assert record[module], module
        assert missing(record[module], grants(policy)) == set()


# A judge of another house


Judge = Callable[[dict[str, Template], list[tuple[str, Need]]], list[str]]


@pytest.fixture(scope="module")
def judge() -> Judge:
    """Cloud Copilot's IAM simulator, which also knows which actions and resources AWS has."""
    if not (SECOND_JUDGE / "node_modules").exists():
        pytest.skip("`make setup` installs the second judge")
    node = shutil.which("node")
    assert node is not None

    def verdicts(judged: dict[str, Template], questions: list[tuple[str, Need]]) -> list[str]:
        asked = [
            {"policy": policy, **need._asdict(), "context": dict(need.context)}
            for policy, need in questions
        ]
        content = {"account": ACCOUNT, "policies": judged, "questions": asked}
        done = subprocess.run(
            [node, SECOND_JUDGE / "judge.mjs"],
            input=json.dumps(content), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found: list[str] = json.loads(done.stdout)
        return found

    return verdicts


def without(policy: Template, number: int) -> Template:
    """The policy without one of its grants."""
    held = grants(policy)
    statements = [
        {
            "Effect": "Allow" if each.allows else "Deny",
            "Action": each.action,
            "Resource": each.resource,
            "Condition": each.condition,
        }
        for each in held[:number] + held[number + 1 :]
    ]
    return {**policy, "Statement": statements}


def test_a_second_judge_says_the_same(dev: Template, judge: Judge) -> None:
    needed = all_needed(walked(names.LIBCURL), dev)
    everything = sorted({need for each in needed.values() for need in each})
    judged = policies(dev)
    questions = [(module, need) for module in judged for need in everything]
    for module, policy in policies(dev).items():
        for number, grant in enumerate(grants(policy)):
            if not grant.allows:
                continue
            judged[f"{module} without {grant}"] = without(policy, number)
            named = [need for need in needed[module] if grant.covers(need)]
            questions += [(f"{module} without {grant}", need) for need in named]
    verdicts = judge(judged, questions)
    held = {name: grants(policy) for name, policy in judged.items()}
    for (name, need), verdict in zip(questions, verdicts, strict=True):
        expected = "Allowed" if is_allowed(need, held[name]) else "ImplicitlyDenied"
        assert verdict == expected, (name, need)


def test_the_second_judge_knows_what_aws_has(dev: Template, judge: Judge) -> None:
    table = arn("dynamodb", "table/Posts")
    asked = [("api", Need("dynamodb:PutItems", table)), ("api", Need("sqs:SendMessage", table))]
    assert "Allowed" not in (verdicts := judge(policies(dev), asked))
    assert all("message" in verdict for verdict in verdicts)
