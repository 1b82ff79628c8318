"""When deliveries surely heed a wish, and how long an edge excuses an entry."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from aws_model.sqs.messages import Message
from aws_model.sqs.queues import DELETED, EXPIRED, MOVED
from fanfold import contract, names
from simulation.history import Attempt, History, Operation, PutEdge, Relation
from simulation.spans import Span
from simulation.wishes import Sighting, Wish, contradictions

FOLLOW, UNFOLLOW = True, False
PAIR = "ann", "news"


def cut_short(*orders: Span, reconciled: Span | None = None) -> Wish:
    wish = Wish(FOLLOW, 10, is_due=False)
    relation = Relation(wishes=[wish], orders=list(orders))
    relation.ends(wish, 20, None)
    if reconciled:
        relation.reconciled.append(reconciled)
    relation.settled_wishes()
    return wish


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


def late(*wishes: Wish, work: Span, at_ms: float, orders: tuple[Span, ...] = ()) -> Relation:
    return Relation(wishes=list(wishes), orders=list(orders), puts=[PutEdge(work, at_ms)])


def test_a_late_edge_is_there_until_its_invocation_reads_the_row_again() -> None:
    unfollow = Wish(UNFOLLOW, 12, 14)
    relation = late(Wish(FOLLOW, 10, 20), unfollow, work=Span(10, 20), at_ms=15)
    assert [relation.has_late_edge(*span) for span in ((16, 18), (20, 30), (21, 30), (10, 14))] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("unfollow", [Wish(UNFOLLOW, 16, 18), Wish(UNFOLLOW, 1, 9)])
def test_an_edge_is_late_only_beside_an_unfollow_that_its_invocation_has_not_seen(
    unfollow: Wish,
) -> None:
    assert not late(unfollow, work=Span(10, 20), at_ms=15).has_late_edge(0, 100)


def test_a_late_edge_of_a_dead_invocation_is_there_until_the_order_is_carried_out() -> None:
    unfollow = Wish(UNFOLLOW, 12, 14)
    relation = late(unfollow, work=Span(10), at_ms=15, orders=(Span(11, 75),))
    assert relation.has_late_edge(75, 80)
    assert not relation.has_late_edge(76, 80)
    assert not relation.is_unsettled()


def test_a_dead_letter_to_relate_leaves_its_own_relation_unsettled_until_it_is_reconciled() -> None:
    unfollow = Wish(UNFOLLOW, 12, 14)
    relation = late(unfollow, work=Span(10), at_ms=15, orders=(Span(11),))
    assert relation.is_unsettled()
    relation.reconciled.append(Span(30, 40))
    assert not relation.is_unsettled()


def sent(history: History, type_: str, *, first_ms: int | None = None) -> Message:
    content = {"version": 1, "type": type_, "user_id": PAIR[0], "publisher_id": PAIR[1]}
    attributes = {contract.FIRST_SENT_AT: {"StringValue": str(first_ms)}} if first_ms else {}
    message = Message(json.dumps(content), attributes, id=f"{type_} {first_ms}", sent_at=2.0)
    queue = names.RELATION if type_ == "relation.settle" else names.PUBLISH
    history.sent(queue.name, message)
    return message


def test_a_message_is_a_wish_from_its_sending_until_it_is_taken_out_of_the_queue() -> None:
    history = History()
    message = sent(history, "follow.added")
    (wish,) = history.relations[PAIR].wishes
    assert (wish.follows, wish.begun, wish.ended) == (True, 2_000, math.inf)
    history.ended(message, DELETED, 2_500, Span(2_100))
    history.ended(message, DELETED, 9_000, Span(8_000))  # a copy
    assert (wish.ended, wish.is_due) == (2_500, True)
    assert math.isnan(wish.seen_by)


@pytest.mark.parametrize("how", [MOVED, EXPIRED])
def test_nothing_has_to_come_of_a_message_that_nobody_handled(how: str) -> None:
    history = History()
    message = sent(history, "follow.removed")
    history.ended(message, how, 9_000, None)
    (wish,) = history.relations[PAIR].wishes
    assert (wish.follows, wish.ended, wish.is_due) == (False, 9_000, False)


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
    wishes = history.relations[PAIR].settled_wishes()
    followed = Sighting(changed_ms, math.inf, follows=FOLLOW, throughout=True)
    unfollowed = Sighting(-math.inf, changed_ms, follows=UNFOLLOW, throughout=True)
    said = {*contradictions(wishes, [unfollowed, followed], skew_ms=0)}
    assert (followed in said) is is_said


def test_a_message_whose_copy_was_handled_is_heeded_from_then_on() -> None:
    history = History()
    message = sent(history, "follow.added")
    history.ended(message, MOVED, 9_000, None)
    sent(history, "relation.settle")  # it never ends
    history.ended(message, DELETED, 20_000, Span(19_000))
    (wish,) = history.relations[PAIR].settled_wishes()
    assert wish.heeded_ms == 20_000


def test_a_message_that_was_moved_is_a_new_one_with_the_time_of_its_wish() -> None:
    history = History()
    sent(history, "follow.added", first_ms=1_500)
    (wish,) = history.relations[PAIR].wishes
    assert (wish.begun, wish.stamp) == (2_000, 1_500)


def test_a_message_that_met_trouble_is_heeded_when_its_order_is_carried_out() -> None:
    history = History()
    message, order = sent(history, "follow.added"), sent(history, "relation.settle")
    history.ended(message, DELETED, 2_500, Span(2_100, trouble=1))
    history.ended(order, DELETED, 62_000, Span(61_000))
    (wish,) = history.relations[PAIR].settled_wishes()
    assert (wish.ended, wish.seen_by) == (2_500, 62_000)


POST = "p0-1"


def asked_to_retract(*attempts: Attempt, published_ms: int = 0) -> History:
    history = History()
    history.add(Operation("publish", "p0", POST, begun=1, begun_ms=published_ms))
    retract = Operation("retract", "p0", POST, begun=0, begun_ms=0)
    retract.attempts += attempts
    history.add(retract)
    return history


def test_a_request_to_retract_that_was_answered_404_has_retracted_nothing() -> None:
    assert not asked_to_retract(Attempt(0, 404, is_over=True)).tried_to_retract(POST)


def test_a_request_to_retract_that_was_answered_404_may_still_land() -> None:
    assert asked_to_retract(Attempt(0, 404, is_over=False)).tried_to_retract(POST)


@pytest.mark.parametrize("status", [0, 204, 502])
def test_an_attempt_that_goes_on_may_retract_what_was_there_before_its_repeat_was_answered_404(
    status: int,
) -> None:
    history = asked_to_retract(Attempt(10, status), Attempt(20, 404, is_over=True))
    assert history.tried_to_retract(POST)


def test_an_attempt_that_goes_on_retracts_nothing_that_was_published_after_it() -> None:
    history = asked_to_retract(Attempt(10, 204), Attempt(20, 404), published_ms=1_500)
    assert not history.tried_to_retract(POST)


def test_a_message_retracts_what_is_published_later() -> None:
    history = asked_to_retract(published_ms=3_000)
    history.add(Operation("unsend", "p0", POST, begun=0, begun_ms=0))
    assert history.tried_to_retract(POST)
