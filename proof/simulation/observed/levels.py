"""How the publishers' levels rise in a run, checked at every growth."""

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

# A growth needs a rate of the publisher's own follows, counted within two windows; the rest allows
# for wrong clocks and for a late count.
RECENT_SECONDS = 2 * sharding.WINDOW_SECONDS + 14.0
# Half of the rate is enough, because counts at higher levels are samples.
SAMPLED = 0.5


@dataclass
class ObservedLevels:
    """The level of each publisher, and the reasons of each environment's last throttle."""

    levels: dict[str, int] = field(default_factory=dict)
    was_static: bool = False  # then levels may rise at any time, without a throttle
    _changed_ms: dict[str, int] = field(default_factory=dict)  # as the row says
    _reasons: dict[str, frozenset[str]] = field(default_factory=dict)  # by environment
    _follows: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def rejected(self, environment: str, request: dict[str, Any], error: ClientError) -> None:
        if request.get("TableName") == names.FOLLOWERS.name and is_throttle(error):
            self._reasons[environment] = throttling_reasons(error)

    def followed(self, publisher: str, now: float) -> None:
        """An edge was put, or was already there."""
        self._follows[publisher].append(now)

    def restored(self, publisher: str, level: int, at_ms: int) -> None:
        """A publisher's row was restored to an earlier moment; its level rises from there."""
        self.levels[publisher], self._changed_ms[publisher] = level, at_ms

    def changed(self, environment: str, request: dict[str, Any], now: float) -> Iterator[str]:
        """A publisher's row was changed; yield violations."""
        publisher = request["Key"]["publisher_id"]["S"]
        values = request.get("ExpressionAttributeValues", {})
        if publisher == publishers_table.ALL:
            self.was_static = True
        elif ":level" in values:
            level, at_ms = int(values[":level"]["N"]), int(values[":last_updated"]["N"])
            yield from self._raised(environment, publisher, level, at_ms, now)
            self.levels[publisher], self._changed_ms[publisher] = level, at_ms

    def _raised(
        self, environment: str, publisher: str, level: int, at_ms: int, now: float
    ) -> Iterator[str]:
        before = self.levels.get(publisher, 0)
        if level < before:
            yield f"{publisher} falls from level {before} to {level}."
        if not environment or self.was_static:
            return  # raised by an operator, or to the static level
        since_ms = at_ms - self._changed_ms.get(publisher, 0)
        if since_ms < Settings.growth_cooldown_ms:
            yield f"{publisher} grows to level {level} {since_ms} ms after its last growth."
        reasons = self._reasons.get(environment, frozenset())
        if sharding.HOT_KEY_RANGE not in reasons:
            yield f"{publisher} grows for a throttle of {', '.join(reasons) or 'nothing'}."
        recent = [at for at in self._follows[publisher] if at > now - RECENT_SECONDS]
        shard = sharding.OWN_SHARE * sharding.PARTITION_WRITES * sharding.WINDOW_SECONDS
        if len(recent) < SAMPLED * shard * 2**before:
            yield f"{publisher} grows after {len(recent)} follows of its own."
