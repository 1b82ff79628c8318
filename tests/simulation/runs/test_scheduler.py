"""The scheduler: when a task is resumed; its order by seed is in test_seeds.py."""

from __future__ import annotations

from random import Random

import pytest

from proof.simulation.world.scheduler import Scheduler, Task


def test_a_waiting_task_is_resumed_when_woken_or_timed_out_and_an_endless_run_raises() -> None:
    scheduler, seen = Scheduler(Random(1)), []

    def act() -> None:
        for seconds in (5.0, 1.0, None):
            scheduler.wait(seconds)
            seen.append(scheduler.now)

    task: Task = scheduler.start(act)
    scheduler.at(3, lambda: scheduler.wake(task))
    scheduler.at(9, lambda: scheduler.wake(task))
    scheduler.run(lambda: len(seen) == 3)
    assert seen == [3, 4, 9]
    with pytest.raises(RuntimeError, match="Nothing is left"):
        scheduler.run(lambda: False)
