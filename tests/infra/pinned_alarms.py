"""The alarms of the default stage as the simulation knows them.

`python -m tests.infra.pinned_alarms` writes them to `proof/simulation/observed/alarms.json`: the
simulation does not synthesize. In the file, each reference to a resource is the name that the
simulation calls it by: of a queue, dead-letter queue, table or function.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fanfold import names
from tests.infra.template import Template, of_type, output_id, synthesized

ROOT = Path(__file__).parents[2]
PINNED = ROOT / "proof/simulation/observed/alarms.json"
# What an alarm is but for whom it tells, and what it says.
KEPT = (
    "ComparisonOperator",
    "DatapointsToAlarm",
    "Dimensions",
    "EvaluationPeriods",
    "MetricName",
    "Metrics",
    "Namespace",
    "Period",
    "Statistic",
    "Threshold",
    "TreatMissingData",
)


def alarm_name(logical_id: str) -> str:
    """The name that the operations page knows an alarm by."""
    match = re.fullmatch(r"FanfoldAlarms(\w+)[0-9A-F]{8}", logical_id)
    assert match
    return match[1]


def simulated(template: Template) -> dict[str, Any]:
    """The properties of each alarm by its name, without references."""
    known = _names(template)

    def resolve(value: Any) -> Any:
        match value:
            case {"Ref": logical_id} | {"Fn::GetAtt": [logical_id, _]}:
                return known[logical_id]
            case dict():
                return {key: resolve(each) for key, each in value.items()}
            case list():
                return [resolve(each) for each in value]
        return value

    return {
        alarm_name(id_): {key: resolve(each) for key, each in properties.items() if key in KEPT}
        for id_, properties in sorted(of_type(template, "AWS::CloudWatch::Alarm").items())
    }


def _names(template: Template) -> dict[str, str]:
    known = {output_id(template, table.output): table.name for table in names.TABLES}
    for queue in names.QUEUES:
        known[output_id(template, queue.url_output)] = queue.name
        known[output_id(template, queue.dlq_url_output)] = f"{queue.name}Dlq"
    for id_, properties in of_type(template, "AWS::Lambda::Function").items():
        known[id_] = properties["Handler"].split(".")[1]
    for id_ in of_type(template, "AWS::ApiGatewayV2::Api"):
        known[id_] = "api"
    return known


def as_text(alarms: dict[str, Any]) -> str:
    return json.dumps(alarms, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    PINNED.write_text(as_text(simulated(synthesized())), encoding="utf-8")
