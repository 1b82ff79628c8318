"""Waits until follows and posts are in the tables, and measures when entries arrived."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fanfold import clock
from fanfold.ids import sort_key
from fanfold_cli.deliveries.watch import IdleTimeout
from fanfold_cli.progress import progress_bar
from fanfold_cli.run.people import People
from fanfold_cli.run.record import Post
from fanfold_cli.run.rows import scan
from fanfold_cli.run.watch import Watched
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError

# Followers of a post whose entries are looked up all the time.
SAMPLE = 200
# DynamoDB's limit of BatchGetItem.
MAX_KEYS = 100


@dataclass
class Sampled(Watched):
    """A post whose entries in the timelines of some followers are looked up."""

    missing: list[tuple[str, str]] = field(default_factory=list)  # keys of the sample
    lags: list[float] = field(default_factory=list)
    complete: float | None = None

    @classmethod
    def of(cls, post: Post, followers: Collection[str], began: float) -> Sampled:
        chosen = Random(post.ref_id).sample(sorted(followers), min(SAMPLE, len(followers)))
        key = sort_key(*post.key)
        return cls(post, len(followers), began, missing=[(user, key) for user in chosen])

    @property
    def is_done(self) -> bool:
        return not self.missing and self.post.is_complete

    def look(self, people: People) -> int:
        """Note which entries of the sample have arrived; return how many are new."""
        there = present(people.deployment, self.missing)
        self.lags += [clock.monotonic() - self.began] * len(there)
        self.missing = [key for key in self.missing if key not in there]
        return len(there)

    def ask(self, people: People) -> int:
        new = super().ask(people)
        if self.post.is_complete:
            self.complete = clock.monotonic() - self.began
        return new

    def result(self) -> dict[str, Any]:
        """For the report; times in seconds, or None for what has not arrived."""
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


def await_follows(people: People, wanted: Mapping[str, frozenset[str]], *, patience: float) -> None:
    """Wait until the edges of these publishers are exactly these followers.

    Raises `ExpectedError` after `patience` seconds without progress.
    """
    total = sum(map(len, wanted.values()))
    best, waited = -1, IdleTimeout(patience)
    with progress_bar("Following", total=total, unit="follows") as bar:
        while True:
            began = clock.monotonic()
            found = followers(people.deployment, wanted)
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
                    f"{right:,} of {total:,} follows have arrived and {surplus:,} are too many; "
                    f"nothing has changed for {patience / 60:.0f} minutes."
                )
            # Reading a large table takes time and money, so it takes at most a tenth of the time.
            clock.sleep(max(1.0, 9 * (clock.monotonic() - began)))


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that at least `percent` % of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def followers(deployment: Deployment, publishers: Collection[str]) -> dict[str, frozenset[str]]:
    """The followers of these publishers, from the edges that deliveries read."""
    found: dict[str, set[str]] = defaultdict(set)
    for page in scan(deployment, deployment.settings().followers_table, "shard_id, edge"):
        for item in page:
            publisher = item["shard_id"]["S"].rpartition("#")[0]
            if publisher in publishers:
                found[publisher].add(item["edge"]["S"].partition("#")[2])
    return {publisher: frozenset(found[publisher]) for publisher in publishers}


def present(deployment: Deployment, keys: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Which of these (user, sort key) are in the timelines now."""
    client, table = deployment.client("dynamodb"), deployment.settings().timelines_table
    there: set[tuple[str, str]] = set()
    for start in range(0, len(keys), MAX_KEYS):
        wanted = [
            {"user_id": {"S": user}, "sort_key": {"S": key}}
            for user, key in keys[start : start + MAX_KEYS]
        ]
        # The next call asks for unprocessed keys again.
        answer = client.batch_get_item(
            RequestItems={
                table: {
                    "Keys": wanted,
                    "ConsistentRead": True,
                    "ProjectionExpression": "user_id, sort_key",
                }
            }
        )
        for item in answer["Responses"].get(table, []):
            there.add((item["user_id"]["S"], item["sort_key"]["S"]))
    return there
