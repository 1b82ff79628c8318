"""How the publishers' levels rise in a run: seen call by call, because afterwards it is gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from fanfold import names
from fanfold.aws.retries import is_throttle, throttling_reasons
from fanfold.follows import publishers_table, sharding
from fanfold.settings import Settings

# Before a growth its publisher must have had as many follows as it asks for, within two windows
# of counting, with clocks that are wrong both ways, and a count that comes late; or half as many,
# because at higher levels the count is a sample.
LATELY_SECONDS = 2 * sharding.WINDOW_SECONDS + 14.0
SAMPLED = 0.5


@dataclass
class Levels:
    """The level of each publisher, and what each machine was told of its last throttle."""

    levels: dict[str, int] = field(default_factory=dict)
    growths: int = 0
    was_static: bool = False  # then levels rise without a throttle, and at any time
    _changed_ms: dict[str, int] = field(default_factory=dict)  # by the row
    _reasons: dict[str, frozenset[str]] = field(default_factory=dict)  # by machine
    _follows: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def refused(self, machine: str, request: dict[str, Any], error: ClientError) -> None:
        """A call was refused."""
        if request.get("TableName") == names.FOLLOWERS.name and is_throttle(error):
            self._reasons[machine] = throttling_reasons(error)

    def followed(self, publisher: str, now: float) -> None:
        """An edge was put, or was there."""
        self._follows[publisher].append(now)

    def changed(self, machine: str, request: dict[str, Any], now: float) -> Iterator[str]:
        """The row of a publisher was changed; what is wrong about it."""
        publisher = request["Key"]["publisher_id"]["S"]
        values = request.get("ExpressionAttributeValues", {})
        if publisher == publishers_table.ALL:
            self.was_static = True
        elif ":level" in values:
            level, at_ms = int(values[":level"]["N"]), int(values[":now"]["N"])
            yield from self._raised(machine, publisher, level, at_ms, now)
            self.levels[publisher], self._changed_ms[publisher] = level, at_ms

    def _raised(
        self, machine: str, publisher: str, level: int, at_ms: int, now: float
    ) -> Iterator[str]:
        before = self.levels.get(publisher, 0)
        if level < before:
            yield f"{publisher} falls from level {before} to {level}."
        if not machine or self.was_static:
            return  # by an operator, or to the static level
        self.growths += 1
        since_ms = at_ms - self._changed_ms.get(publisher, 0)
        if since_ms < Settings.growth_cooldown_ms:
            yield f"{publisher} grows to level {level} {since_ms} ms after its last growth."
        reasons = self._reasons.get(machine, frozenset())
        if sharding.HOT_KEY_RANGE not in reasons:
            yield f"{publisher} grows for a throttle of {', '.join(reasons) or 'nothing'}."
        lately = [at for at in self._follows[publisher] if at > now - LATELY_SECONDS]
        shard = sharding.OWN_SHARE * sharding.PARTITION_WRITES * sharding.WINDOW_SECONDS
        if len(lately) < SAMPLED * shard * 2**before:
            yield f"{publisher} grows after {len(lately)} follows of its own."
