"""Our metrics are emitted under exactly the names and dimensions that the alarms look at.

Nothing else would notice a difference: the alarm would be silent for ever.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from aws_cdk import App

from fanfold import names
from fanfold.follows.sharding import NotGrown
from functions._growth import report_growth
from infra.context import choose
from infra.service_alarms import GROWERS
from infra.stack import FanfoldStack
from tests.infra.cloudwatch import Alarm, MetricId
from tests.infra.template import Template, of_type, variables
from tests.integration.system import System

CDK_JSON = Path(__file__).parents[2] / "cdk.json"


def synthesized() -> Template:
    context = json.loads(CDK_JSON.read_text())["context"]
    app = App(context={**context, "aws:cdk:bundling-stacks": []})
    stack = FanfoldStack(app, "Fanfold", stage=choose(app.node.get_all_context()))
    template: Template = app.synth().get_stack_by_name(stack.stack_name).template
    return template


def emitted(out: str) -> list[MetricId]:
    """The metrics of the lines in the embedded metric format."""
    lines: list[Any] = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return [
        MetricId(
            directive["Namespace"], metric["Name"], frozenset((k, line[k]) for k in dimensions)
        )
        for line in lines
        for directive in line.get("_aws", {}).get("CloudWatchMetrics", [])
        for metric in directive["Metrics"]
        for dimensions in directive["Dimensions"]
    ]


def test_every_metric_of_ours_that_an_alarm_watches_is_emitted(
    system: System, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    template = synthesized()
    services = {
        function: environment["POWERTOOLS_SERVICE_NAME"]
        for function, environment in variables(template).items()
    }
    watched = {
        each.metric
        for properties in of_type(template, "AWS::CloudWatch::Alarm").values()
        for each in Alarm(properties).metrics.values()
        if each.metric.namespace == names.METRICS_NAMESPACE
    }
    system.give_followers(3)
    system.publish()
    # Powertools reads the variable when a function is imported.
    with patch.object(system.door("deliver").metrics.provider, "service", services["deliver"]):
        system.pump("Publish", "Express")
        system.take({"Records": [system.record("Bulk", "not JSON")]})
    with patch.object(system.door("sweep").metrics.provider, "service", services["sweep"]):
        system.sweep()
    for grower in GROWERS:
        monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", services[grower.name])
        report_growth("ada", NotGrown("the highest level is reached"))
    assert len(watched) >= 7
    assert watched - set(emitted(capsys.readouterr().out)) == set()


def test_a_lane_counts_its_own_entries(system: System, capsys: pytest.CaptureFixture[str]) -> None:
    system.give_followers(3)
    system.publish()
    system.pump("Publish", "Express")
    system.take({"Records": [system.record("Bulk", "not JSON")]})
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    counted = [
        (line["lane"], sum(line[names.ENTRIES_DELIVERED]))
        for line in lines
        if names.ENTRIES_DELIVERED in line
    ]
    assert counted == [("express", 3), ("bulk", 0)]
