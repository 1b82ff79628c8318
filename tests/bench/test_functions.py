"""Functions on the capacity model: their environments, their batches, and threads in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from fanfold import names
from fanfold.messages import Message
from simulation.scheduler import Scheduler
from simulation.timed.mappings import COLD_START_SECONDS, Arrived, Environments, Handle
from simulation.timed.system import System
from simulation.timed.tasks import Threads, side_by_side

Kept = list[str]


def run(scheduler: Scheduler, what: Callable[[], object]) -> None:
    task = scheduler.start(what)
    scheduler.run(lambda: bool(task.dead))


# Environments and batches


def mapped(handle: Handle[Kept], *, cold: bool = False) -> System:
    """A system whose publish queue has a function of ours."""
    system = System(4_000, cold=cold)
    system.map(names.PUBLISH, Environments(system, list), handle)
    return system


def send(system: System, *texts: str) -> None:
    queue = system.lanes[names.PUBLISH]
    messages = [Message({"text": text}, group=f"group of {text}") for text in texts]
    with system.virtual_time():
        system.scheduler.start(partial(queue.send, *messages))


def test_messages_of_a_batch_are_handled_at_the_same_time_in_one_environment() -> None:
    begun: list[float] = []
    ended: list[tuple[str, str, bool]] = []
    kept_by: list[Kept] = []

    def handle(kept: Kept, message: Arrived) -> None:
        begun.append(system.scheduler.now)
        system.scheduler.sleep(1)
        ended.append((message.content["text"], message.group, message.redelivered))
        kept_by.append(kept)

    system = mapped(handle)
    send(system, "a", "b", "c")
    with system.virtual_time():
        system.scheduler.run(lambda: len(ended) == 3)
    assert len(set(begun)) == 1
    assert sorted(ended) == [(text, f"group of {text}", False) for text in "abc"]
    assert kept_by[0] is kept_by[1] is kept_by[2]


def test_an_environment_is_kept_between_invocations() -> None:
    seen = []

    def handle(kept: Kept, message: Arrived) -> None:
        kept.append(message.content["text"])
        seen.append(list(kept))

    system = mapped(handle)
    for number, text in enumerate("ab", 1):
        send(system, text)
        with system.virtual_time():
            system.scheduler.run(lambda: len(seen) == number)  # noqa: B023 - it runs here
    assert seen == [["a"], ["a", "b"]]


def test_a_message_that_fails_comes_again_alone() -> None:
    handled = []

    def handle(_kept: Kept, message: Arrived) -> None:
        handled.append((message.content["text"], message.redelivered))
        if message.content["text"] == "b" and not message.redelivered:
            raise RuntimeError

    system = mapped(handle)
    send(system, "a", "b", "c")
    with system.virtual_time():
        system.scheduler.run(lambda: len(handled) == 4)
    assert sorted(handled[:3]) == [("a", False), ("b", False), ("c", False)]
    assert handled[3] == ("b", True)
    assert system.scheduler.now >= names.PUBLISH.visibility_seconds


def test_a_new_environment_takes_time_if_lambda_is_cold() -> None:
    begun = []

    def handle(_kept: Kept, _message: Arrived) -> None:
        begun.append(system.scheduler.now)

    system = mapped(handle, cold=True)
    send(system, "a")
    with system.virtual_time():
        system.scheduler.run(lambda: bool(begun))
    assert begun[0] > COLD_START_SECONDS


# Threads


def test_threads_run_as_many_calls_at_once_as_there_are() -> None:
    scheduler = Scheduler(Random(0))
    results: list[int] = []

    def call(number: int) -> int:
        scheduler.sleep(1)
        return number * number

    run(scheduler, lambda: results.extend(Threads(scheduler, 2).map(call, range(5))))
    assert results == [0, 1, 4, 9, 16]
    assert scheduler.now == 3


def test_calls_side_by_side_take_as_long_as_the_longest() -> None:
    scheduler = Scheduler(Random(0))
    results: list[float] = []

    def call(seconds: float) -> float:
        scheduler.sleep(seconds)
        return seconds

    calls = [partial(call, seconds) for seconds in (1.0, 3.0, 2.0)]
    run(scheduler, lambda: results.extend(side_by_side(scheduler, *calls)))
    assert (results, scheduler.now) == ([1.0, 3.0, 2.0], 3)


def test_an_error_of_a_thread_reaches_whoever_waits_for_it() -> None:
    scheduler = Scheduler(Random(0))

    def call(number: int) -> None:
        scheduler.sleep(number)
        raise ValueError(str(number))

    def wait() -> None:
        with pytest.raises(ValueError, match=r"^1$"):
            side_by_side(scheduler, *(partial(call, number) for number in (1, 2)))

    run(scheduler, wait)
