"""Edges over write shards: where each one goes, when a publisher grows, and what never fails."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from cachetools import TTLCache

from fanfold import clock
from fanfold.errors import TryLater, Unanswered
from fanfold.follows import publishers_table
from fanfold.follows.edges import Edges
from fanfold.follows.growth import CHECK_SECONDS, HOT_SECONDS, WAIT_SECONDS, Growing
from fanfold.follows.levels import LEVEL_SECONDS, Levels
from fanfold.follows.patience import ATTEMPTS, BACKOFF_SECONDS, PATIENCE_SECONDS
from fanfold.follows.sharding import HOT_KEY_RANGE, SAMPLE, WINDOW_SECONDS, Growth, NotGrown, Shards

# A round number of windows since the epoch.
NOW_MS = 1_795_197_600_000
COOLDOWN_MS = 10_000
MAX_LEVEL = 8


class Answered(Exception):
    """An error as a client raises it."""

    def __init__(self, code: str, *reasons: str) -> None:
        super().__init__(code)
        self.response = {
            "Error": {"Code": code},
            "ThrottlingReasons": [{"reason": reason, "resource": "arn"} for reason in reasons],
        }


HOT = Answered("ThrottlingException", HOT_KEY_RANGE)
COLD = Answered("ThrottlingException", "TableWriteAccountLimitExceeded")
DENIED = Answered("AccessDeniedException")
LOST = Unanswered("nobody answers")


class Time:
    """Moves on by sleeping only; chance is what the test says."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.chance = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds

    def now_ms(self) -> int:
        return NOW_MS + round(1000 * self.seconds)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    now = Time()
    monkeypatch.setattr(clock, "sleep", now.sleep)
    monkeypatch.setattr(clock, "now_ms", now.now_ms)
    monkeypatch.setattr(clock, "monotonic", lambda: now.seconds)
    monkeypatch.setattr(clock, "chance", lambda: now.chance)
    return now


def raise_next(errors: list[Exception]) -> None:
    if errors:
        raise errors.pop(0).with_traceback(None)


@dataclass
class Table:
    """The followers table: what was done to it; it fails as often as the test says."""

    calls: list[Any]
    errors: list[Exception] = field(default_factory=list)
    left: set[tuple[str, str]] = field(default_factory=set)
    placements: dict[tuple[str, str, int], int] = field(
        default_factory=dict
    )  # and the versions there

    def put(self, publisher_id: str, follower_id: str, *, version: int, level: int) -> None:
        self._called("put", publisher_id, follower_id, version, level)

    def remove(self, publisher_id: str, follower_id: str, *, version: int, level: int) -> None:
        self._called("remove", publisher_id, follower_id, version, level)
        del self.placements[publisher_id, follower_id, level]

    def version(self, publisher_id: str, follower_id: str, *, level: int) -> int | None:
        self._called("read", publisher_id, follower_id, level)
        return self.placements.get((publisher_id, follower_id, level))

    def put_all(self, edges: Iterable[tuple[str, str, int, int]]) -> set[tuple[str, str]]:
        self._called("put_all", *edges)
        return self.left

    def _called(self, *call: Any) -> None:
        self.calls.append(call)
        raise_next(self.errors)


@dataclass
class PublishersTable:
    """The publishers table: rows that the test sets, and what was asked and stored."""

    calls: list[Any]
    rows: dict[str, Shards] = field(default_factory=dict)
    fixed: int | None = None
    lost: bool = False  # somebody else is always quicker
    errors: list[Exception] = field(default_factory=list)

    def shards(self, publisher_id: str, *, consistent: bool = True) -> Shards:
        self._called("look" if consistent else "glance", publisher_id)
        return self.rows.get(publisher_id, Shards())

    def update(self, publisher_id: str, *, seen: Shards, shards: Shards) -> bool:
        self._called("update", publisher_id, seen.level, shards.level)
        if self.lost or seen.version != self.rows.get(publisher_id, Shards()).version:
            return False
        self.rows[publisher_id] = shards
        return True

    raise_to = publishers_table.PublishersTable.raise_to

    def static_level(self) -> int | None:
        self._called("static")
        return self.fixed

    def count(self, publisher_id: str, follows: int, *, now_ms: int) -> None:
        self._called("count", publisher_id, follows)

    def _called(self, *call: Any) -> None:
        self.calls.append(call)
        raise_next(self.errors)


class World:
    """Edges over both tables; `calls` tells what was done, in order."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.calls: list[Any] = []
        self.told: list[tuple[str, Shards | NotGrown]] = []
        self.table = Table(self.calls)
        self.publishers = PublishersTable(self.calls)
        self.edges = self.container()

    def container(self) -> Edges:
        """Edges with empty caches, as a new container has them."""
        return Edges(
            self.table,  # type: ignore[arg-type]
            Growing(
                Levels(self.publishers),  # type: ignore[arg-type]
                MAX_LEVEL,
                COOLDOWN_MS,
                lambda publisher, what: self.told.append((publisher, what)),
            ),
        )

    def busy(self, rate: int = 100_000, **shards: Any) -> None:
        """The publisher's row says that follows come fast enough for any growth."""
        window = self.time.now_ms() // (1000 * WINDOW_SECONDS)
        follows = rate * WINDOW_SECONDS
        seen = self.publishers.rows.get("ada", Shards())
        self.publishers.rows["ada"] = replace(
            seen, window=window, follows=follows, follows_before=follows, **shards
        )

    def put(self, *errors: Exception, publisher: str = "ada") -> list[int]:
        """Put one edge against these errors; the levels at which it was tried."""
        self.table.errors[:] = errors
        before = len(self.calls)
        self.edges.put(publisher, "bob", version=1)
        return [call[4] for call in self.calls[before:] if call[0] == "put"]

    def at_home(self, *levels: int, version: int = 1) -> None:
        """Bob's edge is at these levels."""
        self.table.placements.update({("ada", "bob", level): version for level in levels})

    def throttled(self, *, after: float = 0.0) -> list[int]:
        """The same some time later, throttled once."""
        self.time.seconds += after
        return self.put(HOT)

    def made(self, *kinds: str) -> list[Any]:
        return [call for call in self.calls if call[0] in kinds]

    @property
    def levels(self) -> list[int]:
        """The levels that were stored, one after the other."""
        return [call[3] for call in self.made("update")]


@pytest.fixture
def world(time: Time) -> World:
    return World(time)


def grown_to(level: int, **more: Any) -> Shards:
    return Shards(level=level, version=level, **more)


# Where an edge goes


def test_an_edge_of_a_publisher_without_a_row_goes_to_level_0(world: World) -> None:
    world.edges.put("ada", "bob", version=7)
    assert world.made("put") == [("put", "ada", "bob", 7, 0)]
    assert not world.made("update", "count", "look")


def test_an_edge_goes_to_the_level_that_its_publisher_has(world: World) -> None:
    world.publishers.rows = {"ada": grown_to(2), "grace": grown_to(5)}
    assert world.put() == [2]
    assert world.put(publisher="grace") == [5]
    assert world.put(publisher="edsger") == [0]


def test_a_level_is_remembered_for_a_minute_and_then_read_again(world: World) -> None:
    world.put()
    world.publishers.rows["ada"] = grown_to(3)
    world.time.seconds += LEVEL_SECONDS - 0.1
    assert world.put() == [0]
    assert world.made("glance") == [("glance", "ada")]
    world.time.seconds += 0.2
    assert world.put() == [3]
    assert len(world.made("glance")) == 2


@pytest.mark.parametrize("fixed", [None, 0, 2])
def test_a_follow_costs_one_put_and_nothing_else_while_the_level_is_known(
    world: World, fixed: int | None
) -> None:
    world.publishers.fixed = fixed
    world.put()
    world.calls.clear()
    world.put()
    assert world.calls == [("put", "ada", "bob", 1, fixed or 0)]


# A throttle


def test_a_throttle_refreshes_the_level_for_the_very_next_attempt(world: World) -> None:
    world.put()
    world.publishers.rows["ada"] = grown_to(2)
    assert world.put(HOT) == [0, 2]
    assert world.put() == [2]
    assert world.made("look") == [("look", "ada")]


def test_a_container_looks_at_a_throttled_publisher_once_a_second(world: World) -> None:
    world.throttled()
    for _ in range(7):
        world.throttled(after=CHECK_SECONDS / 8)
    assert len(world.made("look")) == 1
    world.throttled(after=CHECK_SECONDS / 8)
    assert len(world.made("look")) == 2


def test_each_publisher_is_looked_at_for_itself(world: World) -> None:
    world.put(HOT)
    world.put(HOT, publisher="grace")
    assert world.made("look") == [("look", "ada"), ("look", "grace")]


@pytest.mark.parametrize("error", [COLD, Answered("ThrottlingException"), LOST])
def test_what_no_key_range_refuses_is_tried_again_without_a_look(
    world: World, error: Exception
) -> None:
    world.busy()
    for _ in range(10):
        world.time.seconds += 5
        assert world.put(error, error) == [0, 0, 0]
    assert not world.made("look", "update", "count")
    refused = {("ada", NotGrown("the throttle is of no key range"))}
    assert set(world.told) == (set() if error is LOST else refused)


@pytest.mark.parametrize(
    "reason",
    [
        "TableWriteAccountLimitExceeded",
        "TableWriteMaxOnDemandThroughputExceeded",
        "TableWriteProvisionedThroughputExceeded",
        "TableReadKeyRangeThroughputExceeded",
        "IndexWriteKeyRangeThroughputExceeded",
    ],
)
def test_a_limit_that_more_shards_meet_just_the_same_grows_nothing(
    world: World, reason: str
) -> None:
    world.busy()
    for _ in range(10):
        world.time.seconds += 5
        world.put(Answered("ProvisionedThroughputExceededException", reason))
    assert not world.made("update")


# Growth


@pytest.mark.parametrize(("chance", "wait"), [(0.0, 1.0), (0.5, 5.5), (0.999, 9.991)])
def test_a_container_grows_a_publisher_after_its_own_wait_if_throttled_still(
    world: World, chance: float, wait: float
) -> None:
    world.time.chance = chance
    world.throttled()
    world.time.chance = 0.0
    while world.time.seconds < wait - CHECK_SECONDS:
        world.throttled(after=CHECK_SECONDS)
        world.busy()
    assert not world.levels
    world.busy()
    assert world.throttled(after=CHECK_SECONDS) == [0, 1]
    assert world.levels == [1]
    assert world.put() == [1]


def test_the_wait_is_between_one_and_ten_seconds() -> None:
    assert WAIT_SECONDS == (1.0, 10.0)


def test_a_peak_that_is_over_grows_nothing(world: World) -> None:
    world.busy()
    world.throttled()
    for _ in range(30):
        world.time.seconds += 1
        world.busy()
        world.put()
    assert not world.levels
    assert not world.told


def test_a_throttle_long_after_the_last_one_waits_anew(world: World) -> None:
    world.throttled()
    world.time.seconds += HOT_SECONDS
    world.busy()
    world.throttled()
    assert not world.levels


def test_a_publisher_that_is_throttled_on_and_on_grows_by_one_level_each_cooldown(
    world: World,
) -> None:
    rate = 1_000
    for _ in range(40):
        world.busy(rate)
        rate += 300  # each growth is seen to help
        world.throttled(after=1.0)
    assert world.levels == [1, 2, 3, 4]
    grown = [what for _, what in world.told if isinstance(what, Shards)]
    times = [shards.last_updated for shards in grown]
    assert all(b - a >= COOLDOWN_MS for a, b in pairwise(times))


def test_a_hot_key_range_counts_also_among_other_reasons(world: World) -> None:
    both = Answered("ThrottlingException", "TableWriteAccountLimitExceeded", HOT_KEY_RANGE)
    world.put(both)
    world.time.seconds += 11
    world.busy()
    world.put(both)
    assert world.levels == [1]


def test_a_growth_is_told(world: World) -> None:
    world.throttled()
    world.busy(rate=400)
    world.throttled(after=1.0)
    ((publisher, what),) = world.told
    assert publisher == "ada"
    assert what == world.publishers.rows["ada"]
    assert isinstance(what, Shards)
    (growth,) = what.history
    assert growth == Growth(1, world.time.now_ms(), growth.rate)


def test_a_refused_growth_is_told_with_the_reason_and_waits_anew(world: World) -> None:
    world.throttled()
    world.throttled(after=1.0)
    assert world.told == [("ada", NotGrown("its own follows are too few"))]
    world.time.chance = 0.9
    world.throttled(after=1.0)
    assert len(world.told) == 2
    for _ in range(8):
        world.throttled(after=1.0)
    assert len(world.told) == 2
    world.throttled(after=1.2)
    assert len(world.told) == 3


def test_a_growth_that_somebody_else_was_quicker_with_is_theirs(world: World) -> None:
    world.throttled()
    world.busy()
    world.publishers.lost = True
    assert world.throttled(after=1.0) == [0, 0]
    assert not world.told
    world.publishers.rows["ada"] = grown_to(1, last_updated=world.time.now_ms())
    assert world.throttled(after=1.0) == [0, 1], "seen at the next look"


def test_two_containers_that_are_throttled_at_once_grow_the_publisher_once(world: World) -> None:
    other = World(world.time)
    other.publishers.rows = world.publishers.rows
    for each in (world, other):
        each.throttled()
    world.busy()
    for each in (world, other):
        each.throttled(after=1.0 if each is world else 0.0)
    assert (world.levels, other.levels) == ([1], [])
    assert other.told == [("ada", NotGrown("the last growth is too short ago"))]
    assert other.put() == [1]


@pytest.mark.parametrize("error", [COLD, LOST, Answered("InternalServerError")])
@pytest.mark.parametrize("calls", [1, 2])
def test_nothing_that_passes_lets_a_follow_fail_when_its_publisher_may_grow(
    world: World, error: Exception, calls: int
) -> None:
    world.throttled()
    world.busy()
    plain = world.publishers._called
    made: list[Any] = []

    def fail(*call: Any) -> None:
        plain(*call)
        made.append(call)
        if len(made) >= calls:
            raise error

    world.publishers._called = fail  # type: ignore[method-assign]
    world.time.chance = 0.0  # counts each follow
    assert world.throttled(after=1.0) == [0, 0]
    kinds = [call[0] for call in made]
    assert kinds == [["look", "count"], ["look", "update", "count"]][calls - 1]
    assert not world.told


# Patience


def test_an_edge_that_the_table_does_not_take_is_tried_so_often_and_then_told(
    world: World,
) -> None:
    with pytest.raises(TryLater):
        world.put(*[HOT] * ATTEMPTS)
    assert len(world.made("put")) == ATTEMPTS
    assert world.put(*[HOT] * (ATTEMPTS - 1)) == [0] * ATTEMPTS


def test_attempts_are_apart_by_jitter_that_doubles_and_after_the_last_nobody_waits(
    world: World,
) -> None:
    world.time.chance = 0.5
    with pytest.raises(TryLater):
        world.put(*[COLD] * ATTEMPTS)
    assert world.time.slept == [0.5 * BACKOFF_SECONDS * 2**n for n in range(ATTEMPTS - 1)]
    assert sum(world.time.slept) / 0.5 < 1.6


# As long as a call takes that nobody answers (fanfold.aws.retries).
SLOWEST = 3.0


# A call that began just in time, and one more where a level is raised.
LATEST = PATIENCE_SECONDS + 2 * SLOWEST


def slowly(world: World, *kinds: str, failing: float) -> None:
    """Let every call of these kinds take long, and then fail with this chance."""
    chance = random.Random(0)
    for table in (world.table, world.publishers):

        def called(*call: Any, plain: Any = table._called) -> None:
            plain(*call)
            if call[0] in kinds:
                world.time.seconds += SLOWEST
                if chance.random() < failing:
                    raise LOST

        table._called = called  # type: ignore[method-assign]


def test_no_operation_takes_longer_than_a_door_has(world: World) -> None:
    every = ("put", "read", "remove", "look", "glance", "static", "count", "update")
    operations = (world.edges.put, world.edges.ensure, world.edges.remove)
    kinds = itertools.product((0.0, 0.3, 1.0), (None, 2, 6), operations)
    for failing, world.publishers.fixed, operation in kinds:
        plain = world.table._called, world.publishers._called
        world.edges.forget()
        world.publishers.rows["ada"] = grown_to(4)
        slowly(world, *every, failing=failing)
        began = world.time.seconds
        with suppress(TryLater):
            operation("ada", "bob", version=8)
        assert world.time.seconds - began <= LATEST
        world.table._called, world.publishers._called = plain  # type: ignore[method-assign]


def test_a_table_that_answers_nothing_is_given_up_within_the_time_of_a_door(world: World) -> None:
    slowly(world, "put", failing=1.0)
    with pytest.raises(TryLater):
        world.put()
    assert len(world.made("put")) == 1
    assert world.time.seconds <= LATEST


@pytest.mark.parametrize("failing", [0.3, 1.0])
def test_an_unfollow_at_many_levels_is_given_up_within_the_time_of_a_door(
    world: World, failing: float
) -> None:
    world.publishers.rows["ada"] = grown_to(8)
    slowly(world, "read", failing=failing)
    with pytest.raises(TryLater):
        world.edges.remove("ada", "bob", version=8)
    assert world.time.seconds <= LATEST


def test_a_look_at_many_levels_is_given_up_within_the_time_of_a_door(world: World) -> None:
    world.publishers.rows["ada"] = grown_to(8)
    slowly(world, "read", failing=0.3)
    with pytest.raises(TryLater):
        world.edges.ensure("ada", "bob", version=8)
    assert world.time.seconds <= LATEST


def test_what_does_not_pass_is_told_at_once(world: World) -> None:
    with pytest.raises(Answered, match="AccessDenied"):
        world.put(DENIED)
    assert len(world.made("put")) == 1
    assert not world.time.slept


def test_a_level_that_cannot_be_read_now_is_read_again(world: World) -> None:
    world.publishers.rows["ada"] = grown_to(2)
    world.publishers.errors = [COLD, LOST]
    assert world.put() == [2]


# Removing


@pytest.mark.parametrize("level", [0, 1, 4])
def test_an_edge_is_removed_from_every_level_where_it_is(world: World, level: int) -> None:
    world.publishers.rows["ada"] = grown_to(level)
    world.at_home(*range(level + 1))
    world.edges.remove("ada", "bob", version=8)
    placements = [
        call
        for each in range(level + 1)
        for call in (("read", "ada", "bob", each), ("remove", "ada", "bob", 8, each))
    ]
    assert world.calls == [("look", "ada"), *placements]


def test_a_removal_writes_nothing_where_no_edge_is_that_it_ends(world: World) -> None:
    world.publishers.rows["ada"] = grown_to(4)
    world.at_home(1)
    world.at_home(3, version=9)
    world.edges.remove("ada", "bob", version=8)
    assert world.made("remove") == [("remove", "ada", "bob", 8, 1)]
    assert len(world.made("read")) == 5


def test_a_removal_goes_by_the_level_of_now_and_not_by_a_remembered_one(world: World) -> None:
    world.put()
    for level in (1, 3):  # somebody else grows it
        world.publishers.rows["ada"] = grown_to(level)
        world.calls.clear()
        world.edges.remove("ada", "bob", version=8)
        assert [call[3] for call in world.made("read")] == list(range(level + 1))


def test_a_removal_is_tried_again_at_the_level_that_failed(world: World) -> None:
    world.publishers.rows["ada"] = grown_to(2)
    world.at_home(0)
    world.publishers.errors = [COLD]
    world.table.errors = [HOT, LOST]
    world.edges.remove("ada", "bob", version=8)
    assert [call[3] for call in world.made("read")] == [0, 0, 0, 1, 2]
    assert len(world.made("look")) == 2
    assert not world.table.placements


def test_a_removal_that_the_table_does_not_take_is_told(world: World) -> None:
    world.publishers.rows["ada"] = grown_to(2)
    world.table.errors = [HOT] * ATTEMPTS
    with pytest.raises(TryLater):
        world.edges.remove("ada", "bob", version=8)
    assert [call[3] for call in world.made("read")] == [0] * ATTEMPTS


def test_removals_that_are_throttled_grow_nothing(world: World) -> None:
    for _ in range(30):
        world.busy()
        world.at_home(0)
        world.table.errors = [HOT]
        world.time.seconds += 1
        world.edges.remove("ada", "bob", version=8)
    assert not world.levels
    assert not world.told


def test_a_throttle_of_the_publishers_table_grows_nothing_and_hides_none_of_the_followers(
    world: World,
) -> None:
    world.publishers.errors = [HOT]
    assert world.put() == [0]
    assert not world.told
    world.throttled()
    world.busy()
    world.throttled(after=1.0)
    assert world.levels == [1]


def test_a_throttle_for_another_reason_does_not_hide_a_hot_key_range(world: World) -> None:
    world.put(COLD, HOT)
    world.busy()
    world.time.seconds += 1
    world.put(COLD, HOT)
    assert world.levels == [1]


def test_at_a_static_level_a_hot_publisher_costs_no_looks_and_no_counts(world: World) -> None:
    world.publishers.fixed = 1
    world.put()
    world.calls.clear()
    for _ in range(30):
        world.throttled(after=1.0)
    assert not world.made("look", "update", "count")


# An edge that is probably there


@pytest.mark.parametrize("home", [3, 2, 0])
def test_an_edge_that_is_there_at_any_level_is_not_written_again(world: World, home: int) -> None:
    world.publishers.rows["ada"] = grown_to(3)
    world.at_home(home, version=8)
    world.edges.ensure("ada", "bob", version=8)
    assert [call[3] for call in world.made("read")] == list(range(3, home - 1, -1))
    assert not world.made("put")


def test_a_newer_edge_is_left_alone(world: World) -> None:
    world.at_home(0, version=9)
    world.edges.ensure("ada", "bob", version=8)
    assert not world.made("put")


@pytest.mark.parametrize("placements", [(), (0, 2)])
def test_an_edge_that_is_missing_or_older_is_put_at_the_level_of_now(
    world: World, placements: tuple[int, ...]
) -> None:
    world.publishers.rows["ada"] = grown_to(3)
    world.at_home(*placements, version=7)
    world.edges.ensure("ada", "bob", version=8)
    assert world.made("put") == [("put", "ada", "bob", 8, 3)]


def test_an_edge_above_the_level_that_is_remembered_is_seen(world: World) -> None:
    world.edges.levels.to_write("ada")
    world.publishers.rows["ada"] = grown_to(3)  # by a door, meanwhile
    world.at_home(3, version=8)
    world.edges.ensure("ada", "bob", version=8)
    assert not world.made("put")
    assert len(world.made("look")) == 1
    world.edges.ensure("ada", "bob", version=8)
    assert len(world.made("look")) == 1, "the level is remembered"


def test_an_edge_above_the_level_that_all_are_kept_at_is_seen(world: World) -> None:
    world.publishers.rows["ada"] = grown_to(5)
    world.publishers.fixed = 0
    world.at_home(5, version=8)
    world.edges.ensure("ada", "bob", version=8)
    assert not world.made("put")


def test_an_edge_that_is_nowhere_is_put_at_the_level_of_now(world: World) -> None:
    world.edges.levels.to_write("ada")
    world.publishers.rows["ada"] = grown_to(2)
    world.edges.ensure("ada", "bob", version=8)
    assert [call[3] for call in world.made("read")] == [0, 2, 1]
    assert world.made("put") == [("put", "ada", "bob", 8, 2)]


def test_looking_for_an_edge_is_tried_again_and_given_up(world: World) -> None:
    world.table.errors = [HOT, LOST]
    world.edges.ensure("ada", "bob", version=8)
    assert len(world.made("read")) == 3
    world.table.errors = [HOT] * ATTEMPTS
    with pytest.raises(TryLater):
        world.edges.ensure("ada", "bob", version=8)
    assert not world.told


# Many at once


def test_many_edges_go_to_the_levels_of_their_publishers_in_one_call(world: World) -> None:
    world.publishers.rows["grace"] = grown_to(3)
    world.edges.put_all([("ada", "bob", 1), ("grace", "bob", 2), ("ada", "carol", 3)])
    assert world.made("put_all", "put") == [
        ("put_all", ("ada", "bob", 1, 0), ("grace", "bob", 2, 3), ("ada", "carol", 3, 0))
    ]


def test_what_a_batch_leaves_is_put_one_by_one(world: World) -> None:
    world.table.left = {("grace", "bob"), ("ada", "carol")}
    world.edges.put_all([("ada", "bob", 1), ("grace", "bob", 2), ("ada", "carol", 3)])
    assert world.made("put") == [("put", "grace", "bob", 2, 0), ("put", "ada", "carol", 3, 0)]


def test_what_a_batch_leaves_tells_why_and_goes_to_the_level_of_now(world: World) -> None:
    world.put()
    world.publishers.rows["ada"] = grown_to(2)
    world.table.left = {("ada", "bob")}
    plain = world.table.put
    tries: list[int] = []

    def put(*args: Any, level: int, **kwargs: Any) -> None:
        tries.append(level)
        if len(tries) == 1:
            raise HOT
        plain(*args, level=level, **kwargs)

    world.table.put = put  # type: ignore[method-assign]
    world.edges.put_all([("ada", "bob", 1)])
    assert tries == [0, 2]


def test_what_a_batch_leaves_and_the_table_never_takes_is_told(world: World) -> None:
    world.table.left = {("ada", "bob")}
    world.publishers.rows["ada"] = grown_to(0)

    def put(*_args: Any, **_kwargs: Any) -> None:
        raise HOT

    world.table.put = put  # type: ignore[method-assign]
    with pytest.raises(TryLater):
        world.edges.put_all([("ada", "bob", 1)])


def test_no_edges_at_once_are_none(world: World) -> None:
    world.edges.put_all([])
    assert not world.made("put", "glance", "look")


def test_levels_that_cannot_be_read_now_are_read_again_for_many_edges(world: World) -> None:
    world.publishers.rows["ada"] = grown_to(2)
    world.publishers.errors = [COLD, LOST]
    world.edges.put_all([("ada", "bob", 1)])
    assert world.made("put_all") == [("put_all", ("ada", "bob", 1, 2))]
    world.publishers.errors = [COLD] * ATTEMPTS
    with pytest.raises(TryLater):
        world.edges.put_all([("grace", "bob", 1)])


def test_edges_that_are_probably_there_are_looked_for_where_a_put_would_be_a_second_one(
    world: World,
) -> None:
    world.publishers.rows["grace"] = grown_to(2)
    world.table.placements["grace", "bob", 0] = 2
    world.edges.ensure_all([("ada", "bob", 1), ("grace", "bob", 2), ("grace", "carol", 3)])
    assert world.made("put_all", "put") == [
        ("put_all", ("ada", "bob", 1, 0)),
        ("put", "grace", "carol", 3, 2),
    ]


def test_so_they_are_below_a_level_that_all_are_kept_at(world: World) -> None:
    world.publishers.fixed = 1
    world.table.placements["ada", "bob", 0] = 1
    world.edges.ensure_all([("ada", "bob", 1)])
    world.publishers.rows["grace"] = grown_to(2)
    world.publishers.fixed = 0
    world.edges.forget()
    world.table.placements["grace", "bob", 2] = 1
    world.edges.ensure_all([("grace", "bob", 1)])
    assert not world.made("put")
    assert not [call for call in world.made("put_all") if len(call) > 1]


# One level for all


def test_a_static_level_is_committed_for_a_publisher_before_anything_is_written_there(
    world: World,
) -> None:
    world.publishers.fixed = 3
    world.put()
    kinds = [call[0] for call in world.calls]
    assert kinds == ["static", "glance", "look", "update", "put"]
    assert world.publishers.rows["ada"].level == 3
    assert world.made("put") == [("put", "ada", "bob", 1, 3)]
    world.put(publisher="grace")
    assert world.publishers.rows["grace"].level == 3


def test_a_static_level_is_committed_once(world: World) -> None:
    world.publishers.fixed = 3
    for _ in range(3):
        world.put()
        world.time.seconds += LEVEL_SECONDS + 1
        world.edges = world.container()
    assert world.levels == [3]
    assert world.publishers.rows["ada"].version == 1


def test_a_static_level_that_others_commit_at_once_is_committed_by_one(world: World) -> None:
    world.publishers.fixed = 3
    plain = world.publishers.update

    def update(publisher_id: str, *, seen: Shards, shards: Shards) -> bool:
        world.publishers.rows["ada"] = Shards(level=1, version=1)  # grown by somebody else
        world.publishers.update = plain  # type: ignore[method-assign]
        return plain(publisher_id, seen=seen, shards=shards)

    world.publishers.update = update  # type: ignore[method-assign]
    assert world.put() == [3]
    assert (world.publishers.rows["ada"].level, world.publishers.rows["ada"].version) == (3, 2)


def test_a_lower_static_level_is_written_at_and_every_level_so_far_is_cleared(
    world: World,
) -> None:
    world.publishers.fixed = 4
    assert world.put() == [4]
    world.publishers.fixed = 1
    world.time.seconds += LEVEL_SECONDS + 1
    assert world.put() == [1]
    assert world.publishers.rows["ada"].level == 4, "for readers, the highest ever written at"
    world.edges.remove("ada", "bob", version=2)
    assert [call[3] for call in world.made("read")] == [0, 1, 2, 3, 4]


def test_without_a_static_level_each_publisher_has_its_own_again(world: World) -> None:
    world.publishers.fixed = 2
    world.put()
    world.publishers.fixed = None
    world.time.seconds += LEVEL_SECONDS + 1
    assert world.put() == [2]
    assert world.put(publisher="grace") == [0]


def test_a_static_level_below_a_publishers_own_is_written_at_and_changes_no_row(
    world: World,
) -> None:
    world.publishers.fixed = 1
    world.publishers.rows["ada"] = grown_to(5)
    assert world.put() == [1]
    assert not world.levels


def test_a_static_level_is_read_once_a_minute_for_all_publishers(world: World) -> None:
    for number in range(20):
        world.put(publisher=f"publisher-{number}")
        world.time.seconds += (LEVEL_SECONDS - 1) / 20
    assert len(world.made("static")) == 1
    world.publishers.fixed = 2
    world.time.seconds += 1
    assert world.put(publisher="publisher-0") == [2]
    assert len(world.made("static")) == 2


def test_nobody_grows_while_the_level_is_static(world: World) -> None:
    world.publishers.fixed = 1
    for _ in range(30):
        world.busy()
        world.throttled(after=1.0)
    assert world.levels == [1]
    assert not world.told


# Counting


def test_follows_of_a_quiet_publisher_are_not_counted(world: World) -> None:
    for _ in range(100):
        world.put()
    assert not world.made("count")


def test_after_a_throttle_one_follow_in_many_is_counted_for_all_of_them(world: World) -> None:
    world.throttled()
    world.calls.clear()
    world.time.chance = 1 / SAMPLE
    world.put()
    assert not world.made("count")
    world.time.chance = 1 / SAMPLE - 0.001
    world.put()
    assert world.made("count") == [("count", "ada", SAMPLE)]


@pytest.mark.parametrize("level", [1, 4])
def test_with_more_shards_fewer_follows_are_counted_for_more(world: World, level: int) -> None:
    world.publishers.rows["ada"] = grown_to(level)
    world.throttled()
    world.calls.clear()
    one_in = SAMPLE * 2**level
    world.time.chance = 1 / one_in
    world.put()
    assert not world.made("count")
    world.time.chance = 1 / one_in - 0.0001
    world.put()
    assert world.made("count") == [("count", "ada", one_in)]


def test_what_is_counted_is_about_what_was_accepted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "chance", random.Random(7).random)
    world.throttled()
    world.edges.put_all([("ada", f"user-{number}", 1) for number in range(15_000)])
    for _ in range(15_000):
        world.put()
    counted = sum(call[2] for call in world.made("count"))
    assert counted == pytest.approx(30_000, rel=0.1)
    assert len(world.made("count")) < 30_000 / SAMPLE * 1.1


def test_a_minute_after_the_last_throttle_nothing_is_counted_any_more(world: World) -> None:
    world.throttled()
    world.throttled(after=CHECK_SECONDS)
    world.time.seconds += HOT_SECONDS - 1
    world.calls.clear()
    world.put()
    assert len(world.made("count")) == 1
    world.time.seconds += 1
    world.put()
    assert len(world.made("count")) == 1


def test_what_was_not_written_is_not_counted(world: World) -> None:
    world.throttled()
    world.calls.clear()
    with pytest.raises(TryLater):
        world.put(*[HOT] * ATTEMPTS)
    assert not world.made("count")


def test_a_follow_that_cannot_be_counted_is_a_follow_all_the_same(world: World) -> None:
    world.throttled()
    world.publishers.errors = [HOT]
    assert world.put() == [0]


# Threads


def test_a_thread_that_reads_a_level_holds_no_other_one_up(world: World) -> None:
    plain = world.publishers.shards
    is_reading, may_go_on = threading.Event(), threading.Event()

    def shards(publisher_id: str, *, consistent: bool = True) -> Shards:
        if publisher_id == "ada":
            is_reading.set()
            assert may_go_on.wait(10), "the other thread waits for this one"
        return plain(publisher_id, consistent=consistent)

    def follow_the_other() -> None:
        assert is_reading.wait(10)
        world.edges.put("grace", "carol", version=1)
        may_go_on.set()

    world.publishers.shards = shards  # type: ignore[method-assign]
    together(lambda: world.edges.put("ada", "bob", version=1), follow_the_other)
    assert [call[1] for call in world.made("put")] == ["grace", "ada"]


class Lock:
    """Knows which thread holds it."""

    def __init__(self) -> None:
        self.plain = threading.RLock()
        self.holders: list[int] = []

    def __enter__(self) -> None:
        self.plain.acquire()
        self.holders.append(threading.get_ident())

    def __exit__(self, *_error: object) -> None:
        self.holders.pop()
        self.plain.release()


class Guarded(TTLCache[str, Any]):
    """Notes who changes it without holding the lock: it would break under two threads."""

    def __init__(self, lock: Lock, seconds: float) -> None:
        super().__init__(100, seconds, timer=lambda: clock.monotonic())
        self.lock = lock
        self.unguarded: list[str] = []

    def __setitem__(self, key: str, value: Any) -> None:
        if threading.get_ident() not in self.lock.holders:
            self.unguarded.append(key)
        super().__setitem__(key, value)


@pytest.mark.parametrize("fixed", [None, 2])
def test_no_cache_is_changed_by_two_threads_at_once(world: World, fixed: int | None) -> None:
    lock: Any = Lock()
    levels: dict[str, Any] = {
        "_own": Guarded(lock, LEVEL_SECONDS),
        "_static": Guarded(lock, CHECK_SECONDS),  # so that it is also read after a throttle
    }
    growing: dict[str, Any] = {
        "_checked": Guarded(lock, CHECK_SECONDS),
        "_try_at": Guarded(lock, HOT_SECONDS),
    }
    caches = levels | growing
    world.edges = replace(
        world.edges,
        growing=replace(
            world.edges.growing,
            levels=replace(world.edges.levels, **levels, _lock=lock),
            **growing,
            _lock=lock,
        ),
    )
    world.publishers.fixed = fixed
    for _ in range(20):
        world.busy()
        world.throttled(after=1.0)
    assert len(world.levels) >= 1
    assert [name for name, cache in caches.items() if cache.unguarded] == []


def test_many_threads_write_each_edge_once_and_grow_a_publisher_once(world: World) -> None:
    world.throttled()
    world.busy()
    world.time.seconds += 1
    world.calls.clear()
    refused = threading.Semaphore(3)
    plain = world.table.put

    def put(*args: Any, **kwargs: Any) -> None:
        if refused.acquire(blocking=False):
            raise HOT
        plain(*args, **kwargs)

    world.table.put = put  # type: ignore[method-assign]

    def follow(number: int) -> None:
        for each in range(50):
            world.edges.put("ada", f"user-{number}-{each}", version=1)

    together(*(lambda number=number: follow(number) for number in range(4)))  # type: ignore[misc]
    assert len({call[2] for call in world.made("put")}) == len(world.made("put")) == 200
    assert world.levels == [1]
    assert len(world.told) == 1


def together(*works: Any) -> None:
    """Run these in threads of their own; raises what the first of them raised."""
    errors: list[BaseException] = []

    def run(work: Any) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
