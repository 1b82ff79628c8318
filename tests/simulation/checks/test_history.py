"""When deliveries surely heed a request, and how long an edge excuses an entry."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from fanfold import contract, names
from proof.model.sqs.messages import Message
from proof.model.sqs.queues import DELETED, EXPIRED, MOVED
from proof.simulation.clients.history import History, PutEdge, Relation
from proof.simulation.clients.spans import Span
from proof.simulation.oracle.follows import Asked, Sighting, Verb, contradictions

FOLLOW, UNFOLLOW = True, False
PAIR = "ann", "news"


def cut_short(*orders: Span, reconciled: Span | None = None) -> Asked:
    request = Asked(FOLLOW, 10, is_due=False)
    relation = Relation(requests=[request], orders=list(orders))
    relation.ends(request, 20, None)
    if reconciled:
        relation.reconciled.append(reconciled)
    relation.settled_requests()
    return request


@pytest.mark.parametrize(
    ("orders", "reconciled", "seen_by"),
    [
        ([], None, 20),  # it ended before it sent its order, and so before it changed anything
        ([Span(11, 80)], None, 80),
        ([Span(11, 80), Span(12, 90)], None, 90),
        ([Span(5, 70), Span(30, 100)], None, 20),  # orders of others
        ([Span(11)], None, math.inf),  # a dead letter
        ([Span(11, 80)], Span(20, 40), 40),
        ([Span(11)], Span(25, 40), 40),
        ([Span(11, 80)], Span(19, 40), 80),  # it may have read the row before
    ],
)
def test_work_that_was_cut_short_is_heeded_when_somebody_has_reconciled_it(
    orders: list[Span], reconciled: Span | None, seen_by: float
) -> None:
    assert cut_short(*orders, reconciled=reconciled).seen_by == seen_by


def late(*requests: Asked, work: Span, at_ms: float, orders: tuple[Span, ...] = ()) -> Relation:
    return Relation(requests=list(requests), orders=list(orders), puts=[PutEdge(work, at_ms)])


def test_a_late_edge_is_there_until_its_invocation_reads_the_row_again() -> None:
    unfollow = Asked(UNFOLLOW, 12, 14)
    relation = late(Asked(FOLLOW, 10, 20), unfollow, work=Span(10, 20), at_ms=15)
    seen = [relation.has_late_edge(*span) for span in ((16, 18), (20, 30), (21, 30), (10, 14))]
    assert seen == [True, True, False, False]
    # An edge is late only beside an unfollow that its invocation has not seen.
    for other in (Asked(UNFOLLOW, 16, 18), Asked(UNFOLLOW, 1, 9)):
        assert not late(other, work=Span(10, 20), at_ms=15).has_late_edge(0, 100)


def test_a_late_edge_of_a_dead_invocation_stays_until_its_order_is_done_or_reconciled() -> None:
    unfollow = Asked(UNFOLLOW, 12, 14)
    carried_out = late(unfollow, work=Span(10), at_ms=15, orders=(Span(11, 75),))
    assert carried_out.has_late_edge(75, 80)
    assert not carried_out.has_late_edge(76, 80)
    assert not carried_out.is_unsettled()
    dead_letter = late(unfollow, work=Span(10), at_ms=15, orders=(Span(11),))
    assert dead_letter.is_unsettled()
    dead_letter.reconciled.append(Span(30, 40))
    assert not dead_letter.is_unsettled()


def sent(history: History, type_: str, *, first_ms: int | None = None) -> Message:
    content = {"version": 1, "type": type_, "user_id": PAIR[0], "publisher_id": PAIR[1]}
    attributes = {contract.FIRST_SENT_AT: {"StringValue": str(first_ms)}} if first_ms else {}
    message = Message(json.dumps(content), attributes, id=f"{type_} {first_ms}", sent_at=2.0)
    queue = names.RELATION if type_ == "relation.settle" else names.PUBLISH
    history.sent(queue.name, message)
    return message


def test_a_message_is_a_request_from_its_sending_until_it_is_taken_out_of_the_queue() -> None:
    history = History()
    message = sent(history, "follow.added", first_ms=1_500)
    (request,) = history.relations[PAIR].requests
    assert request.follows
    assert (request.begun, request.stamp, request.ended) == (2_000, 1_500, math.inf)
    history.ended(message, DELETED, 2_500, Span(2_100))
    history.ended(message, DELETED, 9_000, Span(8_000))  # a copy
    assert (request.ended, request.is_due) == (2_500, True)
    assert math.isnan(request.seen_by)
    for how in (MOVED, EXPIRED):  # and nobody has handled it
        history = History()
        history.ended(sent(history, "follow.removed"), how, 9_000, None)
        (request,) = history.relations[PAIR].requests
        assert (request.follows, request.ended, request.is_due) == (False, 9_000, False)


def test_a_message_is_heeded_when_a_copy_was_handled_or_after_trouble_its_order() -> None:
    history = History()
    message = sent(history, "follow.added")
    history.ended(message, MOVED, 9_000, None)
    sent(history, "relation.settle")  # it never ends
    history.ended(message, DELETED, 20_000, Span(19_000))
    (request,) = history.relations[PAIR].settled_requests()
    assert request.heeded_ms == 20_000
    history = History()
    message, order = sent(history, "follow.added"), sent(history, "relation.settle")
    history.ended(message, DELETED, 2_500, Span(2_100, trouble=1))
    history.ended(order, DELETED, 62_000, Span(61_000))
    (request,) = history.relations[PAIR].settled_requests()
    assert (request.ended, request.seen_by) == (2_500, 62_000)


@pytest.mark.parametrize(
    ("type_", "seen_by"), [("follow.added", 62_000), ("follow.removed", 2_500)]
)
def test_a_follow_that_may_have_been_dropped_under_a_block_has_looked_at_no_edge(
    type_: str, seen_by: float
) -> None:
    history = History()
    block, relation = Asked.of(Verb.SHUT_OUT, 1_000, is_due=False), history.relations[PAIR]
    relation.requests.append(block)
    relation.orders.append(Span(1_100, 62_000))
    relation.ends(block, 1_500, None)
    history.ended(sent(history, type_), DELETED, 2_500, Span(2_100))
    relation.settled_requests()
    assert block.seen_by == seen_by


@pytest.mark.parametrize(
    ("ends", "changed_ms", "is_said"),
    [
        ([(MOVED, 9_000), (DELETED, 20_000)], 15_000, False),  # the copy has the effect
        ([(MOVED, 9_000), (MOVED, 20_000)], 15_000, False),  # it dies after that
        ([(MOVED, 9_000), (DELETED, 20_000)], 25_000, True),
        ([(MOVED, 9_000), (MOVED, 20_000)], 25_000, True),
        ([(DELETED, 9_000), (DELETED, 20_000)], 15_000, True),  # no copy undoes what was handled
        ([(DELETED, 9_000), (MOVED, 20_000)], 15_000, True),
        ([(MOVED, 9_000), ("redriven", 20_000)], 15_000, True),  # a letter has no effect itself
    ],
)
def test_a_copy_of_a_dead_letter_may_still_have_its_effect(
    ends: list[tuple[str, int]], changed_ms: int, is_said: bool
) -> None:
    history = History()
    message = sent(history, "follow.added")
    for how, now_ms in ends:
        if how == "redriven":
            letter = replace(message, dead_letter_source=names.PUBLISH.name)
            history.ended(letter, DELETED, now_ms, Span(now_ms - 1))
        else:
            history.ended(message, how, now_ms, Span(now_ms - 1) if how == DELETED else None)
    requests = history.relations[PAIR].settled_requests()
    followed = Sighting(changed_ms, math.inf, follows=FOLLOW, throughout=True)
    unfollowed = Sighting(-math.inf, changed_ms, follows=UNFOLLOW, throughout=True)
    said = {*contradictions(requests, [unfollowed, followed], skew_ms=0)}
    assert (followed in said) is is_said
