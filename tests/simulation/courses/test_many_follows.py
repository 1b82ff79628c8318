"""One user follows hundreds of publishers at once: every follow changes that user's one row."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

from fanfold import contract, names
from fanfold.aws.items import get_number
from proof.model import errors
from proof.model.errors import Refused
from proof.simulation.clients import requests
from proof.simulation.world.lambdas import installed
from proof.simulation.world.long_world import LongWorld

pytestmark = pytest.mark.thorough

FOLLOWS = 300
# How long a transaction has its rows for itself: AWS names no time; a whole one takes so long.
HELD_SECONDS = 0.025


def test_of_300_follows_at_once_each_is_done_or_told_to_come_again_and_none_is_lost() -> None:
    with installed():
        world = LongWorld(1)
        held_until = 0.0
        answers: Counter[int] = Counter()
        slowest = 0.0

        def conflicts(operation: str, request: Any) -> None:
            nonlocal held_until
            if operation != "transact_write_items":
                return
            if world.scheduler.now < held_until:
                reasons = [{"Code": "None"} for _ in request["TransactItems"]]
                reasons[-1]["Code"] = "TransactionConflict"
                more = {"CancellationReasons": reasons}
                refused = Refused("TransactionCanceledException", "Transaction cancelled.", more)
                raise errors.client_error("dynamodb", operation, refused)
            held_until = world.scheduler.now + HELD_SECONDS

        def follow(publisher: str) -> None:
            nonlocal slowest
            status = 0
            while status != 200:
                begun = world.scheduler.now
                path = {"publisher_id": publisher}
                status, _ = requests.call(world, "bob", contract.FOLLOW, path=path)
                slowest = max(slowest, world.scheduler.now - begun)
                answers[status] += 1
                world.scheduler.sleep(contract.RETRY_AFTER_SECONDS * (1 + world.drawn.random()))

        def live() -> None:
            many = [f"p{number}" for number in range(FOLLOWS)]
            world.act(*((each, partial(follow, each)) for each in many), faults=False)
            world.settle()

        setattr(world.faults, "conflicts", conflicts)  # noqa: B010
        world.alive(live)
        (row,) = world.rows(names.READERS)
        assert get_number(row, "follows") == len(world.rows(names.FOLLOWING)) == FOLLOWS
        assert len(world.edges()) == FOLLOWS
        assert not list(world.dead_letters())
        assert answers.keys() == {200, 429}
        assert answers[200] == FOLLOWS
        assert answers[429] > FOLLOWS, "the row is a bottleneck, and the answers say so"
        assert slowest < names.API.seconds / 2
