"""One follower's edge: put at the publisher's level, removed from every level where it may lie."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial

from fanfold.aws.dynamodb import Deadline
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.levels import Growing, Levels


@dataclass(frozen=True)
class Edges:
    """The edges of all publishers.

    The client of `edges_table` must not retry: a throttle that it hides makes no publisher grow.
    """

    edges_table: EdgesTable
    growing: Growing

    @property
    def levels(self) -> Levels:
        """The levels of all publishers, cached once for both."""
        return self.growing.levels

    def forget(self) -> None:
        """Empty all caches, as after a cold start."""
        self.levels.forget()
        self.growing.forget()

    def put(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        """Write the edge of follow `version`, unless an edge as new or newer is there.

        Raises `TryLater` if the table takes it too slowly; the call may then be repeated.
        """
        self._put(publisher_id, follower_id, version, new_deadline())

    def ensure(self, publisher_id: str, follower_id: str, *, version: int) -> bool:
        """Like `put`, for an edge that is probably there: read first, because a write costs more.

        Returns whether the edge was missing, and is put. Even a put that changes nothing costs its
        shard a write unit, and after a growth it would leave a second edge at another level.
        Reading begins at the remembered level, where the edge most likely lies; before anything is
        put, the level is read consistently.
        """
        deadline, searched = new_deadline(), -1
        for level_of in (self.levels.remembered, self.levels.current):
            top = deadline.retry(partial(level_of, publisher_id))
            for level in range(top, searched, -1):
                read = partial(self.edges_table.version, publisher_id, follower_id, level=level)
                found = deadline.retry(read)
                if found is not None and found >= version:
                    return False
            searched = max(searched, top)
        self._put(publisher_id, follower_id, version, deadline)
        return True

    def versions(self, edges: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """The versions of up to 100 edges (publisher, follower), of those that are found.

        An edge that is not found may still lie above the remembered level of its publisher. Raises
        `TryLater`, as `put` does.
        """
        deadline = new_deadline()

        def found_at(level: int, left: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
            asked = [(*edge, level) for edge in left]
            return deadline.retry(partial(self.edges_table.versions, asked))

        # Nearly all publishers have one shard: their level is read only if an edge is missing.
        found = found_at(0, edges)
        left = [edge for edge in edges if edge not in found]
        tops = {
            publisher_id: deadline.retry(partial(self.levels.remembered, publisher_id))
            for publisher_id in sorted({edge[0] for edge in left})
        }
        for level in range(1, max(tops.values(), default=0) + 1):
            left = [edge for edge in left if edge not in found and tops[edge[0]] >= level]
            found |= found_at(level, left)
        return found

    def put_all(self, edges: Iterable[tuple[str, str, int]]) -> None:
        """Write edges (publisher, follower, version) that no newer follow can have put.

        Callers must re-read the rows afterwards: BatchWriteItem cannot be conditional. What a batch
        leaves unprocessed is put one by one. Raises `TryLater`, as `put` does.
        """
        placed = [
            (*edge, new_deadline().retry(partial(self.levels.to_write, edge[0]))) for edge in edges
        ]
        left = self.edges_table.put_all(placed)
        for publisher_id, follower_id, version, level in placed:
            if (publisher_id, follower_id) in left:
                self.put(publisher_id, follower_id, version=version)
            else:
                self.growing.accepted(publisher_id, level)

    def ensure_all(self, edges: Iterable[tuple[str, str, int]]) -> None:
        """Like `put_all`, for edges that are probably there.

        At level 0 a put changes nothing. A publisher that has grown gets `ensure`, because a put
        would leave a second edge at another level.
        """
        flat: list[tuple[str, str, int]] = []
        high: list[tuple[str, str, int]] = []
        for edge in edges:
            top = new_deadline().retry(partial(self.levels.highest, edge[0]))
            (high if top else flat).append(edge)
        self.put_all(flat)
        for publisher_id, follower_id, version in high:
            self.ensure(publisher_id, follower_id, version=version)

    def remove(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        """Delete the edge that unfollow `version` ends, at every level where it lies.

        The publisher's level is read consistently: at a level that is left out, the edge would
        live on. Each edge is read before it is deleted; otherwise every unfollow would cost a write
        at the lowest, fullest levels. Raises `TryLater`, as `put` does.
        """

        def remove(level: int) -> None:
            found = self.edges_table.version(publisher_id, follower_id, level=level)
            if found is not None and found <= version:
                self.edges_table.remove(publisher_id, follower_id, version=version, level=level)

        deadline = new_deadline()
        top = deadline.retry(partial(self.levels.current, publisher_id))
        for level in range(top + 1):
            deadline.retry(partial(remove, level))

    def _put(self, publisher_id: str, follower_id: str, version: int, deadline: Deadline) -> None:
        def put() -> int:
            level = self.levels.to_write(publisher_id, check=deadline.check)
            deadline.check()
            try:
                self.edges_table.put(publisher_id, follower_id, version=version, level=level)
            except Exception as error:
                self.growing.failed(publisher_id, error, deadline.check)
                raise
            return level

        self.growing.accepted(publisher_id, deadline.retry(put))


def new_deadline() -> Deadline:
    """The end of one operation on edges that begins now."""
    return Deadline("The followers table takes this follow too slowly; try again in a moment.")
