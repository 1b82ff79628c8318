"""What the clients of a run do: drawn from the seed, and written down as deeds."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import contract, names
from fanfold.aws import boto
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.sharding import raised
from simulation.lambdas import MAPPED
from simulation.world import Operation, World

NOISE = (
    "not JSON",
    "[]",
    json.dumps({"version": 99, "type": "post.published"}),
    json.dumps({"version": 1, "type": "post.exploded"}),
    json.dumps({"version": 1, "type": "post.published", "publisher_id": "p0"}),
    json.dumps({"version": 1, "type": "fanout.plan", "fanout_id": "unknown"}),
)

BY_QUEUE = "by queue"
# How long timelines may be hot where follows are crowded.
CROWD_HOT_SECONDS = 30.0
# A crowd mostly comes in waves, so that many doors see the same throttle at the same moment.
WAVE_SECONDS = (None, 1.0, 1.0)


def play(world: World) -> None:
    """Let a few publishers and a dozen or two users loose on the doors."""
    random = world.random
    publishers = [f"p{number}" for number in range(random.randint(1, 3))]
    users = [f"u{number}" for number in range(random.randint(1, 24))]
    world.faults.hot = frozenset(random.sample(users, min(len(users), random.choice((1, 1, 2, 4)))))
    for user in users:
        world.stage.enter(f"client {user}", lambda user=user: _user(world, user, publishers))  # type: ignore[misc]
    for publisher in publishers:
        world.stage.enter(f"client {publisher}", lambda who=publisher: _publisher(world, who))  # type: ignore[misc]
    if world.is_crowded:
        _crowd(world, users, publishers[0])
    if random.random() < 0.3:
        world.stage.enter("client noise", lambda: _noise(world))
    if random.random() < 0.2:
        world.stage.enter("client operator", lambda: _operator(world))


def _user(world: World, user: str, publishers: list[str]) -> None:
    """Follow most publishers; then perhaps change one's mind, again and again, and read."""
    random = world.random
    for publisher in publishers:
        if random.random() < 0.8:
            relate(world, "follow", user, publisher)
    restless = random.random() < 0.3
    for _ in range(random.randint(0, 4) if restless else 0):
        world.stage.give_way(random.uniform(0, 20))
        relate(world, random.choice(("follow", "unfollow")), user, random.choice(publishers))
    if random.random() < 0.2:
        read(world, user)


def _crowd(world: World, users: list[str], publisher: str) -> None:
    """Everybody comes and goes at one publisher, who posts all the while."""
    random = world.random
    # So many posts, each held up over and over by the same timelines, would be all that happens.
    world.faults.hot_until = min(world.faults.hot_until, CROWD_HOT_SECONDS)

    wave = random.choice(WAVE_SECONDS)

    def come_and_go(user: str) -> None:
        for _ in range(random.randint(2, 6)):
            pause = random.uniform(0, 6)
            if wave:
                now = world.clock.monotonic()
                pause = math.ceil((now + pause) / wave) * wave - now
            world.stage.give_way(pause)
            act = relate if random.random() < 0.9 else relate_by_queue
            act(world, random.choice(("follow", "follow", "unfollow")), user, publisher)

    def post() -> None:
        for number in range(random.randint(2, 8)):
            world.stage.give_way(random.uniform(0, 8))
            by_http(world, publisher, f"{publisher}-crowd-{number}")

    for user in users:
        world.stage.enter(f"client {user} again", lambda user=user: come_and_go(user))  # type: ignore[misc]
    world.stage.enter(f"client {publisher} again", post)
    if random.random() < 0.3:
        world.stage.enter("client shards", lambda: _shards(world, publisher))


def _shards(world: World, publisher: str) -> None:
    """Grow a publisher by hand, or keep all at one level, and at another one later."""
    random = world.random
    table = PublishersTable(boto.dynamodb(), names.PUBLISHERS.name)
    for _ in range(random.randint(1, 3)):
        world.stage.give_way(random.uniform(0, 20))
        with suppress(ClientError, BotoCoreError):  # the operator sees it, and lets it be
            if random.random() < 0.3:
                seen = table.shards(publisher)
                grown = raised(seen, level=seen.level + random.randint(1, 2), now_ms=world.now_ms())
                table.update(publisher, seen=seen, shards=grown)
            else:
                table.set_static_level(random.choice((0, 1, 2, 3, None)))


def _publisher(world: World, publisher: str) -> None:
    """Post a few times by either door, sometimes twice, and sometimes take a post back."""
    random = world.random
    for number in range(random.randint(1, 3)):
        world.stage.give_way(random.uniform(0, 60))
        ref_id = f"{publisher}-{number}"
        if random.random() < 0.15:
            retract(world, publisher, ref_id)
        publish = by_http if random.random() < 0.6 else by_queue
        for _ in range(random.choice((1, 1, 1, 2))):
            publish(world, publisher, ref_id)
        if random.random() < 0.15:
            world.stage.give_way(random.uniform(0, 10))
            retract(world, publisher, ref_id)


def _noise(world: World) -> None:
    for body in world.random.sample(NOISE, 3):
        world.stage.give_way(world.random.uniform(0, 30))
        world.noise.add(body)
        world.send(body)


def _operator(world: World) -> None:
    """Pause a lane or two for a while, longer than a segment may be without progress."""
    random = world.random
    world.stage.give_way(random.uniform(0, 60))
    lanes = random.sample([queue.name for queue in MAPPED], random.randint(1, 3))
    world.mappings.paused |= set(lanes)
    world.was_paused = True
    world.note(f"paused: {lanes}")
    world.stage.give_way(random.uniform(10, 2 * 60 * 60))
    world.mappings.paused.clear()
    world.note("resumed")


def relate(world: World, what: str, user: str, publisher: str) -> Operation:
    """Follow or unfollow by HTTP."""
    route = contract.FOLLOW if what == "follow" else contract.UNFOLLOW

    def try_once(_deed: Operation) -> bool:
        status, _ = world.call(user, route, path={"publisher_id": publisher})
        return status in (200, 204)

    return world.act(what, user, publisher, try_once)


def relate_by_queue(world: World, what: str, user: str, publisher: str) -> None:
    """Follow or unfollow by a queue message. When that is done, nobody hears."""
    kind = contract.FOLLOW_ADDED if what == "follow" else contract.FOLLOW_REMOVED
    begun, began_ms = world.stage.turns, world.clock.now_ms()
    world.history.append(Operation(what, user, publisher, begun, began_ms, detail=BY_QUEUE))
    world.send({"version": 1, "type": kind, "user_id": user, "publisher_id": publisher})


def last_post(world: World, publisher: str) -> str:
    """Publish once more, when all is quiet; the post's `ref_id`."""
    ref_id = f"{publisher}-last"
    by_http(world, publisher, ref_id)
    return ref_id


def by_http(world: World, publisher: str, ref_id: str) -> Operation:
    """Publish by HTTP; one that was retracted before is answered with 410, an answer too."""

    def try_once(deed: Operation) -> bool:
        body = {"ref_id": ref_id, "body": {"title": ref_id}}
        status, answer = world.call(publisher, contract.PUBLISH_POST, body=body)
        deed.detail = answer if status == 202 else None
        return status in (202, 410)

    return world.act("publish", publisher, ref_id, try_once)


def by_queue(world: World, publisher: str, ref_id: str) -> Operation:
    """Publish by a queue message, which counts from the moment that SQS has taken it."""

    def try_once(_deed: Operation) -> bool:
        event: dict[str, Any] = {
            "version": 1,
            "type": contract.POST_PUBLISHED,
            "publisher_id": publisher,
            "ref_id": ref_id,
            "body": {"title": ref_id},
        }
        world.send(event)
        return True

    return world.act("send", publisher, ref_id, try_once)


def retract(world: World, publisher: str, ref_id: str) -> Operation:
    """Take a post back by HTTP."""

    def try_once(_deed: Operation) -> bool:
        status, _ = world.call(publisher, contract.RETRACT_POST, path={"ref_id": ref_id})
        return status == 204

    return world.act("retract", publisher, ref_id, try_once)


def read(world: World, user: str, *, limit: int = 2) -> list[str]:
    """Walk through a timeline; the posts that were shown, in order."""
    shown: list[str] = []
    before: str | None = None
    while True:
        query = {"limit": str(limit), **({"before": before} if before is not None else {})}
        status, page = world.call(user, contract.READ_TIMELINE, query=query)
        if status != 200:
            return shown
        shown += [entry["ref_id"] for entry in page["entries"]]
        before = page["next"]
        if before is None:
            return shown
