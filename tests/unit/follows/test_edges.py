"""Edges over write shards: where each one goes, when a publisher grows, and what never fails."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from cachetools import TTLCache

from fanfold import clock, names
from fanfold.aws.queues import WorkQueue
from fanfold.aws.retries import DEADLINE_SECONDS, STEP
from fanfold.errors import TryLater, Unanswered, Unsent
from fanfold.follows import publishers_table
from fanfold.follows.edges import Edges
from fanfold.follows.levels import CHECK_SECONDS, HOT_SECONDS, LEVEL_SECONDS, Growing, Levels
from fanfold.follows.sharding import HOT_KEY_RANGE, SAMPLE, WINDOW_SECONDS, NotGrown, Shards
from fanfold.messages import Message

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


THROTTLED = "ThrottlingException"
HOT = Answered(THROTTLED, HOT_KEY_RANGE)
COLD = Answered(THROTTLED, "TableWriteAccountLimitExceeded")
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


@dataclass
class Store:
    """Notes the calls; each raises the next of `errors`, if that is not None."""

    calls: list[Any]
    errors: list[Exception | None] = field(default_factory=list)

    def called(self, *call: Any) -> None:
        self.calls.append(call)
        if self.errors and (error := self.errors.pop(0)):
            raise error.with_traceback(None)


@dataclass
class Followers(Store):
    """The followers table."""

    left: set[tuple[str, str]] = field(default_factory=set)  # unprocessed in a batch
    versions: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def put(self, publisher_id: str, follower_id: str, *, version: int, level: int) -> None:
        self.called("put", publisher_id, follower_id, version, level)

    def remove(self, publisher_id: str, follower_id: str, *, version: int, level: int) -> None:
        self.called("remove", publisher_id, follower_id, version, level)
        del self.versions[publisher_id, follower_id, level]

    def version(self, publisher_id: str, follower_id: str, *, level: int) -> int | None:
        self.called("read", publisher_id, follower_id, level)
        return self.versions.get((publisher_id, follower_id, level))

    def put_all(self, edges: Iterable[tuple[str, str, int, int]]) -> set[tuple[str, str]]:
        self.called("put_all", *edges)
        return self.left


@dataclass
class Publishers(Store):
    """The publishers table."""

    rows: dict[str, Shards] = field(default_factory=dict)
    fixed: int | None = None

    def shards(self, publisher_id: str, *, consistent: bool = True) -> Shards:
        self.called("shards" if consistent else "eventual", publisher_id)
        return self.rows.get(publisher_id, Shards())

    def update(self, publisher_id: str, *, seen: Shards, shards: Shards) -> bool:
        self.called("update", publisher_id, seen.level, shards.level)
        if seen.version != self.rows.get(publisher_id, Shards()).version:
            return False
        self.rows[publisher_id] = shards
        return True

    raise_to = publishers_table.PublishersTable.raise_to

    def static_level(self) -> int | None:
        self.called("static")
        return self.fixed

    def count(self, publisher_id: str, follows: int, *, now_ms: int) -> None:
        self.called("count", publisher_id, follows)


class World:
    """Edges over both tables; `calls` holds the calls to both, in order."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.calls: list[Any] = []
        self.notified: list[tuple[str, Shards | NotGrown]] = []
        self.followers = Followers(self.calls)
        self.publishers = Publishers(self.calls)
        self.edges = self.container()

    def container(self) -> Edges:
        """Edges with empty caches, as in a new container."""
        levels = Levels(self.publishers)  # type: ignore[arg-type]
        notify = lambda publisher, what: self.notified.append((publisher, what))  # noqa: E731
        growing = Growing(levels, MAX_LEVEL, COOLDOWN_MS, notify)
        return Edges(self.followers, growing)  # type: ignore[arg-type]

    def busy(self, rate: int = 100_000) -> None:
        """Let the publisher's row say that follows come fast enough for any growth."""
        window = self.time.now_ms() // (1000 * WINDOW_SECONDS)
        follows = rate * WINDOW_SECONDS
        seen = self.publishers.rows.get("ada", Shards())
        self.publishers.rows["ada"] = replace(
            seen, window=window, follows=follows, follows_before=follows
        )

    def put(self, *errors: Exception, publisher: str = "ada") -> list[int]:
        """Put one edge; its calls meet these errors. Returns the levels at which it was tried."""
        self.followers.errors[:] = errors
        before = len(self.calls)
        self.edges.put(publisher, "bob", version=1)
        return [call[4] for call in self.calls[before:] if call[0] == "put"]

    def throttled(self, *, after: float = 0.0) -> list[int]:
        """Put one edge some time later; its first call is throttled."""
        self.time.seconds += after
        return self.put(HOT)

    def place(self, *levels: int, version: int = 1) -> None:
        """Give Bob's edge to ada a version at these levels."""
        self.followers.versions.update({("ada", "bob", level): version for level in levels})

    def made(self, *kinds: str) -> list[Any]:
        return [call for call in self.calls if call[0] in kinds]

    @property
    def read_at(self) -> list[int]:
        """The levels at which edges were read, in order."""
        return [call[3] for call in self.made("read")]

    @property
    def levels(self) -> list[int]:
        """The levels that were stored, in order."""
        return [call[3] for call in self.made("update")]


@pytest.fixture
def world(time: Time) -> World:
    return World(time)


def grown_to(level: int, **more: Any) -> Shards:
    return Shards(level=level, version=level, **more)


# Putting


def test_a_level_is_remembered_for_a_minute_and_then_read_again(world: World) -> None:
    world.put()
    world.publishers.rows["ada"] = grown_to(3)
    world.time.seconds += LEVEL_SECONDS - 0.1
    world.calls.clear()
    assert world.put() == [0]
    assert world.calls == [("put", "ada", "bob", 1, 0)], "it costs one put"
    world.time.seconds += 0.2
    assert world.put() == [3]


def test_a_level_is_read_again_after_the_container_was_frozen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put()
    world.publishers.rows["ada"] = grown_to(3)
    monkeypatch.setattr(clock, "monotonic", lambda: 0.0)
    world.time.seconds += LEVEL_SECONDS
    assert world.put() == [3]


# Throttles


def test_a_throttle_refreshes_the_level_for_the_next_attempt(world: World) -> None:
    world.put()
    world.publishers.rows["ada"] = grown_to(2)
    assert world.put(HOT) == [0, 2]
    assert world.put() == [2]
    assert world.made("shards") == [("shards", "ada")]


# Growth


@pytest.mark.parametrize(("chance", "wait"), [(0.0, 1.0), (0.999, 9.991)])
def test_a_container_grows_a_publisher_if_it_is_throttled_again_after_a_random_wait(
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


@pytest.mark.parametrize(
    "errors", [[Answered(THROTTLED, "TableWriteAccountLimitExceeded", HOT_KEY_RANGE)], [COLD, HOT]]
)
def test_another_throttle_does_not_hide_that_of_a_hot_key_range(
    world: World, errors: list[Exception]
) -> None:
    world.put(*errors)
    world.busy()
    world.time.seconds += 1
    world.put(*errors)
    assert world.levels == [1]


def test_a_refused_growth_is_notified_with_the_reason_and_starts_a_new_wait(world: World) -> None:
    world.throttled()
    world.throttled(after=1.0)
    assert world.notified == [("ada", NotGrown("its own follows are too few"))]
    world.time.chance = 0.9
    world.throttled(after=1.0)
    assert len(world.notified) == 2
    for _ in range(8):
        world.throttled(after=1.0)
    assert len(world.notified) == 2
    world.throttled(after=1.2)
    assert len(world.notified) == 3


@pytest.mark.parametrize(
    ("error", "errors_before", "kinds"),
    [(COLD, 0, ["shards", "count"]), (LOST, 1, ["shards", "update", "count"])],
)
def test_transient_errors_of_a_growth_fail_no_follow(
    world: World, error: Exception, errors_before: int, kinds: list[str]
) -> None:
    world.throttled()
    world.busy()
    world.calls.clear()
    # Chance 0 counts each follow, so the count fails as well.
    world.publishers.errors = [*[None] * errors_before, error, error]
    assert world.throttled(after=1.0) == [0, 0]
    assert [call[0] for call in world.calls if call[0] != "put"] == kinds
    assert not world.notified


# Deadline and retries


# The length of a call that nobody answers (fanfold.aws.retries).
SLOWEST = 3.0
# A call that began just in time.
LATEST = DEADLINE_SECONDS + SLOWEST


def slowly(world: World, *kinds: str, failing: float, seconds: float = SLOWEST) -> None:
    """Let every call of these kinds take long, and fail with this probability."""
    chance = random.Random(0)
    for table in (world.followers, world.publishers):

        def called(*call: Any, plain: Any = table.called) -> None:
            is_slow = call[0] in kinds
            world.time.seconds += seconds if is_slow else 0.0
            plain(*call)
            if is_slow and chance.random() < failing:
                raise LOST

        table.called = called  # type: ignore[method-assign]


def test_no_operation_takes_longer_than_a_door_has(world: World) -> None:
    every = ("put", "read", "remove", "shards", "eventual", "static", "count", "update")
    operations = (world.edges.put, world.edges.ensure, world.edges.remove)
    kinds = itertools.product((0.0, 0.3, 1.0), (None, 2, 6), operations)
    for failing, world.publishers.fixed, operation in kinds:
        plain = world.followers.called, world.publishers.called
        world.edges.forget()
        world.publishers.rows["ada"] = grown_to(4)
        slowly(world, *every, failing=failing)
        began = world.time.seconds
        with suppress(TryLater):
            operation("ada", "bob", version=8)
        assert world.time.seconds - began <= LATEST
        world.followers.called, world.publishers.called = plain  # type: ignore[method-assign]


@pytest.mark.parametrize("made", [["shards"], ["shards", "update"]])
def test_no_call_that_raises_a_level_begins_after_the_deadline(
    world: World, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publishers.fixed = 2
    world.edges.levels.static()
    world.edges.levels.remembered("ada")
    world.calls.clear()
    slowly(world, made[-1], failing=0.0)

    def refuse(*_: Any, **__: Any) -> bool:
        world.publishers.called("update")
        return False

    monkeypatch.setattr(world.publishers, "update", refuse)
    with pytest.raises(TryLater, match="too slowly"):
        world.edges.put("ada", "bob", version=1)
    assert [call[0] for call in world.calls] == made


@pytest.mark.parametrize("slow", ["put", "static", "shards"])
def test_no_call_of_a_growth_begins_after_the_deadline(
    world: World, slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.throttled()
    world.busy()
    world.time.seconds += CHECK_SECONDS
    monkeypatch.setattr(Levels, "static", lambda levels: levels.publishers.static_level())
    monkeypatch.setattr(Levels, "to_write", lambda *_, **__: 0)
    slowness = {slow: DEADLINE_SECONDS}
    for table in (world.followers, world.publishers):

        def called(*call: Any, plain: Any = table.called) -> None:
            world.time.seconds += slowness.get(call[0], 0.0)
            plain(*call)

        table.called = called  # type: ignore[method-assign]
    world.calls.clear()
    world.time.chance = 0.999
    with pytest.raises(TryLater, match="too slowly"):
        world.put(HOT)
    assert world.calls[-1][0] == slow
    # What came too late uses up nothing of those in time.
    slowness.clear()
    world.busy()
    world.put(HOT)
    assert world.levels == [1]


def test_the_pauses_of_a_send_leave_a_door_time_for_the_edge(time: Time) -> None:
    class Refusing:
        def send_message_batch(self, **request: Any) -> Any:
            return {"Failed": request["Entries"]}

    time.chance = 1.0
    with pytest.raises(Unsent):
        WorkQueue(Refusing(), "url").send(Message({}, "ada"))  # type: ignore[arg-type]
    assert time.seconds + SLOWEST + LATEST < names.API.seconds


def test_an_error_that_is_not_transient_is_raised_at_once(world: World) -> None:
    with pytest.raises(Answered, match="AccessDenied"):
        world.put(Answered("AccessDeniedException"))
    assert len(world.made("put")) == 1
    assert not world.time.slept


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("put", "put"),
        ("put", "eventual"),
        ("ensure", "read"),
        ("ensure", "shards"),
        ("remove", "read"),
        ("remove", "shards"),
    ],
)
def test_a_call_is_repeated_after_transient_errors_and_then_raises_try_later(
    world: World, operation: str, call: str
) -> None:
    store = world.followers if call in ("put", "read") else world.publishers
    for errors in ([COLD, LOST], [COLD] * STEP.attempts):
        world.edges = world.container()
        world.edges.levels.to_write("edsger")  # caches the static level
        if call == "shards":
            world.edges.levels.to_write("ada")
        world.calls.clear()
        store.errors = [*errors]
        with pytest.raises(TryLater) if len(errors) == STEP.attempts else nullcontext():
            getattr(world.edges, operation)("ada", "bob", version=8)
        assert len(world.made(call)) == min(STEP.attempts, len(errors) + 1)
        assert not store.errors
    assert bool(world.notified) is (call == "put")


# Removing


def test_a_removal_writes_nothing_where_no_edge_or_a_newer_one_is(world: World) -> None:
    world.publishers.rows["ada"] = grown_to(4)
    world.place(1)
    world.place(3, version=9)
    world.edges.remove("ada", "bob", version=8)
    assert world.made("remove") == [("remove", "ada", "bob", 8, 1)]
    assert len(world.read_at) == 5


# Ensuring an edge that is probably there


@pytest.mark.parametrize(
    ("remembered", "own", "fixed", "placed", "reads", "puts"),
    [
        (3, 3, None, {0: 8}, [3, 2, 1, 0], []),
        (0, 0, None, {0: 9}, [0], []),
        (5, 5, 0, {5: 8}, [5], []),  # above the static level
        (0, 3, None, {3: 8}, [0, 3], []),  # grown by another container
        (0, 3, None, {0: 7, 2: 7}, [0, 3, 2, 1], [3]),
    ],
)
def test_an_edge_is_sought_at_every_level_once_and_put_if_it_is_missing_or_older(
    world: World,
    remembered: int,
    own: int,
    fixed: int | None,
    placed: dict[int, int],
    reads: list[int],
    puts: list[int],
) -> None:
    world.publishers.rows["ada"] = grown_to(remembered)
    world.edges.levels.remembered("ada")
    world.publishers.rows["ada"], world.publishers.fixed = grown_to(own), fixed
    for level, version in placed.items():
        world.place(level, version=version)
    world.edges.ensure("ada", "bob", version=8)
    assert world.read_at == reads
    assert [call[4] for call in world.made("put")] == puts


# Many at once

THREE = [("ada", "bob", 1), ("grace", "bob", 2), ("ada", "carol", 3)]


def test_many_edges_are_put_in_one_call_and_those_that_it_leaves_unprocessed_one_by_one(
    world: World,
) -> None:
    world.publishers.rows["grace"] = grown_to(3)
    world.followers.left = {("grace", "bob"), ("ada", "carol")}
    world.edges.put_all(THREE)
    assert world.made("put_all", "put") == [
        ("put_all", ("ada", "bob", 1, 0), ("grace", "bob", 2, 3), ("ada", "carol", 3, 0)),
        ("put", "grace", "bob", 2, 3),
        ("put", "ada", "carol", 3, 0),
    ]


def test_a_batch_of_known_edges_reads_those_of_grown_publishers_first(world: World) -> None:
    world.publishers.rows["grace"] = grown_to(2)
    world.followers.versions["grace", "bob", 0] = 2
    world.edges.ensure_all([("ada", "bob", 1), ("grace", "bob", 2), ("grace", "carol", 3)])
    assert world.made("put_all", "put") == [
        ("put_all", ("ada", "bob", 1, 0)),
        ("put", "grace", "carol", 3, 2),
    ]


@pytest.mark.parametrize(("own", "fixed", "level"), [(0, 1, 0), (2, 0, 2)])
def test_a_static_level_does_not_duplicate_edges_at_other_levels(
    world: World, own: int, fixed: int, level: int
) -> None:
    world.publishers.rows["ada"] = grown_to(own)
    world.publishers.fixed = fixed
    world.place(level)
    world.edges.ensure_all([("ada", "bob", 1)])
    assert world.made("put", "put_all") == [("put_all",)]


# A static level


def test_at_a_static_level_throttles_neither_grow_a_publisher_nor_cost_calls(world: World) -> None:
    world.publishers.fixed = 1
    world.put()
    assert world.levels == [1]
    world.calls.clear()
    for _ in range(30):
        world.busy()
        world.throttled(after=1.0)
    assert not world.made("static", "shards", "update", "count")
    assert not world.notified
    world.publishers.fixed = 2
    world.time.seconds += LEVEL_SECONDS
    assert world.put() == [2], "it is read again after a minute"


# Counting accepted follows


@pytest.mark.parametrize("level", [0, 4])
def test_after_a_throttle_one_follow_in_many_is_counted_for_all_of_them(
    world: World, level: int
) -> None:
    world.publishers.rows["ada"] = grown_to(level)
    world.throttled()
    world.calls.clear()
    one_in = SAMPLE * 2**level
    world.time.chance = 1 / one_in
    world.put()
    assert not world.made("count")
    world.time.chance = 1 / one_in - 0.0001
    world.put()
    world.edges.put_all(THREE[:1])
    assert world.made("count") == [("count", "ada", one_in)] * 2


def test_counting_ends_a_minute_after_the_last_throttle(world: World) -> None:
    world.throttled()
    world.throttled(after=CHECK_SECONDS)
    world.time.seconds += HOT_SECONDS - 1
    world.calls.clear()
    world.put()
    assert len(world.made("count")) == 1
    world.time.seconds += 1
    world.put()
    assert len(world.made("count")) == 1


# Threads


def test_a_thread_that_reads_a_level_does_not_block_another_one(world: World) -> None:
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
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(follow_the_other)
        world.edges.put("ada", "bob", version=1)
        other.result()
    assert [call[1] for call in world.made("put")] == ["grace", "ada"]


class Guarded(TTLCache[str, Any]):
    """Counts changes by a thread that does not hold the lock: two threads would break it."""

    def __init__(self, lock: Any, seconds: float) -> None:
        super().__init__(100, seconds, timer=lambda: clock.monotonic())
        self.lock = lock
        self.unguarded = 0

    def __setitem__(self, key: str, value: Any) -> None:
        self.unguarded += not self.lock._is_owned()
        super().__setitem__(key, value)


def test_caches_are_only_changed_under_their_lock(world: World) -> None:
    growing, levels = world.edges.growing, world.edges.levels
    of_levels: dict[str, Any] = {
        "_own": Guarded(levels._lock, LEVEL_SECONDS),
        "_static": Guarded(levels._lock, CHECK_SECONDS),  # so that it is also read after a throttle
    }
    of_growing: dict[str, Any] = {
        "_checked": Guarded(growing._lock, CHECK_SECONDS),
        "_try_at": Guarded(growing._lock, HOT_SECONDS),
    }
    growing = replace(growing, levels=replace(levels, **of_levels), **of_growing)
    world.edges = replace(world.edges, growing=growing)
    for _ in range(20):
        world.busy()
        world.throttled(after=1.0)
    assert world.levels
    caches = {**of_levels, **of_growing}
    assert {name: cache.unguarded for name, cache in caches.items()} == dict.fromkeys(caches, 0)
