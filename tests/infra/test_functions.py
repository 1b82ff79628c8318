"""Rules for every function."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fanfold.doctor.recheck import MOMENT_SECONDS
from fanfold.settings import Settings

Template = dict[str, Any]

# Seconds and megabytes by module.
EXPECTED = {
    "api": (10, 512),
    "timeline": (10, 512),
    "plan": (60, 512),
    "deliver": (60, 512),
    "relate": (30, 512),
    "sweep": (55, 512),
}


def functions(template: Template) -> dict[str, Template]:
    """Properties of each function by its module."""
    found = [
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
    ]
    return {properties["Handler"].split(".")[1]: properties for properties in found}


def test_the_stack_has_no_functions_of_cdk_constructs(template: Template) -> None:
    kinds = [resource["Type"] for resource in template["Resources"].values()]
    assert kinds.count("AWS::Lambda::Function") == len(functions(template)) == len(EXPECTED)


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
        for properties in functions(template).values():
            assert properties["Environment"]["Variables"]["TRANSPORT"] == transport


def test_functions_run_on_arm_and_the_newest_python(template: Template) -> None:
    for properties in functions(template).values():
        assert properties["Architectures"] == ["arm64"]
        assert properties["Runtime"] == "python3.14"


def test_all_functions_share_one_asset(template: Template) -> None:
    keys = {properties["Code"]["S3Key"] for properties in functions(template).values()}
    assert len(keys) == 1


def test_only_deliver_may_loop_through_its_own_queue(template: Template) -> None:
    allowed = {
        module
        for module, properties in functions(template).items()
        if properties.get("RecursiveLoop") == "Allow"
    }
    assert allowed == {"deliver"}


def test_every_function_has_every_setting_in_its_environment(template: Template) -> None:
    for properties in functions(template).values():
        told = {
            name: value if isinstance(value, str) else value["Ref"]
            for name, value in properties["Environment"]["Variables"].items()
        }
        settings = Settings.from_env(told)
        assert told == {
            "POWERTOOLS_SERVICE_NAME": told["POWERTOOLS_SERVICE_NAME"],
            **settings.to_env(),
        }


def test_two_stages_in_one_account_have_different_service_names(
    dev: Template, prod: Template
) -> None:
    def names(template: Template) -> set[str]:
        return {
            properties["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
            for properties in functions(template).values()
        }

    assert len(names(dev) | names(prod)) == 2 * len(EXPECTED)


def test_the_stage_decides_which_claim_names_the_user(dev: Template, prod: Template) -> None:
    for template, claim in ((dev, "sub"), (prod, "email")):
        for properties in functions(template).values():
            assert properties["Environment"]["Variables"]["USER_CLAIM"] == claim


def test_every_function_has_its_own_log_group(template: Template) -> None:
    groups = [p["LoggingConfig"]["LogGroup"]["Ref"] for p in functions(template).values()]
    assert len(set(groups)) == len(groups)
    for group in groups:
        assert template["Resources"][group]["Type"] == "AWS::Logs::LogGroup"


def test_the_stage_decides_how_long_logs_are_kept(dev: Template, prod: Template) -> None:
    for template, days in ((dev, 7), (prod, 90)):
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::Logs::LogGroup":
                assert resource["Properties"]["RetentionInDays"] == days


def test_sweep_runs_every_minute_and_is_not_retried(template: Template) -> None:
    (rule,) = [r for r in template["Resources"].values() if r["Type"] == "AWS::Events::Rule"]
    assert rule["Properties"]["ScheduleExpression"] == "rate(1 minute)"
    (target,) = rule["Properties"]["Targets"]
    sweep = template["Resources"][target["Arn"]["Fn::GetAtt"][0]]["Properties"]
    assert sweep["Handler"] == "functions.sweep.handler"
    assert sweep["Timeout"] < 60
    (invocation,) = [
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Lambda::EventInvokeConfig"
    ]
    assert invocation["MaximumRetryAttempts"] == 0
