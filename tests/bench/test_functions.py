"""Functions on the capacity model: their environments, their batches, and threads in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from fanfold import names
from fanfold.messages import Message
from proof.simulation.timed.mappings import COLD_START_SECONDS, Arrived, Environments
from proof.simulation.timed.system import System
from proof.simulation.timed.tasks import Threads, side_by_side
from proof.simulation.world.scheduler import Scheduler

Kept = list[str]


def test_a_batch_shares_an_environment_that_is_kept_and_what_fails_comes_again_alone() -> None:
    begun: list[float] = []
    ended: list[tuple[str, str, bool]] = []
    environments: list[Kept] = []

    def handle(kept: Kept, message: Arrived) -> None:
        begun.append(system.scheduler.now)
        environments.append(kept)
        system.scheduler.sleep(1)
        text = message.content["text"]
        ended.append((text, message.group, message.redelivered))
        if text == "b" and not message.redelivered:
            raise RuntimeError

    # A new environment takes time where Lambda is cold.
    system = System(4_000, cold=True)
    system.map(names.PUBLISH, Environments(system, list), handle)
    send(system, "a", "b", "c", until=lambda: len(ended) == 3)
    assert len(set(begun)) == 1
    assert begun[0] > COLD_START_SECONDS
    assert sorted(ended) == [(text, f"group of {text}", False) for text in "abc"]
    send(system, "d", until=lambda: len(ended) == 5)
    assert ended[3:] == [("d", "group of d", False), ("b", "group of b", True)]
    assert system.scheduler.now >= names.PUBLISH.visibility_seconds
    assert all(each is environments[0] for each in environments)


def send(system: System, *texts: str, until: Callable[[], bool]) -> None:
    """Send a batch, and run until then."""
    messages = [Message({"text": text}, group=f"group of {text}") for text in texts]
    with system.virtual_time():
        system.scheduler.start(partial(system.lanes[names.PUBLISH].send, *messages))
        system.scheduler.run(until)


def test_threads_run_as_many_calls_at_once_as_there_are_and_pass_an_error_on() -> None:
    scheduler = Scheduler(Random(0))

    def square(number: int) -> int:
        scheduler.sleep(number)
        return number * number

    def fail(number: int) -> int:
        scheduler.sleep(number)
        raise ValueError(str(number))

    def work() -> None:
        assert list(Threads(scheduler, 2).map(square, [1] * 5)) == [1] * 5
        assert scheduler.now == 3
        calls = [partial(square, seconds) for seconds in (1, 3, 2)]
        assert side_by_side(scheduler, *calls) == [1, 9, 4]
        assert scheduler.now == 3 + 3, "as long as the longest"
        with pytest.raises(ValueError, match=r"^1$"):
            side_by_side(scheduler, *(partial(fail, number) for number in (1, 2)))
        done.append(True)

    done: list[bool] = []
    task = scheduler.start(work)
    scheduler.run(lambda: bool(task.dead))
    assert done
