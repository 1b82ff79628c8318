"""How many followers a publisher has: counted if they are few, else estimated by density."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.ring_reader import EdgePage, Read, RingRead

if TYPE_CHECKING:
    from concurrent.futures import Executor

# Followers that are read for an estimate: 19 of 20 estimates must be within 6 %, and with 1,000,
# only 94 % are (ring.estimate). Fewer are counted: the 1,200 that the API promises to count, and
# one edge to see whether there are more.
SAMPLE_EDGES = 1_201
# Edges read ahead per level while sampling. Edges beyond what all levels have reached do not count.
LOW_WATER = SAMPLE_EDGES // 10
# The page that every sample begins with, so that it can be read beside other rows.
FIRST_READ = Read(level=0, shard=0, after=ring.START, hi=ring.END)


class Estimate(NamedTuple):
    followers: int
    exact: bool


class Sample(NamedTuple):
    """The first edges of a ring, in ring order, and what they tell of it.

    If the estimate is exact, these are all edges.
    """

    edges: list[str]
    estimate: Estimate


def sample(
    edges_table: EdgesTable,
    publisher_id: str,
    level: int,
    *,
    first: EdgePage | None = None,
    max_reads: float = math.inf,
    threads: Executor | None = None,
) -> Sample:
    """Count the followers at all levels up to `level`: exactly if the sample holds all of them.

    `first` is the page of `FIRST_READ`, if the caller has read it. After about `max_reads` pages,
    the number is estimated from what they hold: at a high level, few followers lie in many shards.
    """
    wanted = RingRead(level, ring.START, ring.END, low_water=LOW_WATER)
    known = {} if first is None else {FIRST_READ: first}
    read = partial(edges_table.edges, limit=SAMPLE_EDGES, max_reads=max_reads, threads=threads)
    found: list[str] = []
    for edges in read(publisher_id, wanted, known=known):
        found += edges
        if len(found) >= SAMPLE_EDGES and not wanted.is_done:
            estimate = ring.estimate(len(found) - 1, ring.position_of(found[-1]))
            return Sample(found, Estimate(estimate, False))
    if wanted.is_done:
        return Sample(found, Estimate(len(found), True))
    estimate = ring.estimate(len(found), ring.position_of(wanted.reached))
    return Sample(found, Estimate(estimate, False))
