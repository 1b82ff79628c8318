"""CloudWatch in the simulation: what it measures, and that its checks notice what they are for."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fanfold import names
from proof.model.cloudwatch import OK, Alarm
from proof.simulation.checks import alarms
from proof.simulation.checks.evidence import Evidence
from proof.simulation.checks.judge import violations
from proof.simulation.kinds import steady
from proof.simulation.observed import cloudwatch
from proof.simulation.world.lambdas import dlq_url, installed
from proof.simulation.world.world import World
from tests.simulation.spoilings import calm

LATE = "a_late_post_rings_its_alarm"


def told(story: steady.Story, seed: int) -> tuple[World, list[str]]:
    """A world of this story, and what it violates."""
    with installed():
        world = World(seed)
        steady.tell(story, world, Random(f"{seed} steady"))
        return world, violations(world, steady.KIND.checks)


def first_violation(story: steady.Story, seeds: int = 12) -> str:
    """The first violation of some worlds; empty if there is none."""
    return next((found[0] for seed in range(seeds) if (found := told(story, seed)[1])), "")


def with_alarm(monkeypatch: pytest.MonkeyPatch, name: str, **properties: Any) -> None:
    """Change the properties of an alarm in what the simulation knows of the template."""
    alarms = dict(cloudwatch.alarms())
    alarms[name] = Alarm({**alarms[name].properties, **properties})
    monkeypatch.setattr(cloudwatch, "alarms", lambda: alarms)


# What it measures


@pytest.mark.parametrize(
    "name", [each for each in cloudwatch.alarms() if each not in cloudwatch.SILENCES]
)
@pytest.mark.parametrize("value", [0, None])
def test_an_alarm_without_a_value_above_zero_need_not_be_looked_at(
    name: str, value: int | None
) -> None:
    alarm = cloudwatch.alarms()[name]
    named = alarm.metrics if alarm.expression else ["values"]
    states = list(alarm.states(OK, **{each: [value] * 60 for each in named}))
    assert set(states) == {OK}


def with_letters(world: World, *queues: names.Queue) -> World:
    """The world has been watched for some minutes, with a dead letter of each queue."""
    cloudwatch.Watch(world)
    for queue in queues:
        world.sqs.send_message(QueueUrl=dlq_url(queue), MessageBody="{}", MessageGroupId="any")
    world.run(lambda each: each.start_client("idle", lambda: each.scheduler.sleep(150.0)))
    return world


@pytest.mark.parametrize("queue", names.QUEUES, ids=lambda each: each.name)
def test_a_dead_letter_rings_only_the_alarm_of_its_queue(queue: names.Queue) -> None:
    with installed():
        world = with_letters(World(0), queue)
    assert world.watch
    assert world.watch.first_rang.keys() == {f"{queue.name}Failed"}


@pytest.mark.parametrize("is_told", [True, False])
def test_no_alarm_is_false_for_a_dead_letter_of_copies_or_two_edits_that_wait_for_their_posts(
    is_told: bool,
) -> None:
    with installed():
        of_copies, of_edits = with_letters(calm(), names.PUBLISH), calm()
        of_copies.faults.injected["duplicated"] = 4 if is_told else 5
        cloudwatch.Watch(of_edits).first_rang["PublishLate"] = 8
        receives = 5 if is_told else 6
        of_edits.observer.early |= {(task, "post") for task in range(receives)}
        for world in (of_copies, of_edits):
            assert any(alarms.a_calm_world_rings_no_alarm(Evidence(world))) is is_told


def test_a_dead_letter_rings_a_week_before_it_expires_though_sweep_has_read_it_often() -> None:
    with installed():
        world = calm()
        cloudwatch.Watch(world)
        url = dlq_url(names.BULK)
        world.sqs.send_message(QueueUrl=url, MessageBody="{}", MessageGroupId="any")
        (letter,) = world.queues.queue(url).messages()
        letter.sent_at -= 7 * 86_400 - 10 * 60
        world.run(lambda each: each.start_client("idle", lambda: each.scheduler.sleep(900.0)))
        assert letter.receives > 4
        assert world.queues.queue(url).age_of_oldest() == 0, "CloudWatch no longer counts it"
        assert world.watch
        assert world.watch.first_rang.keys() == {"BulkFailed", "DeadLettersExpiring"}
        assert 10 <= world.watch.first_rang["DeadLettersExpiring"] <= 14


@pytest.mark.thorough
@pytest.mark.parametrize("story", [story for story, _ in steady.STORIES], ids=lambda s: s.__name__)
def test_no_story_has_a_violation(story: steady.Story) -> None:
    assert not first_violation(story, seeds=2)


# That the checks notice. Five guards of mutants.diff show more: SWEEP reports too little, or a
# small post is treated as a large one.


NEVER = {"Threshold": 1_000_000}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("deaf", "properties", "story", "says"),
    [
        (["SmallFanoutsLate"], NEVER, steady.brownout, LATE),
        (
            ["SmallFanoutsLate"],
            {"EvaluationPeriods": 30, "DatapointsToAlarm": 30},
            steady.paused,
            LATE,
        ),
        (["SweepNotRunning"], {"TreatMissingData": "notBreaching"}, steady.no_sweep, LATE),
        (["BulkStandsStill", "BulkFailed"], NEVER, steady.forgotten_lane, LATE),
        (["PublishFailed", "PublishLate"], NEVER, steady.paused, "(not in the ledger) is late"),
    ],
)
def test_an_alarm_that_is_deaf_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
    deaf: list[str],
    properties: dict[str, Any],
    story: steady.Story,
    says: str,
) -> None:
    for name in deaf:
        with_alarm(monkeypatch, name, **properties)
    assert says in first_violation(story, seeds=30)


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        ("SweepNotRunning", {"Threshold": 2}),  # of one report a minute
        ("SweepFailing", {"EvaluationPeriods": 1, "DatapointsToAlarm": 1}),  # in a short trouble
    ],
)
def test_an_alarm_that_rings_in_the_calm_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, properties: dict[str, Any]
) -> None:
    with_alarm(monkeypatch, name, **properties)
    assert f"a_calm_world_rings_no_alarm: {name}" in first_violation(steady.calm)
