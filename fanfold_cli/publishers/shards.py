"""The output of `fanfold shards show`: a publisher's level, its growths, and edges by shard."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from fanfold import times
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.ring_reader import Read
from fanfold.follows.sharding import Shards
from fanfold_cli.progress import Bar, progress_bar
from fanfold_cli.terminal import counted, print_result, say, text_table

# Shards counted concurrently.
THREADS = 8
# Edges in one page of a count: about 1 MB, the most that DynamoDB reads at once.
COUNT_PAGE = 10_000
# Shards up to level 4 are listed one by one; --json always has all of them.
LISTED_SHARDS = 31


@dataclass(frozen=True)
class Level:
    """How many edges each shard of one level holds."""

    level: int
    counts: Sequence[int]

    @property
    def edges(self) -> int:
        return sum(self.counts)

    @property
    def mean(self) -> float:
        return self.edges / len(self.counts)

    @property
    def skew(self) -> float | None:
        """The largest shard divided by the mean; None if all are empty."""
        return max(self.counts) / self.mean if self.edges else None


@dataclass(frozen=True)
class ShardReport:
    publisher: str
    shards: Shards
    static_level: int | None
    levels: Sequence[Level]
    is_estimate: bool

    @classmethod
    def of(
        cls, publisher: str, publishers: PublishersTable, edges_table: EdgesTable, *, estimate: bool
    ) -> "ShardReport":
        """Count the edges of each shard; with `estimate`, from one page of each.

        `follower_estimate` would estimate all followers from the start of the ring, and not each
        shard.
        """
        shards, static_level = publishers.shards(publisher), publishers.static_level()
        levels = _count(edges_table, publisher, shards.level, estimate=estimate)
        return cls(publisher, shards, static_level, levels, estimate)

    @property
    def edges(self) -> int:
        return sum(each.edges for each in self.levels)

    def content(self) -> dict[str, Any]:
        shards = self.shards
        return {
            "publisher_id": self.publisher,
            "level": shards.level,
            "shards": 2**shards.level,
            "version": shards.version,
            "last_growth": times.to_text(shards.last_updated) if shards.last_updated else None,
            "static_level": self.static_level,
            "history": [
                {
                    "level": growth.level,
                    "at": times.to_text(growth.at),
                    "follows_per_second": growth.rate,
                }
                for growth in shards.history
            ],
            "edges": self.edges,
            "estimated": self.is_estimate,
            "levels": [
                {
                    "level": each.level,
                    "edges": each.edges,
                    "mean": each.mean,
                    "largest": max(each.counts),
                    "skew": each.skew,
                    "shards": list(each.counts),
                }
                for each in self.levels
            ],
        }

    def draw(self) -> None:
        name, shards = f"'{self.publisher}'", self.shards
        grown = f"last grown at {times.to_text(shards.last_updated)}"
        print_result(
            f"{name} is at level {shards.level}: {shards_at(shards.level)}, "
            f"{grown if shards.version else 'never grown'}, version {shards.version}."
        )
        if self.static_level is not None:
            print_result(
                f"The static level {self.static_level} is in force for all publishers; "
                "`fanfold shards dynamic` ends it."
            )
        if shards.history:
            history = ((g.level, times.to_text(g.at), f"{g.rate:,}") for g in shards.history)
            print_result(text_table(("level", "since", "follows/s before"), history))
        rows = []
        for each in self.levels:
            skew = "-" if each.skew is None else f"{each.skew:.2f}"
            numbers = (len(each.counts), each.edges, round(each.mean), max(each.counts))
            rows.append((each.level, *(f"{value:,}" for value in numbers), skew))
        columns = ("level", "shards", "edges", "mean", "largest", "largest/mean")
        print_result(text_table(columns, rows))
        self._print_each_shard()
        print_result(f"{'About ' if self.is_estimate else ''}{counted(self.edges, 'edge')}.")
        if not self.edges and not shards.version:
            say(f"Nobody follows {name}, and it has never grown: is the id right?")

    def _print_each_shard(self) -> None:
        if len(self.levels) == 1:
            return
        if sum(len(each.counts) for each in self.levels) > LISTED_SHARDS:
            say("There are too many shards to list; --json has all of them.")
            return
        rows = (
            (f"{each.level}.{shard}", f"{count:,}")
            for each in self.levels
            for shard, count in enumerate(each.counts)
        )
        print_result(text_table(("shard", "edges"), rows))


def shards_at(level: int) -> str:
    return counted(2**level, "write shard")


def estimated(count: int, reached: str, *, level: int, shard: int) -> int:
    """An estimate of a shard's edges, given `count` edges below the position `reached`."""
    width = ring.RING_SIZE >> level
    return round(count * width / max(1, int(reached, 16) - shard * width))


def _count(edges_table: EdgesTable, publisher: str, highest: int, *, estimate: bool) -> list[Level]:
    levels = range(highest + 1)
    reads = [
        Read(level, shard, ring.shard_start(shard, level), ring.END)
        for level in levels
        for shard in range(2**level)
    ]
    # Counting a large shard takes a minute; Ctrl-C stops it at the next page.
    stop = threading.Event()
    with (
        progress_bar("Counting", total=None, unit="edges") as bar,
        ThreadPoolExecutor(THREADS) as threads,
    ):
        try:
            counts = threads.map(
                lambda read: _count_shard(edges_table, publisher, read, bar, stop, estimate), reads
            )
            return [Level(level, list(islice(counts, 2**level))) for level in levels]
        finally:
            stop.set()


def _count_shard(
    edges_table: EdgesTable,
    publisher: str,
    read: Read,
    bar: Bar,
    stop: threading.Event,
    estimate: bool,
) -> int:
    request = edges_table.page_request(publisher, read, COUNT_PAGE)
    del request["ProjectionExpression"]
    # Eventually consistent reads cost half, and a count need not be current to the second.
    request |= {"Select": "COUNT", "ConsistentRead": False}
    count = 0
    while not stop.is_set():
        answer = edges_table.client.query(**request)
        count += (found := answer["Count"])
        bar.advance(found)
        last = answer.get("LastEvaluatedKey")
        if last is None:
            break
        if estimate:
            reached = ring.position_of(last["edge"]["S"])
            return estimated(count, reached, level=read.level, shard=read.shard)
        request["ExclusiveStartKey"] = last
    return count
