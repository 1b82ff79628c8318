"""Estimates what posts in a channel cost, beside the same posts delivered to every follower."""

import math
from dataclasses import dataclass

from fanfold.channels.head import MOST
from fanfold.channels.known_head import HEAD_SECONDS, JITTER
from fanfold.channels.windows import WINDOW
from fanfold.follows.density import SAMPLE_EDGES
from fanfold_cli.cost.prices import PRICES
from fanfold_cli.cost.publish import (
    ACCEPT_UNITS,
    COMPLETION_UNITS,
    READS_PER_LOOKUP,
    UNIT_BYTES,
)

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


@dataclass(frozen=True, kw_only=True)
class Use:
    """What is done with one channel in some time; all counts are of that time."""

    posts: int  # of its publisher, in the channel
    readers: (
        int  # of the stage, follower or not, whose first page since the channel was added it is
    )
    pages: float  # of all readers
    containers: int = 1  # of QUERY, each of which reads the channel once
    seconds: float = 86_400.0
    channels: int = MOST  # of the stage, this one included
    entries: int = WINDOW  # that the channel holds
    followers: int = SAMPLE_EDGES  # of the publisher: PLAN reads the first of them


@dataclass(frozen=True)
class Units:
    """Write and read units of DynamoDB, a consistent read counted whole."""

    writes: float = 0.0
    reads: float = 0.0

    def __add__(self, other: "Units") -> "Units":
        return Units(self.writes + other.writes, self.reads + other.reads)

    def __mul__(self, times: float) -> "Units":
        return Units(self.writes * times, self.reads * times)

    @property
    def dollars(self) -> float:
        return PRICES.dynamodb(writes=self.writes, reads=self.reads)


def head_bytes(channels: int) -> int:
    return HEAD_BYTES + CHANNEL_BYTES * channels


def post(channels: int, followers: int) -> Units:
    """One post: its acceptance, its entry, the head, and the ledger; and what PLAN reads."""
    head = head_bytes(channels) + LAST_BYTES
    writes = ACCEPT_UNITS + 1 + math.ceil(head / UNIT_BYTES) + COMPLETION_UNITS
    sample = math.ceil(min(followers, SAMPLE_EDGES) * EDGE_BYTES / READ_BYTES)
    return Units(writes, READS_PER_LOOKUP + sample + math.ceil(head / READ_BYTES))


def window(entries: int) -> Units:
    """What a container reads of a channel after a cold start, or if it missed a post in it."""
    return Units(reads=max(1, math.ceil(min(entries, WINDOW) * ENTRY_BYTES / READ_BYTES)))


def head_read(channels: int) -> Units:
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


def memo() -> Units:
    """What the first page of each reader takes after a channel was added: a follow, and a row."""
    return Units(writes=1, reads=1)


def promotion(channels: int) -> Units:
    """What adding a channel takes at once."""
    head = head_bytes(channels)
    return Units(math.ceil(head / UNIT_BYTES), math.ceil(head / READ_BYTES))


def of(use: Use) -> Units:
    """All that a channel takes beside what each page reads of the reader's own."""
    heads = head_reads(use.pages, containers=use.containers, seconds=use.seconds)
    return (
        post(use.channels, use.followers) * use.posts
        + window(use.entries) * use.containers
        + head_read(use.channels) * heads
        + memo() * use.readers
    )
