"""Operators who promote and demote publishers, as `fanfold channels` does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from random import Random

from botocore.exceptions import BotoCoreError, ClientError

from fanfold.aws import boto
from fanfold.channels.head import readable_until
from proof.simulation.stage import stores
from proof.simulation.world.world import World

# Publishers without posts, whose channels take places.
OTHERS = ("c0", "c1")
# The share of worlds in which channels are changed just after a post was put into them.
AT_ONCE = 0.5
# The share of posts after which it happens there.
STRIKES = 0.4


def promote_and_demote(world: World, random: Random, publishers: Sequence[str]) -> None:
    """Promote and demote publishers at any moment."""
    pause = random.choice((2, 10, 40))
    for _ in range(random.randint(2, 8)):
        world.scheduler.sleep(random.uniform(0, pause))
        is_other = random.random() < 0.15
        publisher = random.choice(OTHERS if is_other else publishers)
        flip(world, random, publisher, promotes=random.random() < 0.6)


def flip(world: World, random: Random, publisher: str, *, promotes: bool) -> None:
    """Promote or demote a publisher; the operator does not try again."""
    table = stores(boto.dynamodb()).heads
    with suppress(ClientError, BotoCoreError):
        if not promotes:
            days = max(world.retention_days, world.longest_retention_days)
            until = readable_until(world.clock.now_ms(), days)
            table.demote(publisher, until=until)
            return
        head = table.get()
        channel = head.of(publisher)
        if channel is None or not channel.is_active:
            table.add(publisher, head, followers=random.randint(0, 9))


def strike_at_once(world: World, random: Random) -> None:
    """Change a channel just after a post was put into it, in some worlds."""
    if random.random() >= AT_ONCE:
        return

    def strike(publisher: str) -> None:
        if world.faults.are_on and random.random() < STRIKES:
            promotes = random.random() < 0.2
            act = partial(flip, world, random, publisher, promotes=promotes)
            world.start_client("promoter at once", act)

    world.channels.when_put = strike
