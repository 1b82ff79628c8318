"""Estimates what posts in a channel cost, beside the same posts delivered to every follower."""

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

# A read unit is 4 KB, or 8 KB of an eventual read.
READ_BYTES = 4 * UNIT_BYTES
# An edge of PLAN's sample, with ids of 36 characters.
EDGE_BYTES = 115
# The head without channels: the names and values of its key, `version` and `revision`.
HEAD_BYTES = 60
# One channel of it, with an id of 36 characters.
CHANNEL_BYTES = 85
# `last` and `last_seq` of the channel with the newest post, with ids of 36 characters. Others have
# them for a minute.
LAST_BYTES = 82
# An entry of a channel, with ids of 36 characters.
ENTRY_BYTES = 185
# For how long a container uses a head that it has read, on average.
MEAN_HEAD_SECONDS = HEAD_SECONDS * (1 - JITTER / 2)
DAY_SECONDS = 86_400
ACTIVE_PERCENT = 10.0
# Of whoever reads at all, as in the table of docs/cost.md.
PAGES_A_DAY = 3
# How many containers are warm: four times as many as pages of an even day would keep busy.
PEAK = 4


@dataclass(frozen=True)
class Units:
    """Write and read units of DynamoDB, a consistent read counted whole."""

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
    """What is done with one channel in some time; all counts are of that time."""

    posts: int  # of its publisher, in the channel
    # Of the stage, follower or not, whose first page since the channel was added it is.
    readers: int
    pages: float  # of all readers
    containers: int = 1  # of `timeline`, each of which reads the channel once
    seconds: float = DAY_SECONDS
    channels: int = MOST  # of the stage, this one included
    entries: int = WINDOW  # that the channel holds
    followers: int = SAMPLE_EDGES  # of the publisher: PLAN reads the first of them

    def units(self) -> Units:
        """All that a channel takes beside what each page reads of the reader's own."""
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
    """One post: its acceptance, its entry, the head, and the ledger; and what PLAN reads."""
    head = head_bytes(channels) + LAST_BYTES
    writes = ACCEPT_UNITS + 1 + math.ceil(head / UNIT_BYTES) + COMPLETION_UNITS
    sample = math.ceil(min(followers, SAMPLE_EDGES) * EDGE_BYTES / READ_BYTES)
    return Units(writes, READS_PER_LOOKUP + sample + math.ceil(head / READ_BYTES))


def window_units(entries: int) -> Units:
    """What a container reads of a channel after a cold start, or if it missed a post in it."""
    return Units(reads=max(1, math.ceil(min(entries, WINDOW) * ENTRY_BYTES / READ_BYTES)))


def head_read_units(channels: int) -> Units:
    """One eventual read of the head."""
    return Units(reads=max(1, math.ceil(head_bytes(channels) / READ_BYTES)) / 2)


def head_reads(pages: float, *, containers: int, seconds: float) -> float:
    """How often containers read the head for pages that come by chance.

    After each read, a container reads it again for the first page after about a second.
    """
    if not pages:
        return 0.0
    between = containers * seconds / pages
    return containers * seconds / (MEAN_HEAD_SECONDS + between)


def memo_units() -> Units:
    """What the first page of each reader takes after a channel was added: a follow, and a row."""
    return Units(writes=1, reads=1)


def promotion_units(channels: int) -> Units:
    """What adding a channel takes at once."""
    head = head_bytes(channels)
    return Units(math.ceil(head / UNIT_BYTES), math.ceil(head / READ_BYTES))


@dataclass(frozen=True)
class InChannel:
    """A post of a publisher in a channel, and what the channel takes besides, in dollars."""

    followers: int
    containers: int  # of `timeline` that are warm, for the pages of the followers who read
    write_units: int
    read_units: float  # of PLAN, and of all containers once
    dollars: float
    pushed_dollars: float  # the same post delivered to each follower, by DynamoDB and Lambda
    promotion_dollars: float  # once
    heads_dollars: float  # a day, whether there are posts or not

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
    """The same for publishers of several sizes."""

    channels: int
    active_percent: float  # of the followers, who read on a day
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
        table = number_table(
            "followers", "pushed", "in a channel", "write units", "promotion, once", "heads, a day"
        )
        for each in self.publishes:
            table.add_row(
                f"{each.followers:,}",
                dollars(each.pushed_dollars),
                dollars(each.dollars),
                f"{each.write_units:,}",
                dollars(each.promotion_dollars),
                dollars(each.heads_dollars),
            )
        return table

    def notes(self) -> Iterator[str]:
        window = round(window_units(WINDOW).reads)
        head_units = "half a read unit"
        if head_read_units(self.channels).reads >= 1:
            head_units = "one read unit"
        head_kb = head_bytes(self.channels) / UNIT_BYTES
        yield (
            "In a channel: the post, one entry, the row of all channels, and the ledger. The price "
            f"also has a read of the channel's newest {WINDOW} entries by each warm container of "
            f"`timeline`, {window} read units, which only those make that missed the post before. "
            "A container is taken to be busy for "
            f"{REQUEST_SECONDS * 1000:.0f} ms a page, with {PAGES_A_DAY} pages a day of each who "
            f"reads, and {PEAK} times as many are warm as an even day would need."
        )
        yield (
            "Promotion: the first page of each reader afterwards reads one follow and writes the "
            "reader's row. Readers of the stage who do not follow the publisher do so too; they "
            "are not counted here."
        )
        yield (
            "Heads: for the first page after about a second, a container reads the row of all "
            f"channels, {head_kb:.1f} KB, for {head_units}. "
            "All channels and all readers of the stage share it."
        )
        yield (
            f"A cold container, for a reader who follows all of {self.channels}: "
            f"{self.channels * window:,} read units, by up to {AT_A_TIME} calls at the same time."
        )
