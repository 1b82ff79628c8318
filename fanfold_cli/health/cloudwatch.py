"""What CloudWatch knows of a stage: the alarms that ring, and the metrics of its functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from botocore.exceptions import EndpointConnectionError

from fanfold import names
from fanfold_cli.health.verdict import BULK, EXPRESS, PUBLISH, Audit, Lag
from fanfold_cli.stack import Deployment

# The window of lags and throttles, as one period.
DAY: Final = timedelta(days=1)
# For so long CloudWatch keeps minutes, and so the time of an audit.
AUDIT_DAYS: Final = timedelta(days=14)
MINUTE: Final = timedelta(minutes=1)
STATISTICS: Final = ("p50", "p99", "SampleCount")
THROTTLES: Final = ("ReadThrottleEvents", "WriteThrottleEvents")
# More than a stage has; others may begin with the name of its stack, too.
MOST_ALARMS: Final = 100


class Unreachable(Exception):
    """No CloudWatch answers in this region."""


@dataclass(frozen=True)
class CloudWatch:
    """Reads at `now_ms`; raises errors of AWS, and `Unreachable`."""

    deployment: Deployment
    now_ms: int

    def alarms(self) -> tuple[str, ...]:
        """The names of the stage's alarms that ring, as docs/operations.md has them."""
        stack = self.deployment.stack
        answer = self._call(
            "describe_alarms",
            AlarmNamePrefix=f"{stack}-",
            StateValue="ALARM",
            AlarmTypes=["MetricAlarm"],
            MaxRecords=MOST_ALARMS,
        )
        # CloudFormation names an alarm by its stack, its logical id and a suffix. The logical id
        # ends with that of the group, the alarm's name and the hash of both.
        ours = re.compile(rf"{re.escape(stack)}-\w*?Alarms(\w+)[0-9A-F]{{8}}-\w+")
        found = (ours.fullmatch(each["AlarmName"]) for each in answer["MetricAlarms"])
        return tuple(sorted(match[1] for match in found if match))

    def lags(self) -> dict[str, Lag]:
        """How long deliveries took in the last day, by lane; without lanes that completed none."""
        services = self.deployment.service_names()
        lanes = {
            PUBLISH: {"service": services[names.PLAN], names.LANE: PUBLISH},
            EXPRESS: {"service": services[names.DELIVER], names.LANE: EXPRESS},
            BULK: {"service": services[names.DELIVER], names.LANE: BULK},
            names.SWEEP.name: {"service": services[names.SWEEP]},
        }
        queries = [
            _query(f"{lane}_{each}", names.DELIVERY_SECONDS, each, about, period=DAY)
            for lane, about in lanes.items()
            for each in STATISTICS
        ]
        found = self._highest(queries)
        return {
            lane: Lag(found[f"{lane}_p50"], found[f"{lane}_p99"], int(found[f"{lane}_SampleCount"]))
            for lane in lanes
            if f"{lane}_SampleCount" in found
        }

    def throttles(self) -> dict[str, int]:
        """Throttled reads and writes of the last day, by table; without unthrottled tables."""
        tables = {each.name.lower(): self.deployment.output(each.output) for each in names.TABLES}
        queries = [
            _query(f"{name}_{each}", each, "Sum", {"TableName": table}, DAY, "AWS/DynamoDB")
            for name, table in tables.items()
            for each in THROTTLES
        ]
        found = self._highest(queries)
        sums = {name: sum(found.get(f"{name}_{each}", 0) for each in THROTTLES) for name in tables}
        return {name: int(count) for name, count in sums.items() if count}

    def audit(self) -> Audit | None:
        """What the last audit has reported; None if there was none of late."""
        table = {"FanoutsTable": self.deployment.settings().fanouts_table}
        query = _query("audit", names.AUDIT_MISSING, "Maximum", table)
        (found,) = self._results([query], AUDIT_DAYS)
        if not found["Values"]:
            return None
        return Audit(int(found["Timestamps"][0].timestamp() * 1000), int(found["Values"][0]))

    def rate(self) -> tuple[float, float]:
        """The end of the last whole minute, in epoch seconds, and its entries a second."""
        service = self.deployment.service_names()[names.DELIVER]
        queries = [
            _query(lane, names.ENTRIES_DELIVERED, "Sum", {"service": service, names.LANE: lane})
            for lane in (EXPRESS, BULK)
        ]
        # CloudWatch has all of a minute about a minute later.
        found = self._results(queries, MINUTE, ago=MINUTE)
        total = sum(sum(each["Values"][:1]) for each in found)
        minute = MINUTE.total_seconds()
        return self.now_ms / 1000 // minute * minute - minute, total / minute

    def _highest(self, queries: list[Any]) -> dict[str, float]:
        """The values of the last day by id, of metrics that have one.

        The higher one, if CloudWatch has cut the day in two.
        """
        found = self._results(queries, DAY)
        return {each["Id"]: max(each["Values"]) for each in found if each["Values"]}

    def _results(
        self, queries: list[Any], window: timedelta, *, ago: timedelta = timedelta()
    ) -> list[Any]:
        """The metrics in this window, which ended so long `ago`; the newest value comes first."""
        # A whole minute, or CloudWatch would round it.
        end = datetime.fromtimestamp(self.now_ms // 60_000 * 60, UTC) - ago
        answer = self._call(
            "get_metric_data",
            StartTime=end - window,
            EndTime=end,
            MetricDataQueries=queries,
            ScanBy="TimestampDescending",
        )
        found: list[Any] = answer["MetricDataResults"]
        return found

    def _call(self, operation: str, **request: Any) -> Any:
        try:
            return getattr(self.deployment.client("cloudwatch"), operation)(**request)
        except EndpointConnectionError as error:
            raise Unreachable(f"because CloudWatch does not answer: {error}") from error


def _query(
    id_: str,
    metric: str,
    statistic: str,
    about: Mapping[str, str],
    period: timedelta = MINUTE,
    namespace: str = names.METRICS_NAMESPACE,
) -> dict[str, Any]:
    dimensions = [{"Name": name, "Value": value} for name, value in about.items()]
    found = {"Namespace": namespace, "MetricName": metric, "Dimensions": dimensions}
    seconds = int(period.total_seconds())
    return {"Id": id_, "MetricStat": {"Metric": found, "Period": seconds, "Stat": statistic}}
