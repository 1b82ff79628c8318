"""The script of `fanfold demo --hurt`, until a button is pressed. Every wait is for a fact."""

from __future__ import annotations

from collections.abc import Callable

from fanfold import clock
from fanfold_cli.deliveries.watch import AGAIN_SECONDS
from fanfold_cli.terminal import ExpectedError
from proof.hurt.stage import Stage

POLL_SECONDS = 0.25
# Publishes for one kill: on a busy machine, the first kill may come too late.
KILLS = 3
# After this time, a wait ends without its fact; the count at the end shows what is missing.
LIMIT_SECONDS = AGAIN_SECONDS + 60.0


class _Taken(Exception):
    """Somebody has pressed a button, which ends the script."""


def play(stage: Stage) -> None:
    """Play all acts, or leave it to the page; return when the rows are to be counted."""
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
    stage.act_name = "Open deliveries finish."
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
    """Publish, and kill a worker in mid-segment; repeat if all was delivered before."""
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
    except ExpectedError:  # no worker has a segment at this moment
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
        stage.shown.current()  # even without a page, so that events are printed
        clock.sleep(POLL_SECONDS)
