"""What `fanfold demo --hurt` plays where nobody presses anything. Every wait is for a fact."""

from __future__ import annotations

from collections.abc import Callable

from fanfold import clock
from fanfold_cli.deliveries.idle_timeout import AGAIN_SECONDS
from fanfold_cli.terminal import ExpectedError
from proof.hurt.stage import Stage

POLL_SECONDS = 0.25
# Publishes for one kill: on a machine that is busy with something else, the first may be too late.
KILLS = 3
# A wait without its fact goes on to the next act; the count at the end says what is missing.
LIMIT_SECONDS = AGAIN_SECONDS + 60.0


class _Taken(Exception):
    """Somebody has pressed a button: the script is over."""


def play(stage: Stage) -> None:
    """Play all acts, or what the people at the page want; return once it shall be counted."""
    try:
        for act in (_publish, _kill, _throttle, _twice):
            act(stage)
    except _Taken:
        stage.act_name = ""
        while not stage.is_count_wanted:
            stage.shown.current()
            clock.sleep(POLL_SECONDS)
    stage.throttle(False)
    stage.twice(False)
    stage.act_name = "What is still under way comes to its end."
    stage.want_count()
    _wait(stage, lambda: stage.is_at_rest, is_scripted=False)


def _publish(stage: Stage) -> None:
    stage.act_name = "Publish, and watch."
    stage.publish()
    _until_delivered(stage)


def _kill(stage: Stage) -> None:
    stage.act_name = "Kill a worker in mid-segment."
    _publish_and_kill(stage)
    _until_delivered(stage)


def _throttle(stage: Stage) -> None:
    stage.act_name = "The table refuses 40 % of the batches."
    stage.throttle(True)
    stage.publish()
    _wait(stage, lambda: stage.share >= 0.7)
    stage.throttle(False)
    _until_delivered(stage)


def _twice(stage: Stage) -> None:
    stage.act_name = "Everything is delivered twice, and a worker is killed."
    stage.twice(True)
    _publish_and_kill(stage)
    _until_delivered(stage)
    stage.twice(False)


def _publish_and_kill(stage: Stage) -> None:
    """Publish, and kill a worker in the middle; once more if all was over before that."""
    before = stage.pool.killed
    for _ in range(KILLS):
        stage.publish()
        _wait(stage, lambda: stage.share >= 0.3)
        _wait(stage, lambda: _is_killed(stage) or stage.share == 1)
        if stage.pool.killed > before:
            return


def _is_killed(stage: Stage) -> bool:
    try:
        stage.kill()
    except ExpectedError:  # nobody has a segment in hand in this moment
        return False
    return True


def _until_delivered(stage: Stage) -> None:
    _wait(stage, lambda: stage.is_at_rest)


def _wait(stage: Stage, fact: Callable[[], bool], *, is_scripted: bool = True) -> None:
    end = clock.monotonic() + LIMIT_SECONDS
    while clock.monotonic() < end:
        if is_scripted and not stage.is_scripted:
            raise _Taken
        if fact():
            return
        stage.shown.current()  # also where no page asks: what happens is told
        clock.sleep(POLL_SECONDS)
