"""Who followed whom when, by the rows that decide: written down as they change."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fanfold import names
from fanfold.follows.ring import follower_of, publisher_of
from simulation.scheduler import Actor

Pair = tuple[str, str]  # user, publisher


def pair_of(edge: dict[str, Any]) -> Pair:
    """The user and the publisher of an edge, in DynamoDB's form."""
    return follower_of(edge["edge"]["S"]), publisher_of(edge["shard_id"]["S"])


@dataclass(eq=False)
class Touch:
    """A row that was changed to `state`, or an edge that was put by who had not seen such a change.

    `settled_ms` is when who did it had done all that they were asked for; infinite if they stopped.
    """

    actor: Actor
    at_ms: float
    state: str = ""
    settled_ms: float = math.inf


@dataclass
class Relations:
    """All touches of a run."""

    rows: dict[Pair, list[Touch]] = field(default_factory=lambda: defaultdict(list))
    late: dict[Pair, list[Touch]] = field(default_factory=lambda: defaultdict(list))
    _open: list[Touch] = field(default_factory=list)

    def changed(self, request: dict[str, Any], actor: Actor, now_ms: float) -> None:
        """A transaction took effect."""
        for each in request["TransactItems"]:
            update = each.get("Update", {})
            if update.get("TableName") == names.FOLLOWING.name:
                pair = update["Key"]["user_id"]["S"], update["Key"]["publisher_id"]["S"]
                state = update["ExpressionAttributeValues"][":state"]["S"]
                self._touch(self.rows[pair], Touch(actor, now_ms, state))

    def put_late(self, pair: Pair, actor: Actor, now_ms: float) -> None:
        """An edge is put that is older than its row: until that actor looks again, it is there."""
        self._touch(self.late[pair], Touch(actor, now_ms))

    def _touch(self, touches: list[Touch], touch: Touch) -> None:
        touches.append(touch)
        self._open.append(touch)

    def settled(self, actor: Actor, now_ms: float) -> None:
        """An invocation did all that it was asked for."""
        for touch in [each for each in self._open if each.actor is actor]:
            touch.settled_ms = now_ms
            self._open.remove(touch)

    def stopped(self, actor: Actor) -> None:
        """An invocation did not."""
        self._open = [each for each in self._open if each.actor is not actor]

    def has_late_edge(self, pair: Pair, begun_ms: float, ended_ms: float) -> bool:
        """Whether an edge may be there in that time because who put it had yet to look again."""
        return any(
            touch.at_ms <= ended_ms and touch.settled_ms > begun_ms for touch in self.late[pair]
        )

    def standing(
        self, publisher: str, begun_ms: float, ended_ms: float
    ) -> Iterator[tuple[str, str]]:
        """Each user's state as it was settled before a time, and stayed until another."""
        for (user, followed), touches in list(self.rows.items()):
            before = [touch for touch in touches if touch.at_ms < begun_ms]
            changed = any(begun_ms <= touch.at_ms <= ended_ms for touch in touches)
            if (
                followed == publisher
                and before
                and not changed
                and before[-1].settled_ms < begun_ms
            ):
                yield user, before[-1].state
