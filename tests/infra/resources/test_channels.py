"""A stage that gives channels: what it has besides, and that any other one may still have some."""

from __future__ import annotations

import json

from fanfold import names
from tests.infra.foreign import Shop, allowed, part, statements
from tests.infra.template import Template, setting, updated_before

ALARM, POLICY = "AWS::CloudWatch::Alarm", "AWS::IAM::Policy"
TRACES = ("CHANNEL", "ChannelThreshold", "ChannelsFull")


def test_a_stage_that_gives_no_channels_says_nothing_of_them(template: Template) -> None:
    text = json.dumps(template)
    assert [trace for trace in TRACES if trace in text] == []


def test_plan_is_updated_after_readers_of_channels(shared: Template) -> None:
    assert updated_before(shared) == {
        "api": {"relate", "timeline"},
        "timeline": set(),
        "plan": {"api", "timeline", "deliver", "relate"},
        "deliver": set(),
        "relate": set(),
        "sweep": {"plan", "deliver"},
    }


def test_an_app_says_the_threshold_as_a_property_and_its_readers_only_read_the_head(
    shop: Shop,
) -> None:
    assert setting(part(shop.template, "Timeline"), "CHANNEL_THRESHOLD") == "5000"
    assert shop.template["Outputs"][names.CHANNEL_THRESHOLD_OUTPUT]["Value"] == "5000"
    may = allowed(shop.template, "Reader")
    assert not {each for each in may if "Update" in each or "Write" in each}
    assert "#channels" in json.dumps(statements(shop.template, "Reader"))
