"""CloudWatch during a run: each minute, the metrics of the stage and the alarms that ring.

The alarms are those of the default stage (`alarms.json`, which a test holds equal to the template).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fanfold import names
from proof.model.cloudwatch import ALARM, LOOK_BACK, OK, STATISTICS, Alarm, MetricId, Value, Watched
from proof.simulation.world.lambdas import dlq_url, queue_url

if TYPE_CHECKING:
    from proof.simulation.world.world import World

MINUTE = 60.0
# Calm minutes before the run, as on a stack that has existed for long.
BEFORE = 20
# The value of the dimension `service`, but for the name of the function.
SERVICE = "fanfold-dev-"

Key: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]  # name and dimensions of a metric


def key(metric: str, **dimensions: str) -> Key:
    return metric, tuple(sorted(dimensions.items()))


def _key_of(metric: MetricId) -> Key:
    return key(metric.name, **dict(metric.dimensions))


# What SWEEP's runs that come through emit, however many fan-outs are open.
SWEPT = key(names.OLDEST_SMALL_OPEN_SECONDS, service=f"{SERVICE}{names.SWEEP.name}")


@cache
def alarms() -> dict[str, Alarm]:
    """The alarms of the default stage by name."""
    found = json.loads(Path(__file__).with_name("alarms.json").read_text())
    return {name: Alarm(properties) for name, properties in found.items()}


@cache
def watching() -> dict[Key, list[tuple[str, Watched]]]:
    """The alarms that watch each metric."""
    found: dict[Key, list[tuple[str, Watched]]] = defaultdict(list)
    for name, alarm in alarms().items():
        for each in alarm.metrics.values():
            found[_key_of(each.metric)].append((name, each))
    return dict(found)


@cache
def series_of(name: str) -> dict[str, tuple[Key, str]]:
    """The names of an alarm's metrics, with their series."""
    metrics = alarms()[name].metrics.items()
    return {called: (_key_of(each.metric), each.statistic) for called, each in metrics}


@cache
def minutes_of(name: str) -> int:
    """For how many minutes a value can affect an alarm."""
    alarm = alarms()[name]
    longest = max(each.minutes for each in alarm.metrics.values())
    return (alarm.periods + LOOK_BACK + 1) * longest


# Alarms that ring because of missing data must be evaluated every minute.
SILENCES = tuple(
    n for n, each in alarms().items() if each.properties["TreatMissingData"] == "breaching"
)


class Watch:
    """The metrics and alarms of one run, and callbacks for every minute."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.minute = 0  # how many have passed
        self.ringing: set[str] = set()
        self.first_rang: dict[str, int] = {}  # in minutes since the start
        self.last_rang: dict[str, int] = {}
        self.lookers: list[Callable[[], None]] = []  # called after each minute
        self.violations: list[str] = []
        self._samples: dict[Key, list[float]] = defaultdict(list)  # of this minute
        self._series: dict[tuple[Key, str], list[Value]] = defaultdict(list)
        self._until: dict[str, int] = dict.fromkeys(SILENCES, 1 << 60)  # by alarm, when it matters
        self._queues = [
            world.queues.queue(url(queue)) for queue in names.QUEUES for url in (queue_url, dlq_url)
        ]
        self._series[SWEPT, "SampleCount"] = [1.0] * BEFORE
        world.watch = self
        world.scheduler.at(MINUTE, self._end_minute)

    def series(self, metric: Key, statistic: str) -> list[Value]:
        """Its minutes; the first `BEFORE` are those before the run."""
        return self._series[metric, statistic]

    def emitted(
        self, function: str, metrics: Mapping[str, Any], dimensions: Mapping[str, str]
    ) -> None:
        """A function has flushed its metrics, in Powertools' form."""
        service = {**dimensions, "service": f"{SERVICE}{function}"}
        for name, each in metrics.items():
            self._take(key(name, **service), each["Value"])
            if name == names.DELIVERY_SECONDS:
                self.world.observer.reported(each["Value"])

    def invoked(self, function: str, *, failed: bool) -> None:
        self._take(("Invocations", (("FunctionName", function),)), (1.0,))
        if failed:
            self._take(("Errors", (("FunctionName", function),)), (1.0,))

    def answered(self, status: int) -> None:
        """API Gateway has answered a request."""
        self._take(("Count", (("ApiId", "api"),)), (1.0,))
        if status >= 500:
            self._take(("5xx", (("ApiId", "api"),)), (1.0,))

    def throttled(self, operation: str, table: str) -> None:
        """DynamoDB has throttled a whole call."""
        kind = "Read" if operation in ("get_item", "query", "scan", "batch_get_item") else "Write"
        self._take((f"{kind}ThrottleEvents", (("TableName", table),)), (1.0,))

    def _take(self, metric: Key, values: Iterable[float]) -> None:
        if metric in watching():
            self._samples[metric] += values

    def _end_minute(self) -> None:
        scheduler = self.world.scheduler
        self._measure_queues()
        self._store()
        self.minute = int(scheduler.now // MINUTE)
        self._evaluate()
        for look in self.lookers:
            look()
        scheduler.at((self.minute + 1) * MINUTE, self._end_minute)

    def _measure_queues(self) -> None:
        """The gauges of SQS; an empty queue needs none."""
        for queue in self._queues:
            if queue.is_empty:
                continue
            dimension = (("QueueName", queue.name),)
            waiting, hidden, delayed = queue.counts()
            self._take(("ApproximateNumberOfMessagesVisible", dimension), (waiting,))
            self._take(("ApproximateNumberOfMessagesNotVisible", dimension), (hidden,))
            self._take(("ApproximateNumberOfMessagesDelayed", dimension), (delayed,))
            self._take(("ApproximateAgeOfOldestMessage", dimension), (queue.age_of_oldest(),))

    def _store(self) -> None:
        """Append the samples of the last minute."""
        place = BEFORE + self.minute
        for metric, samples in self._samples.items():
            matters = any(samples)
            for name, watched in watching()[metric]:
                series = self._series[metric, watched.statistic]
                if len(series) <= place:  # two alarms may share a series
                    series += [None] * (place - len(series))
                    series.append(STATISTICS[watched.statistic](samples))
                if matters and name not in SILENCES:
                    self._until[name] = self.minute + minutes_of(name)
        self._samples.clear()

    def _evaluate(self) -> None:
        """Evaluate alarms with recent values above zero; the others stay calm."""
        over = []
        for name, until in self._until.items():
            if until < self.minute and name not in self.ringing:
                over.append(name)
                continue
            data = {called: self._series[each] for called, each in series_of(name).items()}
            before = ALARM if name in self.ringing else OK
            if alarms()[name].after(before, data, BEFORE + self.minute) == ALARM:
                self.ringing.add(name)
                self.first_rang.setdefault(name, self.minute)
                self.last_rang[name] = self.minute
            else:
                self.ringing.discard(name)
        for name in over:
            del self._until[name]
