"""Sending to a queue: every message is sent, or the caller gets an error."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanfold import clock
from fanfold.aws.queues import WorkQueue
from fanfold.aws.retries import SEND
from fanfold.errors import Unsent
from fanfold.messages import Message


@dataclass
class FakeSqs:
    """Accepts messages as SQS does; `refuse` returns the ids of a call that fail."""

    refuse: Callable[[int, list[str]], list[str]] = lambda _call, _ids: []
    calls: list[list[dict[str, Any]]] = field(default_factory=list)
    taken: list[dict[str, Any]] = field(default_factory=list)

    def send_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Any:  # noqa: N803
        assert QueueUrl == "the-queue"
        assert 1 <= len(Entries) <= 10
        ids = [entry["Id"] for entry in Entries]
        assert len(set(ids)) == len(ids)
        assert sum(len(entry["MessageBody"].encode()) for entry in Entries) <= 1_048_576
        self.calls.append(Entries)
        failed = self.refuse(len(self.calls), ids)
        self.taken += [entry for entry in Entries if entry["Id"] not in failed]
        answer: dict[str, Any] = {"Successful": [{"Id": each} for each in ids]}
        if failed:  # in any order, as SQS is free to
            answer["Failed"] = [{"Id": each, "SenderFault": False} for each in reversed(failed)]
        return answer

    def bodies(self) -> list[int]:
        return sorted(json.loads(entry["MessageBody"])["n"] for entry in self.taken)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "sleep", lambda _seconds: None)


def queue(sqs: FakeSqs) -> WorkQueue:
    return WorkQueue(sqs, "the-queue")  # type: ignore[arg-type]


def messages(count: int) -> list[Message]:
    return [Message({"n": number}, "ada") for number in range(count)]


@pytest.fixture(params=["alone", "with threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[Executor | None]:
    if request.param == "alone":
        yield None
        return
    with ThreadPoolExecutor(4) as threads:
        yield threads


@pytest.mark.parametrize(("count", "calls"), [(0, 0), (1, 1), (10, 1), (11, 2), (4096, 410)])
def test_messages_are_sent_ten_at_a_time(count: int, calls: int, threads: Executor | None) -> None:
    sqs = FakeSqs()
    queue(sqs).send(*messages(count), threads=threads)
    assert sqs.bodies() == list(range(count))
    assert len(sqs.calls) == calls


def test_with_threads_batches_are_sent_concurrently() -> None:
    both = Barrier(2, timeout=5)

    def wait(_call: int, _ids: list[str]) -> list[str]:
        both.wait()
        return []

    with ThreadPoolExecutor(2) as threads:
        queue(FakeSqs(wait)).send(*messages(20), threads=threads)


def test_a_message_has_its_group_and_at_most_sqss_longest_delay() -> None:
    sqs = FakeSqs()
    queue(sqs).send(Message({"n": 1}, "ada", 7), Message({"n": 2}, "grace", 5_000))
    ((first, second),) = sqs.calls
    assert (first["MessageGroupId"], first["DelaySeconds"]) == ("ada", 7)
    assert (second["MessageGroupId"], second["DelaySeconds"]) == ("grace", 900)
    assert first["MessageBody"] == '{"n":1}'


def test_entries_that_fail_in_every_attempt_raise_unsent() -> None:
    sqs = FakeSqs(lambda _call, ids: [ids[-1]])
    with pytest.raises(Unsent, match="1 of 10 messages"):
        queue(sqs).send(*messages(10))
    assert len(sqs.calls) == SEND.attempts
    assert sqs.bodies() == list(range(9))


@settings(max_examples=50)
@given(st.integers(0, 35), st.randoms(use_true_random=False), st.floats(0, 0.9))
def test_every_message_is_sent_exactly_once_or_unsent_is_raised(
    count: int, chance: Any, share: float
) -> None:
    sqs = FakeSqs(lambda _call, ids: [each for each in ids if chance.random() < share])
    try:
        queue(sqs).send(*messages(count))
    except Unsent:
        assert len(sqs.taken) < count
    else:
        assert sqs.bodies() == list(range(count))
