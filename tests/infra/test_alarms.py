"""Nothing fails in silence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fanfold import names

Template = dict[str, Any]

SWEEP = Path(__file__).parents[2] / "functions/sweep.py"


def alarms(template: Template) -> list[Template]:
    return [
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
    ]


def watched(template: Template, metric: str) -> list[str]:
    """Logical ids of the queues that an alarm of this metric looks at."""
    return [
        dimension["Value"]["Fn::GetAtt"][0]
        for alarm in alarms(template)
        if alarm["MetricName"] == metric
        for dimension in alarm["Dimensions"]
    ]


def test_the_first_message_in_a_dead_letter_queue_raises_an_alarm(template: Template) -> None:
    expected = {template["Outputs"][q.dlq_url_output]["Value"]["Ref"] for q in names.QUEUES}
    assert set(watched(template, "ApproximateNumberOfMessagesVisible")) == expected
    for alarm in alarms(template):
        if alarm["MetricName"] == "ApproximateNumberOfMessagesVisible":
            assert alarm["Threshold"] == 1
            assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"


def test_the_age_of_every_queue_is_watched(template: Template) -> None:
    expected = {template["Outputs"][q.url_output]["Value"]["Ref"] for q in names.QUEUES}
    assert set(watched(template, "ApproximateAgeOfOldestMessage")) == expected


def test_a_fanout_that_stays_incomplete_raises_an_alarm(template: Template) -> None:
    (alarm,) = [a for a in alarms(template) if a["MetricName"] == "FanoutsStalled"]
    assert alarm["Namespace"] == names.METRICS_NAMESPACE
    # The metric's name is written in the door too; a difference would silence the alarm.
    assert f'"{alarm["MetricName"]}"' in SWEEP.read_text(encoding="utf-8")
    (dimension,) = alarm["Dimensions"]
    told = [
        resource["Properties"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
        and resource["Properties"]["Handler"] == "functions.sweep.handler"
    ]
    assert dimension == {"Name": "service", "Value": told[0]}


def test_every_alarm_tells_the_topic_and_says_what_it_means(template: Template) -> None:
    (topic,) = [
        logical_id
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == "AWS::SNS::Topic"
    ]
    for alarm in alarms(template):
        assert alarm["AlarmActions"] == [{"Ref": topic}]
        assert alarm["AlarmDescription"].endswith(".")
        assert alarm["TreatMissingData"] == "notBreaching"


def test_an_address_is_subscribed_when_the_stage_names_one(dev: Template, prod: Template) -> None:
    def addresses(template: Template) -> list[str]:
        return [
            resource["Properties"]["Endpoint"]
            for resource in template["Resources"].values()
            if resource["Type"] == "AWS::SNS::Subscription"
        ]

    assert addresses(dev) == []
    assert addresses(prod) == ["operators@example.com"]


def test_slack_is_told_when_the_stage_names_a_channel(
    prod: Template, synthesize: Callable[..., Template]
) -> None:
    def configured(template: Template) -> list[Template]:
        return [
            resource["Properties"]
            for resource in template["Resources"].values()
            if resource["Type"].startswith("AWS::Chatbot::")
        ]

    assert configured(prod) == []
    template = synthesize(slack_workspace_id="T0123ABCDEF", slack_channel_id="C0123ABCDEF")
    (slack,) = configured(template)
    (topic,) = [
        logical_id
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == "AWS::SNS::Topic"
    ]
    assert (slack["SlackWorkspaceId"], slack["SlackChannelId"]) == ("T0123ABCDEF", "C0123ABCDEF")
    assert slack["SnsTopicArns"] == [{"Ref": topic}]
    (guardrail,) = slack["GuardrailPolicies"]
    assert "CloudWatchReadOnlyAccess" in str(guardrail), "not the administrator"
    role = template["Resources"][slack["IamRoleArn"]["Fn::GetAtt"][0]]["Properties"]
    assert "chatbot.amazonaws.com" in str(role["AssumeRolePolicyDocument"])
    assert "ManagedPolicyArns" not in role
