"""CloudWatch's alarms, as the developer guide describes them, from their CloudFormation properties.

A metric has one value for each minute, or None without data. Metric math has IF, FILL, DIFF, AND,
comparisons, sums, products and quotients.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import CodeType
from typing import Any

Value = float | None
Minutes = Sequence[Value]

OK, ALARM = "OK", "ALARM"
# How far CloudWatch looks back beyond the evaluation periods for data that is not missing. The
# guide says 2 for 3 periods of a metric.
LOOK_BACK = 2

STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Sum": sum,
    "Maximum": max,
    "Minimum": min,
    "SampleCount": len,
}
OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanThreshold": operator.lt,
}


@dataclass(frozen=True)
class MetricId:
    """What identifies a metric. A reference to a resource is kept as its JSON."""

    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> MetricId:
        pairs = ((each["Name"], each["Value"]) for each in properties.get("Dimensions", []))
        return cls(
            properties["Namespace"],
            properties["MetricName"],
            frozenset((k, v if isinstance(v, str) else json.dumps(v)) for k, v in pairs),
        )


@dataclass(frozen=True)
class Watched:
    """A metric of an alarm."""

    metric: MetricId
    statistic: str
    minutes: int  # of a period

    def values(self, data: Minutes, until: int, periods: int) -> list[Value]:
        """The last periods before the minute `until`."""
        if self.minutes == 1:  # as in nearly all alarms
            statistic, early = STATISTICS[self.statistic], max(0, periods - until)
            last = data[max(0, until - periods) : until]
            known: list[Value] = [None if v is None else statistic((v,)) for v in last]
            return [*[None] * early, *known, *[None] * (periods - early - len(known))]
        found: list[Value] = []
        for number in range(periods, 0, -1):
            begin = until - number * self.minutes
            period = [v for v in data[max(0, begin) : begin + self.minutes] if v is not None]
            found.append(STATISTICS[self.statistic](period) if period and begin >= 0 else None)
        return found


@dataclass(frozen=True)
class Alarm:
    properties: Mapping[str, Any]

    @cached_property
    def expression(self) -> str | None:
        given = (each.get("Expression") for each in self.properties.get("Metrics", []))
        return next(filter(None, given), None)

    @cached_property
    def metrics(self) -> dict[str, Watched]:
        """The metrics by their names in the expression; without one, the name is empty."""
        if "Metrics" not in self.properties:
            given = self.properties
            return {"": Watched(MetricId.of(given), given["Statistic"], int(given["Period"]) // 60)}
        stats = {each["Id"]: each["MetricStat"] for each in self.properties["Metrics"][1:]}
        return {
            name: Watched(MetricId.of(each["Metric"]), each["Stat"], int(each["Period"]) // 60)
            for name, each in stats.items()
        }

    def rings(self, **data: Minutes) -> bool:
        return ALARM in self.states(**data)

    def states(self, before: str = OK, /, **data: Minutes) -> Iterator[str]:
        """The state after each minute. Without an expression, the only metric is `values`."""
        state = before
        named = data if self.expression else {"": data["values"]}
        for minute in range(1, max(map(len, data.values())) + 1):
            state = self.after(state, named, minute)
            yield state

    def after(self, state: str, data: Mapping[str, Minutes], minute: int) -> str:
        """The state after the first `minute` minutes of its metrics, given the state before."""
        points = self._points(data, minute, self.periods + LOOK_BACK)
        return evaluated(
            [None if each is None else self.is_bad(each) for each in points],
            int(self.properties.get("DatapointsToAlarm", self.periods)),
            self.periods,
            missing=self.properties["TreatMissingData"],
            state=state,
        )

    @cached_property
    def periods(self) -> int:
        """The number of evaluated periods."""
        return int(self.properties["EvaluationPeriods"])

    def _points(self, data: Mapping[str, Minutes], minute: int, periods: int) -> list[Value]:
        if self.expression is None:
            return self.metrics[""].values(data[""], minute, periods)
        series = {
            name: Series(watched.values(data[name], minute, periods + 1))
            for name, watched in self.metrics.items()
        }
        return calculated(self.expression, series)[1:]  # `DIFF` has none for the first period

    def is_bad(self, value: float) -> bool:
        return self._compare(value, self._threshold)

    @cached_property
    def _compare(self) -> Callable[[float, float], bool]:
        return OPERATORS[self.properties["ComparisonOperator"]]

    @cached_property
    def _threshold(self) -> float:
        return float(self.properties["Threshold"])


def evaluated(points: Sequence[bool | None], m: int, n: int, *, missing: str, state: str) -> str:
    """The next state, if `m` bad ones of the last `n` points mean an alarm."""
    real = [point for point in points if point is not None][-n:]
    filled = n - len(real)
    if sum(real) + (filled if missing == "breaching" else 0) >= m:
        return ALARM
    if missing == "ignore" and filled and False not in real:
        return state
    return OK


class Series(list[Value]):
    """Values of consecutive periods, with the operators of metric math."""

    def _with(self, other: Any, f: Callable[[float, float], float]) -> Series:
        others = other if isinstance(other, Series) else [other] * len(self)
        pairs = zip(self, others, strict=True)
        return Series(None if a is None or b is None else f(a, b) for a, b in pairs)

    def __add__(self, other: Any) -> Series:  # type: ignore[override]
        return self._with(other, operator.add)

    def __truediv__(self, other: Any) -> Series:
        quotients = self._with(other, lambda a, b: a / b if b else float("nan"))
        return Series(None if each != each else each for each in quotients)

    def __rmul__(self, other: Any) -> Series:
        return self._with(other, operator.mul)

    def __gt__(self, other: Any) -> Series:  # type: ignore[override]
        return self._with(other, operator.gt)

    def __eq__(self, other: object) -> Series:  # type: ignore[override]
        return self._with(other, operator.eq)

    def __and__(self, other: Any) -> Series:
        return self._with(other, lambda a, b: bool(a and b))


def calculated(expression: str, series: Mapping[str, Series]) -> Series:
    """The value of an expression; metrics begin in lower case, functions are in upper case."""

    def choose(condition: Series, yes: float, no: float) -> Series:
        return Series(None if each is None else yes if each else no for each in condition)

    def fill(values: Series, value: float) -> Series:
        return Series(value if each is None else each for each in values)

    def diff(values: Series) -> Series:
        gaps = zip([None, *values], values, strict=False)
        return Series(None if a is None or b is None else b - a for a, b in gaps)

    functions = {"IF": choose, "FILL": fill, "DIFF": diff, "__builtins__": {}}
    found = eval(_compiled(expression), functions, dict(series))
    assert isinstance(found, Series)
    return found


@cache
def _compiled(expression: str) -> CodeType:
    return compile(expression.replace(" AND ", " & "), expression, "eval")
