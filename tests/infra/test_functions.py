"""Rules for every function."""

import importlib.util
from pathlib import Path

from fanfold.doctor.recheck import MOMENT_SECONDS
from fanfold.settings import Settings
from tests.infra.template import (
    Template,
    functions,
    of_type,
    only,
    setting,
    updated_before,
    variables,
)

# Seconds and megabytes by module.
EXPECTED = {
    "api": (10, 512),
    "timeline": (10, 512),
    "plan": (60, 512),
    "deliver": (60, 512),
    "relate": (30, 512),
    "sweep": (55, 1769),
}


def test_timeouts_and_memory_are_pinned_and_no_construct_of_cdk_adds_a_function(
    template: Template,
) -> None:
    found = functions(template)
    assert {name: (each["Timeout"], each["MemorySize"]) for name, each in found.items()} == EXPECTED
    assert len(of_type(template, "AWS::Lambda::Function")) == len(EXPECTED)
    # The doctor waits longer than any function that uses edges.
    edges = ("api", "plan", "deliver", "relate")
    assert all(found[module]["Timeout"] < MOMENT_SECONDS for module in edges)


def test_every_handler_exists(dev: Template) -> None:
    for properties in functions(dev).values():
        name, _, attribute = properties["Handler"].rpartition(".")
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        assert f"def {attribute}(" in Path(spec.origin).read_text(encoding="utf-8")


def test_with_boto3_deliver_has_a_whole_vcpu(dev: Template, chosen: Template) -> None:
    for template, transport, memory in ((dev, "libcurl", 512), (chosen, "boto3", 1769)):
        assert functions(template)["deliver"]["MemorySize"] == memory
        assert setting(template, "TRANSPORT") == transport


def test_functions_share_an_asset_on_arm_and_the_newest_python(template: Template) -> None:
    found = functions(template).values()
    assert {(*each["Architectures"], each["Runtime"]) for each in found} == {
        ("arm64", "python3.14")
    }
    assert len({each["Code"]["S3Key"] for each in found}) == 1


def test_only_deliver_and_relate_may_loop_through_their_own_queues(template: Template) -> None:
    found = {name: each.get("RecursiveLoop") for name, each in functions(template).items()}
    assert {name for name, loop in found.items() if loop == "Allow"} == {"deliver", "relate"}


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


def test_what_the_stage_decides_is_what_all_functions_know(dev: Template, chosen: Template) -> None:
    for variable, default, other in (
        ("USER_CLAIM", "sub", "username"),
        ("POST_READERS", "users", "publisher"),
        ("FOLLOWER_READERS", "publisher", "users"),
        ("BACKFILL", "30", "0"),
        ("RELATION_WORKER_RATE", "2000", "500"),
    ):
        assert (setting(dev, variable), setting(chosen, variable)) == (default, other), variable


def test_every_function_has_its_own_log_group_and_the_stage_decides_how_long_it_keeps_logs(
    dev: Template, prod: Template
) -> None:
    for template, days in ((dev, 7), (prod, 90)):
        groups = of_type(template, "AWS::Logs::LogGroup")
        used = {each["LoggingConfig"]["LogGroup"]["Ref"] for each in functions(template).values()}
        assert len(used) == len(EXPECTED)
        assert used <= groups.keys()
        assert {group["RetentionInDays"] for group in groups.values()} == {days}


def test_sweep_runs_every_minute_and_is_not_retried(template: Template) -> None:
    rule = only(template, "AWS::Events::Rule")
    assert rule["ScheduleExpression"] == "rate(1 minute)"
    (target,) = rule["Targets"]
    sweep = template["Resources"][target["Arn"]["Fn::GetAtt"][0]]["Properties"]
    assert sweep["Handler"] == "functions.sweep.handler"
    assert sweep["Timeout"] < 60
    invocation = only(template, "AWS::Lambda::EventInvokeConfig")
    assert invocation["MaximumRetryAttempts"] == 0
    # Throttled runs wait, by default for six hours, and would then come all at once.
    assert invocation["MaximumEventAgeInSeconds"] == 60
