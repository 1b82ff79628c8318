"""Waits until the API tells publishers that their posts are delivered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fanfold import clock
from fanfold_cli.deliveries.watch import IdleTimeout
from fanfold_cli.progress import progress_bar
from fanfold_cli.run.people import People
from fanfold_cli.run.record import Post
from fanfold_cli.terminal import failing_with
from fanfold_client import Failed

# Between two look-ups of entries; it limits the precision of lags.
LOOK_SECONDS = 0.2
ASK_SECONDS = 1.0


@dataclass
class Watched:
    """A post, its publisher's followers, and the last answer about its delivery."""

    post: Post
    followers: int
    began: float = field(default_factory=clock.monotonic)  # before it was published, for lags
    delivery: Any = None

    @property
    def is_done(self) -> bool:
        return self.post.is_complete

    @property
    def delivered(self) -> int:
        return self.delivery["delivered"] or 0 if self.delivery else 0

    def look(self, _people: People) -> int:
        """Look up entries; return how many are new."""
        return 0

    def ask(self, people: People) -> int:
        """Read the state of the delivery; return how many entries are new."""
        before = self.delivered
        with failing_with(f"The delivery of {self.post.ref_id} cannot be seen", Failed):
            self.delivery = people.delivery(self.post) or self.delivery
        return self.delivered - before


W = TypeVar("W", bound=Watched)


def await_delivery(people: People, watched: Sequence[W], *, patience: float) -> list[W]:
    """Watch until all posts have arrived, or nothing progresses for `patience` seconds.

    Returns those that have not arrived.
    """
    total = sum(each.followers for each in watched)
    waited, asked_at = IdleTimeout(patience), -math.inf
    with progress_bar("Delivering", total=total, unit="entries") as bar:
        while not all(each.is_done for each in watched):
            new = sum(each.look(people) for each in watched)
            now = clock.monotonic()
            if now - asked_at >= ASK_SECONDS:
                asked_at = now
                new += sum(each.ask(people) for each in watched if not each.post.is_complete)
                bar.reach(sum(each.delivered for each in watched))
            if new:
                waited.progressed()
            elif waited.is_over():
                break
            clock.sleep(LOOK_SECONDS)
    return [each for each in watched if not each.is_done]
