"""What pages take in read units: of a warm container, of a cold one, and where nothing is new."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fanfold import clock
from fanfold.contract import DEFAULT_LIMIT
from proof.bench.channels.world import OTHER_PUBLISHER, PUBLISHERS, ChannelWorld, reader
from proof.model.dynamodb.capacity import READ, WRITE
from proof.simulation.timed.system import POST

CAPACITY = 40_000
# Pages at times that fall before and after the head is read again.
PAGES, APART_SECONDS = 40, 0.15
# Longer than a post takes to be visible in every container.
AT_REST_SECONDS = 10


@dataclass(frozen=True)
class Pages:
    """Read units of pages of one reader; where there are several, of each."""

    memo: tuple[float, float]  # the first page after all 64 were promoted: read and write units
    cold: float  # the first page of a new container
    cold_seconds: float
    warm: list[float]
    warm_seconds: list[float]
    idle: list[float]  # polls for what is newer
    after_a_post: float  # a warm page, once a post was put into one of the channels
    without: float  # the same page of a reader who follows nobody that has a channel


def of_a_reader_of_all() -> Pages:
    """Pages of a reader who follows 64 publishers with channels, and others with entries."""
    world = ChannelWorld(CAPACITY, seed=0)
    me, other = reader(0), reader(1)
    with world.running():
        world.promote(*PUBLISHERS)
        for each in (me, other):
            world.fill(each, OTHER_PUBLISHER)
        world.follow(me, [OTHER_PUBLISHER, *PUBLISHERS])
        world.follow(other, [OTHER_PUBLISHER])
        return world.run(lambda: _pages(world, me, other))


def _pages(world: ChannelWorld, me: str, other: str) -> Pages:
    first, container = world.container(), world.container()
    memo, _ = _spent(world, lambda: first.page(me, DEFAULT_LIMIT))
    first.page(other, DEFAULT_LIMIT)
    began = clock.monotonic()
    (cold, _), page = _spent(world, lambda: container.page(me, DEFAULT_LIMIT))
    cold_seconds = clock.monotonic() - began
    warm, seconds, idle = [], [], []
    for _ in range(PAGES):
        clock.sleep(APART_SECONDS)
        began = clock.monotonic()
        (reads, _), page = _spent(world, lambda: container.page(me, DEFAULT_LIMIT))
        seconds.append(clock.monotonic() - began)
        warm.append(reads)
    after = page["previous"]
    for _ in range(PAGES):
        clock.sleep(APART_SECONDS)
        (reads, _), page = _spent(
            world,
            lambda: container.page(me, DEFAULT_LIMIT, after=after),  # noqa: B023
        )
        if page["entries"]:
            raise RuntimeError("A poll has shown what was shown before.")
        after = page["previous"] or after
        idle.append(reads)
    (without, _), _ = _spent(world, lambda: container.page(other, DEFAULT_LIMIT))
    world.publish_now(PUBLISHERS[0], POST)
    clock.sleep(AT_REST_SECONDS)
    (after_a_post, _), page = _spent(world, lambda: container.page(me, DEFAULT_LIMIT))
    if page["entries"][0]["ref_id"] != POST:
        raise RuntimeError("The newest post is not shown.")
    return Pages(memo, cold, cold_seconds, warm, seconds, idle, after_a_post, without)


def _spent(
    world: ChannelWorld, page: Callable[[], dict[str, Any]]
) -> tuple[tuple[float, float], dict[str, Any]]:
    """Read and write units of a page, and the page."""
    before = {kind: world.total(kind) for kind in (READ, WRITE)}
    found = page()
    reads, writes = (world.total(kind) - before[kind] for kind in before)
    return (reads, writes), found
