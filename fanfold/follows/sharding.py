"""When a publisher's followers are spread over more write shards: pure.

One partition key takes 1,000 writes a second. A publisher starts at level 0, one shard; at level L
there are 2^L. The level only rises, by one at a time, when the table says that a *key range* is too
hot, and only if this publisher's own follows make it so. How others do it, and where that loses
followers, is in docs/decisions/0009-write-shards.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# The one reason that more shards help against. Not a table's or an account's limit, which more
# shards meet just the same.
HOT_KEY_RANGE = "TableWriteKeyRangeThroughputExceeded"
# What a partition takes (DynamoDB, "Partitions and data distribution").
PARTITION_WRITES = 1_000
# A publisher is itself the cause if its accepted follows are a quarter of what each of its shards
# can take: less, and a neighbour on the same partition is, who would else let it grow for ever.
OWN_SHARE = 0.25
# Two growths that were needed raise what is accepted, up to four times. By less than this they did
# not help, and the next one would not either, until so much later. Not one: the rate is a sample,
# and the last growth on the way to full rate gains no more than the sample may be off.
LEAST_GAIN = 1.05
NO_GAIN_PAUSE_MS = 10 * 60 * 1000
# Growths that are remembered; the level cannot rise more often than this by far.
MAX_HISTORY = 16
# Accepted follows are counted in windows of so many seconds: this one and the one before.
WINDOW_SECONDS = 5
# One follow in so many is counted, for all of them, and with more shards one in that many times
# more: at full rate the count costs 62 writes a second, and its standard error is 4 to 6 %.
SAMPLE = 16


@dataclass(frozen=True)
class Growth:
    """One growth: to which level, when (epoch ms), and follows a second accepted before it."""

    level: int
    at: int
    rate: int


@dataclass(frozen=True, kw_only=True)
class Shards:
    """A publisher's write shards, as its row says. A publisher without a row is at level 0."""

    level: int = 0
    version: int = 0
    last_updated: int = 0  # epoch milliseconds
    history: tuple[Growth, ...] = ()  # the latest last
    window: int = 0  # number of the window that `follows` are counted in
    follows: int = 0
    follows_before: int = 0  # in the window before that

    def rate(self, now_ms: int) -> float:
        """Follows a second that were accepted lately, about."""
        window, into = divmod(now_ms / 1000, WINDOW_SECONDS)
        age = int(window) - self.window
        last, before = (self.follows, self.follows_before) if age == 0 else (0, self.follows)
        if abs(age) > 1:
            return 0.0
        # Of the window before, the part that lies within one window's time from now.
        return (last + before * (1 - into / WINDOW_SECONDS)) / WINDOW_SECONDS


@dataclass(frozen=True)
class NotGrown:
    """Why a publisher does not grow now."""

    reason: str


def grown(shards: Shards, *, now_ms: int, max_level: int, cooldown_ms: int) -> Shards | NotGrown:
    """The shards after one growth because a key range was too hot, or why there is none."""
    rate = shards.rate(now_ms)
    if shards.level >= max_level:
        return NotGrown("the highest level is reached")
    # Both ways: by a clock that was ahead it would be for ever.
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
    """The shards at another level, with that in their history."""
    growth = Growth(level, now_ms, round(shards.rate(now_ms)))
    return replace(
        shards,
        level=level,
        version=shards.version + 1,
        last_updated=now_ms,
        history=(*shards.history, growth)[-MAX_HISTORY:],
    )
