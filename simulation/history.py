"""The history of operations: what the clients of a run asked for, and when they were answered."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from simulation.wishes import Wish


@dataclass(eq=False)
class Operation:
    """A client's follow, publish and so on; without an answer it ends at infinity."""

    kind: str
    user: str
    subject: str  # the publisher or the post
    begun: int  # in turns of the scheduler
    begun_ms: int
    ended: float = math.inf
    ended_ms: float = math.inf
    content: Any = None  # the body of a post
    status: int = 0  # of the last HTTP answer
    answer: Any = None

    @property
    def is_acknowledged(self) -> bool:
        return self.ended < math.inf


@dataclass
class History:
    """All operations of a run, in the order in which they began."""

    operations: list[Operation] = field(default_factory=list)
    # By user and publisher: each message, and each try of a request, which ends with its answer.
    wishes: dict[tuple[str, str], list[Wish]] = field(default_factory=lambda: defaultdict(list))

    def of(
        self, *kinds: str, user: str | None = None, subject: str | None = None
    ) -> list[Operation]:
        """The operations of some kinds, perhaps only of one user, or on one subject."""
        return [
            each
            for each in self.operations
            if each.kind in kinds and user in (None, each.user) and subject in (None, each.subject)
        ]

    def users(self) -> set[str]:
        """Whoever tried to follow or unfollow."""
        return {each.user for each in self.of("follow", "unfollow")}

    def is_certain(self, kind: str, user: str, publisher: str, before_ms: int) -> bool:
        """Whether a follow (or unfollow) was acknowledged before, and no opposite begun since."""
        opposite = "unfollow" if kind == "follow" else "follow"
        opposites = self.of(opposite, user=user, subject=publisher)
        return any(
            each.ended_ms < before_ms and all(other.ended <= each.begun for other in opposites)
            for each in self.of(kind, user=user, subject=publisher)
        )

    def tried_to_retract(self, ref_id: str) -> bool:
        """Whether its publisher may have retracted a post: 404 says that there was none."""
        return any(each.status != 404 for each in self.of("retract", "unsend", subject=ref_id))
