"""200 readers follow, unfollow and mute at random, while 2,000 posts are published.

Half of the users act through the TypeScript client.

Nobody is believed: `fanfold_cli/run/verdict.py` judges by what callers sent and were answered
alone. Of the service's own words only one counts, that a delivery was complete at a time: until
then an unfollow may count either way (docs/reliability.md). Then the stage's own history is judged.

What the local engine cannot show: its indexes never lag behind their tables, so no post that races
with a follow is missed by the first look of a backfill, and none needs the second. The simulation
and `proof/bench/backfill` show it. Nor does it ever read an old version, whatever a read asks for.
"""

from __future__ import annotations

import math
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from fanfold.aws.queues import MAX_BATCH
from fanfold.follows.backfill import POSTS_WHEN_LATE
from fanfold_cli.local import deploy
from fanfold_cli.local.home import Home
from fanfold_cli.run.people import FOLLOWS, MUTES, PAUSE_SECONDS
from fanfold_cli.run.record import Key
from fanfold_cli.stack import Deployment
from proof.aws_verify.history import gaps, history_of
from proof.history.__main__ import table
from proof.history.judge import judge as judge_history
from tests.e2e.clients import User
from tests.e2e.company import Company
from tests.e2e.logs import assert_no_secrets
from tests.lifetimes import LIFETIME_HOURS
from tests.unit.cli.test_run_verdict import wrong_about_unread

SEED = 15
# Ten times what the second look takes.
BACKFILL_PATIENCE_SECONDS = 120.0
# An order to settle comes after ten seconds; what is there by then, the order sent at once brought.
BEFORE_SECOND_LOOK_SECONDS = 9.0
BACKFILLED = 30
# All clocks are this machine's.
SKEW_MS = 5
# Each attempt takes seconds.
HISTORY_PATIENCE_SECONDS = 300.0


class Size(NamedTuple):
    readers: int
    publishers: int
    circle: int  # the publishers that one reader may follow
    posts: int
    actions: int
    newcomers: int


FULL = Size(readers=200, publishers=40, circle=6, posts=2_000, actions=1_600, newcomers=5)
# What a reader does next, and how often.
WEIGHTS = {"follow": 30, "twice": 6, "mute": 16, "read": 40, "mark": 8}


class Crowd(Company):
    """Readers and publishers, and newcomers who follow in the end."""

    def __init__(self, stack: Deployment, size: Size, random: Random, client: Path) -> None:
        self.size, self.random = size, random
        unique = uuid.uuid4().hex[:8]
        self.readers = [f"reader-{unique}-{number}" for number in range(size.readers)]
        self.newcomers = [f"newcomer-{unique}-{number}" for number in range(size.newcomers)]
        self.publishers = [f"publisher-{unique}-{number}" for number in range(size.publishers)]
        super().__init__(stack, [*self.readers, *self.newcomers, *self.publishers], client)
        self.markers: dict[str, list[Key]] = defaultdict(list)
        self.circles = {
            reader: random.sample(self.publishers, size.circle) for reader in self.readers
        }

    # Requests, recorded

    def mark(self, reader: str, choices: Random) -> None:
        """Say that the reader has read up to one of the entries on the first page."""
        if not (keys := self.look(reader).keys):
            return
        key = choices.choice(keys)
        self.api(reader).move_marker(*key)
        self.markers[reader].append(key)

    # The course of the test

    def follow_at_first(self) -> None:
        half = [
            (reader, publisher)
            for reader in self.readers
            for publisher in self.circles[reader][: self.size.circle // 2]
        ]
        self.all(lambda pair: self.want(FOLLOWS, pair[0], pair[1], True), half)

    def change_minds_while_posts_are_published(self) -> None:
        """One batch of posts after the other, each by several publishers, and acts of readers."""
        authors = [
            self.publishers[number % len(self.publishers)] for number in range(self.size.posts)
        ]
        self.random.shuffle(authors)
        batches = [authors[at : at + MAX_BATCH] for at in range(0, len(authors), MAX_BATCH)]
        acts: list[Callable[[], None]] = [
            lambda batch=batch: self._publish_batch(batch)  # type: ignore[misc]
            for batch in batches
        ]
        for _ in range(self.size.actions):
            reader, choices = self.random.choice(self.readers), Random(self.random.random())
            acts.append(lambda r=reader, c=choices: self._act(r, c))  # type: ignore[misc]
        self.random.shuffle(acts)
        self.all(lambda act: act(), acts)

    def _publish_batch(self, publishers: list[str]) -> None:
        by_http, *by_queue = publishers
        self.publish(by_http)
        self.send(*map(self.draft, by_queue))

    def _act(self, reader: str, choices: Random) -> None:
        (what,) = choices.choices([*WEIGHTS], [*WEIGHTS.values()])
        publisher = choices.choice(self.circles[reader])
        now = time.time()
        followed = self.record.is_followed((reader, publisher), now, now)
        muted = self.record.is_muted((reader, publisher), now, now)
        if what == "follow":
            self.want(FOLLOWS, reader, publisher, not followed)
        elif what == "twice":  # both at the same time
            click = self.clicks.submit(self.want, FOLLOWS, reader, publisher, True)
            self.want(FOLLOWS, reader, publisher, False)
            click.result()
        elif what == "mute":
            self.want(MUTES, reader, publisher, not muted)
        elif what == "mark":
            self.mark(reader, choices)
        else:
            self.look(reader)

    def wrong_at_rest(self, reader: str, *, hides_nothing: bool = False) -> list[str]:
        """What is wrong with lists, counts, marker and unread of a reader, and what is missing."""
        record, wrong = self.record, []
        api, whole = self.api(reader), self.look(reader, pages=0)
        following, muted = publishers_in(api.following()), publishers_in(api.muted())
        user = User(self.deployment, reader, str(api.token))
        count = user.call("GET", "/v1/following?limit=1").content["count"]
        if count != len(following):
            wrong.append(f"{reader} follows {following}, and is told a count of {count}.")
        now = time.time()
        for publisher in self.circles[reader]:
            pair = reader, publisher
            if record.is_followed(pair, now, now) is (publisher not in following):
                wrong.append(f"{reader} lists {following}, against the answers for {publisher}.")
            if record.is_muted(pair, now, now) is (publisher not in muted):
                wrong.append(f"{reader} has muted {muted}, against the answers for {publisher}.")
        # Those after a follow came by fan-outs, and those before it by its backfill.
        shown = {entry["ref_id"] for entry in whole.entries}
        wrong += [
            f"{reader} follows {publisher}, and does not see their new {post.ref_id}."
            for publisher in set(following) - set(muted)
            for post in record.newest(publisher, POSTS_WHEN_LATE)
            if post.ref_id not in shown
        ]
        marker, told = max(self.markers[reader], default=None), api.marker()
        if (told["published_at"], told["ref_id"]) != (marker or (None, None)):
            wrong.append(f"{reader} has read up to {marker}, and is told {told}.")
        complaint = wrong_about_unread(api.unread(), marker, whole, hides_nothing=hides_nothing)
        return [*wrong, *([complaint] if complaint else [])]

    def take_everything_back(self, reader: str) -> None:
        """Unmute everybody, and follow everybody who was ever followed."""
        for publisher in self.circles[reader]:
            pair = reader, publisher
            if self.record.mutes[pair]:
                self.want(MUTES, reader, publisher, False)
            if self.record.follows[pair]:
                self.want(FOLLOWS, reader, publisher, True)

    def act_again(self) -> None:
        """Call all functions once more, by as many threads as ever.

        What a process has written late, the engine logs with its next call.
        """
        acts: list[Callable[[], Any]] = [partial(self.look, reader) for reader in self.readers]
        acts += [
            partial(self.want, FOLLOWS, reader, circle[0], True)
            for reader, circle in self.circles.items()
        ]
        pools = cycle((self.threads, self.clicks))
        acting = [pool.submit(act) for pool, act in zip(pools, acts, strict=False)]
        self._publish_batch(self.publishers[:MAX_BATCH])
        for each in acting:
            each.result()
        self.come_to_rest()

    def seconds_to_backfill(self, newcomer: str, publisher: str) -> float:
        """Follow for the first time, and wait for the newest posts; infinite if none come."""
        wanted = {post.ref_id for post in self.record.newest(publisher, BACKFILLED)}
        self.want(FOLLOWS, newcomer, publisher, True)
        begun = time.time()
        while {entry["ref_id"] for entry in self.look(newcomer).entries} != wanted:
            if time.time() - begun > BACKFILL_PATIENCE_SECONDS:
                return math.inf
            time.sleep(PAUSE_SECONDS)
        return time.time() - begun


def wrong_by_history(stack: Deployment, crowd: Crowd) -> list[str]:
    """What is wrong by the stack's own history, once it tells of all answers and deliveries."""
    stage, patience = stack.settings().timelines_table, time.time() + HISTORY_PATIENCE_SECONDS
    while True:
        told = history_of(stack, "", skew_ms=SKEW_MS)
        lost = gaps(told, stage, crowd.record, crowd.readings)
        if not lost and len(told.completed) >= len(crowd.record.posts):
            break
        if time.time() > patience:
            return [*lost, f"The history tells of {len(told.completed)} deliveries."]
        crowd.act_again()
    judged = judge_history(told, is_whole=True)
    print(table(judged))
    assert judged.counts["owed"] > judged.counts["unsure"]
    return [str(each) for each in judged.findings]


def publishers_in(listed: Iterable[Any]) -> list[str]:
    return [each["publisher_id"] for each in listed]


def run(stack: Deployment, size: Size, seed: int, client: Path) -> list[str]:
    """Everything that is wrong; prints how much was judged, and how long it took."""
    crowd = Crowd(stack, size, Random(seed), client)
    say = crowd.say
    try:
        say("Everybody has a token.")
        crowd.follow_at_first()
        say("Half of the circles are followed.")
        crowd.change_minds_while_posts_are_published()
        say("All is published, and minds have changed.")
        crowd.come_to_rest()
        say("All is at rest.")
        wrong = [each for found in crowd.all(crowd.wrong_at_rest, crowd.readers) for each in found]
        say("Every timeline was read.")
        crowd.all(crowd.take_everything_back, crowd.readers)
        crowd.come_to_rest()
        say("All are followed and unmuted again.")
        again = crowd.all(lambda each: crowd.wrong_at_rest(each, hides_nothing=True), crowd.readers)
        wrong += [each for found in again for each in found]
        seconds = [
            crowd.seconds_to_backfill(newcomer, publisher)
            for newcomer, publisher in zip(crowd.newcomers, crowd.publishers, strict=False)
        ]
        say(f"First follows brought older posts after {sorted(round(s, 1) for s in seconds)} s.")
        if missed := seconds.count(math.inf):
            wrong.append(f"Older posts never came to {missed} of {len(seconds)} newcomers.")
        # The fastest: whoever else works on this machine may hold up the others.
        elif min(seconds) > BEFORE_SECOND_LOOK_SECONDS:
            wrong.append(f"Older posts came after {min(seconds):.1f} s at best.")
        wrong += wrong_by_history(stack, crowd)
    finally:
        crowd.close()
    judged = crowd.judged()
    assert judged.owed > 10 * judged.open
    assert judged.hidden > size.posts // 2
    return wrong + judged.complaints


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Deployment]:
    """A stage that logs its history."""
    home = Home(tmp_path / "engine")
    try:
        given = {"history": "true"}
        stack = deploy.bring_up(home, lifetime_hours=LIFETIME_HOURS, given=given)
        yield stack
        assert_no_secrets(stack)
    finally:
        deploy.take_down(home)


@pytest.mark.slow
def test_readers_see_at_once_what_they_chose_and_lose_nothing(
    stack: Deployment, typescript_client: Path
) -> None:
    wrong = run(stack, FULL, SEED, typescript_client)
    assert not wrong, "\n".join(wrong[:20])
