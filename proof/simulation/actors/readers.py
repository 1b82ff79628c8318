"""Readers who follow, unfollow, mute, unmute and move their marker, and read immediately.

Some have two devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from fanfold import times
from fanfold.ids import sort_key
from proof.simulation.clients.reader_requests import marker, move_marker, mute, muted, unread
from proof.simulation.clients.requests import following, read, relate, relate_by_queue
from proof.simulation.world.world import World

# The share of worlds with such readers.
SHARE = 0.3
LIMITS = (1, 2, 50)
MAX_AHEAD_MS = 60_000


def start(world: World, people: Sequence[str], posting: Sequence[str]) -> None:
    """Start such readers in some worlds."""
    if world.faults.rates["impatient"]:
        hasty = Random(f"{world.seed} mutes")
        user = hasty.choice(people)
        world.start_client(f"{user} mutes", partial(_change_mutes, world, hasty, user, posting))
    random = Random(f"{world.seed} readers")
    if random.random() >= SHARE:
        return
    user = random.choice(people)
    for device in range(random.choice((1, 1, 2))):
        own = Random(f"{world.seed} device {device}")
        world.start_client(f"{user} reads", partial(_use, world, own, user, posting))


def _use(world: World, random: Random, user: str, posting: Sequence[str]) -> None:
    # All acts concern one publisher, and none depends on those before.
    publisher = random.choice(posting)
    for _ in range(random.randint(2, 6)):
        world.scheduler.sleep(random.uniform(0, random.choice((1, 10, 60))))
        acts = random.choices(ACTS, WEIGHTS)[0]
        for act in acts:
            act(world, random, user, publisher)
        _look(world, random, user)


def _change_mutes(world: World, random: Random, user: str, posting: Sequence[str]) -> None:
    """Mute and unmute one publisher within seconds, and read."""
    publisher = random.choice(posting)
    for _ in range(random.randint(5, 12)):
        world.scheduler.sleep(random.uniform(0, 4))
        mute(world, random.choice(("mute", "unmute")), user, publisher)
        if random.random() < 0.5:
            world.scheduler.sleep(random.uniform(0, 9))
            muted(world, user, limit=100)


def _look(world: World, random: Random, user: str) -> None:
    """Read immediately: mostly the timeline, from its beginning."""
    what = random.random()
    if what < 0.75:
        read(world, user, limit=random.choice(LIMITS), hydrate=random.random() < 0.7)
    elif what < 0.85:
        following(world, user, limit=100)
    elif what < 0.9:
        muted(world, user, limit=100)
    else:
        unread(world, user)


Act = Callable[[World, Random, str, str], object]


def _relate(kind: str) -> Act:
    def act(world: World, random: Random, user: str, publisher: str) -> None:
        ask = relate if random.random() < 0.85 else relate_by_queue
        ask(world, kind, user, publisher)

    return act


def _mute(kind: str) -> Act:
    def act(world: World, _random: Random, user: str, publisher: str) -> None:
        mute(world, kind, user, publisher)

    return act


def _mark(world: World, random: Random, user: str, publisher: str) -> None:
    """Move the marker to a shown entry, or elsewhere, perhaps into the future."""
    shown = [
        sort_key(each["published_at"], each["ref_id"])
        for pages in world.history.readings
        for page in pages
        if page.user == user
        for each in page.entries
    ]
    at_ms = world.clock.now_ms() + random.randint(-MAX_AHEAD_MS, MAX_AHEAD_MS)
    elsewhere = sort_key(times.to_text(at_ms), f"{publisher}-marked")
    move_marker(world, user, random.choice([*shown[-10:], elsewhere]))
    if random.random() < 0.5:
        marker(world, user)


def _pause(world: World, random: Random, _user: str, _publisher: str) -> None:
    world.scheduler.sleep(random.uniform(0, 15))


FOLLOW, UNFOLLOW, MUTE, UNMUTE = (
    _relate("follow"),
    _relate("unfollow"),
    _mute("mute"),
    _mute("unmute"),
)
# What is done before the next read, and how often in ten times.
ACTS: tuple[tuple[Act, ...], ...] = (
    (UNFOLLOW,),
    (FOLLOW,),
    (UNFOLLOW, FOLLOW),
    (UNFOLLOW, _pause, FOLLOW),
    (MUTE,),
    (UNMUTE,),
    (MUTE, UNFOLLOW, FOLLOW),
    (_mark,),
)
WEIGHTS = (3, 3, 1, 1, 1, 1, 1, 2)
