"""Something stays broken for hours, until SWEEP gives up. Then an operator may resend.

The world is small, and SWEEP waits at most eight minutes between two rounds instead of a day: it
gives up after hours instead of nine days.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random

from fanfold.contract import FANOUT_PLAN, POST_PUBLISHED, SEGMENT_DELIVER
from fanfold.fanout.row import STALLED
from fanfold_cli.commands import fanout
from proof.simulation.actors import publishers, users
from proof.simulation.checks.evidence import Evidence
from proof.simulation.checks.judge import CHECKS
from proof.simulation.kinds.kind import Kind
from proof.simulation.observed.cloudwatch import Watch
from proof.simulation.oracle.liveness import Liveness
from proof.simulation.world.commands import installed, run
from proof.simulation.world.world import World

# The share of worlds in which the trouble ends before SWEEP gives up.
MENDED_EARLY = 0.2
EARLY_SECONDS = 2 * 60 * 60.0
# With ten rounds of twelve minutes, all has stalled long before.
LATEST_SECONDS = 24 * 60 * 60.0
LOOK_SECONDS = 300.0
# The share of worlds in which an operator then resends what has stalled.
SENT_AGAIN = 0.5
LONGEST_WAIT_SECONDS = 480
# Hand-backs without progress, so that a dead letter comes soon.
MAX_HOPS = 3
PUBLISHER = "p0"


def live(world: World) -> None:
    """Run the world to its end."""
    world.longest_wait_seconds, world.max_hops = LONGEST_WAIT_SECONDS, MAX_HOPS
    # With less time for a message, reading the ring might use all of it each time.
    world.time_pressure = 1.0
    # In a slow lane, one round would still wait when the next is due.
    world.triggers.seconds_a_message = 0.0
    random = Random(f"{world.seed} broken")
    # In some worlds, all posts take a lane, because the trouble affects its orders.
    if random.random() < 0.5:
        world.sample_edges = 1
    # Without other faults, which are off in some worlds, only the trouble prevents deliveries.
    if random.random() < 0.5:
        world.faults.rates = dict.fromkeys(world.faults.rates, 0.0)
    Liveness(Watch(world))
    world.run(partial(play, random=random))
    if random.random() < SENT_AGAIN:
        with installed():
            world.run(lambda _: world.start_client("operator", partial(send_again, world, random)))
        world.was_sent_again = True


def send_again(world: World, random: Random) -> None:
    """Resend what has stalled, once its index has caught up."""
    world.scheduler.sleep(LOOK_SECONDS)
    run(world, random, partial(fanout.resend, stalled=True))


def play(world: World, *, random: Random) -> None:
    """Start a publisher and a few followers, and break something."""
    people = [f"u{number}" for number in range(random.randint(1, 8))]
    for user in people:
        world.start_client(user, partial(users.use, world, user, [PUBLISHER]))
    world.start_client(PUBLISHER, partial(publishers.publish, world, PUBLISHER))
    world.start_client("trouble", partial(random.choice(TROUBLES), world, random, people))


def freeze_a_timeline(world: World, random: Random, people: list[str]) -> None:
    """One timeline accepts nothing, so its segment never progresses."""
    faults = world.faults
    faults.hot, faults.hot_until, faults.rates["hot"] = (
        frozenset({random.choice(people)}),
        LATEST_SECONDS,
        1.0,
    )
    faults.injected["frozen"] += 1
    _wait(world, random)
    faults.hot_until = 0.0


def refuse_orders(world: World, random: Random, _people: list[str]) -> None:
    """The queues refuse the orders of the first segments, or of all, or those to PLAN."""
    world.faults.lost = random.choice(('"segment":0,', f'"{SEGMENT_DELIVER}"', f'"{FANOUT_PLAN}"'))
    _wait(world, random)
    world.faults.lost = ""


def poison(world: World, random: Random, _people: list[str]) -> None:
    """Orders of first segments, orders to plan, or new posts kill their workers."""
    world.faults.poison = random.choice(('"segment":0,', f'"{FANOUT_PLAN}"', f'"{POST_PUBLISHED}"'))
    _wait(world, random)
    world.faults.poison = ""


TROUBLES = (freeze_a_timeline, refuse_orders, poison)


def _wait(world: World, random: Random) -> None:
    """Wait until nothing is open; in some worlds, less long."""
    latest = EARLY_SECONDS if random.random() < MENDED_EARLY else LATEST_SECONDS
    world.scheduler.sleep(LOOK_SECONDS)
    while world.scheduler.now < latest and any("open_fanout" in row for row in world.fanouts()):
        world.scheduler.sleep(LOOK_SECONDS)
    world.note("the trouble has ended")


def what_was_sent_again_is_delivered(found: Evidence) -> Iterator[str]:
    """After the trouble, when an operator has resent all, nothing is stalled."""
    for ref_id, row in found.fanouts.items():
        if found.world.was_sent_again and row["state"]["S"] == STALLED:
            yield f"{ref_id} was sent again, and is stalled."


KIND = Kind("broken", 0.02, live, (*CHECKS, what_was_sent_again_is_delivered))
