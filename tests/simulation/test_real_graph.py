"""The real follow graph: timelines in both directions are what SQL says of the same events."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from fanfold import contract, times
from fanfold.fanout import plan
from fanfold.follows import density, edges_table
from fanfold.follows.bulk_follow import BulkFollowing
from fanfold.ids import sort_key
from fanfold_cli.follows import graph
from fanfold_cli.local.home import CHECKOUT
from proof.simulation.clients import requests
from proof.simulation.world.lambdas import installed, lambdas
from proof.simulation.world.world import World
from tests.simulation.spoilings import calm

pytestmark = pytest.mark.thorough

DATA = CHECKOUT.parent / "shared" / "data" / "follow-graph.csv.gz"
READERS, POSTS, CHANGES = 500, 100, 3  # changes of follows between two posts

EVENTS = """
CREATE TABLE follows (user TEXT, publisher TEXT, begun INTEGER, ended INTEGER);
CREATE TABLE posts (sort_key TEXT, publisher TEXT, at INTEGER);
CREATE INDEX spans ON follows (publisher, user);
"""
CHANGES_OF = {
    "follow": "INSERT INTO follows (begun, user, publisher) VALUES (?, ?, ?)",
    "unfollow": "UPDATE follows SET ended = ? WHERE user = ? AND publisher = ? AND ended IS NULL",
}
# A user who has unfollowed a publisher does not see what came before, until the next follow.
TIMELINE = """
SELECT DISTINCT sort_key FROM posts JOIN follows USING (publisher)
WHERE user = ?1 AND begun < at AND (ended IS NULL OR ended > at)
AND publisher IN (SELECT publisher FROM follows WHERE user = ?1 AND ended IS NULL)
ORDER BY sort_key DESC
"""


@pytest.fixture
def follows() -> dict[str, list[str]]:
    """Whom each of the readers follows, in the real graph."""
    if not DATA.exists():
        pytest.skip(f"the real graph is not beside this checkout: {DATA}")
    whole = graph.read(Path(DATA)).follows
    return {user: sorted(whole[user]) for user in Random(14).sample(sorted(whole), READERS)}


@pytest.fixture(autouse=True)
def world() -> Iterator[World]:
    """A world without faults, with segments and pages of the real sizes."""
    with (
        installed(),
        patch.object(plan, "SEGMENT_FOLLOWERS", 5_000),
        patch.object(density, "SAMPLE_EDGES", 1_000),
        patch.object(edges_table, "PAGE_EDGES", 1_000),
    ):
        yield calm()


class Course:
    """Events of the service, and the same ones as rows."""

    def __init__(self, world: World, follows: dict[str, list[str]]) -> None:
        self.world, self.random = world, Random(14)
        self.sql = sqlite3.connect(":memory:")
        self.sql.executescript(EVENTS)
        self.number = 0  # of the event
        self.publishers = [each for followed in follows.values() for each in followed]  # by weight
        self.following = {user: set(followed) for user, followed in follows.items()}

    def act(self, act: Any) -> Any:
        """Let a client act, and everything come to rest."""
        found: list[Any] = []
        self.world.run(lambda world: world.start_client("client", lambda: found.append(act(world))))
        return found[0]

    def begin(self) -> None:
        def follow_all(world: World) -> None:
            following = lambdas()._free("api", world).door.following
            for user, followed in self.following.items():
                BulkFollowing(following).follow_all(user, sorted(followed))

        self.act(follow_all)
        for user, followed in self.following.items():
            self.sql.executemany(CHANGES_OF["follow"], [(0, user, each) for each in followed])

    def change(self) -> None:
        """A user unfollows somebody, or follows somebody."""
        self.number += 1
        user = self.random.choice(list(self.following))
        followed = self.following[user]
        if followed and self.random.random() < 0.5:
            verb, publisher = "unfollow", self.random.choice(sorted(followed))
        else:
            verb, publisher = "follow", self.random.choice(self.publishers)
            if publisher in followed:
                return
        followed ^= {publisher}
        self.act(lambda world: requests.relate(world, verb, user, publisher))
        self.sql.execute(CHANGES_OF[verb], (self.number, user, publisher))

    def post(self) -> None:
        self.number += 1
        publisher, ref_id = self.random.choice(self.publishers), f"post-{self.number}"
        at = times.to_text(self.world.clock.now_ms())
        self.act(lambda world: requests.by_queue(world, publisher, ref_id, published_at=at))
        self.sql.execute(
            "INSERT INTO posts VALUES (?, ?, ?)", (sort_key(at, ref_id), publisher, self.number)
        )

    def wanted(self, user: str) -> list[str]:
        return [key for (key,) in self.sql.execute(TIMELINE, (user,))]


def pages(world: World, user: str, limit: int, *, is_up: bool) -> list[str]:
    """The keys of all pages of a timeline, newest first."""
    query = {"limit": str(limit), "hydrate": "false"}
    if is_up:
        begin = {"from": "2020-01-01", "to": "2020-01-01"}
        query["after"] = read(world, user, **begin)["previous"]
    found: list[list[str]] = []
    while True:
        page = read(world, user, **query)
        found.append([sort_key(each["published_at"], each["ref_id"]) for each in page["entries"]])
        if is_up and "more" in page:
            query["after"] = page["previous"]
        elif not is_up and page["next"]:
            query["before"] = page["next"]
        else:
            break
        assert len(found[-1]) == limit
    return [key for each in (reversed(found) if is_up else found) for key in each]


def read(world: World, user: str, **query: str) -> dict[str, Any]:
    status, page = requests.call(world, user, contract.READ_TIMELINE, query=query)
    assert status == 200
    return page  # type: ignore[no-any-return]


def test_timelines_of_the_real_graph_are_what_sql_says(
    world: World, follows: dict[str, list[str]]
) -> None:
    course = Course(world, follows)
    course.begin()
    for _ in range(POSTS):
        for _ in range(CHANGES):
            course.change()
        course.post()
    world.clock.advance(60)  # every read shows what was written
    wanted = {user: course.wanted(user) for user in follows}
    assert sum(map(len, wanted.values())) > 10 * POSTS
    assert max(map(len, wanted.values())) > 20
    limits = {user: course.random.choice((1, 7, 50, 100)) for user in follows}
    for is_up in (False, True):
        found = course.act(
            lambda each, is_up=is_up: {
                user: pages(each, user, limits[user], is_up=is_up) for user in follows
            }
        )
        assert found == wanted
