"""What SWEEP does about one open fan-out: every rule, and each of its boundaries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fanfold import times
from fanfold.aws.queues import MAX_BATCH
from fanfold.fanout.row import ABANDONED, COMPLETE, DELIVERING, EXPIRED, QUEUED, STALLED, Fanout
from fanfold.names import BULK, DELIVER, EXPRESS, PLAN, SWEEP
from fanfold.sweep import silence
from fanfold.sweep.silence import MAX_ASKS, MAX_ROUNDS, Remedy, commands_for, remedy_for

NOW = 1_795_197_600_000
DAY = 86_400.0


def ago(seconds: float) -> int:
    return NOW - round(seconds * 1000)


def row(quiet: float = 0.0, **fields: object) -> Fanout:
    """A fan-out of four segments, two of them pending, silent for some seconds."""
    plain = Fanout(
        fanout_id="post-1",
        publisher_id="ada",
        sort_key="2026-11-20T17:00:00.000Z#post-1",
        accepted_at="2026-11-20T17:00:00.000Z",
        expires_at=NOW // 1000 + 1,
        state=DELIVERING,
        segments=4,
        pending=frozenset({1, 3}),
        changed_at=times.to_text(ago(quiet)),
        sent_at=ago(20 * DAY),
    )
    return replace(plain, **fields)  # type: ignore[arg-type]


def unplanned(quiet: float, **fields: object) -> Fanout:
    waiting: dict[str, object] = {"state": QUEUED, "segments": 0, "pending": frozenset()}
    return row(quiet, **{**waiting, "sent_at": 0, **fields})


def due(fanout: Fanout, *, paused: float | None = None) -> Remedy:
    paused_ms = 0 if paused is None else ago(paused)
    return remedy_for(fanout, now_ms=NOW, paused_ms=paused_ms)


def test_the_silences_are_derived_from_the_functions_that_they_wait_for() -> None:
    assert DELIVER.seconds < silence.ANSWERED_SILENCE_SECONDS == 90
    assert BULK.visibility_seconds == EXPRESS.visibility_seconds
    assert BULK.visibility_seconds < silence.SILENCE_SECONDS == 420
    assert PLAN.seconds < silence.PLAN_SILENCE_SECONDS == 120
    assert silence.QUESTION_SEGMENTS == MAX_BATCH
    assert SWEEP.seconds < 60


@pytest.mark.parametrize("state", [COMPLETE, EXPIRED, ABANDONED])
def test_what_has_ended_is_left_alone(state: str) -> None:
    assert due(row(10 * DAY, state=state, expires_at=0)) is Remedy.NOTHING


def test_a_stalled_fanout_is_asked_nothing_until_it_expires() -> None:
    fanout = row(10 * DAY, state=STALLED, expires_at=NOW // 1000)
    assert due(fanout) is Remedy.EXPIRE
    assert due(replace(fanout, expires_at=NOW // 1000 + 1)) is Remedy.NOTHING


@pytest.mark.parametrize("state", [DELIVERING, QUEUED])
def test_an_open_fanout_past_its_time_to_live_expires(state: str) -> None:
    fanout = row(0, state=state, expires_at=NOW // 1000)
    assert due(fanout) is Remedy.EXPIRE
    assert due(replace(fanout, expires_at=NOW // 1000 + 1)) is Remedy.NOTHING


@pytest.mark.parametrize("expires_at", [0, NOW])
def test_nothing_pending_is_completed_at_once_even_where_it_has_expired(expires_at: int) -> None:
    assert due(row(0, pending=frozenset(), expires_at=expires_at)) is Remedy.COMPLETE


# Seconds of silence; seconds since the last question, None if there was none; asks; what is due.
QUESTIONS_TO_PLAN = [
    (119.999, None, 0, Remedy.NOTHING),
    (120, None, 0, Remedy.ASK_PLAN),
    (120, 119.999, 1, Remedy.NOTHING),
    (999, 239.999, 2, Remedy.NOTHING),
    (999, 240, 2, Remedy.ASK_PLAN),
    (9 * DAY, 120 * 512 - 0.001, 10, Remedy.NOTHING),
    (9 * DAY, 120 * 512, 10, Remedy.ASK_PLAN),
    (9 * DAY, DAY - 0.001, 11, Remedy.NOTHING),
    (9 * DAY, DAY, 11, Remedy.ASK_PLAN),
    (9 * DAY, DAY, MAX_ASKS - 1, Remedy.ASK_PLAN),
    (9 * DAY, DAY - 0.001, MAX_ASKS, Remedy.NOTHING),
    (9 * DAY, DAY, MAX_ASKS, Remedy.STALL),
]


@pytest.mark.parametrize(("quiet", "asked", "asks", "what"), QUESTIONS_TO_PLAN)
def test_a_silent_unplanned_fanout_is_asked_about_with_a_doubling_wait(
    quiet: float, asked: float | None, asks: int, what: Remedy
) -> None:
    asked_at = 0 if asked is None else ago(asked)
    assert due(unplanned(quiet, asked_at=asked_at, asks=asks)) is what


# The same for one that is planned, with rounds before asks.
QUESTIONS_TO_A_LANE = [
    (419.999, None, 0, 0, Remedy.NOTHING),
    (420, None, 0, 0, Remedy.ASK),
    (999, 419.999, 0, 1, Remedy.NOTHING),
    (999, 420, 0, 1, Remedy.ASK),
    # Rounds count as well, or one that is answered each time would be asked at a constant rate.
    (DAY, 1679.999, 3, 0, Remedy.NOTHING),
    (DAY, 1680, 3, 0, Remedy.ASK),
    (9 * DAY, 420 * 128 - 0.001, 0, 8, Remedy.NOTHING),
    (9 * DAY, 420 * 128, 0, 8, Remedy.ASK),
    (9 * DAY, DAY, 0, 9, Remedy.ASK),
    (9 * DAY, DAY, 0, MAX_ASKS - 1, Remedy.ASK),
    (9 * DAY, DAY - 0.001, 0, MAX_ASKS, Remedy.NOTHING),
    (9 * DAY, DAY, 0, MAX_ASKS, Remedy.STALL),
    # After the last round, too, one that waits rightly is asked again, and not given up.
    (9 * DAY, DAY, MAX_ROUNDS, 3, Remedy.ASK),
]


@pytest.mark.parametrize(("quiet", "asked", "rounds", "asks", "what"), QUESTIONS_TO_A_LANE)
def test_a_silent_planned_fanout_is_asked_about_with_a_doubling_wait(
    quiet: float, asked: float | None, rounds: int, asks: int, what: Remedy
) -> None:
    asked_at = 0 if asked is None else ago(asked)
    fanout = row(quiet, asked_at=asked_at, asks=asks, rounds=rounds)
    assert due(fanout) is what


# Seconds of silence, since the question, its answer (that of a question so long ago) and since all
# was sent; rounds; what is due.
ROUNDS = [
    (89.999, 500, 500, 600, 0, Remedy.NOTHING),
    (90, 500, 500, 600, 0, Remedy.ROUND),
    (90, 500, 500, 500, 0, Remedy.NOTHING),  # sent with the question, or after it
    (90, 500, 500, 400, 0, Remedy.NOTHING),
    (90, 100, 500, 600, 0, Remedy.NOTHING),  # the question before was answered
    (999, 100, 99, 600, 0, Remedy.ROUND),
    (90, 500, 500, 600, MAX_ROUNDS - 1, Remedy.ROUND),
    (90, 500, 500, 600, MAX_ROUNDS, Remedy.STALL),
    (89.999, 500, 500, 600, MAX_ROUNDS, Remedy.NOTHING),
]


@pytest.mark.parametrize(("quiet", "asked", "came_out", "sent", "rounds", "what"), ROUNDS)
def test_everything_is_sent_again_once_the_question_has_come_out(
    quiet: float, asked: float, came_out: float, sent: float, rounds: int, what: Remedy
) -> None:
    fanout = row(
        quiet, asked_at=ago(asked), came_out=ago(came_out), sent_at=ago(sent), rounds=rounds, asks=1
    )
    assert due(fanout) is what


@pytest.mark.parametrize(
    ("fanout", "silence", "what"),
    [(unplanned(10 * DAY), 120, Remedy.ASK_PLAN), (row(10 * DAY), 420, Remedy.ASK)],
)
def test_silence_counts_from_when_the_queue_was_last_seen_paused(
    fanout: Fanout, silence: float, what: Remedy
) -> None:
    for paused in (0, silence - 0.001):
        assert due(fanout, paused=paused) is Remedy.NOTHING
    assert due(fanout, paused=silence) is what


def test_a_pause_postpones_no_end() -> None:
    assert due(row(0, pending=frozenset()), paused=0) is Remedy.COMPLETE
    assert due(row(0, expires_at=0), paused=0) is Remedy.EXPIRE


def test_a_row_of_the_version_before_is_asked_about_like_any_other() -> None:
    assert due(row(420, sent_at=0)) is Remedy.ASK
    assert due(row(0, sent_at=0, changed_at="")) is Remedy.ASK


@pytest.mark.parametrize("pending", [1, 9, 10, 11, 4096])
def test_a_question_is_one_batch_and_a_round_all_that_is_pending(pending: int) -> None:
    fanout = row(0, segments=4096, pending=frozenset(range(pending)))
    assert commands_for(Remedy.ASK, fanout) == min(10, pending)
    assert commands_for(Remedy.ROUND, fanout) == pending
    assert commands_for(Remedy.ASK_PLAN, fanout) == 1
    assert commands_for(Remedy.STALL, fanout) == 0
