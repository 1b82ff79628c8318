"""Whatever lies in a queue: done, to come again, or a dead letter that says why; and no fault."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st

from fanfold import contract, names
from fanfold.budgets import MAX_PUBLISH_BURST
from tests.doors.cases import every, few_or_many, few_or_many_batches
from tests.doors.service import Doors, Json
from tests.doors.strategies import queue_messages

QUEUES = pytest.mark.parametrize("queue", [queue.name for queue in names.QUEUES])
KINDS = {"contract", "gave_up"}


def is_a_sentence(reason: str) -> bool:
    return (
        (reason[:1].isupper() or reason.startswith("'"))
        and reason.endswith((".", "…"))
        and reason.isprintable()
    )


@QUEUES
@few_or_many
def test_any_message_is_done_comes_again_or_is_a_dead_letter_that_says_why(
    seeded: Doors, queue: str, cases: int
) -> None:
    before = seeded.account.dump()

    def check(message: Json) -> None:
        seeded.restore()
        seeded.send(queue, **message)
        again = seeded.deliver(queue)
        letters = seeded.letters(queue)
        assert not seeded.faults.found
        assert len(again) + len(letters) <= 1
        for body, carried in letters:
            assert body == message["body"]
            assert is_a_sentence(carried["reason"]), carried["reason"]
            assert carried["kind"] in KINDS
        if again or letters:
            assert seeded.account.dump() == before

    every(cases, queue_messages(queue), check)


@QUEUES
@few_or_many_batches
def test_a_failed_message_fails_no_other(seeded: Doors, queue: str, cases: int) -> None:
    size = 1 if queue in (names.EXPRESS.name, names.BULK.name) else 10
    batches = st.lists(queue_messages(queue), min_size=1, max_size=size)

    def check(batch: list[Json]) -> None:
        seeded.restore()
        for message in batch:
            seeded.send(queue, **message)
        again = seeded.deliver(queue)
        letters = [body for body, _ in seeded.letters(queue)]
        assert not seeded.faults.found
        sent = Counter(message["body"] for message in batch)
        assert Counter([*again, *letters]) <= sent
        # What comes again is in the queue still, beside what this batch has sent to it.
        assert Counter(again) <= Counter(each.body for each in seeded.account.messages(queue))

    every(cases, batches, check)


@pytest.mark.timeout(60)
def test_a_delivery_beyond_its_burst_waits_on_the_models_clock_and_ends(seeded: Doors) -> None:
    followers = MAX_PUBLISH_BURST + 100
    for number in range(followers):
        path = {"publisher_id": "star"}
        seeded.http(contract.FOLLOW, f"reader-{number}", path=path)
    assert seeded.http(contract.PUBLISH_POST, "star", body='{"body":{}}').status == 202
    seeded.settle([names.PUBLISH.name])
    entries = [row for row in seeded.account.rows(names.TIMELINES) if "star" in row]
    assert len(entries) == followers
