"""Followers over write shards: followed, unfollowed and delivered to at whatever level they are."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fanfold import clock, names
from fanfold.follows.levels import LEVEL_SECONDS
from fanfold.follows.patience import ATTEMPTS
from fanfold.follows.publishers_table import FAR_WINDOWS
from fanfold.follows.sharding import (
    HOT_KEY_RANGE,
    MAX_HISTORY,
    WINDOW_SECONDS,
    Growth,
    Shards,
    raised,
)
from functions import _wiring, plan
from tests.integration.system import AT_MS, CrashAfter, System, error

FailFirst = Callable[..., list[Any]]
WINDOW_MS = 1000 * WINDOW_SECONDS


def grow(system: System, level: int, publisher: str = "ada") -> None:
    """Raise a publisher to a level, as another container does."""
    seen = system.publishers.shards(publisher)
    grown = raised(seen, level=level, now_ms=system.clock.ms)
    assert system.publishers.update(publisher, seen=seen, shards=grown)


def forget(system: System) -> None:
    """Let what the doors remember grow old."""
    system.clock.advance(LEVEL_SECONDS + 1)


def give(system: System, level: int, *users: str) -> None:
    """Write edges at a level, as the doors of that time did."""
    assert not system.edges_table.put_all(("ada", user, 1, level) for user in users)


def hot() -> Exception:
    """A throttle of one key range, as DynamoDB tells it."""
    throttle = error("ThrottlingException")
    reason = {"reason": HOT_KEY_RANGE, "resource": "arn:aws:dynamodb:::table/Followers"}
    throttle.response["throttlingReasons"] = [reason]  # type: ignore[typeddict-unknown-key]
    return throttle


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut a fan-out into segments of about ten followers, read in pages of seven."""
    monkeypatch.setattr("fanfold.fanout.segments.SEGMENT_FOLLOWERS", 10)
    monkeypatch.setattr("fanfold.fanout.plan.SAMPLE_EDGES", 20)
    monkeypatch.setattr("fanfold.follows.edges_table.PAGE_EDGES", 7)


# Following and unfollowing


def test_each_follow_goes_to_the_level_of_its_time_and_an_unfollow_finds_it(
    system: System,
) -> None:
    for level in (0, 1, 3):
        if level:
            grow(system, level)
        forget(system)
        assert system.follow(f"user-{level}").status == 200
    assert system.placements() == [(0, "user-0"), (1, "user-1"), (3, "user-3")]
    for level in (0, 1, 3):
        assert system.unfollow(f"user-{level}").status == 204
    assert system.placements() == []
    assert system.follow("user-0").status == 200
    assert system.placements() == [(3, "user-0")]
    system.pump()
    assert system.placements() == [(3, "user-0")]


def test_a_follow_that_is_settled_again_after_a_growth_stays_where_it_is(system: System) -> None:
    system.follow("bob")
    grow(system, 2)
    forget(system)
    system.pump("Relation")
    assert system.placements() == [(0, "bob")]


def test_who_follows_again_after_a_growth_has_two_edges_and_is_one_follower(
    system: System,
) -> None:
    system.follow("bob")
    grow(system, 2)
    forget(system)
    system.clock.advance(5)
    system.follow("bob")
    assert system.placements() == [(0, "bob"), (2, "bob")]
    system.publish()
    system.pump()
    assert system.reached() == ["bob"]
    assert (system.ledger().followers, system.ledger().delivered) == (1, 1)
    system.unfollow("bob")
    assert system.placements() == []


def test_a_door_that_has_not_heard_of_a_growth_writes_lower_and_everybody_is_reached(
    system: System,
) -> None:
    system.follow("bob")
    grow(system, 2)
    system.follow("carol")
    assert system.placements() == [(0, "bob"), (0, "carol")]
    forget(system)
    system.follow("dave")
    assert system.placements() == [(0, "bob"), (0, "carol"), (2, "dave")]
    system.publish()
    system.pump()
    assert system.reached() == ["bob", "carol", "dave"]


def test_a_door_that_has_not_heard_of_a_growth_removes_what_was_written_higher(
    system: System,
) -> None:
    system.follow("carol")  # by now this door remembers level 0
    grow(system, 2)
    plan = system.door("plan").following  # and this one remembers nothing
    plan.follow("bob", "ada", asked_at=AT_MS)
    assert system.placements() == [(0, "carol"), (2, "bob")]
    assert system.unfollow("bob").status == 204
    assert system.placements() == [(0, "carol")]


def test_a_late_worker_never_undoes_at_any_level_what_a_newer_version_did(
    system: System,
) -> None:
    for level in (0, 2):
        system.edges_table.put("ada", "bob", version=3, level=level)
    before = system.rows(names.FOLLOWERS)
    grow(system, 2)
    edges = system.door("api").following.edges
    edges.remove("ada", "bob", version=2)
    edges.put("ada", "bob", version=1)
    assert system.rows(names.FOLLOWERS) == before
    edges.remove("ada", "bob", version=3)
    assert system.placements() == []


# Publishing


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("level", [0, 1, 2, 4])
def test_everybody_is_reached_once_whatever_levels_they_are_at(system: System, level: int) -> None:
    users = [f"user-{number:02d}" for number in range(60)]
    for at in range(level + 1):
        give(system, at, *users[at :: level + 1])
    twice = users[::7]
    give(system, level, *twice)
    give(system, 0, *twice)
    if level:
        grow(system, level)
    system.publish()
    system.pump()
    assert system.reached() == users
    ledger = system.ledger()
    assert (ledger.state, ledger.delivered, ledger.level) == ("complete", 60, level)
    assert ledger.segments > 1


def test_followers_over_levels_that_fit_the_sample_are_counted_each_once(system: System) -> None:
    give(system, 0, "bob", "carol")
    give(system, 1, "carol", "dave")
    give(system, 3, "carol", "erin", "frank")
    grow(system, 3)
    system.publish()
    system.pump()
    assert system.reached() == ["bob", "carol", "dave", "erin", "frank"]
    assert (system.ledger().followers, system.ledger().delivered) == (5, 5)


def test_a_growth_between_plan_and_deliver_is_seen(system: System) -> None:
    give(system, 0, "bob")
    system.publish()
    system.pump_once("Publish")
    assert system.ledger().level == 0
    grow(system, 2)
    forget(system)
    system.follow("carol")
    assert system.placements() == [(0, "bob"), (2, "carol")]
    system.pump()
    assert system.reached() == ["bob", "carol"]


def test_the_level_that_plan_saw_is_read_even_if_the_publishers_row_is_gone(
    system: System,
) -> None:
    grow(system, 2)
    system.follow("bob")
    assert system.placements() == [(2, "bob")]
    system.publish()
    system.pump_once("Publish")
    assert system.ledger().level == 2
    system.dynamodb.delete_item(
        TableName=system.publishers.table, Key={"publisher_id": {"S": "ada"}}
    )
    system.pump()
    assert system.reached() == ["bob"]


@pytest.mark.parametrize("queue", ["Publish", "Express"])
def test_the_level_is_read_consistently_for_a_delivery(
    system: System, fail_first: FailFirst, queue: str
) -> None:
    system.give_followers(2)
    system.publish()
    if queue == "Express":
        system.pump_once("Publish")
    calls = fail_first(system.dynamodb, "get_item", [])
    system.pump_once(queue)
    (level,) = [call for call in calls if call["TableName"] == "Publishers"]
    assert level["ConsistentRead"]


def test_an_unfollow_reads_the_level_consistently_and_a_follow_need_not(
    system: System, fail_first: FailFirst
) -> None:
    calls = fail_first(system.edge_client, "get_item", [])
    for change, is_consistent in ((system.follow, False), (system.unfollow, True)):
        calls.clear()
        change("bob")
        (level,) = [call for call in calls if call["Key"] == {"publisher_id": {"S": "ada"}}]
        assert level["ConsistentRead"] is is_consistent


def test_a_ring_of_many_shards_is_planned_from_many_pages_at_a_time(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(system, 2)
    system.follow("bob")
    both = threading.Barrier(2, timeout=5)
    made = itertools.count()
    client = plan.planning.edges_table.client
    query = client.query

    def met(**request: Any) -> Any:
        if next(made) < 2:
            both.wait()
        return query(**request)

    monkeypatch.setattr(client, "query", met)
    system.publish()
    system.pump()
    assert system.reached() == ["bob"]
    assert next(made) == 7, "PLAN's reads; DELIVER has a client of its own"


# Growing


def test_of_two_growths_from_the_same_row_one_wins(system: System) -> None:
    publishers = system.publishers
    grow(system, 1)
    seen = publishers.shards("ada")
    one, other = (raised(seen, level=2, now_ms=AT_MS + each) for each in (1, 2))
    assert publishers.update("ada", seen=seen, shards=one)
    assert not publishers.update("ada", seen=seen, shards=other)
    assert publishers.shards("ada") == one


def test_of_two_first_growths_one_wins(system: System) -> None:
    first = raised(Shards(), level=1, now_ms=AT_MS)
    assert system.publishers.update("ada", seen=Shards(), shards=first)
    assert not system.publishers.update(
        "ada", seen=Shards(), shards=raised(Shards(), level=5, now_ms=AT_MS)
    )
    assert system.publishers.shards("ada") == first


def test_a_history_is_kept_as_it_was_and_bounded(system: System) -> None:
    for number in range(MAX_HISTORY + 5):
        system.publishers.count("ada", 100, now_ms=system.clock.ms)
        grow(system, number % 9)
        system.clock.advance(11)
    found = system.publishers.shards("ada")
    assert found.version == MAX_HISTORY + 5
    assert len(found.history) == MAX_HISTORY
    last = AT_MS + (MAX_HISTORY + 4) * 11_000
    assert found.history[-1] == Growth((MAX_HISTORY + 4) % 9, last, 20)
    assert found.last_updated == last
    (row,) = system.rows(names.PUBLISHERS)
    assert len(json.dumps(row)) < 2_000, "one read unit, for good"


def test_a_door_that_is_throttled_on_and_on_grows_its_publisher_and_tells(
    system: System,
    fail_first: FailFirst,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The wait before the first growth: in the middle, so that the next is due after these 12 s.
    monkeypatch.setattr(clock, "chance", lambda: 0.5)
    for number in range(12):
        system.publishers.count("ada", 5_000, now_ms=system.clock.ms)
        fail_first(system.edge_client, "put_item", [hot()])
        assert system.follow(f"user-{number:02d}").status == 200
        system.clock.advance(1)
    found = system.publishers.shards("ada")
    assert found.level == 1, "once in a cooldown"
    (growth,) = found.history
    assert growth.rate >= 250
    assert {level for level, _ in system.placements()} == {0, 1}
    assert len(system.edges()) == 12
    out = capsys.readouterr().out
    assert '"Growths":[1.0]' in out.replace(" ", "")
    assert '"Namespace":"Fanfold"' in out.replace(" ", "")
    assert "A publisher has grown." in caplog.text
    system.publish()
    system.pump()
    assert len(system.reached()) == 12


def test_a_growth_that_is_refused_is_told_and_counted(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    edges = _wiring.edges(system.settings)
    for _ in range(12):
        edges.growing.failed("ada", hot())
        system.clock.advance(1)
    assert '"GrowthsRefused":[1.0]' in capsys.readouterr().out.replace(" ", "")
    assert system.rows(names.PUBLISHERS) == []


def test_a_follow_that_the_table_does_not_take_is_answered_with_try_later_and_mended(
    system: System, fail_first: FailFirst
) -> None:
    fail_first(system.edge_client, "put_item", [hot() for _ in range(ATTEMPTS)])
    answer = system.follow("bob")
    assert (answer.status, answer.slug) == (503, "try-later")
    assert system.placements() == []
    system.pump()
    assert system.edges() == ["bob"]


# One level for all


def test_a_static_level_is_written_at_from_the_next_minute_on_and_deliveries_know(
    system: System,
) -> None:
    system.follow("bob")
    system.publishers.set_static_level(2)
    forget(system)
    system.follow("carol")
    assert system.publishers.shards("ada").level == 2
    assert system.placements() == [(0, "bob"), (2, "carol")]
    system.publish()
    system.pump()
    assert system.reached() == ["bob", "carol"]
    assert system.ledger().level == 2


def test_a_static_level_that_is_lowered_or_taken_back_loses_nobody(system: System) -> None:
    for number, level in enumerate((3, 1, None, 0)):
        system.publishers.set_static_level(level)
        forget(system)
        system.follow(f"user-{number}")
    assert system.publishers.static_level() == 0
    assert system.publishers.shards("ada").level == 3
    assert sorted(system.placements()) == [
        (0, "user-3"),
        (1, "user-1"),
        (3, "user-0"),
        (3, "user-2"),
    ]
    system.publish()
    system.pump()
    assert system.reached() == [f"user-{number}" for number in range(4)]
    for number in range(4):
        system.unfollow(f"user-{number}")
    assert system.placements() == []


def test_the_row_of_all_publishers_says_no_level_until_it_is_set(system: System) -> None:
    publishers = system.publishers
    assert publishers.static_level() is None
    publishers.set_static_level(None)
    assert publishers.static_level() is None
    publishers.set_static_level(0)
    assert publishers.static_level() == 0
    publishers.set_static_level(None)
    assert publishers.static_level() is None


@pytest.mark.parametrize("wanted", [True, False])
def test_a_door_that_stops_after_any_call_while_it_commits_a_level_is_mended(
    system: System, wanted: bool
) -> None:
    system.publishers.set_static_level(2)
    for calls in itertools.count(1):
        user, publisher = f"user-{calls}", f"publisher-{calls}"
        if not wanted:
            system.follow(user, publisher)
            system.pump()
        forget(system)
        with CrashAfter(calls) as crash:
            (system.follow if wanted else system.unfollow)(user, publisher)
        if not crash.happened:
            break
        assert (system.follow if wanted else system.unfollow)(user, publisher).status < 300
        system.pump()
        assert system.placements(publisher) == ([(2, user)] if wanted else [])
        assert system.publishers.shards(publisher).level == 2
        system.publish(f"post-{calls}", user=publisher)
        system.pump()
        assert system.reached(f"post-{calls}") == ([user] if wanted else [])
    assert calls > 7, "the door makes more calls than that"


# How fast follows come


def test_follows_of_one_window_add_up(system: System) -> None:
    now = AT_MS // WINDOW_MS * WINDOW_MS
    for late in (0, 1, WINDOW_MS - 1):
        system.publishers.count("ada", 16, now_ms=now + late)
    found = system.publishers.shards("ada")
    assert (found.window, found.follows, found.follows_before) == (now // WINDOW_MS, 48, 0)
    assert (found.level, found.version) == (0, 0)


def test_the_next_window_begins_anew_and_remembers_the_one_before(system: System) -> None:
    now = AT_MS // WINDOW_MS * WINDOW_MS
    system.publishers.count("ada", 500, now_ms=now)
    system.publishers.count("ada", 16, now_ms=now + WINDOW_MS)
    system.publishers.count("ada", 16, now_ms=now + WINDOW_MS)
    found = system.publishers.shards("ada")
    assert (found.follows, found.follows_before) == (32, 500)
    assert found.rate(now + WINDOW_MS) == pytest.approx(532 / WINDOW_SECONDS)


@pytest.mark.parametrize("windows", [2, 3, 1_000])
def test_a_much_later_window_remembers_nothing(system: System, windows: int) -> None:
    now = AT_MS // WINDOW_MS * WINDOW_MS
    system.publishers.count("ada", 500, now_ms=now)
    system.publishers.count("ada", 16, now_ms=now + windows * WINDOW_MS)
    found = system.publishers.shards("ada")
    assert (found.follows, found.follows_before) == (16, 0)
    assert found.window == now // WINDOW_MS + windows


def test_of_a_window_that_is_over_nothing_is_counted(system: System) -> None:
    system.publishers.count("ada", 16, now_ms=AT_MS)
    before = system.rows(names.PUBLISHERS)
    for windows in (1, 2, FAR_WINDOWS):
        system.publishers.count("ada", 500, now_ms=AT_MS - windows * WINDOW_MS)
    assert system.rows(names.PUBLISHERS) == before


def test_counting_and_growing_leave_each_other_alone(system: System) -> None:
    publishers = system.publishers
    publishers.count("ada", 500, now_ms=AT_MS)
    grow(system, 1)
    seen = publishers.shards("ada")
    assert seen.history == (Growth(1, AT_MS, 100),)
    publishers.count("ada", 16, now_ms=AT_MS)
    assert publishers.update("ada", seen=seen, shards=raised(seen, level=2, now_ms=AT_MS))
    found = publishers.shards("ada")
    assert (found.level, found.version, found.follows) == (2, 2, 516)
