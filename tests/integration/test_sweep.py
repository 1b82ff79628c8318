"""SWEEP: what was accepted and then lost is sent again, a bounded number of times."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fanfold.aws.event_sources import EventSourceMappings
from fanfold.fanout.backlog import Resume
from fanfold.fanout.sweep import MAX_ROUNDS, NEARLY_EMPTY, QUEUED_TOO_LONG_SECONDS
from fanfold.ids import ref_id_for
from tests.integration.system import (
    POST,
    VISIBILITY_SECONDS,
    Crash,
    CrashAfter,
    System,
    error,
    event,
)

NOW = "2026-11-20T18:00:00.123Z"
OVERDUE_SECONDS = VISIBILITY_SECONDS + 1
QUEUED_OVERDUE_SECONDS = QUEUED_TOO_LONG_SECONDS + 1


def sweep_after(system: System, seconds: float) -> None:
    system.clock.advance(seconds)
    system.sweep()


def fill(system: System, queue: str) -> None:
    """Put one message more into the queue than SWEEP takes for an empty one."""
    for number in range(NEARLY_EMPTY + 1):
        system.sqs.send_message(QueueUrl=system.url(queue), MessageBody=f"{number}")


def test_a_queued_fanout_is_sent_again_only_when_it_waits_too_long(system: System) -> None:
    users = system.give_followers(2)
    system.publish()
    system.bodies("Publish")  # lost
    sweep_after(system, QUEUED_TOO_LONG_SECONDS)
    assert system.waiting("Publish") == 0
    sweep_after(system, 0.001)
    assert system.ledger().rounds == 1
    system.sweep()
    assert system.waiting("Publish") == 1, "not again at once"
    system.pump()
    assert system.reached() == users
    assert system.ledger().rounds == 0


@pytest.fixture
def lost(system: System, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A fan-out of four segments, of which two are delivered and the others' messages lost."""
    monkeypatch.setattr("fanfold.fanout.plan.count_for", lambda _followers: 4)
    users = system.give_followers(40)
    system.publish()
    system.pump("Publish")
    for _ in range(2):
        assert system.pump_once("Bulk")
    system.bodies("Bulk")
    assert len(system.ledger().pending) == 2
    return users


def test_overdue_segments_are_sent_again_and_the_fanout_completes(
    system: System, lost: list[str]
) -> None:
    sweep_after(system, VISIBILITY_SECONDS)
    assert system.waiting("Bulk") == 0, "a worker may still have it"
    system.clock.advance(0.001)
    pending = sorted(system.ledger().pending)
    resumed = f"{pending[0] * 4:x}" + "8" * 15
    system.fanouts.store_resume(POST, pending[0], Resume(resumed, 0), now=NOW)
    system.sweep()
    commands = sorted(system.bodies("Bulk"), key=lambda command: command["segment"])
    assert [command["segment"] for command in commands] == pending
    assert [command["position"] for command in commands] == [resumed, ""]
    system.fanouts.next_round(system.ledger(), now=NOW)
    sweep_after(system, OVERDUE_SECONDS)
    system.pump()
    assert set(system.reached()) <= set(lost)
    assert (system.ledger().state, system.open_fanouts()) == ("complete", [])


def test_overdue_segments_reach_every_follower(system: System, lost: list[str]) -> None:
    sweep_after(system, OVERDUE_SECONDS)
    system.pump()
    assert system.reached() == lost
    assert system.ledger().delivered == len(lost)


@pytest.mark.usefixtures("lost")
def test_a_long_backlog_explains_the_silence(system: System) -> None:
    fill(system, "Bulk")
    sweep_after(system, OVERDUE_SECONDS)
    assert system.waiting("Bulk") == NEARLY_EMPTY + 1
    assert system.ledger().rounds == 0
    system.sqs.purge_queue(QueueUrl=system.url("Bulk"))
    system.sweep()
    assert system.waiting("Bulk") == 2


def test_a_long_backlog_of_the_publish_queue_is_not_made_longer(system: System) -> None:
    for number in range(NEARLY_EMPTY + 1):
        system.publish(f"post-{number}")
    sweep_after(system, QUEUED_OVERDUE_SECONDS)
    assert system.waiting("Publish") == NEARLY_EMPTY + 1
    assert system.ledger(ref_id_for("ada", "post-0")).rounds == 0


@pytest.mark.usefixtures("lost")
def test_a_backlog_of_the_other_lane_explains_nothing(system: System) -> None:
    fill(system, "Express")
    sweep_after(system, OVERDUE_SECONDS)
    assert system.waiting("Bulk") == 2


def test_an_interrupted_completion_is_finished(system: System, lost: list[str]) -> None:
    for segment in sorted(system.ledger().pending):
        after = system.fanouts.finish_segment(system.ledger(), segment, written=10, now=NOW)
        assert after
    assert system.ledger().state == "delivering"
    system.sweep()
    assert system.ledger().state == "complete"
    assert system.open_fanouts() == []


@pytest.mark.usefixtures("lost")
def test_a_fanout_stalls_visibly_after_its_last_round(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    for round_ in range(1, MAX_ROUNDS + 1):
        sweep_after(system, OVERDUE_SECONDS)
        assert len(system.bodies("Bulk")) == 2  # lost each time
        assert (system.ledger().state, system.ledger().rounds) == ("delivering", round_)
    assert stalled_counts(capsys) == [0] * MAX_ROUNDS
    sweep_after(system, OVERDUE_SECONDS)
    assert system.ledger().state == "stalled"
    assert list(system.fanouts.stalled_ids(page=1)) == [POST], "visibly incomplete"
    assert system.open_fanouts() == [], "it leaves room for others"
    for _ in range(2):
        sweep_after(system, OVERDUE_SECONDS)
    assert system.waiting("Bulk") == 0
    assert stalled_counts(capsys) == [0, 1, 1], "a gauge, emitted by every run"


def stalled_counts(capsys: pytest.CaptureFixture[str]) -> list[float]:
    """The metric as each run since the last call has emitted it."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" in line]
    return [sum(line["FanoutsStalled"]) for line in lines if "FanoutsStalled" in line]


def test_a_run_that_crashes_after_a_fanout_stalled_loses_no_count(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    system.publish()
    system.bodies("Publish")
    for _ in range(MAX_ROUNDS):
        system.fanouts.next_round(system.ledger(), now=NOW)
    system.clock.advance(QUEUED_OVERDUE_SECONDS)
    with CrashAfter(5) as crash, suppress(Crash):  # scan; scan, get, backlog, update
        system.sweep()
    assert crash.happened
    assert system.ledger().state == "stalled"
    system.sweep()
    assert stalled_counts(capsys) == [0, 1]


def test_progress_resets_the_rounds(system: System, lost: list[str]) -> None:
    for _ in range(3):
        sweep_after(system, OVERDUE_SECONDS)
        system.bodies("Bulk")
    assert system.ledger().rounds == 3
    segment = min(system.ledger().pending)
    system.fanouts.store_resume(POST, segment, Resume("f" * 16, 0), now=NOW)
    assert system.ledger().rounds == 0


def test_a_stalled_fanout_completes_when_its_segments_arrive_late(
    system: System, lost: list[str]
) -> None:
    command = json.loads(event("bulk_lane/segment_deliver")["Records"][0]["body"])
    system.fanouts.give_up(system.ledger(), now=NOW)
    for segment in system.ledger().pending:
        late = {**command, "fanout_id": POST, "segment": segment}
        system.take({"Records": [system.record("Bulk", late)]})
    assert system.reached() == lost
    assert system.ledger().state == "complete"
    assert system.open_fanouts() == []


def test_an_interrupted_completion_of_a_stalled_fanout_is_finished(
    system: System, lost: list[str]
) -> None:
    system.fanouts.give_up(system.ledger(), now=NOW)
    for segment in sorted(system.ledger().pending):
        assert system.fanouts.finish_segment(system.ledger(), segment, written=10, now=NOW)
    assert system.ledger().state == "delivering", "progress reopens it"
    system.sweep()
    assert system.ledger().state == "complete"


@pytest.fixture
def no_backlog_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let SWEEP send again however many commands wait already."""
    monkeypatch.setattr("fanfold.fanout.sweep.NEARLY_EMPTY", 1_000)


def stall_before_plan(system: System) -> None:
    """Let PLAN's queue stand still until SWEEP gives up; the commands stay in it."""
    for _ in range(MAX_ROUNDS + 1):
        sweep_after(system, QUEUED_OVERDUE_SECONDS)
    assert system.ledger().state == "stalled"


@pytest.mark.usefixtures("no_backlog_counts")
@pytest.mark.parametrize("count", [0, 3])
def test_a_late_command_plans_a_fanout_that_stalled_before_its_plan(
    system: System, count: int
) -> None:
    users = system.give_followers(count)
    system.publish()
    stall_before_plan(system)
    system.pump()
    assert system.reached() == users
    assert (system.ledger().state, system.ledger().delivered) == ("complete", count)
    assert system.open_fanouts() == []


@pytest.mark.usefixtures("no_backlog_counts")
def test_a_fanout_that_stalled_before_its_plan_is_not_taken_for_complete(system: System) -> None:
    system.publish()
    stall_before_plan(system)
    system.sweep()
    assert not system.fanouts.complete_if_delivered(POST, now=NOW)
    assert system.ledger().state == "stalled"


def test_a_run_that_crashes_after_any_call_does_no_harm(system: System) -> None:
    users = system.give_followers(2)
    for calls in range(1, 12):
        ref_id = system.publish(f"post-{calls}").body["ref_id"]
        system.bodies("Publish")
        system.clock.advance(QUEUED_OVERDUE_SECONDS)
        with CrashAfter(calls) as crash, suppress(Crash):
            system.sweep()
        assert crash.happened == (calls <= 10)  # scans, get, backlog, update, send; DLQs
        sweep_after(system, QUEUED_OVERDUE_SECONDS)
        system.pump()
        assert system.reached(ref_id) == users
        assert system.ledger(ref_id).delivered == 2


def test_two_runs_at_once_send_once(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    system.publish()
    system.bodies("Publish")
    system.clock.advance(QUEUED_OVERDUE_SECONDS)
    plain = system.dynamodb.update_item
    runs: list[int] = []

    def update(**request: Any) -> Any:
        runs.append(1)
        if len(runs) == 1:  # just before the first run counts its round
            assert len(list(system.door("sweep").sweeping.sweep())) == 1
        return plain(**request)

    monkeypatch.setattr(system.dynamodb, "update_item", update)
    system.sweep()
    assert len(runs) == 2
    assert system.waiting("Publish") == 1
    assert system.ledger().rounds == 1


def test_open_fanouts_on_all_pages_of_the_index_are_examined(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fanfold.fanout.sweep.PAGE", 2)
    for number in range(7):
        system.publish(f"post-{number}")
    system.bodies("Publish")
    sweep_after(system, QUEUED_OVERDUE_SECONDS)
    planned = sorted(command["fanout_id"] for command in system.bodies("Publish"))
    assert planned == sorted(ref_id_for("ada", f"post-{number}") for number in range(7))


def test_a_complete_fanout_is_left_alone(system: System) -> None:
    system.publish()
    system.pump()
    before = system.dump()
    sweep_after(system, 100_000)
    assert system.dump() == before
    assert system.waiting("Publish") == 0


class FakeLambda:
    """The state of each event source mapping, by the name of its queue."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.asked: list[str] = []

    def get_event_source_mapping(self, *, UUID: str) -> dict[str, str]:  # noqa: N803
        self.asked.append(UUID)
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
def test_a_paused_lane_counts_no_rounds(
    system: System, lost: list[str], mappings: FakeLambda, state: str
) -> None:
    mappings.states["Bulk"] = state
    for _ in range(MAX_ROUNDS + 2):
        sweep_after(system, OVERDUE_SECONDS)
    assert system.waiting("Bulk") == 0
    assert (system.ledger().state, system.ledger().rounds) == ("delivering", 0)
    mappings.states["Bulk"] = "Enabling"
    system.sweep()
    system.pump()
    assert system.reached() == lost


def test_a_paused_publish_queue_counts_no_rounds(system: System, mappings: FakeLambda) -> None:
    mappings.states["Publish"] = "Disabled"
    system.publish()
    sweep_after(system, QUEUED_OVERDUE_SECONDS)
    assert (system.waiting("Publish"), system.ledger().rounds) == (1, 0)


@pytest.mark.usefixtures("lost")
def test_a_pause_of_the_other_lane_changes_nothing(system: System, mappings: FakeLambda) -> None:
    mappings.states["Express"] = "Disabled"
    sweep_after(system, OVERDUE_SECONDS)
    assert system.waiting("Bulk") == 2


def test_a_mapping_is_read_once_per_run_and_only_for_overdue_fanouts(
    system: System, mappings: FakeLambda
) -> None:
    for number in range(5):
        system.publish(f"post-{number}")
    system.sweep()
    assert mappings.asked == []
    mappings.states["Publish"] = "Disabled"
    for runs in (1, 2):
        sweep_after(system, QUEUED_OVERDUE_SECONDS)
        assert mappings.asked == ["Publish"] * runs


def test_an_unreadable_mapping_fails_the_run_and_sends_nothing(
    system: System, mappings: FakeLambda, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_request: str) -> Any:
        raise error("AccessDeniedException")

    monkeypatch.setattr(mappings, "get_event_source_mapping", fail)
    system.publish()
    system.clock.advance(QUEUED_OVERDUE_SECONDS)
    with pytest.raises(ClientError):
        system.sweep()
    assert (system.waiting("Publish"), system.ledger().rounds) == (1, 0)
