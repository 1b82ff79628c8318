"""When a publisher's followers are spread over more write shards: pure.

One partition key takes 1,000 writes a second. A publisher starts at level 0, with one shard; at
level L it has 2^L. The level only rises, one step at a time: when the table throttles a *key range*
and this publisher's own follows are the cause. docs/decisions/0009-write-shards.md says how others
do it, and where that loses followers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# The only throttling reason that more shards help against. A limit of the table or the account
# throttles any number of shards.
HOT_KEY_RANGE = "TableWriteKeyRangeThroughputExceeded"
# What a partition takes (DynamoDB, "Partitions and data distribution").
PARTITION_WRITES = 1_000
# A publisher causes the throttle itself if its accepted follows reach a quarter of what its shards
# can take. Below that, the cause is a neighbour on the same partition, and growing would never end.
OWN_SHARE = 0.25
# If two growths raised the rate of accepted follows by less than this factor, they did not help,
# and the next growth waits for the pause below. One growth is no evidence: the rate is a sample,
# and the last growth on the way to full rate may gain less than the sampling error.
LEAST_GAIN = 1.05
NO_GAIN_PAUSE_MS = 10 * 60 * 1000
# Growths kept in a row. A level reaches its highest in far fewer.
MAX_HISTORY = 16
# Accepted follows are counted in windows of this length; the current and the previous one are kept.
WINDOW_SECONDS = 5
# Of the follows at level L, one in SAMPLE * 2^L is counted, for all of them: at full rate, counting
# costs 62 writes a second at any level, and its standard error is 4 to 6 %.
SAMPLE = 16


@dataclass(frozen=True)
class Growth:
    """One growth, and the follows per second that were accepted before it."""

    level: int  # the new one
    at: int  # epoch milliseconds
    rate: int


@dataclass(frozen=True, kw_only=True)
class Shards:
    """A publisher's write shards, as in its row; without a row, a publisher is at level 0."""

    level: int = 0
    version: int = 0
    last_updated: int = 0  # epoch milliseconds
    history: tuple[Growth, ...] = ()  # the latest last
    window: int = 0  # number of the window in which `follows` are counted
    follows: int = 0
    follows_before: int = 0  # in the previous window

    def rate(self, now_ms: int) -> float:
        """The approximate number of follows per second accepted lately."""
        window, into = divmod(now_ms / 1000, WINDOW_SECONDS)
        age = int(window) - self.window
        last, before = (self.follows, self.follows_before) if age == 0 else (0, self.follows)
        if abs(age) > 1:
            return 0.0
        # Of the previous window, count the part that lies within the last WINDOW_SECONDS.
        return (last + before * (1 - into / WINDOW_SECONDS)) / WINDOW_SECONDS


@dataclass(frozen=True)
class NotGrown:
    """Why a publisher does not grow now."""

    reason: str


def grown(shards: Shards, *, now_ms: int, max_level: int, cooldown_ms: int) -> Shards | NotGrown:
    """The shards after one growth because a key range was too hot, or why they do not grow."""
    rate = shards.rate(now_ms)
    if shards.level >= max_level:
        return NotGrown("the highest level is reached")
    # abs(): after a growth by a clock that was far ahead, the cooldown would never end.
    if abs(now_ms - shards.last_updated) < cooldown_ms:
        return NotGrown("the last growth is too short ago")
    if rate < OWN_SHARE * PARTITION_WRITES * 2**shards.level:
        return NotGrown("its own follows are too few")
    if len(shards.history) > 1:
        before = shards.history[-2]
        if rate < LEAST_GAIN * before.rate and now_ms - before.at < NO_GAIN_PAUSE_MS:
            return NotGrown("the last growth changed nothing")
    return raised(shards, level=shards.level + 1, now_ms=now_ms)


def raised(shards: Shards, *, level: int, now_ms: int) -> Shards:
    """The shards at another level, with that change in their history."""
    growth = Growth(level, now_ms, round(shards.rate(now_ms)))
    return replace(
        shards,
        level=level,
        version=shards.version + 1,
        last_updated=now_ms,
        history=(*shards.history, growth)[-MAX_HISTORY:],
    )
