"""Pages over the union of a timeline and channels are as pages over one range with all keys.

Whatever comes late, and through whichever container: their heads and windows are of different age.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from fanfold.channels import union
from fanfold.channels.known_head import HEAD_SECONDS
from fanfold.cursor import decode, hashed
from fanfold.timeline.entries import Entry
from proof.model.clock import START_MS
from proof.model.dynamodb.tables import Hooks
from proof.simulation.world.scheduler import Scheduler, virtual_time
from tests.integration.channel_stage import Stage, publisher

PUBLISHERS = [publisher(each) for each in range(4)]
CONTAINERS = 3
READ_LAG = 0.5
SPAN_MS = 1_000_000


class Course:
    """A reader's pages while posts come into channels and timelines, and publishers are promoted.

    `owed` has the key of each post that must be shown: its fan-out is complete, and so long ago
    that every container knows. Until then it `comes`, at a time.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(f"{seed} course")
        lags = self.random.random() < 0.7
        hooks = Hooks(
            read_lag=lambda _table: self.random.random() * READ_LAG if lags else 0.0,
            max_read_lag=READ_LAG,
        )
        self.stage = Stage(hooks=hooks)
        self.promoted: set[str] = set()
        self.untold: list[Entry] = []  # in their channels, though no head tells
        self.comes: dict[str, float] = {}
        self.all: set[str] = set()
        self.here = ""  # the low mark of the climb

    def start(self) -> None:
        self.stage.follow(*PUBLISHERS)
        for _ in range(self.random.choice((0, 20, 150))):
            self.post(self.random.randrange(SPAN_MS))
        self.settle()

    def post(self, ms: int) -> None:
        random, stage = self.random, self.stage
        entry = stage.entry(random.choice(PUBLISHERS), START_MS - SPAN_MS + ms)
        self.all.add(entry.sort_key)
        is_in_channel = entry.publisher_id in self.promoted
        if not is_in_channel or random.random() < 0.2:
            stage.push(entry)
        is_told = random.random() < 0.8
        if is_in_channel:
            stage.put(entry, is_told=is_told)
            if not is_told:
                self.untold.append(entry)
                self.comes[entry.sort_key] = float("inf")
                return
        self._told(entry)

    def _told(self, entry: Entry) -> None:
        self.comes[entry.sort_key] = self.stage.clock.elapsed + HEAD_SECONDS + READ_LAG

    def tell(self) -> None:
        """What has crashed is done again."""
        for entry in self.untold:
            self.stage.put(entry)
            self._told(entry)
        self.untold.clear()

    def settle(self) -> None:
        self.tell()
        self.stage.clock.advance(HEAD_SECONDS + READ_LAG)

    def step(self) -> None:
        """Something happens, and time goes on."""
        random = self.random
        self.stage.clock.advance(random.choice((0.0, 0.01, 0.3, 2.0)))
        if random.random() < 0.3 and len(self.promoted) < len(PUBLISHERS):
            each = random.choice(sorted(set(PUBLISHERS) - self.promoted))
            self.stage.promote(each)
            self.promoted.add(each)
        at = SPAN_MS + round(self.stage.clock.elapsed * 1000)
        for _ in range(random.choice((0, 0, 1, 2))):  # anywhere
            self.post(random.randrange(at))
        for _ in range(random.choice((0, 0, 1, 5))):  # now
            self.post(at)
        if random.random() < 0.3:
            self.tell()

    def page(self, **query: Any) -> dict[str, Any]:
        return self.stage.page(container=self.random.randrange(CONTAINERS), **query)

    @property
    def certain(self) -> set[str]:
        now = self.stage.clock.elapsed
        return {key for key, by in self.comes.items() if by <= now}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of a few entries, and no more queries than the first of a page may need."""
    monkeypatch.setattr(union, "WINDOW", 7)
    monkeypatch.setattr(union, "MAX_QUERIES", 2 * len(PUBLISHERS))


def keys(page: dict[str, Any]) -> list[str]:
    return [f"{each['published_at']}#{each['ref_id']}" for each in page["entries"]]


def test_whatever_lands_above_the_low_mark_of_a_climb_is_shown_once() -> None:
    for seed in range(25):
        climb(seed)


def climb(seed: int) -> None:
    course = Course(seed)
    with virtual_time(Scheduler(Random(0), clock=course.stage.clock)):
        course.start()
        limit = course.random.choice((1, 3, 20, 100))
        page = course.page(limit=limit)
        shown, here = Counter(keys(page)), page["previous"]
        place = decode(here, is_position=bool)
        owed = {each for each in course.all if each > place.position}
        for _ in range(course.random.choice((5, 25))):
            before = set(course.all)
            course.step()
            owed |= {each for each in course.all - before if each > place.low}
            page = course.page(limit=limit, after=here)
            shown.update(keys(page))
            here = page["previous"]
            place = decode(here, is_position=bool)
            # What a container cannot know yet, and the low mark has passed.
            owed -= {each for each in course.all - course.certain if each <= place.low}
        course.settle()
        for _ in range(500):
            page = course.page(limit=limit, after=here)
            shown.update(keys(page))
            assert page["previous"] != here or "more" not in page
            here = page["previous"]
            if "more" not in page:
                break
        hashes = Counter(map(hashed, course.all))
        alike = {each for each in course.all if hashes[hashed(each)] > 1}
        assert "more" not in page
        assert owed - shown.keys() - alike == set()
        assert [each for each, times in shown.items() if times > 1 and each not in alike] == []
        assert keys(course.page(limit=limit, after=here)) == []


def test_once_nothing_comes_both_ways_and_every_range_are_the_union() -> None:
    for seed in range(10):
        read_both_ways(seed)


def read_both_ways(seed: int) -> None:
    course = Course(seed)
    with virtual_time(Scheduler(Random(0), clock=course.stage.clock)):
        course.start()
        for _ in range(20):
            course.step()
        course.settle()
        wanted, limit = sorted(course.all, reverse=True), course.random.choice((1, 7, 60))
        if course.random.random() < 0.5 and len(wanted) > 5:
            ends = sorted(each.partition("#")[0] for each in course.random.sample(wanted, 2))
        else:
            ends = ["", "9"]
        within: dict[str, Any] = {"since": ends[0], "until": ends[1]}
        wanted = [each for each in wanted if ends[0] <= each < ends[1]]
        down: list[str] = []
        query: dict[str, Any] = {}
        while True:
            page = course.page(limit=limit, **within, **query)
            down += keys(page)
            query["before"] = page["next"]
            if page["next"] is None:
                break
        assert down == wanted
        nothing = {"since": ends[0], "until": ends[0] or wanted[-1][:1]}
        up: list[str] = []
        query = {"after": course.page(**nothing)["previous"]}
        while True:
            page = course.page(limit=limit, **within, **query)
            up = keys(page) + up
            query["after"] = page["previous"]
            if "more" not in page:
                break
        assert up == wanted
