"""A stage that gives channels: what it has besides, and that any other one may still have some."""

from __future__ import annotations

import json

from fanfold import names
from fanfold.channels.head import MOST
from tests.infra.foreign import Shop, allowed, part, statements
from tests.infra.pinned_alarms import alarm_name
from tests.infra.template import Template, of_type, setting, updated_before

ALARM, POLICY = "AWS::CloudWatch::Alarm", "AWS::IAM::Policy"
TRACES = ("CHANNEL", "ChannelThreshold", "ChannelsFull")


def test_a_stage_that_gives_no_channels_says_nothing_of_them(template: Template) -> None:
    text = json.dumps(template)
    assert [trace for trace in TRACES if trace in text] == []


def test_functions_and_an_alarm_are_all_that_differs_and_any_stage_may_read_channels(
    dev: Template, shared: Template
) -> None:
    before, after = dev["Resources"], shared["Resources"]
    added = after.keys() - before.keys()
    assert [after[name]["Type"] for name in added] == [ALARM]
    assert before.keys() <= after.keys()
    differing = {after[name]["Type"] for name in after if after[name] != before.get(name)}
    assert differing == {ALARM, "AWS::Lambda::Function"}
    assert "#channels" in json.dumps(of_type(dev, POLICY))


def test_every_function_knows_the_threshold_and_so_does_whoever_reads_the_outputs(
    shared: Template,
) -> None:
    assert setting(shared, "CHANNEL_THRESHOLD") == "100000"
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


def test_an_alarm_rings_when_there_is_no_room_and_holds_while_sweep_fails(
    shared: Template,
) -> None:
    alarms = {alarm_name(name): each for name, each in of_type(shared, ALARM).items()}
    full = alarms["ChannelsFull"]
    assert (full["Threshold"], full["MetricName"]) == (MOST, names.CHANNELS)
    assert (full["TreatMissingData"], full["Statistic"]) == ("ignore", "Maximum")
    assert "fanfold channels list" in full["AlarmDescription"]


def test_an_app_says_the_threshold_as_a_property_and_its_readers_only_read_the_head(
    shop: Shop,
) -> None:
    assert setting(part(shop.template, "Timeline"), "CHANNEL_THRESHOLD") == "5000"
    assert shop.template["Outputs"][names.CHANNEL_THRESHOLD_OUTPUT]["Value"] == "5000"
    may = allowed(shop.template, "Reader")
    assert not {each for each in may if "Update" in each or "Write" in each}
    assert "#channels" in json.dumps(statements(shop.template, "Reader"))
