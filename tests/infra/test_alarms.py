"""Alarms: what they watch, whom they notify, and that operators find them explained."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fanfold import names
from infra.follow_timeline import TABLE_ACTIONS
from tests.infra.template import Template, of_type, variables

ROOT = Path(__file__).parents[2]
OPERATIONS = ROOT / "docs/operations.md"
ALARM = "AWS::CloudWatch::Alarm"


def alarms(template: Template) -> list[Template]:
    return list(of_type(template, ALARM).values())


def watched(template: Template, metric: str) -> list[str]:
    """Logical ids of the queues with an alarm on this metric."""
    return [
        dimension["Value"]["Fn::GetAtt"][0]
        for alarm in alarms(template)
        if alarm["MetricName"] == metric
        for dimension in alarm["Dimensions"]
    ]


def watched_indexes(template: Template) -> set[tuple[str, str]]:
    """Logical id of the table and name of the index, for each alarm on throttled writes."""
    return {
        (dimensions["TableName"]["Ref"], dimensions["GlobalSecondaryIndexName"])
        for alarm in alarms(template)
        if (alarm["Namespace"], alarm["MetricName"]) == ("AWS/DynamoDB", "WriteThrottleEvents")
        for dimensions in [{each["Name"]: each["Value"] for each in alarm["Dimensions"]}]
    }


def indexes() -> set[tuple[names.Table, names.Index]]:
    return {(table, index) for table in names.TABLES for index in table.indexes}


def test_the_first_message_in_a_dead_letter_queue_raises_an_alarm(template: Template) -> None:
    expected = {template["Outputs"][q.dlq_url_output]["Value"]["Ref"] for q in names.QUEUES}
    assert set(watched(template, "ApproximateNumberOfMessagesVisible")) == expected
    for alarm in alarms(template):
        if alarm["MetricName"] == "ApproximateNumberOfMessagesVisible":
            assert alarm["Threshold"] == 1
            assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"


def test_the_age_of_every_queue_has_an_alarm(template: Template) -> None:
    expected = {template["Outputs"][q.url_output]["Value"]["Ref"] for q in names.QUEUES}
    assert set(watched(template, "ApproximateAgeOfOldestMessage")) == expected


def test_a_stalled_fanout_raises_an_alarm(template: Template) -> None:
    (alarm,) = [a for a in alarms(template) if a["MetricName"] == names.FANOUTS_STALLED]
    assert alarm["Namespace"] == names.METRICS_NAMESPACE
    (dimension,) = alarm["Dimensions"]
    service = variables(template)["sweep"]["POWERTOOLS_SERVICE_NAME"]
    assert dimension == {"Name": "service", "Value": service}


def test_throttled_writes_of_every_index_have_an_alarm(template: Template) -> None:
    assert watched_indexes(template) == {
        (template["Outputs"][table.output]["Value"]["Ref"], index.name)
        for table, index in indexes()
    }


def test_a_new_index_gets_an_alarm_automatically(
    monkeypatch: pytest.MonkeyPatch, synthesize: Callable[..., Template]
) -> None:
    before = len(indexes())
    readers = replace(names.READERS, indexes=(names.Index("by_country", "country"),))
    every = [readers if table is names.READERS else table for table in names.TABLES]
    monkeypatch.setattr(names, "TABLES", tuple(every))
    monkeypatch.setitem(TABLE_ACTIONS, readers, {})
    template = synthesize()
    table = template["Outputs"][readers.output]["Value"]["Ref"]
    assert (table, "by_country") in watched_indexes(template)
    assert len(watched_indexes(template)) == before + 1


def test_an_index_alarm_waits_for_five_minutes_of_throttles(template: Template) -> None:
    for alarm in alarms(template):
        if alarm["MetricName"] == "WriteThrottleEvents":
            assert (alarm["Statistic"], alarm["Period"]) == ("Sum", 60)
            assert (alarm["Threshold"], alarm["EvaluationPeriods"]) == (1, 5)
            assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
            assert "DatapointsToAlarm" not in alarm, "all five must breach"


def test_the_operations_page_explains_every_alarm(template: Template) -> None:
    page = OPERATIONS.read_text(encoding="utf-8")
    ids = of_type(template, ALARM)
    assert ids
    for logical_id in ids:
        found = re.fullmatch(r"FanfoldAlarms(\w+)[0-9A-F]{8}", logical_id)
        assert found
        assert f"`{found[1]}`" in page


def test_every_alarm_notifies_the_topic_and_has_a_description(template: Template) -> None:
    (topic,) = of_type(template, "AWS::SNS::Topic")
    for alarm in alarms(template):
        assert alarm["AlarmActions"] == [{"Ref": topic}]
        assert alarm["AlarmDescription"].endswith(".")
        assert alarm["TreatMissingData"] == "notBreaching"


def test_an_alarm_email_is_subscribed_to_the_topic(dev: Template, prod: Template) -> None:
    def addresses(template: Template) -> list[str]:
        return [each["Endpoint"] for each in of_type(template, "AWS::SNS::Subscription").values()]

    assert addresses(dev) == []
    assert addresses(prod) == ["operators@example.com"]


def test_a_slack_channel_is_notified(prod: Template, synthesize: Callable[..., Template]) -> None:
    kind = "AWS::Chatbot::SlackChannelConfiguration"
    assert of_type(prod, kind) == {}
    template = synthesize(slack_workspace_id="T0123ABCDEF", slack_channel_id="C0123ABCDEF")
    (slack,) = of_type(template, kind).values()
    (topic,) = of_type(template, "AWS::SNS::Topic")
    assert (slack["SlackWorkspaceId"], slack["SlackChannelId"]) == ("T0123ABCDEF", "C0123ABCDEF")
    assert slack["SnsTopicArns"] == [{"Ref": topic}]
    (guardrail,) = slack["GuardrailPolicies"]
    assert "CloudWatchReadOnlyAccess" in str(guardrail)
    role = template["Resources"][slack["IamRoleArn"]["Fn::GetAtt"][0]]["Properties"]
    assert "chatbot.amazonaws.com" in str(role["AssumeRolePolicyDocument"])
    assert "ManagedPolicyArns" not in role
