"""SWEEP: what was accepted and then lost is sent again, a bounded number of times."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fanfold import clock, names, times
from fanfold.aws.event_sources import EventSourceMappings
from fanfold.fanout.backlog import Resume
from fanfold.sweep.silence import (
    ANSWERED_SILENCE_SECONDS,
    MAX_ROUNDS,
    PLAN_SILENCE_SECONDS,
    SILENCE_SECONDS,
)
from tests.service import POST, System, around_calls, error

# The clock of SWEEP goes on while it works, and rows must be older than two minutes.
A_BIT = 0.001
DAY = 86_400.0


def sweep_after(system: System, seconds: float) -> None:
    system.clock.advance(seconds)
    system.sweep()


def sweep_each_minute(system: System, minutes: int) -> None:
    for _ in range(minutes):
        sweep_after(system, 60)


def lose(system: System, count: int) -> list[str]:
    """Publish posts whose commands to PLAN are lost for long enough; their ids, in order."""
    ids = sorted(system.publish(f"post-{number}").body["ref_id"] for number in range(count))
    system.bodies("Publish")
    system.clock.advance(PLAN_SILENCE_SECONDS + A_BIT)
    return ids


def ask_and_take(system: System, queue: str = "Bulk") -> list[dict[str, Any]]:
    """Let SWEEP ask, and a worker take the question; returns all that was sent."""
    sweep_after(system, DAY)
    asked = system.bodies(queue)
    row = system.ledger()
    system.fanouts.note_answer(row)
    return asked


# Questions to PLAN


def test_a_lost_command_to_plan_is_sent_again_only_after_two_minutes(system: System) -> None:
    users = system.give_followers(2)
    system.publish()
    system.bodies("Publish")  # lost
    sweep_after(system, PLAN_SILENCE_SECONDS)
    assert system.waiting("Publish") == 0
    sweep_after(system, A_BIT)
    assert (system.ledger().asks, system.ledger().asked_at) == (1, system.clock.ms)
    system.sweep()
    assert system.waiting("Publish") == 1, "not again at once"
    system.pump()
    assert system.reached() == users
    assert system.ledger().state == "complete"


# Questions to a lane


def test_lost_segments_are_asked_for_and_the_fanout_completes(
    system: System, lost: list[str]
) -> None:
    sweep_after(system, SILENCE_SECONDS - A_BIT)
    assert system.waiting("Bulk") == 0, "a worker may still have them"
    pending = sorted(system.ledger().pending)
    resumed = f"{pending[0] * 4:x}" + "8" * 15
    now = times.to_text(system.clock.ms - SILENCE_SECONDS * 1000)
    system.fanouts.store_resume(system.ledger(), pending[0], Resume(resumed, 0), now=now)
    sweep_after(system, A_BIT)
    commands = sorted(system.bodies("Bulk"), key=lambda command: command["segment"])
    assert [command["segment"] for command in commands] == pending
    assert [command["position"] for command in commands] == [resumed, ""]
    sweep_each_minute(system, 60)
    system.pump()
    assert set(system.reached()) <= set(lost)
    assert (system.ledger().state, system.open_fanouts()) == ("complete", [])


# The end


@pytest.mark.usefixtures("lost")
def test_a_fanout_stalls_visibly_after_its_last_round(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    for rounds in range(1, MAX_ROUNDS + 1):
        assert len(ask_and_take(system)) == 2  # lost each time
        sweep_after(system, ANSWERED_SILENCE_SECONDS)
        assert len(system.bodies("Bulk")) == 2  # the round
        assert (system.ledger().state, system.ledger().rounds) == ("delivering", rounds)
    assert gauges(capsys, names.FANOUTS_STALLED) == [0] * 2 * MAX_ROUNDS
    ask_and_take(system)
    sweep_after(system, ANSWERED_SILENCE_SECONDS)
    assert system.ledger().state == "stalled"
    assert list(system.fanouts.stalled_ids()) == [POST], "visibly incomplete"
    assert system.open_fanouts() == [], "it leaves room for others"
    for _ in range(2):
        sweep_after(system, DAY)
    assert system.waiting("Bulk") == 0
    assert gauges(capsys, names.FANOUTS_STALLED) == [0, 1, 1, 1], "a gauge, of every run"


@pytest.mark.usefixtures("lost")
def test_a_stalled_fanout_expires_when_nobody_would_see_its_entries(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    system.give_up()
    capsys.readouterr()
    sweep_after(system, system.ledger().expires_at - clock.now_ms() / 1000 - 1)
    assert system.ledger().state == "stalled"
    sweep_after(system, 1)
    assert system.ledger().state == "expired"
    assert list(system.fanouts.stalled_ids()) == []
    assert gauges(capsys, names.FANOUTS_STALLED) == [1, 0], "it hides the next one no longer"


def gauges(capsys: pytest.CaptureFixture[str], name: str) -> list[float]:
    """A metric as each run since the last call has emitted it: one value, or none."""
    found = []
    for line in (json.loads(raw) for raw in capsys.readouterr().out.splitlines() if "_aws" in raw):
        if name in line:
            (value,) = line[name]
            found.append(value)
    return found


@pytest.mark.parametrize(
    ("seconds", "reports"), [(names.SWEEP.seconds, 1), (names.SWEEP.seconds + 1, 0)]
)
def test_a_run_that_was_frozen_reports_nothing(
    system: System, capsys: pytest.CaptureFixture[str], seconds: int, reports: int
) -> None:
    def freeze(_operation: str, request: dict[str, Any], make: Callable[[], Any]) -> Any:
        answer = make()
        if request.get("Select") == "COUNT":
            system.clock.ms += seconds * 1000  # the monotonic clock stands
        return answer

    system.publish()
    with around_calls(freeze):
        system.sweep()
    assert len(gauges(capsys, names.OLDEST_SMALL_OPEN_SECONDS)) == reports
    system.sweep()
    (age,) = gauges(capsys, names.OLDEST_SMALL_OPEN_SECONDS)
    assert age >= seconds


def test_a_run_that_was_frozen_forgets_no_pause_that_another_has_seen(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.publish()
    system.clock.advance(PLAN_SILENCE_SECONDS + 1)
    door = system.door("sweep")
    paused = [False]
    monkeypatch.setattr(type(door.sweeping.mappings), "is_paused", lambda *_: paused[0])
    frozen = list[int]()

    def freeze(operation: str, _request: dict[str, Any], make: Callable[[], Any]) -> Any:
        if operation == "BatchGetItem" and not frozen:
            frozen.append(1)
            paused[0] = True
            system.clock.advance(60)
            system.sweep()
            paused[0] = False  # resumed
            system.clock.advance(540)
        return make()

    with around_calls(freeze):
        system.sweep()
    assert set(door.fanouts.memory().paused) == {"Publish", "Express", "Bulk"}


@pytest.mark.usefixtures("lost")
def test_the_age_of_the_oldest_open_fanout_is_measured_by_size(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(name: str) -> float:
        system.sweep()
        (seconds,) = gauges(capsys, name)
        return seconds

    system.clock.advance(200)
    system.publish("post-2")
    system.clock.advance(130)
    assert measured(names.OLDEST_SMALL_OPEN_SECONDS) == 130
    assert measured(names.OLDEST_LARGE_OPEN_SECONDS) >= 330
    system.pump()
    sweep_after(system, 700)
    system.pump()
    capsys.readouterr()
    assert measured(names.OLDEST_SMALL_OPEN_SECONDS) == 0
    assert measured(names.OLDEST_LARGE_OPEN_SECONDS) == 0


def test_a_late_command_plans_a_fanout_that_stalled_before_its_plan(system: System) -> None:
    users = system.give_followers(3)
    system.publish()
    system.give_up()
    system.pump()
    assert system.reached() == users
    assert (system.ledger().state, system.ledger().delivered) == ("complete", 3)


# Going round


def test_open_fanouts_on_all_pages_of_the_index_are_looked_at(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = lose(system, 7)
    plain = system.dynamodb.scan
    monkeypatch.setattr(system.dynamodb, "scan", lambda **request: plain(**{**request, "Limit": 2}))
    system.sweep()
    planned = sorted(command["fanout_id"] for command in system.bodies("Publish"))
    assert planned == ids


def test_one_unreadable_row_keeps_no_other_fanout_from_being_mended(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = lose(system, 3)
    system.dynamodb.update_item(
        TableName=system.settings.fanouts_table,
        Key={"fanout_id": {"S": ids[1]}},
        UpdateExpression="SET asks = :text",
        ExpressionAttributeValues={":text": {"S": "many"}},
    )
    with pytest.raises(KeyError):
        system.sweep()
    asked = sorted(command["fanout_id"] for command in system.bodies("Publish"))
    assert asked == [ids[0], ids[2]]
    assert "_aws" not in capsys.readouterr().out


@pytest.mark.parametrize(("seconds", "sent"), [(50, 0), (30, 2)])
def test_a_run_out_of_time_stops_and_the_next_one_goes_on(
    system: System, monkeypatch: pytest.MonkeyPatch, seconds: float, sent: int
) -> None:
    monkeypatch.setattr("fanfold.sweep.sweep.ROWS_A_STEP", 2)
    lose(system, 5)
    plain = system.dynamodb.batch_get_item

    def slow(**request: Any) -> Any:
        system.clock.advance(seconds)
        return plain(**request)

    with monkeypatch.context() as slowly:
        slowly.setattr(system.dynamodb, "batch_get_item", slow)
        system.sweep()
        assert [system.ledger(ref_id).asks for ref_id in system.open_fanouts()].count(1) == sent
        assert system.waiting("Publish") == sent, "without time, nothing is noted that is not sent"
    system.sweep()
    assert system.waiting("Publish") == 5


# Pauses


class FakeLambda:
    """The state of each event source mapping, by the name of its queue."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.asked: list[str] = []
        self.refuses = False

    def get_event_source_mapping(self, *, UUID: str) -> dict[str, str]:  # noqa: N803
        self.asked.append(UUID)
        if self.refuses:
            raise error("TooManyRequestsException")
        return {"State": self.states.get(UUID, "Enabled")}


@pytest.fixture
def mappings(system: System, monkeypatch: pytest.MonkeyPatch) -> FakeLambda:
    """The event source mappings that SWEEP reads."""
    fake, door = FakeLambda(), system.door("sweep")
    ids = {system.url(queue): queue for queue in ("Publish", "Express", "Bulk")}
    known = EventSourceMappings(fake, ids)  # type: ignore[arg-type]
    monkeypatch.setattr(door, "sweeping", replace(door.sweeping, mappings=known))
    return fake


@pytest.mark.parametrize("state", ["Disabling", "Disabled"])
def test_a_paused_lane_is_sent_nothing_and_its_silence_counts_from_the_resume(
    system: System, lost: list[str], mappings: FakeLambda, state: str
) -> None:
    mappings.states["Bulk"] = state
    for _ in range(24):
        sweep_after(system, 1800)
    assert system.waiting("Bulk") == 0
    assert (system.ledger().state, system.ledger().asks) == ("delivering", 0)
    mappings.states["Bulk"] = "Enabling"
    sweep_after(system, SILENCE_SECONDS - A_BIT)
    assert system.waiting("Bulk") == 0, "what waits has had no time"
    sweep_after(system, A_BIT)
    system.pump()
    assert system.reached() == lost


def test_each_mapping_is_read_once_a_run(system: System, mappings: FakeLambda) -> None:
    lose(system, 5)
    for runs in (1, 2):
        system.sweep()
        assert sorted(mappings.asked) == sorted(["Publish", "Express", "Bulk"] * runs)


def test_an_unreadable_mapping_fails_the_run_and_keeps_nobody_from_being_asked(
    system: System, mappings: FakeLambda
) -> None:
    mappings.refuses = True
    system.publish()
    system.clock.advance(PLAN_SILENCE_SECONDS + A_BIT)
    with pytest.raises(ClientError):
        system.sweep()
    assert (system.waiting("Publish"), system.ledger().asks) == (2, 1)


@pytest.mark.usefixtures("lost")
def test_a_lane_stays_paused_while_its_mapping_cannot_be_read(
    system: System, mappings: FakeLambda
) -> None:
    mappings.states["Bulk"] = "Disabled"
    sweep_after(system, 60)
    mappings.refuses = True
    for _ in range(30):
        with pytest.raises(ClientError):
            sweep_after(system, 1800)
    assert system.waiting("Bulk") == 0
    mappings.refuses, mappings.states = False, {}
    sweep_after(system, SILENCE_SECONDS)
    assert system.waiting("Bulk") == 2
