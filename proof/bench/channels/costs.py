"""What `fanfold cost` says of a channel, against what the model counts while its followers read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random

from fanfold.contract import DEFAULT_LIMIT
from fanfold_cli.cost.channel import Units, Use
from proof.bench.channels.world import PUBLISHERS, ChannelWorld, Container, reader
from proof.model.dynamodb.capacity import READ, WRITE

CAPACITY = 40_000
SHARES = (0.01, 0.20)  # of the followers, who read
SECONDS = 600.0
POSTS = 10
PAGES_EACH = 3
POST = "90570000-0000-4000-8003-{:012d}"
# Reads the channel in every container before the counting begins.
FIRST_READER = 10_000_000


@dataclass(frozen=True)
class Compared:
    """One channel for a while: what the model has counted, and what is estimated for it."""

    use: Use
    counted: Units
    estimated: Units

    @property
    def error_percent(self) -> float:
        """The largest error of write units, read units and price."""
        pairs = [
            (self.counted.writes, self.estimated.writes),
            (self.counted.reads, self.estimated.reads),
            (self.counted.dollars, self.estimated.dollars),
        ]
        return max(100 * abs(estimated / counted - 1) for counted, estimated in pairs)


def compared(readers: int, containers: int) -> Compared:
    """Publish for ten minutes, while followers read for the first time since a promotion.

    What their pages take in a stage without channels is not the channel's.
    """
    use = Use(
        posts=POSTS,
        readers=readers,
        pages=readers * PAGES_EACH,
        containers=containers,
        seconds=SECONDS,
    )
    spent, page = _with_channels(readers, containers), _page_without()
    return Compared(use, Units(spent.writes, spent.reads - page * use.pages), use.units())


def _with_channels(readers: int, count: int) -> Units:
    world = ChannelWorld(CAPACITY)
    publisher, choices = PUBLISHERS[-1], Random(readers)
    everybody = [reader(FIRST_READER), *map(reader, range(readers))]
    with world.running():
        containers = [world.container() for _ in range(count)]
        world.promote(*PUBLISHERS[:-1])
        for each in everybody:
            world.follow(each, [publisher])
        with world.free():
            # Nobody has to look through the follows for those who were promoted before.
            world.run(lambda: [containers[0].page(each, DEFAULT_LIMIT) for each in everybody])
        world.promote(publisher)
        with world.free():
            warm = partial(_page, reader=everybody[0])
            world.run(lambda: [warm(each) for each in containers])
        began = world.scheduler.now
        for number in range(POSTS):
            at = began + (number + 0.5) * SECONDS / POSTS
            world.scheduler.at(at, partial(world.publish, publisher, POST.format(number)))
        for each in everybody[1:] * PAGES_EACH:
            at, container = began + choices.random() * SECONDS, choices.choice(containers)
            ask = partial(_page, container, each)
            world.scheduler.at(at, partial(world.scheduler.start, ask))
        before = {kind: world.total(kind) for kind in (READ, WRITE)}
        world.scheduler.run_to(began + SECONDS + 10)
        if not all(world.is_complete(POST.format(number)) for number in range(POSTS)):
            raise RuntimeError("Not all posts are delivered.")
        return Units(
            writes=world.total(WRITE) - before[WRITE], reads=world.total(READ) - before[READ]
        )


def _page(container: Container, reader: str) -> None:
    container.page(reader, DEFAULT_LIMIT)


def _page_without() -> float:
    """Read units of such a page in a stage without channels.

    Its container reads the head once a minute: that is no part of a page.
    """
    world = ChannelWorld(CAPACITY, has_channels=False)
    with world.running():
        world.follow(reader(0), [PUBLISHERS[-1]])
        container = world.container()
        world.run(lambda: container.page(reader(0), DEFAULT_LIMIT))
        before = world.total(READ)
        world.run(lambda: container.page(reader(0), DEFAULT_LIMIT))
        return world.total(READ) - before
