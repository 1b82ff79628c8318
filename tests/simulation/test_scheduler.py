"""The scheduler: which task is resumed next, and when."""

from __future__ import annotations

from random import Random

import pytest

from simulation.scheduler import Scheduler, Task


def earliest_first() -> Scheduler:
    return Scheduler(Random(1))


def test_tasks_are_resumed_in_order_of_time() -> None:
    scheduler, seen = earliest_first(), []

    def act(name: str, seconds: float) -> None:
        scheduler.sleep(seconds)
        seen.append((name, scheduler.now))

    scheduler.start(lambda: act("late", 2))
    scheduler.start(lambda: act("early", 1))
    scheduler.run(lambda: len(seen) == 2)
    assert seen == [("early", 1), ("late", 2)]


def test_a_waiting_task_is_resumed_when_woken_or_timed_out() -> None:
    scheduler, seen = earliest_first(), []

    def act() -> None:
        for seconds in (5.0, 1.0, None):
            scheduler.wait(seconds)
            seen.append(scheduler.now)

    task: Task = scheduler.start(act)
    scheduler.at(3, lambda: scheduler.wake(task))
    scheduler.at(9, lambda: scheduler.wake(task))
    scheduler.run(lambda: len(seen) == 3)
    assert seen == [3, 4, 9]


def test_a_run_with_nothing_left_to_happen_raises() -> None:
    with pytest.raises(RuntimeError, match="Nothing is left"):
        earliest_first().run(lambda: False)


def order_of(seed: int) -> list[int]:
    scheduler, seen = Scheduler(Random(seed), by_seed=True), []

    def act(number: int) -> None:
        for _ in range(3):
            scheduler.sleep()
            seen.append(number)

    for number in range(4):
        scheduler.start(lambda number=number: act(number))  # type: ignore[misc]
    scheduler.run(lambda: not scheduler.tasks)
    return seen


def test_a_seed_repeats_its_order_of_tasks_and_another_seed_has_another() -> None:
    assert order_of(1) == order_of(1) != order_of(2)
    assert sorted(order_of(1)) == sorted(3 * list(range(4)))
