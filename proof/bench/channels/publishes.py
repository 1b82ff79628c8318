"""A post in a channel, a promotion, and the same post pushed to every follower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from fanfold import clock
from fanfold.contract import DEFAULT_LIMIT
from proof.bench.channels.world import PUBLISHERS, ChannelWorld, Container, reader
from proof.bench.fanout.bench import CapacityCase, fan_out
from proof.model.dynamodb.capacity import READ, WRITE
from proof.simulation.timed.system import POST

CAPACITY = 40_000
CONTAINERS = 8
# About how often each container is asked for a page, at times of its own.
ASKED_SECONDS = 0.05
# They have been asked for so long when the post is published, so their heads differ in age.
BEFORE_SECONDS = 5.0
FIRST_POST = "90570000-0000-4000-8002-000000000001"
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class ChannelPost:
    """One post in a channel beside 63 others; seconds are since the API's answer."""

    write_units: float
    by_table: dict[str, float]  # or index
    complete: float  # when the ledger says that all is delivered
    visible: Sequence[float]  # when each container has answered with it for the first time
    since_request: float  # until the last of them has


@dataclass(frozen=True)
class Promoted:
    write_units: float  # what the first post takes more than the second, in the same channel
    post_reads: float  # read units of accepting and planning the second


@dataclass(frozen=True)
class Pushed:
    followers: int
    write_units: float
    seconds: float  # from the API's answer to the last follower's entry


def in_channel(seed: int) -> ChannelPost:
    """Publish while containers are asked for pages; raises `RuntimeError` if one never shows it."""
    world = ChannelWorld(CAPACITY, seed=seed)
    with world.running():
        containers = [world.container() for _ in range(CONTAINERS)]
        world.promote(*PUBLISHERS)
        for number in range(CONTAINERS):
            world.follow(reader(number), PUBLISHERS)
        seen: dict[int, float] = {}
        for number, container in enumerate(containers):
            world.scheduler.start(partial(_ask, world, container, number, seen))
        world.scheduler.run_to(world.scheduler.now + BEFORE_SECONDS)
        before = world.spent(WRITE)
        asked_at = world.scheduler.now
        world.publish(PUBLISHERS[0], POST)
        world.scheduler.run(lambda: world.is_complete(POST))
        complete = world.scheduler.now
        world.scheduler.run(lambda: len(seen) == CONTAINERS)
        after = world.spent(WRITE)
    accepted = world.accepted[POST]
    written = {name: units - before.get(name, 0) for name, units in after.items()}
    return ChannelPost(
        write_units=sum(written.values()),
        by_table={name: units for name, units in written.items() if units},
        complete=complete - accepted,
        visible=[at - accepted for at in seen.values()],
        since_request=max(seen.values()) - asked_at,
    )


def _ask(world: ChannelWorld, container: Container, number: int, seen: dict[int, float]) -> None:
    """Ask one container for pages until one of them shows the post."""
    clock.sleep(clock.chance())
    while world.scheduler.now < PATIENCE_SECONDS:
        page = container.page(reader(number), DEFAULT_LIMIT)
        if any(entry["ref_id"] == POST for entry in page["entries"]):
            seen[number] = world.scheduler.now
            return
        clock.sleep(2 * ASKED_SECONDS * clock.chance())
    raise RuntimeError(f"A container did not show the post within {PATIENCE_SECONDS:g} s.")


def promoted() -> Promoted:
    """Publish twice for one who is the 64th to be promoted by PLAN."""
    world, publisher = ChannelWorld(CAPACITY, seed=0), PUBLISHERS[-1]
    with world.running():
        world.promote(*PUBLISHERS[:-1])
        world.make_celebrity(publisher)
        first, _ = _units(world, publisher, FIRST_POST)
        second, reads = _units(world, publisher, POST)
        head = world.heads.get()
    if len(head.channels) != len(PUBLISHERS):
        raise RuntimeError("PLAN has not promoted the publisher.")
    return Promoted(first - second, reads)


def _units(world: ChannelWorld, publisher: str, post: str) -> tuple[float, float]:
    """Write and read units of a publish."""
    before = {kind: world.total(kind) for kind in (WRITE, READ)}
    world.publish(publisher, post)
    world.scheduler.run(lambda: world.is_complete(post))
    world.scheduler.run_to(world.scheduler.now + 1)  # what comes after the completion
    writes, reads = (world.total(kind) - before[kind] for kind in before)
    return writes, reads


def pushed(followers: int) -> Pushed:
    """Really deliver a post to this number of followers."""
    run = fan_out(CapacityCase("push", CAPACITY), followers)
    spent = sum(units for (_, kind), units in run.system.meter.units.items() if kind == WRITE)
    return Pushed(followers, spent, run.written.last_at - run.system.accepted[POST])
