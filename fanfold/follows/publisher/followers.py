"""Who follows a publisher, and how many: read from the edges that deliveries read."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fanfold import cursor, names
from fanfold.contract import ID_PATTERN
from fanfold.cursor import Cursor
from fanfold.errors import FollowersClosed
from fanfold.follows import follower_estimate, ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.follower_estimate import Estimate
from fanfold.follows.levels import ttl_cache
from fanfold.follows.publisher.access import Access
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.ring_reader import RingRead

if TYPE_CHECKING:
    from concurrent.futures import Executor

# Pages read for one page of followers; the last step may add up to 15. At level 8, the few
# followers of a publisher lie in 511 shards; 64 reads take about 0.2 s of API's share of a CPU.
PAGE_READS = 64
# Pages read for one count: the 1,023 shards of level 9, about 3.5 s of API's share of a CPU.
COUNT_READS = 1_023
# How old a count may be: it takes up to 1,023 reads, and profile pages are opened often.
COUNT_SECONDS = 60

_PLACE = re.compile(rf"[0-9a-f]{{{ring.POSITION_DIGITS}}}(#{ID_PATTERN})?", re.ASCII)


@dataclass(frozen=True)
class Followers:
    """The use case behind the routes of a publisher's followers.

    `readers` is one of `names.READER_KINDS`. `threads` make calls in parallel.
    """

    edges_table: EdgesTable
    publishers: PublishersTable
    readers: str
    access: Access
    threads: Executor | None = None
    _counts: MutableMapping[str, Estimate] = field(default_factory=ttl_cache(COUNT_SECONDS))

    def forget(self) -> None:
        """Empty the cache, as after a cold start."""
        self._counts.clear()

    def _page(self, publisher_id: str, start: str, limit: int) -> tuple[list[str], str | None]:
        """A page of edges, and the place behind it; None at the end."""
        level = self.publishers.shards(publisher_id).level
        wanted = RingRead(level, start, ring.END, low_water=limit + 1)
        found: list[str] = []
        for edges in self.edges_table.edges(
            publisher_id, wanted, limit=limit + 1, max_reads=PAGE_READS, threads=self.threads
        ):
            found += edges
            if len(found) > limit:
                return found[:limit], found[limit - 1]
        return found, None if wanted.is_done else wanted.reached

    def list(
        self, user_id: str, publisher_id: str, *, limit: int, after: str | None
    ) -> tuple[list[str], str | None]:
        """One page of followers in the order of their hashes, and the cursor to the next page.

        The page is short, perhaps empty, if it would take too many reads. Raises `FollowersClosed`.
        """
        self._check(user_id, publisher_id)
        start = ring.START
        if after is not None:
            start = cursor.decode(after, is_position=_is_place).position
        self._check_access(user_id, publisher_id)  # before many reads in vain
        found, end = self._page(publisher_id, start, limit)
        self._check_access(user_id, publisher_id)
        return _followers(found), end and cursor.encode(Cursor.at(end))

    def count(self, user_id: str, publisher_id: str) -> Estimate:
        """How many there are, or were up to a minute ago. Raises `FollowersClosed`."""
        self._check(user_id, publisher_id)
        known = self._counts.get(publisher_id)
        if known is None:
            self._check_access(user_id, publisher_id)
            level = self.publishers.shards(publisher_id).level
            known = follower_estimate.sample(
                self.edges_table,
                publisher_id,
                level,
                max_reads=COUNT_READS,
                threads=self.threads,
            ).estimate
            self._counts[publisher_id] = known
        self._check_access(user_id, publisher_id)
        return known

    def _check_access(self, user_id: str, publisher_id: str) -> None:
        if not self.access.is_given(user_id, publisher_id):
            raise FollowersClosed(
                "You may see these followers once the publisher has approved you as one of them; "
                "ask to follow it."
            )

    def _check(self, user_id: str, publisher_id: str) -> None:
        if self.readers != names.USERS and user_id != publisher_id:
            raise FollowersClosed(
                "Here only a publisher sees who its followers are, and how many; ask for your own."
            )


def _is_place(text: str) -> bool:
    """Whether this is an edge, or the position at which a shard begins."""
    return _PLACE.fullmatch(text) is not None


def _followers(edges: list[str]) -> list[str]:
    return [ring.follower_of(edge) for edge in edges]
