"""Estimates the cost of posts in a channel, compared with delivery to every follower."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanfold.aws.retries import AT_A_TIME
from fanfold.channels.head import MOST
from fanfold.channels.known_head import HEAD_SECONDS, JITTER
from fanfold.channels.windows import WINDOW
from fanfold.follows.follower_estimate import SAMPLE_EDGES
from fanfold_cli.cost.prices import PRICES
from fanfold_cli.cost.publish import (
    ACCEPT_UNITS,
    COMPLETION_UNITS,
    READS_PER_LOOKUP,
    REQUEST_SECONDS,
    UNIT_BYTES,
    Publish,
)
from fanfold_cli.terminal import dollars, number_table

if TYPE_CHECKING:
    from rich.table import Table

# A read unit is 4 KB, or 8 KB in an eventual read.
READ_BYTES = 4 * UNIT_BYTES
# An edge of PLAN's sample, with ids of 36 characters.
EDGE_BYTES = 123
# The head without channels: the names and values of its key, `version` and `revision`.
HEAD_BYTES = 60
# One channel of it, with an id of 36 characters.
CHANNEL_BYTES = 85
# `last` and `last_seq` of the channel with the newest post, with ids of 36 characters. Other
# channels have them for a minute.
LAST_BYTES = 82
# An entry of a channel, with ids of 36 characters.
ENTRY_BYTES = 185
# How long a container uses a head that it has read, on average.
MEAN_HEAD_SECONDS = HEAD_SECONDS * (1 - JITTER / 2)
DAY_SECONDS = 86_400
ACTIVE_PERCENT = 10.0
# Of each active reader, as in the table of docs/cost.md.
PAGES_A_DAY = 3
# Warm containers, relative to those that evenly spread pages would keep busy.
PEAK = 4


@dataclass(frozen=True)
class Units:
    """Write and read units of DynamoDB; an eventual read counts half."""

    writes: float = 0.0
    reads: float = 0.0

    def __add__(self, other: Units) -> Units:
        return Units(self.writes + other.writes, self.reads + other.reads)

    def __mul__(self, times: float) -> Units:
        return Units(self.writes * times, self.reads * times)

    @property
    def dollars(self) -> float:
        return PRICES.dynamodb(writes=self.writes, reads=self.reads)


@dataclass(frozen=True, kw_only=True)
class Use:
    """The use of one channel during some time; all counts are for that time."""

    posts: int  # of its publisher, in the channel
    # All readers of the stage, followers or not, who read for the first time since it was added.
    readers: int
    pages: float  # of all readers
    containers: int = 1  # of `timeline`, each of which reads the channel once
    seconds: float = DAY_SECONDS
    channels: int = MOST  # of the stage, this one included
    entries: int = WINDOW  # that the channel holds
    followers: int = SAMPLE_EDGES  # of the publisher: PLAN reads the first of them

    def units(self) -> Units:
        """All units of a channel; what a page reads of the reader's own rows is not included."""
        heads = head_reads(self.pages, containers=self.containers, seconds=self.seconds)
        return (
            post_units(self.channels, self.followers) * self.posts
            + window_units(self.entries) * self.containers
            + head_read_units(self.channels) * heads
            + memo_units() * self.readers
        )


def head_bytes(channels: int) -> int:
    return HEAD_BYTES + CHANNEL_BYTES * channels


def post_units(channels: int, followers: int) -> Units:
    """One post: its acceptance, its entry, the head, the ledger, and PLAN's reads."""
    head = head_bytes(channels) + LAST_BYTES
    writes = ACCEPT_UNITS + 1 + math.ceil(head / UNIT_BYTES) + COMPLETION_UNITS
    sample = math.ceil(min(followers, SAMPLE_EDGES) * EDGE_BYTES / READ_BYTES)
    return Units(writes, READS_PER_LOOKUP + sample + math.ceil(head / READ_BYTES))


def window_units(entries: int) -> Units:
    """What a container reads of a channel after a cold start, or after it missed a post."""
    return Units(reads=max(1, math.ceil(min(entries, WINDOW) * ENTRY_BYTES / READ_BYTES)))


def head_read_units(channels: int) -> Units:
    """One eventual read of the head."""
    return Units(reads=max(1, math.ceil(head_bytes(channels) / READ_BYTES)) / 2)


def head_reads(pages: float, *, containers: int, seconds: float) -> float:
    """How often containers read the head, for pages at random times.

    A container reads it again for the first page after about a second.
    """
    if not pages:
        return 0.0
    between = containers * seconds / pages
    return containers * seconds / (MEAN_HEAD_SECONDS + between)


def memo_units() -> Units:
    """What a reader's first page after a new channel takes: reading a follow, writing a row."""
    return Units(writes=1, reads=1)


def promotion_units(channels: int) -> Units:
    """What adding a channel takes immediately."""
    head = head_bytes(channels)
    return Units(math.ceil(head / UNIT_BYTES), math.ceil(head / READ_BYTES))


@dataclass(frozen=True)
class InChannel:
    """What a post in a channel takes, and what else the channel costs in dollars."""

    followers: int
    containers: int  # warm ones of `timeline`, for the pages of active followers
    write_units: int
    read_units: float  # of PLAN, and of all containers once
    dollars: float
    pushed_dollars: float  # the same post delivered to each follower, by DynamoDB and Lambda
    promotion_dollars: float  # once
    heads_dollars: float  # a day, even without posts

    @classmethod
    def of(cls, pushed: Publish, channels: int, active_percent: float) -> InChannel:
        readers = pushed.followers * active_percent / 100
        pages = readers * PAGES_A_DAY
        containers = max(1, math.ceil(PEAK * pages * REQUEST_SECONDS / DAY_SECONDS))
        use = Use(
            posts=1,
            readers=0,
            pages=0,
            containers=containers,
            channels=channels,
            followers=pushed.followers,
        )
        post = use.units()
        added = promotion_units(channels) + memo_units() * readers
        reads = head_reads(pages, containers=containers, seconds=DAY_SECONDS)
        return cls(
            followers=pushed.followers,
            containers=containers,
            write_units=round(post.writes),
            read_units=post.reads,
            dollars=post.dollars,
            pushed_dollars=pushed.dynamodb_dollars + pushed.lambda_dollars,
            promotion_dollars=added.dollars,
            heads_dollars=(head_read_units(channels) * reads).dollars,
        )


@dataclass(frozen=True)
class ChannelUse:
    """`InChannel` for publishers of several sizes."""

    channels: int
    active_percent: float  # of the followers: they read each day
    publishes: Sequence[InChannel]

    @classmethod
    def of(
        cls, publishes: Sequence[Publish], channels: int, active_percent: float | None
    ) -> ChannelUse:
        percent = ACTIVE_PERCENT if active_percent is None else active_percent
        found = [InChannel.of(each, channels, percent) for each in publishes]
        return cls(channels, percent, found)

    @property
    def title(self) -> str:
        which = "In the only channel" if self.channels == 1 else f"In one of {self.channels}"
        return f"{which}, where {self.active_percent:g} % of the followers read on a day:"

    def table(self) -> Table:
        rows = (
            (
                f"{each.followers:,}",
                dollars(each.pushed_dollars),
                dollars(each.dollars),
                f"{each.write_units:,}",
                dollars(each.promotion_dollars),
                dollars(each.heads_dollars),
            )
            for each in self.publishes
        )
        return number_table(
            (
                "followers",
                "pushed",
                "in a channel",
                "write units",
                "promotion, once",
                "heads, a day",
            ),
            rows,
        )

    def notes(self) -> Iterator[str]:
        window = round(window_units(WINDOW).reads)
        head_units = "one" if head_read_units(self.channels).reads >= 1 else "half a"
        head_kb = head_bytes(self.channels) / UNIT_BYTES
        yield (
            "In a channel: the post, one entry, the row of all channels, and the ledger. The price "
            f"includes a read of the channel's newest {WINDOW} entries by each warm container of "
            f"`timeline`, {window} read units, which is needed only after a missed post. "
            f"Assumptions: a page keeps a container busy for {REQUEST_SECONDS * 1000:.0f} ms, each "
            f"active reader reads {PAGES_A_DAY} pages a day, and {PEAK} times as many containers "
            "are warm as evenly spread pages would need."
        )
        yield (
            "Promotion: the first page of each reader afterwards reads one follow and writes the "
            "reader's row. That of readers who do not follow the publisher does too, which is not "
            "counted here."
        )
        yield (
            "Heads: for the first page after about a second, a container reads the row of all "
            f"channels, {head_kb:.1f} KB, for {head_units} read unit. "
            "All channels and all readers of the stage share it."
        )
        yield (
            f"A cold container, for a reader who follows all of {self.channels}: "
            f"{self.channels * window:,} read units, by up to {AT_A_TIME} calls at the same time."
        )
