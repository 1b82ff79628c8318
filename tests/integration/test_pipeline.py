"""A post on its way from the door into every follower's timeline, through the real handlers."""

from __future__ import annotations

import pytest

from tests.integration.system import System


@pytest.mark.parametrize("count", [1, 25, 26, 60])
def test_every_follower_has_the_post_once_and_the_ledger_is_complete(
    system: System, count: int
) -> None:
    users = system.give_followers(count)
    assert system.publish().status == 202
    system.pump()
    assert system.reached() == users
    ledger = system.ledger()
    assert (ledger.state, ledger.delivered, ledger.pending) == ("complete", count, frozenset())
    assert system.open_fanouts() == []
