"""The verdict of `fanfold status`: what is well, what is not, and what nobody knows."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold.sweep.oldest import SMALL_LATE_SECONDS
from fanfold_cli.deliveries.pauses import Pause, Paused, PausedLane
from fanfold_cli.health.verdict import (
    NOT_KNOWN,
    NOT_WELL,
    STILL_SECONDS,
    WELL,
    Audit,
    Depth,
    Health,
    Open,
    Verdict,
    verdict_on,
)

NOW = 2_000_000_000_000
LANES = ("publish", "express", "bulk", "relation")
EMPTY: Any = {
    "now_ms": NOW,
    "open": (),
    "stalled": 0,
    "queues": {lane: Depth() for lane in LANES},
    "paused": Paused(),
    "channels": (0, 0),
    "lags": {},
    "throttles": {},
    "alarms": (),
}


def judged(**found: Any) -> Verdict:
    """The verdict on an empty stage with these differences."""
    return verdict_on(Health(**EMPTY | found))


def going(lane: str, seconds: float, moved: float | None = None) -> Open:
    """A delivery that was accepted so long ago; its row last changed then, or `moved` ago."""
    changed = seconds if moved is None else moved
    return Open(lane, NOW - int(seconds * 1000), NOW - int(changed * 1000))


def paused(*lanes: str) -> Paused:
    pause = Pause("ann", "2033-05-18T03:00:00.000Z", "", "a restore")
    return Paused(tuple(PausedLane(lane, (pause,)) for lane in lanes))


def whats(verdict: Verdict) -> list[str]:
    return [problem.what for problem in verdict.problems]


def test_an_empty_stage_is_well() -> None:
    said = "Everything is well: no delivery is open, and no alarm rings."
    assert judged() == Verdict((), said, WELL)


def test_deliveries_in_time_are_well_and_said() -> None:
    open_ = (going("express", 4), going("publish", 65))
    said = (
        "Everything is well: 2 deliveries are open, the oldest for 1 min 5 s, and no alarm rings."
    )
    assert judged(open=open_) == Verdict((), said, WELL)
    assert "1 delivery is open, the oldest for 4 s" in judged(open=open_[:1]).sentence


@pytest.mark.parametrize("lane", ["publish", "express"])
def test_a_small_delivery_is_late_as_its_alarm_says(lane: str) -> None:
    assert judged(open=(going(lane, SMALL_LATE_SECONDS - 0.001, 0),)).exit_code == WELL
    late = judged(open=(going(lane, SMALL_LATE_SECONDS, 0), going(lane, 7_200), going(lane, 1)))
    said = "2 small deliveries have taken more than 15 minutes, the oldest 2 h 0 min"
    assert (late.sentence, late.exit_code) == (f"Not everything is well: {said}.", NOT_WELL)
    assert "fanfold fanout list --open" in late.problems[0].do
    one = judged(open=(going(lane, 1_000),))
    assert whats(one) == ["1 small delivery has taken more than 15 minutes, the oldest 16 min 40 s"]


def test_a_large_delivery_may_take_long_as_long_as_no_alarm_rings() -> None:
    long = going("bulk", 3 * 86_400)
    assert judged(open=(long,)).exit_code == WELL
    rung = judged(open=(long,), alarms=("BulkStandsStill", "LargeFanoutsLate"))
    assert whats(rung) == ["2 alarms ring: BulkStandsStill, LargeFanoutsLate"]
    assert whats(judged(alarms=("ApiFunctionFailing",))) == ["1 alarm rings: ApiFunctionFailing"]


def test_without_alarms_large_deliveries_stand_still_once_none_of_them_moves() -> None:
    waiting = going("bulk", 90_000)

    def without_alarms(*open_: Open, **found: Any) -> list[str]:
        return whats(judged(open=open_, alarms=None, without_metrics="by right", **found))

    assert without_alarms(waiting, going("bulk", 90_000, STILL_SECONDS - 0.001)) == []
    still = without_alarms(waiting, going("bulk", 90_000, STILL_SECONDS), going("express", 1))
    assert still == ["no bulk delivery has moved for 15 min 0 s"]
    unread = Open("bulk", NOW - 90_000_000, 0)
    assert without_alarms(unread) == [], "nobody knows whether it has moved"
    assert without_alarms(waiting, paused=paused("bulk")) == ["bulk is paused"]


def test_a_pause_is_not_well_and_nothing_in_its_lanes_is_called_late() -> None:
    open_ = (going("publish", 90_000), going("bulk", 90_000))
    all_ = judged(open=open_, paused=paused("publish", "express", "bulk"))
    assert whats(all_) == ["publish, express, bulk are paused"]
    assert "by ann since 2033-05-18T03:00:00.000Z: a restore" in all_.problems[0].do
    assert "`fanfold resume` only if the pause is yours" in all_.problems[0].do
    bulk, late = whats(judged(open=open_, paused=paused("bulk")))
    assert (bulk, late[:16]) == ("bulk is paused", "1 small delivery")


def test_what_waits_for_a_person_is_not_well() -> None:
    queues = EMPTY["queues"] | {"bulk": Depth(dead=2), "relation": Depth(dead=1, waiting=9)}
    found = judged(stalled=2, queues=queues, audit=Audit(NOW, 7))
    said = (
        "Not everything is well: 2 deliveries have stalled; 3 dead letters (bulk 2, relation 1); "
        "in the last audit, 7 entries were missing."
    )
    assert (found.sentence, found.exit_code) == (said, NOT_WELL)
    stalled, dead, _ = (problem.do for problem in found.problems)
    assert "fanfold fanout list --stalled" in stalled
    assert "fanfold dlq list" in dead
    one = judged(stalled=1, audit=Audit(NOW, 1), queues={"bulk": Depth(dead=1)})
    assert whats(one) == [
        "1 delivery has stalled",
        "1 dead letter (bulk 1)",
        "in the last audit, 1 entry was missing",
    ]
    assert judged(audit=Audit(NOW, 0)).exit_code == WELL


def test_channels_may_be_full_only_where_plan_gives_none() -> None:
    assert judged(channels=(60, 4)).exit_code == WELL
    assert judged(channels=(60, 3), channel_threshold=1_000).exit_code == WELL
    assert whats(judged(channels=(60, 4), channel_threshold=1)) == ["all 64 channels are taken"]


def test_without_cloudwatch_the_rest_is_judged_and_the_sentence_says_so() -> None:
    found = judged(without_metrics="because the local engine keeps none", alarms=None, lags=None)
    said = (
        "Everything is well, as far as is known: no delivery is open; alarms and metrics are not "
        "known, because the local engine keeps none."
    )
    assert found == Verdict((), said, WELL)


def test_what_could_not_be_read_makes_well_unknown_but_hides_no_problem() -> None:
    unread = {"the ledger": "It is denied.", "alarms": "They are, too."}
    found = judged(open=None, stalled=None, alarms=None, unread=unread)
    said = "Whether everything is well is not known: the ledger, alarms could not be read."
    assert found == Verdict((), said, NOT_KNOWN)
    found = judged(open=None, stalled=None, unread=unread, queues={"bulk": Depth(dead=1)})
    said = "1 dead letter (bulk 1); the ledger, alarms could not be read"
    assert (found.sentence, found.exit_code) == (f"Not everything is well: {said}.", NOT_WELL)
    nothing = Health(now_ms=NOW, unread={"everything": "No permission."})
    assert verdict_on(nothing).exit_code == NOT_KNOWN
