"""Operators, who act during the traffic."""

from __future__ import annotations

from contextlib import suppress
from random import Random

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import names, times
from fanfold.aws import boto
from fanfold.follows.sharding import raised
from proof.simulation.stage import stores
from proof.simulation.world.lambdas import MAPPED
from proof.simulation.world.neighbours import is_of_neighbours
from proof.simulation.world.world import World


def pause_queues(world: World) -> None:
    """Pause some queues, perhaps for longer than SWEEP waits for a segment."""
    random = world.random
    world.scheduler.sleep(random.uniform(0, 60))
    queues = random.sample([queue.name for queue in MAPPED], random.randint(1, 3))
    world.triggers.pause(set(queues))
    world.note(f"paused: {queues}")
    world.scheduler.sleep(random.uniform(10, 60 * 60))
    world.triggers.resume()
    world.note("resumed")


def abandon_deliveries(world: World, random: Random, *, before_posts: bool = False) -> None:
    """Abandon open deliveries, at any moment of their work."""
    if before_posts:  # whose requests have died or are slow, and are repeated
        world.faults.rates |= {"crashed": 0.02, "slow": 0.05}
    ledger = stores(boto.dynamodb()).ledger
    for _ in range(2_000 if before_posts else 40):
        world.scheduler.sleep(random.uniform(0, 1 if before_posts else 3))
        with suppress(ClientError, BotoCoreError):  # the operator does not try again
            ids = sorted(each for each in ledger.open_ids() if not is_of_neighbours(each))
            if before_posts:
                ids = [each for each in ids if not world.row(names.POSTS, {"ref_id": {"S": each}})]
            if ids:
                ref_id = random.choice(ids)
                world.abandoned.setdefault(ref_id, False)  # perhaps: the answer may be lost
                if ledger.abandon(ref_id, now=times.to_text(world.clock.now_ms())):
                    world.abandoned[ref_id] = True


def grow_shards(world: World, publisher: str) -> None:
    """Grow a publisher by hand, or change the static level."""
    random = world.random
    table = stores(boto.dynamodb()).publishers
    for _ in range(random.randint(1, 3)):
        world.scheduler.sleep(random.uniform(0, 20))
        with suppress(ClientError, BotoCoreError):  # the operator does not try again
            if random.random() < 0.3:
                seen = table.shards(publisher)
                level, now_ms = seen.level + random.randint(1, 2), world.scheduler.now_ms()
                grown = raised(seen, level=level, now_ms=now_ms)
                table.update(publisher, seen=seen, shards=grown)
            else:
                table.set_static_level(random.choice((0, 1, 2, 3, None)))
