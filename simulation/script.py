"""What the clients of a run do: drawn from the seed, and written down as deeds."""

from __future__ import annotations

import json
from typing import Any

from fanfold import contract
from simulation.machines import MAPPED
from simulation.world import Deed, World

NOISE = (
    "not JSON",
    "[]",
    json.dumps({"version": 99, "type": "post.published"}),
    json.dumps({"version": 1, "type": "post.exploded"}),
    json.dumps({"version": 1, "type": "post.published", "publisher_id": "p0"}),
    json.dumps({"version": 1, "type": "fanout.plan", "fanout_id": "unknown"}),
)


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


def relate(world: World, what: str, user: str, publisher: str) -> Deed:
    """Follow or unfollow by HTTP."""
    route = contract.FOLLOW if what == "follow" else contract.UNFOLLOW

    def try_once(_deed: Deed) -> bool:
        status, _ = world.call(user, route, path={"publisher_id": publisher})
        return status in (200, 204)

    return world.act(what, user, publisher, try_once)


def by_http(world: World, publisher: str, ref_id: str) -> Deed:
    """Publish by HTTP; one that was retracted before is answered with 410, an answer too."""

    def try_once(deed: Deed) -> bool:
        body = {"ref_id": ref_id, "body": {"title": ref_id}}
        status, answer = world.call(publisher, contract.PUBLISH_POST, body=body)
        deed.detail = answer if status == 202 else None
        return status in (202, 410)

    return world.act("publish", publisher, ref_id, try_once)


def by_queue(world: World, publisher: str, ref_id: str) -> Deed:
    """Publish by a queue message, which counts from the moment that SQS has taken it."""

    def try_once(_deed: Deed) -> bool:
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


def retract(world: World, publisher: str, ref_id: str) -> Deed:
    """Take a post back by HTTP."""

    def try_once(_deed: Deed) -> bool:
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
