"""Publishers who are flipped between channel and push, and readers who page on meanwhile.

Half of the users act through the TypeScript client, whose process is killed now and then.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from fanfold import names
from fanfold.channels.known_head import HEAD_SECONDS
from fanfold.fanout.row import CHANNEL
from fanfold_cli.follows import seeding
from fanfold_cli.follows.graph import Graph
from fanfold_cli.local import deploy
from fanfold_cli.local.home import Home
from fanfold_cli.run.people import FOLLOWS
from fanfold_cli.run.verdict import Reading, judge
from fanfold_cli.stack import Deployment
from proof.simulation import worker_processes
from tests.e2e.clients import operate
from tests.e2e.company import Company
from tests.lifetimes import LIFETIME_HOURS

# No publisher has so many followers: channels are added and demoted by hand.
BY_HAND = {"channel_threshold": "1000000"}
# Posts from before there were channels.
POSTS_BEFORE = 60
# PLAN puts a post into a channel in about that time.
KILL_SECONDS = 0.06
# No post has more than some hundred followers.
VISIBILITY_SECONDS = 20
KILLS, COPIES, SEED_OF_WORKERS = 0.5, 0.2, 20
# Fewer than make a dead letter, for which an operator would be needed.
SPARED = names.PUBLISH.max_receives - 1
# So small that scrolls have many pages, and cursors are taken in their middle.
LIMIT = 20
# Some wait between two pages, while channels are flipped.
PAUSES, MOST_PAUSE_SECONDS = 0.2, 3.0
READERS_AT_A_TIME = 4
# Node is back within a second; a reader scrolls for some.
FLIPS_BETWEEN_KILLS = 8
BEFORE, AFTER = "before", "after"
# What a reader does next, and how often.
WEIGHTS = {"down": 4, "up": 2, "cursors": 2, "go on": 10, "follow": 1}


class Size(NamedTuple):
    readers: int
    flipped: int
    others: int
    follows: int  # of each reader
    posts: int
    seconds: float  # in which they are published


@dataclass
class Place:
    """Where a reader goes on, and what they have been shown on the way there."""

    scroll: Reading
    direction: str
    cursor: str | None = ""
    is_at_end: bool = False


@dataclass(frozen=True)
class Found:
    complaints: list[str]
    owed: int
    flips: Counter[str]
    ways: Counter[str]  # of the posts
    workers: Counter[str]
    client_kills: int


class Crowd(Company):
    """Readers, and publishers of whom most are flipped."""

    def __init__(self, home: Home, stack: Deployment, size: Size, seed: int, client: Path) -> None:
        self.home, self.size, self.random = home, size, Random(seed)
        self.readers = [f"reader-{number}" for number in range(size.readers)]
        self.flipped = [f"flipped-{number}" for number in range(size.flipped)]
        self.publishers = [*self.flipped, *(f"other-{number}" for number in range(size.others))]
        super().__init__(stack, [*self.readers, *self.publishers], client)
        self.circles = {
            reader: self.random.sample(self.publishers, size.follows) for reader in self.readers
        }
        self.scrolls: list[Reading] = []
        self.places: dict[str, list[Place]] = {each: [] for each in self.readers}
        self.busy: set[str] = set()  # one act of a reader at a time
        self.lock = threading.Lock()

    def follow_at_first(self) -> None:
        """Load all follows as an operator does."""
        followers: dict[str, set[str]] = {}
        for reader, publishers in self.circles.items():
            for publisher in publishers:
                followers.setdefault(publisher, set()).add(reader)
        begun = time.time()
        graph = Graph({each: frozenset(of) for each, of in followers.items()})
        seeding.seed(self.deployment, graph)
        self.record.follow_all(followers, begun, time.time())

    def publish_all(self, count: int, seconds: float = 0.0) -> None:
        """Every second one over HTTP, the others by messages; evenly over that time."""
        for number in range(count):
            publisher = self.random.choice(self.publishers)
            if number % 2:
                self.publish(publisher)
            else:
                self.send(self.draft(publisher))
            time.sleep(seconds / count)

    def flip_while(self, is_busy: Callable[[], bool]) -> Counter[str]:
        """Add or demote one channel after the other, by the command line; kill clients between."""
        flips: Counter[str] = Counter()
        active: set[str] = set()
        while is_busy():
            for publisher in self.random.sample(self.flipped, len(self.flipped)):
                command = "demote" if publisher in active else "add"
                operate(self.home, "channels", command, publisher, "--yes")
                if not flips.total() % FLIPS_BETWEEN_KILLS:
                    self.node.kill()
                flips[command] += 1
                active ^= {publisher}
        return flips

    # Readers

    def read_while(self, is_busy: Callable[[], bool], seed: int) -> None:
        """Do one thing after the other, each as another reader."""
        choices = Random(seed)
        while is_busy():
            reader = choices.choice(self.readers)
            with self.lock:
                if reader in self.busy:
                    continue
                self.busy.add(reader)
            self._act(reader, choices)
            self.busy.discard(reader)

    def _act(self, reader: str, choices: Random) -> None:
        (what,) = choices.choices([*WEIGHTS], [*WEIGHTS.values()])
        pause = choices.uniform(0, MOST_PAUSE_SECONDS) * (choices.random() < PAUSES)
        if what == "down":
            self.go_on(self._begin(reader, "a scroll down"), pause)
        elif what == "up":
            self.scroll_up(reader, pause)
        elif what == "cursors":
            self.take_cursors(reader)
        elif what == "go on":
            self.go_on(choices.choice(self.places[reader]))
        else:
            publisher, now = choices.choice(self.circles[reader]), time.time()
            is_followed = self.record.is_followed((reader, publisher), now, now)
            self.want(FOLLOWS, reader, publisher, not is_followed)

    def scroll_up(self, reader: str, pause: float = 0.0) -> None:
        """From the oldest entry to the newest; in TypeScript, from the first page."""
        below = ""
        if reader not in self.in_typescript:
            timeline = self.api(reader).timeline
            page = timeline.page(since="2020-01-01", until="2020-01-01", hydrate=False)
            below = page["previous"]
        self.go_on(self._begin(reader, "a scroll up", AFTER, below), pause)

    def take_cursors(self, reader: str) -> None:
        """Read the newest page twice, to go on from there later: down and up."""
        down, up = self._begin(reader, "a scroll that pauses"), self._begin(reader, "polls", AFTER)
        self._page(down)
        page = self._page(up)
        if page["next"]:
            up.scroll.look_no_further()
        self.places[reader] += [down, up]

    def go_on(self, place: Place, pause: float = 0.0) -> None:
        """Read to the end of the timeline; upwards, perhaps once more."""
        while place.direction == AFTER or not place.is_at_end:
            page = self._page(place)
            if not page["entries"] and not page.get("more"):
                return
            time.sleep(pause)

    def _begin(self, reader: str, what: str, direction: str = BEFORE, cursor: str = "") -> Place:
        scroll = Reading(reader, time.time(), is_ordered=direction == BEFORE, what=what)
        with self.lock:
            self.scrolls.append(scroll)
        return Place(scroll, direction, cursor)

    def _page(self, place: Place) -> Any:
        """Read one page, and note what it shows."""
        scroll, direction, begun = place.scroll, place.direction, time.time()
        cursor = {direction: place.cursor} if place.cursor else {}
        page: Any = self.api(scroll.reader).timeline.page(limit=LIMIT, hydrate=False, **cursor)
        is_new = direction == AFTER or not cursor  # what comes above the first page is not below it
        if scroll.reader in self.in_typescript:
            is_new = page["is_first"] or (direction == AFTER and page["is_end"])
            scroll = self._look_at_held(place, page, begun)
        else:
            scroll.entries += page["entries"]
        scroll.ended = time.time()
        if is_new:
            scroll.since = begun
        place.cursor = page["previous"] if direction == AFTER else page["next"]
        place.is_at_end = place.cursor is None
        return page

    def _look_at_held(self, place: Place, page: Any, begun: float) -> Reading:
        """What a timeline of the TypeScript client holds, as another reading.

        It begins with the page's request: an unfollow of before has emptied the timeline.
        """
        place.scroll = replace(
            place.scroll, begun=begun, above=("", ""), entries=page["held"], is_ordered=True
        )
        if page["next"]:
            place.scroll.look_no_further()
        with self.lock:
            self.scrolls.append(place.scroll)
        return place.scroll

    # The end

    def read_all(self, reader: str) -> None:
        """Go on from every cursor, and scroll through the whole timeline both ways."""
        for place in self.places[reader]:
            self.go_on(place)
        self.go_on(self._begin(reader, "the last scroll down"))
        self.scroll_up(reader)

    def ways(self) -> Counter[str]:
        """How the posts were delivered. Channels are shown a second later, at the latest."""
        ledger = self.deployment.stores().ledger
        found: Counter[str] = Counter()
        for post in self.record.posts.values():
            row = ledger.get(post.ref_id)
            assert row is not None
            found[row.by] += 1
            post.complete += HEAD_SECONDS if row.by == CHANNEL else 0
        return found


def run(home: Home, size: Size, seed: int, *, log: Path, client: Path) -> Found:
    """Publish, flip and read on an engine of its own; prints how long it took."""
    try:
        stack = deploy.bring_up(home, lifetime_hours=LIFETIME_HOURS)
        with closing(Crowd(home, stack, size, seed, client)) as crowd:
            crowd.follow_at_first()
            crowd.publish_all(POSTS_BEFORE)
            crowd.come_to_rest()
            crowd.all(crowd.take_cursors, crowd.readers)
            crowd.say("All have read and hold cursors, in a stage without channels.")
            deploy.bring_up(home, given=BY_HAND)
            flips, workers = _under_fire(crowd, log)
            crowd.say(f"All is published, after {flips} flips; {workers}.")
            ways = crowd.ways()
            crowd.all(crowd.read_all, crowd.readers)
            judged = judge(crowd.record, crowd.scrolls, has_channels=True)
            crowd.say(
                f"{len(crowd.scrolls):,} scrolls showed {judged.shown:,} entries, and had to show "
                f"{judged.owed:,}; posts went by {ways}."
            )
        return Found(judged.complaints, judged.owed, flips, ways, workers, crowd.node.kills)
    finally:
        deploy.take_down(home)


def _under_fire(crowd: Crowd, log: Path) -> tuple[Counter[str], Counter[str]]:
    """Publish, flip and read at the same time, while workers are killed; until all is delivered."""
    stack, size = crowd.deployment, crowd.size
    assert stack.endpoint is not None
    worker_processes.stop_polling(stack, visibility_seconds=VISIBILITY_SECONDS)
    plan = worker_processes.Plan(
        seed=SEED_OF_WORKERS, kills=KILLS, spared=SPARED, within=KILL_SECONDS, copies=COPIES
    )
    environment = worker_processes.environment(stack, stack.endpoint.url)
    with (
        log.open("wb") as written,
        worker_processes.running(plan, environment, log=written) as workers,
        ThreadPoolExecutor(1 + READERS_AT_A_TIME) as acting,
    ):
        publishing = acting.submit(crowd.publish_all, size.posts, size.seconds)
        reading = [
            acting.submit(crowd.read_while, lambda: not publishing.done(), number)
            for number in range(READERS_AT_A_TIME)
        ]
        flips = crowd.flip_while(lambda: not publishing.done())
        for each in (publishing, *reading):
            each.result()
        crowd.come_to_rest()
    return flips, workers
