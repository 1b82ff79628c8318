"""Publishers who decide who may follow them, and users who want to.

Both change their minds at the same time, by requests and by messages. Some courses are written
down: what they are for rarely comes together by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from fanfold import contract
from proof.simulation.clients import audience_requests as audience
from proof.simulation.clients import requests
from proof.simulation.world.world import World

# The share of worlds with such publishers.
SHARE = 0.3
# The share of these in whose stage publishers are private by default.
BY_DEFAULT = 0.15
USERS = 3
# A pause between two acts, in seconds: none, within a request, or around the time for which doors
# remember a privacy.
PAUSES = (0.0, 0.05, 0.5, 3.0, 3.0, 8.0)
BY_MESSAGE = 0.2
# How long ago a message was first sent that is redriven.
MAX_LATE_MS = 20_000

Act = Callable[[World, Random, str, str], object]


def start(world: World, people: Sequence[str], posting: Sequence[str]) -> None:
    """Start such publishers and users in some worlds."""
    random = Random(f"{world.seed} audiences")
    if random.random() >= SHARE:
        return
    world.has_audiences = True
    # From a separate generator, so that other worlds stay as they were.
    by_default = Random(f"{world.seed} by default")
    if by_default.random() < BY_DEFAULT and not world.has_operators:
        world.history.audience.is_private_by_default = True
        for publisher in posting:
            _open(world, by_default, publisher)
    for number, publisher in enumerate(posting[: random.choice((1, 1, 2))]):
        world.history.audience.deciding.add(publisher)
        own = Random(f"{world.seed} audience {number}")
        world.start_client(f"{publisher} decides", partial(_decide, world, own, publisher, people))
        for user in own.sample(people, min(len(people), USERS)):
            act = partial(_want, world, Random(f"{world.seed} {user}"), publisher, user)
            world.start_client(f"{user} wants", act)
        course, user = own.choice(COURSES), f"{publisher}-fan"
        play = partial(_play, world, Random(f"{world.seed} {user}"), course, publisher, user)
        world.start_client(f"{publisher} plays", play)


def _open(world: World, random: Random, publisher: str) -> None:
    """Have a publisher of a stage where all are private decide what it shall be, perhaps late."""
    world.history.audience.deciding.add(publisher)
    seconds = random.uniform(0, random.choice((0, 5, 60)))

    def choose() -> None:
        world.scheduler.sleep(seconds)
        audience.choose(world, publisher, is_private=False)

    world.start_client(f"{publisher} opens", choose)


def _decide(world: World, random: Random, publisher: str, people: Sequence[str]) -> None:
    for _ in range(random.randint(3, 9)):
        _pause(random, world)
        user = random.choice([*people, f"{publisher}-fan"])
        random.choices(DECISIONS, WEIGHTS)[0](world, random, publisher, user)


def _want(world: World, random: Random, publisher: str, user: str) -> None:
    for _ in range(random.randint(2, 7)):
        _pause(random, world)
        random.choices(WISHES, WISHED)[0](world, random, publisher, user)


def _play(world: World, random: Random, course: Sequence[Act], publisher: str, user: str) -> None:
    """Play a course, mostly one act after the other."""
    world.scheduler.sleep(random.uniform(0, 30))
    for act in course:
        _pause(random, world)
        if random.random() < 0.3:
            play = partial(act, world, random, publisher, user)
            world.start_client(f"{user} at once", play)
        else:
            act(world, random, publisher, user)


def _pause(random: Random, world: World) -> None:
    world.scheduler.sleep(random.uniform(0, random.choice(PAUSES)))


def _deciding(kind: str, *, late: bool = False) -> Act:
    def act(world: World, random: Random, publisher: str, user: str) -> None:
        if late:
            first_ms = world.clock.now_ms() - random.randint(0, MAX_LATE_MS)
            audience.decide_by_queue(world, kind, publisher, user, first_sent_ms=first_ms)
        elif random.random() < BY_MESSAGE:
            audience.decide_by_queue(world, kind, publisher, user)
        else:
            audience.decide(world, kind, publisher, user)

    return act


def _wanting(kind: str) -> Act:
    def act(world: World, random: Random, publisher: str, user: str) -> None:
        ask = requests.relate if random.random() >= BY_MESSAGE else requests.relate_by_queue
        ask(world, kind, user, publisher)

    return act


def _with_approval(world: World, random: Random, publisher: str, user: str) -> None:
    late_ms = random.choice((0, random.randint(0, MAX_LATE_MS)))
    first_ms = world.clock.now_ms() - late_ms if late_ms else None
    kind, type_ = "follow", contract.FOLLOW_ADDED
    requests.ask_by_queue(
        world, kind, type_, user, publisher, first_sent_ms=first_ms, approved=True
    )


def _shutting(kind: str) -> Act:
    def act(world: World, _random: Random, publisher: str, user: str) -> None:
        audience.decide(world, kind, user, publisher)

    return act


def _choosing(*, is_private: bool) -> Act:
    def act(world: World, _random: Random, publisher: str, _user: str) -> None:
        audience.choose(world, publisher, is_private=is_private)

    return act


def _attend(world: World, random: Random, publisher: str, _user: str) -> None:
    """Approve or deny who asks."""
    for user in audience.requests_of(world, publisher, limit=random.choice((1, 2, 50))):
        kind = random.choice(("approve", "approve", "remove"))
        audience.decide(world, kind, publisher, user)


def _look(world: World, random: Random, publisher: str, user: str) -> None:
    audience.look(world, user, publisher, limit=random.choice((1, 2, 50)))


def _ask_back(world: World, random: Random, publisher: str, user: str) -> None:
    limit = random.choice((1, 2, 50))
    audience.ask_relation(world, user, publisher)
    audience.requested(world, user, limit=limit)
    audience.ask_privacy(world, publisher)
    audience.blocked_by(world, publisher, limit=limit)


def _read(world: World, random: Random, _publisher: str, user: str) -> None:
    requests.read(world, user, limit=random.choice((1, 2, 50)))


def _post(world: World, random: Random, publisher: str, _user: str) -> None:
    requests.by_http(world, publisher, f"{publisher}-of-{random.randrange(10**6)}")


def _sleep(world: World, random: Random, _publisher: str, _user: str) -> None:
    world.scheduler.sleep(random.uniform(0, 12))


PRIVATE, PUBLIC = _choosing(is_private=True), _choosing(is_private=False)
APPROVE, REMOVE, BLOCK, UNBLOCK = map(_deciding, audience.KINDS)
LATE = [_deciding(kind, late=True) for kind in audience.KINDS]
LATE_APPROVE, LATE_REMOVE, LATE_BLOCK, LATE_UNBLOCK = LATE
FOLLOW, UNFOLLOW = _wanting("follow"), _wanting("unfollow")
SHUT_OUT, LET_IN = _shutting("block"), _shutting("unblock")

DECISIONS = (PRIVATE, PUBLIC, _attend, APPROVE, REMOVE, BLOCK, UNBLOCK, *LATE, _post)
WEIGHTS = (4, 2, 4, 3, 3, 2, 2, 1, 1, 1, 1, 2)
WISHES = (FOLLOW, UNFOLLOW, _with_approval, _look, _ask_back, _read, SHUT_OUT, LET_IN)
WISHED = (8, 3, 1, 3, 2, 2, 1, 1)
COURSES: tuple[tuple[Act, ...], ...] = (
    # A privacy that is remembered: a follower removed, or blocked and unblocked, asks at once.
    (PUBLIC, _look, FOLLOW, PRIVATE, REMOVE, FOLLOW, _look, _read),
    (PUBLIC, _look, FOLLOW, PRIVATE, BLOCK, UNBLOCK, FOLLOW, _look, _read),
    (PUBLIC, _look, PRIVATE, _sleep, FOLLOW, _look, _sleep, _look),
    # Who asks waits until the publisher approves, or goes public, and perhaps private again.
    (PRIVATE, _sleep, FOLLOW, _ask_back, _attend, _post, _read, REMOVE, FOLLOW, _ask_back),
    (PRIVATE, _sleep, FOLLOW, PUBLIC, _ask_back, _post, _read),
    (PRIVATE, _sleep, FOLLOW, PUBLIC, PRIVATE, _look, _sleep, _look, _ask_back),
    (PRIVATE, _sleep, FOLLOW, _sleep, PUBLIC, FOLLOW, _look),
    (PRIVATE, FOLLOW, APPROVE, UNFOLLOW, FOLLOW, _ask_back, _read),
    (PRIVATE, FOLLOW, APPROVE, REMOVE, FOLLOW, LATE_APPROVE, _ask_back, _look),
    # What comes late.
    (PRIVATE, _with_approval, FOLLOW, LATE_REMOVE, FOLLOW, _ask_back),
    (PRIVATE, FOLLOW, APPROVE, LATE_REMOVE, _read, _ask_back),
    (PRIVATE, FOLLOW, LATE_REMOVE, APPROVE, _ask_back, _read),
    (PRIVATE, REMOVE, FOLLOW, _with_approval, LATE_REMOVE, _read, _ask_back),
    (FOLLOW, LATE_BLOCK, UNBLOCK, LATE_BLOCK, FOLLOW, _look, _ask_back),
    (FOLLOW, BLOCK, LATE_UNBLOCK, FOLLOW, _look, _ask_back),
    # Blocks, and a feed that is read while one begins.
    (FOLLOW, _post, BLOCK, _post, _look, FOLLOW, _ask_back, UNBLOCK, FOLLOW, _look),
    (PUBLIC, _post, _look, BLOCK, _post, _look),
    (PUBLIC, FOLLOW, SHUT_OUT, FOLLOW, LET_IN, FOLLOW, _ask_back),
    (PRIVATE, FOLLOW, BLOCK, _ask_back, FOLLOW, APPROVE, UNBLOCK, _ask_back, FOLLOW),
)
