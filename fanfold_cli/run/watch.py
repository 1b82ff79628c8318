"""Waits until posts are delivered, and measures when their entries were there."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fanfold import clock
from fanfold.ids import sort_key
from fanfold_cli.deliveries.idle_timeout import IdleTimeout
from fanfold_cli.progress import progress_bar
from fanfold_cli.run import rows
from fanfold_cli.run.people import People
from fanfold_cli.run.record import Post
from fanfold_cli.terminal import ExpectedError

# Followers of a post whose entries are looked for all the time.
SAMPLE = 200
# Between two looks; it limits how exact a lag is.
LOOK_SECONDS = 0.2
ASK_SECONDS = 1.0


@dataclass
class Watched:
    """One post, how many followers it has, and what has been seen of it."""

    post: Post
    followers: int
    began: float = field(default_factory=clock.monotonic)  # before it was published, for lags
    missing: list[tuple[str, str]] = field(default_factory=list)  # keys of the sample
    lags: list[float] = field(default_factory=list)
    complete: float | None = None
    delivery: Any = None

    @classmethod
    def of(cls, post: Post, followers: Collection[str], began: float) -> Watched:
        """Watch for the entries of some followers, too."""
        chosen = Random(post.ref_id).sample(sorted(followers), min(SAMPLE, len(followers)))
        key = sort_key(*post.key)
        return cls(post, len(followers), began, [(user, key) for user in chosen])

    @property
    def is_done(self) -> bool:
        return not self.missing and self.complete is not None

    @property
    def delivered(self) -> int:
        return self.delivery["delivered"] or 0 if self.delivery else 0

    def look(self, people: People) -> int:
        """Note which entries of the sample are there now; returns how many are new."""
        there = rows.present(people.deployment, self.missing)
        self.lags += [clock.monotonic() - self.began] * len(there)
        self.missing = [key for key in self.missing if key not in there]
        return len(there)

    def ask(self, people: People) -> int:
        """Ask for the state of the delivery; returns how many entries are new, by the ledger."""
        before = self.delivered
        self.delivery = people.delivery(self.post) or self.delivery
        if self.complete is None and self.post.is_complete:
            self.complete = clock.monotonic() - self.began
        return self.delivered - before

    def result(self) -> dict[str, Any]:
        """For a report; times in seconds, and None where something has not arrived."""
        return {
            "followers": self.followers,
            "sampled": len(self.lags) + len(self.missing),
            "p50_seconds": None if self.missing else percentile(self.lags, 50),
            "p99_seconds": None if self.missing else percentile(self.lags, 99),
            "until_complete_seconds": self.complete,
            "state": self.delivery["state"] if self.delivery else "unknown",
            "delivered": self.delivered,
        }

    def late(self) -> str:
        return (
            f"The post {self.post.ref_id} has not arrived: its delivery is "
            f"{self.result()['state']}, with {self.delivered:,} of {self.followers:,} entries, "
            f"and {len(self.missing)} of its sample are missing."
        )


def await_delivery(people: People, watched: Sequence[Watched], *, patience: float) -> list[Watched]:
    """Watch until all posts have arrived; returns those that have not.

    Gives up when nothing has progressed for so many seconds.
    """
    total = sum(each.followers for each in watched)
    waited, asked_at = IdleTimeout(patience), -math.inf
    with progress_bar("Delivering", total=total, unit="entries") as bar:
        while not all(each.is_done for each in watched):
            new = sum(each.look(people) for each in watched if each.missing)
            now = clock.monotonic()
            if now - asked_at >= ASK_SECONDS:
                asked_at = now
                new += sum(each.ask(people) for each in watched if each.complete is None)
                bar.reach(sum(each.delivered for each in watched))
            if new:
                waited.progressed()
            elif waited.is_over():
                break
            clock.sleep(LOOK_SECONDS)
    return [each for each in watched if not each.is_done]


def await_follows(people: People, wanted: Mapping[str, frozenset[str]], *, patience: float) -> None:
    """Wait until the edges of these publishers are exactly these followers.

    Raises `ExpectedError` when nothing has progressed for so many seconds.
    """
    total = sum(map(len, wanted.values()))
    best, waited = -1, IdleTimeout(patience)
    with progress_bar("Following", total=total, unit="follows") as bar:
        while True:
            began = clock.monotonic()
            found = rows.followers(people.deployment, wanted)
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
            clock.sleep(max(1.0, 9 * (clock.monotonic() - began)))


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that at least so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]
