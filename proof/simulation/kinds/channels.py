"""A world with channels: publishers are promoted and demoted while they publish.

It is an ordinary world, or a small one with a few readers who mostly read. Pages come from several
containers of `timeline`, which know the head and the channels of different moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

from proof.simulation.actors import audiences, promoters, publishers, readers, users
from proof.simulation.checks import audit
from proof.simulation.checks.judge import CHECKS
from proof.simulation.clients import climbs, requests
from proof.simulation.kinds import ordinary
from proof.simulation.kinds.kind import Kind
from proof.simulation.observed.channels import ChannelSettings
from proof.simulation.observed.cloudwatch import Watch
from proof.simulation.oracle.liveness import Liveness
from proof.simulation.world.world import World

# The followers at which a publisher is promoted; with the last, only by hand.
THRESHOLDS = (2, 3, 4, 6, 1_000_000)
# How many channels there may be. With three publishers, two are soon full.
MOSTS = (2, 3, 64)
# How many entries of a channel a container keeps.
WINDOWS = (1, 2, 3, 100)
CONTAINERS = 3
# The share of small worlds.
SMALL = 0.7
LIMITS = (1, 2, 3, 50)
# How often somebody reads when the head changes, and also follows or unfollows.
READS, CHANGES = 0.7, 0.6
# How many read through each container at the end.
MOST_READERS = 3


def live(world: World) -> None:
    """Run the world to its end."""
    random = Random(f"{world.seed} channels")
    world.channels.stage = drawn(random)
    Liveness(Watch(world))
    is_small = random.random() < SMALL
    if is_small:
        world.is_busy, world.triggers.seconds_a_message = False, 0.0
    audit.attend(world)
    world.run(partial(play_small if is_small else play, random=random))
    world.go_on(partial(look, world, random))


def drawn(random: Random) -> ChannelSettings:
    """The channel settings of a stage."""
    return ChannelSettings(
        random.choice(THRESHOLDS), random.choice(MOSTS), random.choice(WINDOWS), CONTAINERS
    )


def play(world: World, *, random: Random) -> None:
    """Start the clients of an ordinary world, and the promoters."""
    ordinary.play(world)
    _promote(world, random, [f"p{number}" for number in range(ordinary.PUBLISHERS)])


def play_small(world: World, *, random: Random) -> None:
    """Start a few clients, who act at nearly the same time."""
    posting = [f"p{number}" for number in range(random.randint(1, 3))]
    people = [f"u{number}" for number in range(random.randint(1, 3))]
    _promote(world, random, posting)
    _act_at_once(world, random, people)
    for user in people:
        world.start_client(user, partial(users.use, world, user, posting))
        world.start_client(f"{user} looks", partial(_look_around, world, random, user, posting))
    for publisher in posting:
        world.start_client(publisher, partial(publishers.publish, world, publisher))
        world.start_client(f"{publisher} late", partial(climbs.post_late, world, random, publisher))
    readers.start(world, people, posting)
    audiences.start(world, people, posting)
    for user in people:
        world.start_client(f"{user} climbs", partial(climbs.climb, world, random, user))


def _promote(world: World, random: Random, posting: Sequence[str]) -> None:
    act = partial(promoters.promote_and_demote, world, random, posting)
    world.start_client("promoter", act)
    promoters.strike_at_once(world, random)


def _act_at_once(world: World, random: Random, people: Sequence[str]) -> None:
    """When the head changes, somebody mostly reads, as in a busy service.

    Users may also follow the publisher of a new channel then.
    """

    def act_now(added: str | None) -> None:
        if not world.faults.are_on:
            return
        for user in people if added else [random.choice(people)]:
            if random.random() < READS:
                look = partial(requests.read, world, user, limit=random.choice(LIMITS))
                world.start_client(f"{user} at once", look)
            if added and random.random() < CHANGES:
                kind = random.choice(("follow", "follow", "follow", "unfollow"))
                change = partial(_change_and_post, world, random, kind, user, added)
                world.start_client(f"{user} changes at once", change)

    world.channels.when_head_changed = act_now


def _change_and_post(world: World, random: Random, kind: str, user: str, publisher: str) -> None:
    """Follow or unfollow; the publisher posts some time later."""
    # A page that begins with the change of the head reads the follows at about this time.
    world.scheduler.sleep(random.choice((0.0, random.uniform(0, 0.1))))
    requests.relate(world, kind, user, publisher)
    world.scheduler.sleep(random.uniform(0, 20))
    requests.by_queue(world, publisher, f"{publisher}-for-{user}")


def _look_around(world: World, random: Random, user: str, posting: Sequence[str]) -> None:
    """Read page by page, and perhaps follow or unfollow in between."""
    for _ in range(random.randint(2, 8)):
        world.scheduler.sleep(random.uniform(0, random.choice((1, 5, 30))))
        if random.random() < 0.3:
            kind = random.choice(("follow", "follow", "unfollow"))
            requests.relate(world, kind, user, random.choice(posting))
        requests.read(world, user, limit=random.choice(LIMITS), hydrate=random.random() < 0.7)


def look(world: World, random: Random) -> None:
    """Read everything through each container, when all is calm and all caches are new."""
    world.scheduler.sleep(60.0)
    people = world.history.users()
    for container in range(CONTAINERS):
        world.channels.container = container
        for user in random.sample(people, min(len(people), MOST_READERS)):
            requests.read(world, user, limit=random.choice(LIMITS))
    world.channels.container = None


KIND = Kind("channels", 0.0, live, CHECKS)
