"""The read units of an audit: counted, and held at a rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fanfold import clock
from fanfold.aws.retries import BATCH, is_throttle
from fanfold.errors import TryLater

# Read units a second: 4 % of what a new table takes, so that an audit slows down nobody.
DEFAULT_RATE = 500
# A throttled audit goes on at half its rate, down to this.
SLOWEST_RATE = 5.0

_READS = frozenset({"get_item", "batch_get_item", "query", "scan"})


@dataclass
class Meter:
    """Counts read units; sleeps so that they stay below `rate` a second."""

    rate: float = DEFAULT_RATE
    units: float = 0.0
    _not_before: float = field(default_factory=clock.monotonic)

    def spent(self, units: float) -> None:
        """Count units that were consumed, and wait until the next may be."""
        self.units += units
        now = clock.monotonic()
        self._not_before = max(self._not_before, now) + units / self.rate
        # Short waits add up: a sleep for each call would cost more than it spares.
        if self._not_before > now + 0.05:
            clock.sleep(self._not_before - now)

    def throttled(self) -> None:
        """Go on more slowly."""
        self.rate = max(SLOWEST_RATE, self.rate / 2)


class Metered:
    """A client of DynamoDB whose reads go through a meter; it has no writes."""

    def __init__(self, client: Any, meter: Meter) -> None:
        self._client, self._meter = client, meter

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        return partial(self._read, call) if name in _READS else call

    def _read(self, call: Callable[..., Any], **request: Any) -> Any:
        """The answer; raises `TryLater` if DynamoDB goes on throttling."""
        for _ in clock.tries(*BATCH):
            try:
                answer = call(**request, ReturnConsumedCapacity="TOTAL")
            except Exception as error:
                if not is_throttle(error):
                    raise
                self._meter.throttled()
                continue
            self._meter.spent(_units(answer.get("ConsumedCapacity", ())))
            return answer
        raise TryLater("DynamoDB is throttling these reads.")


def _units(consumed: Any) -> float:
    tables = [consumed] if isinstance(consumed, dict) else consumed
    return float(sum(each["CapacityUnits"] for each in tables))
