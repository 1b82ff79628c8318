"""Rules for every function."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from fanfold.doctor.recheck import MOMENT_SECONDS
from fanfold.settings import Settings
from tests.infra.template import Template, functions, of_type, updated_before, variables

# Seconds and megabytes by module.
EXPECTED = {
    "api": (10, 512),
    "timeline": (10, 512),
    "plan": (60, 512),
    "deliver": (60, 512),
    "relate": (30, 512),
    "sweep": (55, 1769),
}


def test_the_stack_has_no_functions_of_cdk_constructs(template: Template) -> None:
    assert len(of_type(template, "AWS::Lambda::Function")) == len(EXPECTED)


@pytest.mark.parametrize("module", EXPECTED)
def test_every_handler_exists(dev: Template, module: str) -> None:
    handler = functions(dev)[module]["Handler"]
    name, _, attribute = handler.rpartition(".")
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    assert f"def {attribute}(" in Path(spec.origin).read_text(encoding="utf-8")


def test_timeouts_and_memory_are_pinned(template: Template) -> None:
    assert {
        module: (properties["Timeout"], properties["MemorySize"])
        for module, properties in functions(template).items()
    } == EXPECTED


def test_the_doctor_waits_longer_than_any_function_that_uses_edges(
    template: Template,
) -> None:
    workers = functions(template)
    for module in ("api", "plan", "deliver", "relate"):
        assert workers[module]["Timeout"] < MOMENT_SECONDS


def test_with_boto3_deliver_has_a_whole_vcpu(
    synthesize: Callable[..., Template], dev: Template
) -> None:
    back = synthesize(transport="boto3")
    for template, transport, memory in ((dev, "libcurl", 512), (back, "boto3", 1769)):
        assert functions(template)["deliver"]["MemorySize"] == memory
        assert {given["TRANSPORT"] for given in variables(template).values()} == {transport}


def test_functions_run_on_arm_and_the_newest_python(template: Template) -> None:
    for properties in functions(template).values():
        assert properties["Architectures"] == ["arm64"]
        assert properties["Runtime"] == "python3.14"


def test_all_functions_share_one_asset(template: Template) -> None:
    keys = {properties["Code"]["S3Key"] for properties in functions(template).values()}
    assert len(keys) == 1


def test_only_deliver_and_relate_may_loop_through_their_own_queues(template: Template) -> None:
    allowed = {
        module
        for module, properties in functions(template).items()
        if properties.get("RecursiveLoop") == "Allow"
    }
    assert allowed == {"deliver", "relate"}


def test_every_function_has_every_setting_in_its_environment(template: Template) -> None:
    for given in variables(template).values():
        texts = {
            name: value if isinstance(value, str) else value["Ref"] for name, value in given.items()
        }
        service = texts.pop("POWERTOOLS_SERVICE_NAME")
        assert service
        assert texts == Settings.from_env(texts).to_env()


def test_whoever_takes_a_message_is_updated_before_those_who_send_it(template: Template) -> None:
    assert updated_before(template) == {
        "api": {"plan", "relate"},
        "timeline": set(),
        "plan": {"deliver", "relate"},
        "deliver": set(),
        "relate": set(),
        "sweep": {"plan", "deliver"},
    }


def test_two_stages_in_one_account_have_different_service_names(
    dev: Template, prod: Template
) -> None:
    names = [
        given["POWERTOOLS_SERVICE_NAME"]
        for template in (dev, prod)
        for given in variables(template).values()
    ]
    assert len(set(names)) == 2 * len(EXPECTED)


def test_the_stage_decides_which_claim_names_the_user(dev: Template, prod: Template) -> None:
    for template, claim in ((dev, "sub"), (prod, "email")):
        assert {given["USER_CLAIM"] for given in variables(template).values()} == {claim}


def test_the_stage_decides_who_may_read_posts(
    dev: Template, synthesize: Callable[..., Template]
) -> None:
    for template, readers in ((dev, "users"), (synthesize(post_readers="publisher"), "publisher")):
        assert {given["POST_READERS"] for given in variables(template).values()} == {readers}


def test_the_stage_decides_how_many_posts_a_follow_brings(
    dev: Template, synthesize: Callable[..., Template]
) -> None:
    without = synthesize(stage="dev", backfill="0")
    for template, posts in ((dev, "30"), (without, "0")):
        assert {given["BACKFILL"] for given in variables(template).values()} == {posts}


def test_relate_writes_at_the_rate_of_its_share(synthesize: Callable[..., Template]) -> None:
    small = synthesize(stage="dev", max_write_request_units="1000")
    assert {given["RELATION_WORKER_RATE"] for given in variables(small).values()} == {"50"}


def test_the_stage_decides_who_may_see_followers(
    dev: Template, synthesize: Callable[..., Template]
) -> None:
    for template, readers in ((dev, "publisher"), (synthesize(follower_readers="users"), "users")):
        assert {given["FOLLOWER_READERS"] for given in variables(template).values()} == {readers}


def test_every_function_has_its_own_log_group(template: Template) -> None:
    groups = [p["LoggingConfig"]["LogGroup"]["Ref"] for p in functions(template).values()]
    assert len(set(groups)) == len(groups)
    for group in groups:
        assert template["Resources"][group]["Type"] == "AWS::Logs::LogGroup"


def test_the_stage_decides_how_long_logs_are_kept(dev: Template, prod: Template) -> None:
    for template, days in ((dev, 7), (prod, 90)):
        groups = of_type(template, "AWS::Logs::LogGroup").values()
        assert {group["RetentionInDays"] for group in groups} == {days}


def test_sweep_runs_every_minute_and_is_not_retried(template: Template) -> None:
    (rule,) = of_type(template, "AWS::Events::Rule").values()
    assert rule["ScheduleExpression"] == "rate(1 minute)"
    (target,) = rule["Targets"]
    sweep = template["Resources"][target["Arn"]["Fn::GetAtt"][0]]["Properties"]
    assert sweep["Handler"] == "functions.sweep.handler"
    assert sweep["Timeout"] < 60
    (invocation,) = of_type(template, "AWS::Lambda::EventInvokeConfig").values()
    assert invocation["MaximumRetryAttempts"] == 0
    # Throttled runs wait, by default for six hours, and would then come all at once.
    assert invocation["MaximumEventAgeInSeconds"] == 60
