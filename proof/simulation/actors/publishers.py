"""Publishers, and users who interfere with them."""

from __future__ import annotations

import json
from functools import partial
from random import Random

from fanfold.ids import ref_id_for
from proof.simulation.clients.requests import (
    by_http,
    by_queue,
    read,
    retract,
    retract_by_queue,
    send,
    squat,
)
from proof.simulation.world.world import World

MAX_POSTS = 3  # of one publisher, except in a crowd
# The share of retracted posts that somebody reads before, and again some seconds later, which would
# show a stale cache of `timeline`.
READ, AGAIN_SECONDS = 0.5, (5.0, 40.0)
# The share of posts that are retracted before they are published: higher with impatient clients,
# whose first attempt may last until after the publish.
RETRACTED_FIRST, RETRACTED_FIRST_IN_HASTE = 0.1, 0.8

NOISE = (
    "not JSON",
    "[]",
    json.dumps({"version": 99, "type": "post.published"}),
    json.dumps({"version": 1, "type": "post.exploded"}),
    json.dumps({"version": 1, "type": "post.published", "publisher_id": "p0"}),
    json.dumps({"version": 1, "type": "fanout.plan", "fanout_id": "unknown"}),
)


def publish(world: World, publisher: str) -> None:
    """Publish a few posts, by HTTP or queue; some twice; retract some, even before publishing."""
    random = world.random
    for number in range(random.randint(1, MAX_POSTS)):
        world.scheduler.sleep(random.uniform(0, 60))
        name = f"{publisher}-{number}"
        (_post_by_http if random.random() < 0.6 else _post_by_queue)(world, publisher, name)


def _post_by_http(world: World, publisher: str, key: str) -> None:
    random, ref_id = world.random, ref_id_for(publisher, key)
    first = RETRACTED_FIRST_IN_HASTE if world.faults.rates["impatient"] else RETRACTED_FIRST
    if random.random() < first:
        retract(world, publisher, ref_id)
    for _ in range(random.choice((1, 1, 1, 2))):
        by_http(world, publisher, key)
    if random.random() < 0.15:
        world.scheduler.sleep(random.uniform(0, 10))
        _retract_before_readers(world, publisher, ref_id)
        if random.random() < 0.5:
            by_http(world, publisher, key)


def _post_by_queue(world: World, publisher: str, ref_id: str) -> None:
    random = world.random
    if random.random() < 0.15:
        retract_by_queue(world, publisher, ref_id)
        world.scheduler.sleep(random.uniform(0, 2))
    for _ in range(random.choice((1, 1, 1, 2))):
        by_queue(world, publisher, ref_id)
    if random.random() < 0.15:
        world.scheduler.sleep(random.uniform(0, 10))
        random.choice((_retract_before_readers, retract_by_queue))(world, publisher, ref_id)


def _retract_before_readers(world: World, publisher: str, ref_id: str) -> None:
    """Retract a post by HTTP; perhaps a user reads just before, and again some seconds later."""
    random = Random(f"{world.seed} readers of {ref_id}")
    users = [user for user, followed in world.history.relations if followed == publisher]
    reads = bool(users) and random.random() < READ
    if reads:
        reader = random.choice(users)
        read(world, reader, limit=100)
    retract(world, publisher, ref_id)
    if reads:
        world.start_client(f"{reader} again", partial(_read_later, world, random, reader))


def _read_later(world: World, random: Random, reader: str) -> None:
    world.scheduler.sleep(random.uniform(*AGAIN_SECONDS))
    read(world, reader, limit=100)


def publish_under_the_same_keys(world: World, publisher: str) -> None:
    """Publish other posts with the same keys, like another device of the publisher."""
    random = world.random
    for _ in range(random.randint(1, 3)):
        world.scheduler.sleep(random.uniform(0, 30))
        key = f"{publisher}-{random.randrange(MAX_POSTS)}"
        by_http(world, publisher, key, content={"title": "another"})


def try_to_retract(world: World, publishers: list[str]) -> None:
    """Try to retract posts of others, published or not."""
    random = world.random
    for _ in range(random.randint(1, 6)):
        world.scheduler.sleep(random.uniform(0, 30))
        publisher = random.choice(publishers)
        name = f"{publisher}-{random.randrange(MAX_POSTS)}"
        squat(world, random.choice((name, ref_id_for(publisher, name))))


def send_noise(world: World) -> None:
    """Send messages that break the contract."""
    for body in world.random.sample(NOISE, 3):
        world.scheduler.sleep(world.random.uniform(0, 30))
        world.noise.add(body)
        send(world, body)
