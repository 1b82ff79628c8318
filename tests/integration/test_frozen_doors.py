"""A door that was frozen while it published leaves no post that is owed and not sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.service import AT, POST, System, around_calls, error

FREE_AFTER_SECONDS = (30 + 14) * 86_400  # the retention, and how long rows outlive entries
FOR_A_WHILE = 5


def once_around(operation: str, table: str, act: Callable[[Callable[[], Any]], Any]) -> Any:
    """Let `act` make the first such call, in whatever surroundings it likes."""
    left = [act]

    def around(done: str, request: Any, make: Callable[[], Any]) -> Any:
        if left and (done, request.get("TableName")) == (operation, table):
            return left.pop()(make)
        return make()

    return around_calls(around)


def settle(system: System) -> None:
    system.pump()
    for _ in range(FOR_A_WHILE):
        system.clock.advance(300)
        system.sweep()
        system.pump()


def die_before_the_post(system: System) -> None:
    def around(operation: str, request: Any, make: Callable[[], Any]) -> Any:
        if (operation, request.get("TableName")) == ("PutItem", system.settings.posts_table):
            raise error("InternalServerError", 500)
        return make()

    with around_calls(around):
        assert system.publish().status == 503


def test_a_frozen_first_attempt_leaves_the_row_that_its_repeat_has_joined(system: System) -> None:
    users = system.give_followers(3)
    repeat = []

    def freeze(make: Callable[[], Any]) -> Any:
        answer = make()
        system.clock.advance(12)
        repeat.append(system.publish().status)  # PLAN is behind, and does not see it yet
        system.clock.advance(60)
        return answer

    with once_around("PutItem", system.settings.fanouts_table, freeze):
        assert system.publish().status == 503
    assert repeat == [202]
    settle(system)
    assert system.reached() == users


def test_a_post_that_was_stored_after_its_row_was_void_is_delivered(system: System) -> None:
    users = system.give_followers(3)

    def freeze(make: Callable[[], Any]) -> Any:
        system.clock.advance(200)
        system.sweep()
        system.pump()
        assert system.ledger().state == "void"
        system.clock.advance(400)
        return make()

    with once_around("PutItem", system.settings.posts_table, freeze):
        assert system.publish().status == 202
    settle(system)
    assert (system.reached(), system.ledger().state) == (users, "complete")


def test_the_key_of_an_abandoned_post_is_free_for_another_once_it_has_expired(
    system: System,
) -> None:
    users = system.give_followers(3)
    assert system.publish().status == 202
    assert system.fanouts.abandon(POST, now=AT)
    system.pump()
    system.clock.advance(FREE_AFTER_SECONDS + 3_600)
    assert system.publish().status == 202
    system.pump()
    assert (system.reached(), system.ledger().state) == (users, "complete")


def test_a_void_delivery_is_counted_once_however_often_sweep_has_asked(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    die_before_the_post(system)
    for _ in range(FOR_A_WHILE):  # PLAN is an hour behind
        system.clock.advance(900)
        system.sweep()
    assert system.waiting("Publish") > 1
    capsys.readouterr()
    system.pump("Publish")
    assert capsys.readouterr().out.count('"FanoutsVoided":[1.0]') == 1


def test_a_row_that_a_repeat_takes_up_as_plan_would_end_it_is_no_void_one(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    users = system.give_followers(3)
    die_before_the_post(system)
    system.clock.advance(130)
    system.sweep()

    def overtake(make: Callable[[], Any]) -> Any:
        assert system.publish().status == 202
        return make()

    capsys.readouterr()
    with once_around("UpdateItem", system.settings.fanouts_table, overtake):
        system.pump("Publish")
    settle(system)
    assert "FanoutsVoided" not in capsys.readouterr().out
    assert (system.reached(), system.ledger().state) == (users, "complete")
