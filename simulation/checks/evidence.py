"""What a run leaves behind, for the checks: its tables, and the history of its operations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from fanfold import names
from fanfold.ids import split_sort_key
from simulation.world import World, accepted_ms


class Evidence:
    """The tables after a run, and the history of its operations."""

    def __init__(self, world: World) -> None:
        self.world, self.history = world, world.history
        self.posts = {row["ref_id"]["S"]: row for row in world.rows(names.POSTS)}
        self.fanouts = {row["fanout_id"]["S"]: row for row in world.fanouts()}
        self.timeline = world.rows(names.TIMELINES)
        self.entries = Counter(  # by user and `ref_id`
            (row["user_id"]["S"], split_sort_key(row["sort_key"]["S"])[1]) for row in self.timeline
        )

    def complete(self) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Each complete fan-out of a post that nobody retracts: `ref_id`, row and publisher."""
        for ref_id, row in self.fanouts.items():
            if row["state"]["S"] == "complete" and not self.history.tried_to_retract(ref_id):
                yield ref_id, row, row["publisher_id"]["S"]

    def has_late_edge(self, user: str, fanout: dict[str, Any]) -> bool:
        """Whether the fan-out may have read an edge put late."""
        pair, ended_ms = (user, fanout["publisher_id"]["S"]), self.world.observer.ended_ms
        until_ms = ended_ms.get(fanout["fanout_id"]["S"], 0.0)
        relations = self.world.observer.relations
        return relations.has_late_edge(pair, accepted_ms(fanout), until_ms)

    def dropped(self) -> set[str]:
        """The bodies of dead letters that operators have dropped, and not restored."""
        return {body for body, _ in self.world.letters.lost}

    def is_harmed(self, user: str, fanout: dict[str, Any]) -> bool:
        """Whether an accident had put the relation out of order during the delivery."""
        pair = user, fanout["publisher_id"]["S"]
        until_ms = self.world.observer.ended_ms.get(fanout["fanout_id"]["S"], math.inf)
        return self.world.harmed.touches(pair, accepted_ms(fanout), until_ms)

    def may_be_sent_twice(self) -> bool:
        """Whether segments may have been sent twice without a fault.

        Two plans of one millisecond are both sent; so may be, by SWEEP, the segments that wait in a
        queue as it is resumed, or in a slow lane.
        """
        triggers = self.world.triggers
        is_slow = triggers.was_paused or triggers.seconds_a_message > 0
        return is_slow or self.world.observer.was_planned_twice
