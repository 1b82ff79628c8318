"""Functions on the capacity model: their environments and their batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fanfold import names
from fanfold.messages import Message
from proof.simulation.timed.mappings import COLD_START_SECONDS, Arrived, Environments
from proof.simulation.timed.system import System

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
