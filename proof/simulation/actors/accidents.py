"""Human errors, which last until an operator repairs them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random

from botocore.exceptions import ClientError

from fanfold import names
from fanfold.follows.edges_table import edge_key
from proof.simulation.observed.observers import pair_of
from proof.simulation.world.lambdas import queue_url
from proof.simulation.world.world import World

# Of edges that are put by hand; one with a higher version than its follow is "newer".
MAX_VERSION = 6
MAX_LEVEL = 2


def fail_messages(world: World, random: Random) -> None:
    """Deploy a consumer that fails all its messages, so that they become dead letters.

    The previous version runs beside it, as during a deploy.
    """
    for _ in range(random.randint(1, 3)):
        world.scheduler.sleep(random.uniform(0, 40))
        queue = random.choice((names.PUBLISH, names.PUBLISH, *names.QUEUES))
        for _ in range(random.randint(1, 12)):
            for _ in range(queue.max_receives + 1):
                world.sqs.receive_message(
                    QueueUrl=queue_url(queue), MaxNumberOfMessages=10, VisibilityTimeout=0
                )
            world.scheduler.sleep(random.uniform(0, 2))


def damage_edges(
    world: World, random: Random, users: Sequence[str], publishers: Sequence[str]
) -> None:
    """Delete edges by hand, and put some without a follow or at another level."""
    for _ in range(random.randint(1, 4)):
        world.scheduler.sleep(random.uniform(0, 40))
        rows = sorted(world.rows(names.FOLLOWERS), key=lambda row: sorted(pair_of(row)))
        if rows and random.random() < 0.6:
            row = random.choice(rows)
            user, publisher = pair_of(row)
            version = int(row["version"]["N"])
        else:
            row, version = {}, random.randint(1, MAX_VERSION)
            user, publisher = random.choice((*users, "stranger")), random.choice(publishers)
        world.damage.begins((user, publisher), world.clock.now_ms())
        with suppress(ClientError):  # throttled: there was no accident
            if row and random.random() < 0.5:
                key = {name: row[name] for name in ("shard_id", "edge")}
                world.dynamodb.delete_item(TableName=names.FOLLOWERS.name, Key=key)
                world.note(f"accident: the edge of {user} at {publisher} is deleted")
                continue
            level = random.randint(0, MAX_LEVEL)
            item = {**edge_key(publisher, user, level), "version": {"N": str(version)}}
            world.dynamodb.put_item(TableName=names.FOLLOWERS.name, Item=item)
            world.note(f"accident: an edge of {user} at {publisher}, level {level}, {version}")
