"""What `fanfold cost --channels` says: a post in a channel, beside the same post pushed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanfold.aws.retries import AT_A_TIME
from fanfold.channels.windows import WINDOW
from fanfold_cli.cost import channel_units
from fanfold_cli.cost.amounts import dollars, number_table
from fanfold_cli.cost.channel_units import Use
from fanfold_cli.cost.month import REQUEST_SECONDS
from fanfold_cli.cost.publish import UNIT_BYTES, Publish

if TYPE_CHECKING:
    from rich.table import Table

DAY_SECONDS = 86_400
ACTIVE_PERCENT = 10.0
# Of whoever reads at all, as in the table of docs/cost.md.
PAGES_A_DAY = 3
# How many containers are warm: four times as many as pages of an even day would keep busy.
PEAK = 4


@dataclass(frozen=True)
class InChannel:
    """A post of a publisher in a channel, and what the channel takes besides, in dollars."""

    followers: int
    containers: int  # of QUERY that are warm, for the pages of the followers who read
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
        post = channel_units.of(use)
        added = channel_units.promotion(channels) + channel_units.memo() * readers
        reads = channel_units.head_reads(pages, containers=containers, seconds=DAY_SECONDS)
        return cls(
            followers=pushed.followers,
            containers=containers,
            write_units=round(post.writes),
            read_units=post.reads,
            dollars=post.dollars,
            pushed_dollars=pushed.dynamodb_dollars + pushed.lambda_dollars,
            promotion_dollars=added.dollars,
            heads_dollars=(channel_units.head_read(channels) * reads).dollars,
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
        window = round(channel_units.window(WINDOW).reads)
        head_units = "half a read unit"
        if channel_units.head_read(self.channels).reads >= 1:
            head_units = "one read unit"
        head_kb = channel_units.head_bytes(self.channels) / UNIT_BYTES
        yield (
            "In a channel: the post, one entry, the row of all channels, and the ledger. The price "
            f"also has a read of the channel's newest {WINDOW} entries by each warm container of "
            f"QUERY, {window} read units, which only those make that missed the post before. "
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
