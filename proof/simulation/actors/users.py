"""Users, who follow, unfollow and read."""

from __future__ import annotations

import math
from functools import partial
from random import Random

from proof.simulation.actors.operators import grow_shards
from proof.simulation.clients.requests import by_http, read, relate, relate_by_queue
from proof.simulation.world.world import World

# In a crowded run, hot timelines delay each of the many posts, so they are hot only this long.
CROWD_HOT_SECONDS = 30.0
# A crowd mostly comes in waves, so that many environments see the same throttle together.
WAVE_SECONDS = (None, 1.0, 1.0)
# How much later the second device is, at most: an unfollow takes about five calls of 1 to 20 ms.
TWO_DEVICES_SECONDS = 0.1


def use(world: World, user: str, publishers: list[str]) -> None:
    """Follow most publishers; perhaps follow and unfollow some repeatedly; perhaps read."""
    random = world.random
    for publisher in publishers:
        if random.random() < 0.8:
            relate(world, "follow", user, publisher)
    is_restless = random.random() < 0.3
    for _ in range(random.randint(0, 4) if is_restless else 0):
        world.scheduler.sleep(random.uniform(0, 20))
        relate(world, random.choice(("follow", "unfollow")), user, random.choice(publishers))
    if random.random() < 0.2:
        read(world, user)


def crowd(
    world: World,
    users: list[str],
    publisher: str,
    *,
    changes: tuple[int, int] = (2, 4),
    posts: tuple[int, int] = (1, 4),
) -> None:
    """Let all users follow and unfollow one publisher, who keeps posting."""
    random = world.random
    world.faults.hot_until = min(world.faults.hot_until, CROWD_HOT_SECONDS)
    wave = random.choice(WAVE_SECONDS)

    def come_and_go(user: str) -> None:
        for _ in range(random.randint(*changes)):
            pause = random.uniform(0, 6)
            if wave:
                now = world.scheduler.now
                pause = math.ceil((now + pause) / wave) * wave - now
            world.scheduler.sleep(pause)
            act = relate if random.random() < 0.9 else relate_by_queue
            act(world, random.choice(("follow", "follow", "unfollow")), user, publisher)

    def post() -> None:
        for number in range(random.randint(*posts)):
            world.scheduler.sleep(random.uniform(0, 8))
            by_http(world, publisher, f"{publisher}-crowd-{number}")

    for user in users:
        world.start_client(f"{user} again", partial(come_and_go, user))
    world.start_client(f"{publisher} again", post)
    if random.random() < 0.3:
        world.start_client("shards", partial(grow_shards, world, publisher))


def change_mind(world: World, user: str, publisher: str) -> None:
    """Follow and unfollow within a fraction of a second, by request and by message."""
    random = world.random
    for _ in range(random.randint(1, 4)):
        world.scheduler.sleep(random.uniform(0, 10))
        for _ in range(random.randint(2, 4)):
            act = random.choice((relate, relate_by_queue))
            act(world, random.choice(("follow", "unfollow")), user, publisher)
            world.scheduler.sleep(random.choice((0.0, random.uniform(0, 0.3))))


def use_two_devices(world: World, random: Random, user: str, publisher: str) -> None:
    """Unfollow with one device and follow with the other a moment later, a few times.

    An edge that the one request has read, and is about to delete, is then put by the other.
    """

    def follow_again(pause: float) -> None:
        world.scheduler.sleep(pause)
        relate(world, "follow", user, publisher)

    for _ in range(random.randint(2, 4)):
        world.scheduler.sleep(random.uniform(0, 10))
        relate(world, "follow", user, publisher)
        pause = random.uniform(0, TWO_DEVICES_SECONDS)
        world.start_client(f"{user} again", partial(follow_again, pause))
        relate(world, "unfollow", user, publisher)


def waver(world: World, random: Random, user: str, publisher: str) -> None:
    """Follow and unfollow within minutes, by requests and by messages, which may be late."""
    for _ in range(random.randint(2, 5)):
        world.scheduler.sleep(random.uniform(0, 40))
        act = random.choice((relate, relate_by_queue))
        act(world, random.choice(("follow", "unfollow")), user, publisher)
