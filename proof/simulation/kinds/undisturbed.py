"""A world in which nothing goes wrong, and nobody does anything twice.

It shows what the work costs: each entry is written once, each post takes a few write units more,
SWEEP repairs nothing, and no alarm rings.
"""

from __future__ import annotations

from functools import partial

from proof.simulation.checks import work
from proof.simulation.checks.judge import CHECKS
from proof.simulation.clients.requests import by_http, by_queue, read, relate
from proof.simulation.kinds.kind import Kind
from proof.simulation.kinds.ordinary import USERS
from proof.simulation.observed.cloudwatch import Watch
from proof.simulation.oracle.liveness import Liveness
from proof.simulation.world.world import World


def calm(world: World) -> None:
    """Switch off all faults of a world."""
    world.faults.rates = dict.fromkeys(world.faults.rates, 0.0)
    world.is_crowded, world.meter.throttle = False, None
    world.is_hasty, world.door_skew_ms = False, 0
    world.triggers.seconds_a_message = 0.0
    world.time_pressure, world.worker_rate = 1.0, 10_000.0


def live(world: World) -> None:
    """Run the world to its end."""
    calm(world)
    Liveness(Watch(world))
    world.run(play)


def play(world: World) -> None:
    """Start the clients: each follows some publishers, or publishes a few posts."""
    posting = [f"p{number}" for number in range(world.random.randint(1, 3))]
    for number in range(world.random.randint(1, USERS)):
        user = f"u{number}"
        world.start_client(user, partial(_follow, world, user, posting))
    for publisher in posting:
        world.start_client(publisher, partial(_publish, world, publisher))


def _follow(world: World, user: str, publishers: list[str]) -> None:
    for publisher in publishers:
        if world.random.random() < 0.8:
            world.scheduler.sleep(world.random.uniform(0, 20))
            relate(world, "follow", user, publisher)
    read(world, user)


def _publish(world: World, publisher: str) -> None:
    for number in range(world.random.randint(1, 3)):
        world.scheduler.sleep(world.random.uniform(0, 60))
        act = world.random.choice((by_http, by_queue))
        act(world, publisher, f"{publisher}-{number}")


KIND = Kind("undisturbed", 0.03, live, (*CHECKS, work.book_keeping_is_a_few_units))
