"""Follow, unfollow and delivery with edges at several levels of write shards."""

from __future__ import annotations

import itertools
import json
import threading
from typing import Any

import pytest

from fanfold import clock, names
from fanfold.follows.levels import LEVEL_SECONDS
from fanfold.follows.sharding import HOT_KEY_RANGE, MAX_HISTORY, Growth, raised
from functions import _wiring, plan
from tests.service import AT_MS, FailFirst, System, error


def grow(system: System, level: int, publisher: str = "ada") -> None:
    """Raise a publisher to a level, as another container does."""
    seen = system.publishers.shards(publisher)
    grown = raised(seen, level=level, now_ms=system.clock.ms)
    assert system.publishers.update(publisher, seen=seen, shards=grown)


def forget(system: System) -> None:
    """Let the levels that the doors remember expire."""
    system.clock.advance(LEVEL_SECONDS + 1)


def give(system: System, level: int, *users: str) -> None:
    """Write edges at a level."""
    assert not system.edges_table.put_all(("ada", user, 1, level) for user in users)


def hot() -> Exception:
    """A throttle of one key range, as DynamoDB answers it."""
    throttle = error("ThrottlingException")
    reason = {"reason": HOT_KEY_RANGE, "resource": "arn:aws:dynamodb:::table/Followers"}
    throttle.response["throttlingReasons"] = [reason]  # type: ignore[typeddict-unknown-key]
    return throttle


# Following and unfollowing


def test_a_follow_goes_to_the_current_level_and_an_unfollow_finds_it_at_any_level(
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


# Publishing


def test_everybody_is_reached_once_at_any_mixture_of_levels(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fanfold.fanout.segment_size.SEGMENT_FOLLOWERS", 10)
    monkeypatch.setattr("fanfold.follows.follower_estimate.SAMPLE_EDGES", 20)
    monkeypatch.setattr("fanfold.follows.edges_table.PAGE_EDGES", 7)
    users = [f"user-{number:02d}" for number in range(60)]
    level = 4
    for at in range(level + 1):
        give(system, at, *users[at :: level + 1])
    for at in (0, level):
        give(system, at, *users[::7])
    grow(system, level)
    system.publish()
    system.pump()
    assert system.reached() == users
    ledger = system.ledger()
    assert (ledger.state, ledger.delivered, ledger.level) == ("complete", 60, level)
    assert ledger.segments > 1


def test_plan_reads_pages_of_many_shards_in_parallel(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(system, 2)
    system.follow("bob")
    both = threading.Barrier(2, timeout=5)
    made = itertools.count()
    client = plan.planning.edges_table.client
    query = client.query

    def met(**request: Any) -> Any:
        is_of_edges = "IndexName" not in request  # RELATE looks at the outbox through this client
        if is_of_edges and 1 <= next(made) < 3:  # the first one is made beside the lookup
            both.wait()
        return query(**request)

    monkeypatch.setattr(client, "query", met)
    system.publish()
    system.pump()
    assert system.reached() == ["bob"]
    assert next(made) == 7, "PLAN's reads; DELIVER has a client of its own"


# Growing


def test_the_history_of_growths_is_stored_and_bounded(system: System) -> None:
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
    assert len(json.dumps(row)) < 2_000, "always one read unit"


def test_a_door_under_lasting_throttles_grows_its_publisher_and_reports_it(
    system: System,
    fail_first: FailFirst,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Half of the longest wait before a growth, so that a second one is due after these 12 s.
    monkeypatch.setattr(clock, "chance", lambda: 0.5)
    for number in range(12):
        system.publishers.count("ada", 5_000, now_ms=system.clock.ms)
        fail_first(system.edge_client, "put_item", [hot()])
        assert system.follow(f"user-{number:02d}").status == 200
        system.clock.advance(1)
    found = system.publishers.shards("ada")
    assert found.level == 1, "one growth per cooldown"
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


def test_a_refused_growth_is_counted(system: System, capsys: pytest.CaptureFixture[str]) -> None:
    edges = _wiring.edges(system.settings)
    for _ in range(12):
        edges.growing.failed("ada", hot(), lambda: None)
        system.clock.advance(1)
    assert '"GrowthsRefused":[1.0]' in capsys.readouterr().out.replace(" ", "")
    assert system.rows(names.PUBLISHERS) == []


# A static level


@pytest.mark.usefixtures("through_lanes")
def test_doors_write_at_a_static_level_within_a_minute_and_deliveries_read_it(
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
