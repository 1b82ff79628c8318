"""A stage that gives channels: what it has besides, and that any other one may still have some."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import Stack

from fanfold import names
from fanfold.channels.head import MOST
from infra import StageError
from tests.infra.foreign import allowed, embed, statements, template_of
from tests.infra.pinned_alarms import alarm_name
from tests.infra.template import Template, of_type, updated_before, variables
from tests.infra.test_grants import client_function

ALARM = "AWS::CloudWatch::Alarm"
TRACES = ("CHANNEL", "ChannelThreshold", "ChannelsFull")


def test_a_stage_that_gives_no_channels_says_nothing_of_them(template: Template) -> None:
    text = json.dumps(template)
    assert [trace for trace in TRACES if trace in text] == []


def test_a_stage_that_gives_no_channels_may_read_those_that_it_has(
    template: Template, shared: Template
) -> None:
    policies = of_type(template, "AWS::IAM::Policy")
    given = of_type(shared, "AWS::IAM::Policy")
    assert [name for name in given if "#channels" in json.dumps(given[name])] == [
        name for name in policies if "#channels" in json.dumps(policies[name])
    ]


def test_zero_is_no_channels(dev: Template, synthesize: Callable[..., Template]) -> None:
    assert synthesize(channel_threshold="0") == dev


def test_every_function_knows_the_threshold_and_so_does_whoever_reads_the_outputs(
    shared: Template,
) -> None:
    assert {each["CHANNEL_THRESHOLD"] for each in variables(shared).values()} == {"100000"}
    assert shared["Outputs"][names.CHANNEL_THRESHOLD_OUTPUT]["Value"] == "100000"


def test_plan_comes_after_whoever_reads_channels_and_keeps_what_readers_know(
    shared: Template,
) -> None:
    assert updated_before(shared) == {
        "api": {"relate"},
        "timeline": set(),
        "plan": {"api", "timeline", "deliver", "relate"},
        "deliver": set(),
        "relate": set(),
        "sweep": {"plan", "deliver"},
    }


def test_functions_and_an_alarm_are_all_that_differs(dev: Template, shared: Template) -> None:
    differing = {
        shared["Resources"][name]["Type"]
        for name in shared["Resources"]
        if shared["Resources"][name] != dev["Resources"].get(name)
    }
    added = shared["Resources"].keys() - dev["Resources"].keys()
    assert [shared["Resources"][name]["Type"] for name in added] == [ALARM]
    assert dev["Resources"].keys() <= shared["Resources"].keys()
    assert differing == {ALARM, "AWS::Lambda::Function"}


def test_an_alarm_rings_when_there_is_no_room_and_holds_while_sweep_fails(
    shared: Template,
) -> None:
    alarms = {alarm_name(name): each for name, each in of_type(shared, ALARM).items()}
    full = alarms["ChannelsFull"]
    assert (full["Threshold"], full["MetricName"]) == (MOST, names.CHANNELS)
    assert (full["TreatMissingData"], full["Statistic"]) == ("ignore", "Maximum")
    assert "fanfold channels list" in full["AlarmDescription"]


@pytest.mark.parametrize("threshold", ["-1", "1000000001"])
def test_a_threshold_that_makes_no_sense_is_refused(
    synthesize: Callable[..., Template], threshold: str
) -> None:
    with pytest.raises(StageError, match="'channel_threshold' must be from 0 to 1000000000"):
        synthesize(channel_threshold=threshold)


def test_an_app_of_its_own_says_the_threshold_as_a_property(stack: Stack) -> None:
    embed(stack, channel_threshold=5_000).add_outputs()
    found: Any = template_of(stack)
    assert {each["CHANNEL_THRESHOLD"] for each in variables(found).values()} == {"5000"}
    assert found["Outputs"][names.CHANNEL_THRESHOLD_OUTPUT]["Value"] == "5000"


def test_whoever_may_read_may_read_the_head_and_changes_nothing(stack: Stack) -> None:
    timeline, function = embed(stack, channel_threshold=5_000), client_function(stack)
    timeline.grant_read(function)
    found = template_of(stack)
    assert not {each for each in allowed(found, "Reader") if "Update" in each or "Write" in each}
    assert "#channels" in json.dumps(statements(found, "Reader"))
