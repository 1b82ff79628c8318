"""Estimates the capacity and price of a first follow, with the posts that it brings."""

import math
from dataclasses import dataclass
from typing import Final

from fanfold.budgets import LaneBudget
from fanfold_cli.cost.prices import PRICES

# By the API: the rows of follow and reader in a transaction, and the edge.
WRITES = 5
# By the API: the follow, whether its publisher is private, and the marks, then the follow twice
# after its change. By RELATE, which reconciles again: the follow twice, and the edge. Levels are
# cached.
READS = 8
# A request to a private publisher, and its approval: the rows of follow and reader and the list in
# a transaction; the approval also the edge. Reads are those of a follow, and of the edge, which a
# request must not have, and of the privacy by RELATE.
REQUEST: Final = {"writes": 6, "reads": 12}
APPROVAL: Final = {"writes": 7, "reads": 7}
# An item of the outbox takes about 160 bytes with ids of 36 characters.
POSTS_PER_READ = 25
# A follow sends RELATE two commands: to backfill, and to settle.
COMMANDS = 2
# Orders a second of one of its workers. Each takes 4 to 6 ms of CPU, as measured here and not on
# Lambda, and 512 MB have 0.29 vCPU: enough for 50 to 70.
ORDERS_PER_WORKER = 50


@dataclass(frozen=True)
class FirstFollow:
    """A follow of a publisher who has all the `posts` that it brings, while RELATE keeps up."""

    posts: int
    write_units: int
    read_units: float
    dynamodb_dollars: float
    backfill_dollars: float  # of `dynamodb_dollars`, for the posts

    @classmethod
    def bringing(cls, posts: int) -> "FirstFollow":
        looks = _looks(posts) if posts else 0
        brought = PRICES.dynamodb(writes=posts, reads=looks)
        whole = PRICES.dynamodb(writes=WRITES, reads=READS) + brought
        return cls(posts, WRITES + posts, READS + looks, whole, brought)


@dataclass(frozen=True)
class Rush:
    """How many follows a second RELATE keeps up with, by each of its two bounds."""

    by_share: float  # of the write capacity
    by_cpu: float

    @classmethod
    def of(cls, follow: FirstFollow, relation: LaneBudget) -> "Rush":
        return cls(
            relation.most / follow.posts if follow.posts else math.inf,
            relation.max_concurrency * ORDERS_PER_WORKER / COMMANDS,
        )

    @property
    def follows_per_second(self) -> float:
        return min(self.by_share, self.by_cpu)


def _looks(posts: int) -> float:
    """The first pass reads the follow, both read the outbox, and the second reads the entries.

    Outbox and entries are read eventually, for half a unit each.
    """
    return 1 + 2 * math.ceil(posts / POSTS_PER_READ) / 2 + posts / 2
