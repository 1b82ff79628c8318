"""The read marker: it is set over HTTP, and only moves up."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold import times
from fanfold.aws.retries import STEP
from tests.service import AT, AT_MS, Answer, FailFirst, System, error

NOWHERE = {"published_at": None, "ref_id": None}


def put(system: System, published_at: str, ref_id: str = "m", *, user: str = "bob") -> Answer:
    body = {"published_at": published_at, "ref_id": ref_id}
    return system.http("api/move_marker", user=user, body=body)


def stored(system: System, *, user: str = "bob") -> Any:
    answer = system.http("timeline/read_marker", user=user)
    assert answer.status == 200
    return answer.body


def marker(seconds: float, ref_id: str = "m") -> dict[str, str]:
    """The marker so long after the time of the events."""
    return {"published_at": times.to_text(AT_MS + round(seconds * 1000)), "ref_id": ref_id}


def test_a_user_who_never_set_a_marker_has_none(system: System) -> None:
    assert stored(system) == NOWHERE
    system.follow("bob")
    assert stored(system) == NOWHERE


def test_a_marker_moves_up_and_a_lower_one_or_the_same_again_is_answered_with_the_stored_one(
    system: System,
) -> None:
    put(system, AT)
    before = system.dump()
    for lower in (marker(-0.001, "z"), marker(0, "a"), marker(0)):
        answer = put(system, **lower)
        assert (answer.status, answer.body) == (200, marker(0))
    assert put(system, "2026-11-20T19:00:00.1229999+01:00", "z").body == marker(0)
    assert system.dump() == before
    system.clock.advance(60)
    for higher in (marker(0, "n"), marker(0.001, "a")):
        assert put(system, **higher).body == stored(system) == higher


def test_a_time_in_the_future_becomes_that_of_the_request(system: System) -> None:
    for future in ("9999-12-31T23:59:59.999Z", times.to_text(AT_MS + 1)):
        assert put(system, future).body == marker(0)
    system.clock.advance(1)
    assert put(system, times.to_text(AT_MS + 1000), "n").body == marker(1, "n")


def test_a_transaction_in_the_way_is_waited_for(system: System, fail_first: FailFirst) -> None:
    response: Any = error("TransactionConflictException").response
    conflict = system.dynamodb.exceptions.TransactionConflictException(response, "UpdateItem")
    calls = fail_first(system.dynamodb, "update_item", [conflict] * (STEP.attempts - 1))
    assert put(system, AT).body == marker(0)
    assert len(calls) == STEP.attempts
    fail_first(system.dynamodb, "update_item", [conflict] * STEP.attempts)
    answer = put(system, AT)
    assert (answer.status, answer.slug) == (429, "too-many-requests")


def test_a_throttled_row_is_answered_with_try_later(system: System, fail_first: FailFirst) -> None:
    fail_first(system.dynamodb, "update_item", [error("ThrottlingException")])
    assert put(system, AT).slug == "try-later"
    fail_first(system.door("timeline").stores.client, "get_item", [error("ThrottlingException")])
    assert system.http("timeline/read_marker").slug == "try-later"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"ref_id": "m"}, "'published_at' is missing; send it."),
        ({"published_at": AT, "ref_id": None}, "'ref_id' is missing; send it."),
        ({"published_at": AT, "ref_id": "a b"}, "'ref_id' is not a valid id"),
        ({"published_at": AT, "ref_id": 4711}, "'ref_id' is not a string"),
        ({"published_at": "2026-11-20", "ref_id": "m"}, "'published_at' is not a time of RFC 3339"),
        ({"published_at": AT, "ref_id": "m", "position": 1}, "Unknown field 'position'"),
        ([AT, "m"], '{"published_at": "2026'),
    ],
)
def test_what_names_no_entry_is_refused_and_changes_nothing(
    system: System, body: Any, detail: str
) -> None:
    answer = system.http("api/move_marker", body=body)
    assert (answer.status, answer.slug) == (400, "bad-input")
    assert detail in answer.body["detail"]
    assert stored(system) == NOWHERE
    assert system.http("api/move_marker", raw="x" * 20_000).status == 413
    assert system.http("api/move_marker", query={"limit": "1"}).slug == "bad-input"
