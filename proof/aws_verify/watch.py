"""Waits until posts are delivered, and measures when their entries were there."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fanfold.fanout.row import COMPLETE
from fanfold.ids import sort_key
from fanfold_cli.deliveries.idle_timeout import IdleTimeout
from fanfold_cli.progress import progress_bar
from fanfold_cli.terminal import ExpectedError
from proof.aws_verify import tables
from proof.aws_verify.people import People
from proof.aws_verify.script import Post

# Followers of a post whose entries are looked for all the time.
SAMPLE = 200
# Between two looks; it limits how exact a lag is.
LOOK_SECONDS = 0.2
ASK_SECONDS = 1.0
# Without any progress. A message that failed comes again after six minutes, and SWEEP asks about a
# silent fan-out after seven.
PATIENCE_SECONDS = 20 * 60.0


@dataclass
class Watched:
    """One post, and what has been seen of it."""

    post: Post
    began: float  # time.monotonic() before it was published
    missing: list[tuple[str, str]]  # keys of the sample
    lags: list[float] = field(default_factory=list)
    complete: float | None = None
    delivery: Any = None

    @classmethod
    def of(cls, post: Post, began: float) -> "Watched":
        users = sorted(post.followers)
        chosen = Random(post.ref_id).sample(users, min(SAMPLE, len(users)))
        key = sort_key(post.published_at, post.ref_id)
        return cls(post, began, [(user, key) for user in chosen])

    @property
    def is_done(self) -> bool:
        return not self.missing and self.complete is not None

    @property
    def delivered(self) -> int:
        return self.delivery["delivered"] or 0 if self.delivery else 0

    def look(self, people: People) -> int:
        """Note which entries of the sample are there now; returns how many are new."""
        there = tables.present(people.deployment, self.missing)
        self.lags += [time.monotonic() - self.began] * len(there)
        self.missing = [key for key in self.missing if key not in there]
        return len(there)

    def ask(self, people: People) -> int:
        """Ask for the state of the delivery; returns how many entries are new, by the ledger."""
        before = self.delivered
        self.delivery = people.delivery(self.post) or self.delivery
        if self.complete is None and self.delivery and self.delivery["state"] == COMPLETE:
            self.complete = time.monotonic() - self.began
        return self.delivered - before

    def result(self) -> dict[str, Any]:
        """For the report; times in seconds, and None where something has not arrived."""
        return {
            "followers": len(self.post.followers),
            "door": self.post.door,
            "sampled": len(self.lags) + len(self.missing),
            "p50_seconds": None if self.missing else percentile(self.lags, 50),
            "p99_seconds": None if self.missing else percentile(self.lags, 99),
            "until_complete_seconds": self.complete,
            "state": self.delivery["state"] if self.delivery else "unknown",
            "delivered": self.delivered,
        }


def watch(
    people: People, watched: Sequence[Watched], *, patience: float = PATIENCE_SECONDS
) -> list[str]:
    """Watch until all posts have arrived; returns a sentence for each that has not.

    Gives up when nothing has progressed for so many seconds.
    """
    total = sum(len(each.post.followers) for each in watched)
    waited, asked_at = IdleTimeout(patience), 0.0
    with progress_bar("Delivering", total=total, unit="entries") as bar:
        while not all(each.is_done for each in watched):
            new = sum(each.look(people) for each in watched if each.missing)
            now = time.monotonic()
            if now - asked_at >= ASK_SECONDS:
                asked_at = now
                new += sum(each.ask(people) for each in watched if each.complete is None)
                bar.reach(sum(each.delivered for each in watched))
            if new:
                waited.progressed()
            elif waited.is_over():
                return [_late(each) for each in watched if not each.is_done]
            time.sleep(LOOK_SECONDS)
    return []


def _late(each: Watched) -> str:
    return (
        f"The post {each.post.ref_id} has not arrived: its delivery is "
        f"{each.result()['state']}, with {each.delivered:,} of {len(each.post.followers):,} "
        f"entries, and {len(each.missing)} of its sample are missing."
    )


def await_follows(people: People, *, patience: float = PATIENCE_SECONDS) -> None:
    """Wait until the edges are exactly the follows of the record.

    Raises `ExpectedError` when nothing has progressed for so many seconds.
    """
    wanted = people.record.follows
    total = sum(map(len, wanted.values()))
    best, waited = -1, IdleTimeout(patience)
    with progress_bar("Following", total=total, unit="follows") as bar:
        while True:
            began = time.monotonic()
            found = tables.followers(people.deployment, wanted)
            if found == wanted:
                bar.reach(total)
                return
            right = sum(len(found[publisher] & wanted[publisher]) for publisher in wanted)
            surplus = sum(len(found[publisher] - wanted[publisher]) for publisher in wanted)
            bar.reach(right)
            if right - surplus > best:
                best = right - surplus
                waited.progressed()
            elif waited.is_over():
                raise ExpectedError(
                    f"{right:,} of {total:,} follows have arrived and {surplus:,} are too many, "
                    f"and nothing has changed for {patience / 60:.0f} minutes."
                )
            # A look at a large table takes a while and costs: a tenth of the time is enough.
            time.sleep(max(1.0, 9 * (time.monotonic() - began)))


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that at least so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]
