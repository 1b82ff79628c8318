"""A rush: two dozen users follow and unfollow one publisher in waves, who keeps posting.

Ordinary crowds are smaller. Here many environments see the same throttles, and raise the level of
one publisher at the same time. Six more users change their mind within fractions of a second.
"""

from __future__ import annotations

import math
from functools import partial
from random import Random

from proof.model.dynamodb.capacity import Limits
from proof.simulation.actors import audiences, publishers, users
from proof.simulation.checks.judge import CHECKS
from proof.simulation.faults.faults import crowd
from proof.simulation.kinds.kind import Kind
from proof.simulation.observed.cloudwatch import Watch
from proof.simulation.oracle.liveness import Liveness
from proof.simulation.world.world import World

USERS = (12, 24)
CHANGES, POSTS = (2, 6), (2, 8)
# Users who change their mind immediately.
HASTY = 6
# The share of worlds where only the table throttles, which no growth cures; its writes a second.
FULL_TABLES, TABLE_WRITES = 0.1, 4.0


def live(world: World) -> None:
    """Run the world to its end."""
    world.is_crowded, world.triggers.seconds_a_message = True, 0.0
    world.meter.throttle = throttle = crowd(world.clock, Random(f"{world.seed} rush"))
    if Random(f"{world.seed} table").random() < FULL_TABLES:
        full = Limits(partition_writes=math.inf, max_write_request_units=TABLE_WRITES)
        throttle.limits = dict.fromkeys(throttle.limits, full)
    Liveness(Watch(world))
    world.run(play)


def play(world: World) -> None:
    """Start the clients: users and publishers as in ordinary worlds, and the crowd."""
    posting = [f"p{number}" for number in range(world.random.randint(1, 2))]
    people = [f"u{number}" for number in range(world.random.randint(*USERS))]
    world.faults.hot = frozenset(world.random.sample(people, world.random.choice((1, 1, 2, 4))))
    for user in people:
        world.start_client(user, partial(users.use, world, user, posting))
    for publisher in posting:
        world.start_client(publisher, partial(publishers.publish, world, publisher))
    audiences.start(world, people, posting)
    users.crowd(world, people, posting[0], changes=CHANGES, posts=POSTS)
    for number in range(HASTY):
        user = f"h{number}"
        world.start_client(user, partial(users.change_mind, world, user, posting[0]))


KIND = Kind("rush", 0.02, live, CHECKS)
