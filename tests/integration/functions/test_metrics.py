"""Our metrics are emitted under exactly the names and dimensions that the alarms look at.

Nothing else would notice a difference: the alarm would be silent for ever.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from fanfold import names
from fanfold.follows.sharding import NotGrown
from fanfold.ids import ref_id_for
from functions._reports import report_broken, report_growth
from infra.rights import TABLE_ACTIONS
from proof.model.cloudwatch import Alarm, MetricId
from tests.infra.recorded import RECORDED
from tests.infra.template import of_type, variables
from tests.service import AT, System, through_lanes


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


@pytest.mark.usefixtures("through_lanes")
def test_every_metric_of_ours_that_an_alarm_watches_is_emitted(
    system: System, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    template = json.loads(RECORDED.read_text())["dev"]
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
    for writer, may in TABLE_ACTIONS[names.FOLLOWERS].items():
        if "PutItem" in may:
            monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", services[writer.name])
            report_growth("ada", NotGrown("the highest level is reached"))
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", services["timeline"])
    report_broken("page_in_order", {})
    assert len(watched) >= 8
    others = watched - set(emitted(capsys.readouterr().out))
    assert {each.name for each in others} == {names.AUDIT_MISSING}, "which a command puts"


def test_a_lane_counts_its_own_entries(system: System, capsys: pytest.CaptureFixture[str]) -> None:
    system.give_followers(3)
    system.publish()
    system.pump("Publish")
    system.publish("post-2")
    with through_lanes():
        system.pump("Publish", "Express")
    system.take({"Records": [system.record("Bulk", "not JSON")]})
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    counted = [
        (line["lane"], sum(line[names.ENTRIES_DELIVERED]))
        for line in lines
        if names.ENTRIES_DELIVERED in line
    ]
    assert counted == [("publish", 3), ("express", 3), ("bulk", 0)]


def test_a_delivery_reports_once_how_long_it_took_whoever_completes_it(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    system.publish("nobody-follows")
    system.pump("Publish")
    system.give_followers(3)
    system.publish()
    system.clock.advance(2)
    system.pump("Publish")
    with through_lanes():
        system.publish("post-2")
        system.pump("Publish")
        system.clock.advance(3)
        system.pump("Express")
        system.publish("post-3")
        system.pump("Publish")
    crashed = system.ledger(ref_id_for("ada", "post-3"))
    # The worker crashed after its last segment, of two.
    system.fanouts.finish_segment(replace(crashed, segments=2), 0, written=3, now=AT)
    system.clock.advance(1_000)
    system.sweep()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    took = [
        (line.get("lane"), line[names.DELIVERY_SECONDS])
        for line in lines
        if names.DELIVERY_SECONDS in line
    ]
    assert took == [("publish", [0]), ("publish", [2]), ("express", [3]), (None, [1_000])]
