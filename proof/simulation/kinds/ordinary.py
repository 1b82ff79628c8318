"""The ordinary world: a few publishers and their followers, for minutes or hours.

While they act, anything may fail. Then the faults end, and the run continues until quiescence.
"""

from __future__ import annotations

from functools import partial
from random import Random

from proof.simulation.actors import audiences, editors, operators, publishers, readers, users
from proof.simulation.checks import audit, work
from proof.simulation.checks.judge import CHECKS
from proof.simulation.clients import climbs
from proof.simulation.kinds.kind import Kind
from proof.simulation.observed.cloudwatch import Watch
from proof.simulation.oracle.liveness import Liveness
from proof.simulation.world.neighbours import Neighbours
from proof.simulation.world.world import World


def live(world: World) -> None:
    """Run the world to its end."""
    Liveness(Watch(world))
    audit.attend(world)
    world.run(play)


# The most users: three segments of them.
USERS = 12
# The most publishers; fewer where lanes are slow and each segment takes minutes. With these, a
# fan-out may wait there for hours, which SWEEP must not take for silence.
PUBLISHERS, PUBLISHERS_OF_SLOW_LANES = 3, 2


def play(world: World) -> None:
    """Start the clients: one to three publishers, their users, and some others."""
    random = world.random
    if world.is_busy:
        Neighbours(world)
    is_slow = world.triggers.seconds_a_message > 0
    most = PUBLISHERS_OF_SLOW_LANES if is_slow else PUBLISHERS
    posting = [f"p{number}" for number in range(random.randint(1, most))]
    people = [f"u{number}" for number in range(random.randint(1, USERS))]
    world.faults.hot = frozenset(
        random.sample(people, min(len(people), random.choice((1, 1, 2, 4))))
    )
    for user in people:
        world.start_client(user, partial(users.use, world, user, posting))
    for publisher in posting:
        world.start_client(publisher, partial(publishers.publish, world, publisher))
    editors.start(world, posting)
    readers.start(world, people, posting)
    audiences.start(world, people, posting)
    if random.random() < 0.3:
        world.start_client(
            "rival", partial(publishers.publish_under_the_same_keys, world, posting[0])
        )
    if random.random() < 0.3:
        world.start_client("squatter", partial(publishers.try_to_retract, world, posting))
    if world.is_crowded:
        users.crowd(world, people, posting[0])
    if world.is_hasty:
        for user in ("h0", "h1"):
            world.start_client(user, partial(users.change_mind, world, user, posting[0]))
    # From a separate generator, so that other runs stay as they were.
    climbing = Random(f"{world.seed} climbs")
    if climbing.random() < climbs.CLIMBED:
        world.start_client("climber", partial(climbs.climb, world, climbing, people[0]))
        world.start_client("tardy", partial(climbs.post_late, world, climbing, posting[-1]))
    devices = Random(f"{world.seed} devices")
    if devices.random() < 0.1:
        world.start_client("d0", partial(users.use_two_devices, world, devices, "d0", posting[0]))
    if random.random() < 0.3:
        world.start_client("noise", partial(publishers.send_noise, world))
    if random.random() < 0.2:
        world.start_client("operator", partial(operators.pause_queues, world))
    abandon, hasty = partial(operators.abandon_deliveries, world), Random(f"{world.seed} hasty")
    if world.is_ended_by_hand:
        world.start_client("impatient", partial(abandon, world.ended_by_hand))
    if hasty.random() < 0.05:
        world.start_client("hasty", partial(abandon, hasty, before_posts=True))


KIND = Kind("ordinary", 0.79, live, (*CHECKS, work.book_keeping_is_a_few_units))
