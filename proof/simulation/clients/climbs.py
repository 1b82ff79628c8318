"""Readers who page upwards: they open their timeline, then poll for new entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from fanfold import cursor, times
from fanfold.ids import sort_key
from proof.simulation.clients import requests

if TYPE_CHECKING:
    from proof.simulation.world.world import World

# The share of ordinary runs with such a reader.
CLIMBED = 0.4
LIMITS = (1, 2, 5, 50)
MAX_LATE_POSTS, MAX_LATE_MS = 4, 120_000


@dataclass(frozen=True)
class Poll:
    """One page and its request: upwards, except for the first."""

    begun_ms: float
    limit: int
    after: str | None
    page: dict[str, Any]

    @property
    def goes_on(self) -> bool:
        """Whether it says that there is more in its direction."""
        return "more" in self.page if self.after else self.page["next"] is not None


@dataclass
class Climb:
    """The pages of one reader, and the cursor of the last one."""

    user: str
    polls: list[Poll] = field(default_factory=list)

    def ask(self, world: World, limit: int) -> bool:
        """Request the next page; return whether it was answered."""
        after = self.polls[-1].page["previous"] if self.polls else None
        begun_ms = world.clock.now_ms()
        page = requests.page_of(world, self.user, limit=limit, after=after)
        if page is not None:
            self.polls.append(Poll(begun_ms, limit, after, page))
            self._note(world)
        return page is not None

    def _note(self, world: World) -> None:
        """Count late entries that were found."""
        last = self.polls[-1]
        if last.after:
            position = cursor.decode(last.after, is_position=bool).position
            for each in last.page["entries"]:
                if sort_key(each["published_at"], each["ref_id"]) <= position:
                    world.reached.note("a late entry shown upwards")


def climb(world: World, random: Random, user: str) -> None:
    """Open the timeline, then poll for new entries."""
    found = Climb(user)
    world.history.climbs.append(found)
    for _ in range(random.randint(3, 16)):
        world.scheduler.sleep(random.uniform(0, random.choice((1, 10, 40))))
        found.ask(world, random.choice(LIMITS))


def post_late(world: World, random: Random, publisher: str) -> None:
    """Publish posts dated minutes ago by the queue, below what readers may have seen."""
    for number in range(random.randint(1, MAX_LATE_POSTS)):
        world.scheduler.sleep(random.uniform(0, 40))
        at_ms = world.clock.now_ms() - random.randint(0, MAX_LATE_MS)
        ref_id = f"{publisher}-late-{number}"
        requests.by_queue(world, publisher, ref_id, published_at=times.to_text(at_ms))


def finish(world: World) -> None:
    """Have all readers poll until there is no more, and then once again."""
    for each in world.history.climbs:
        while each.polls and each.ask(world, LIMITS[1]) and each.polls[-1].goes_on:
            pass
        if each.polls:
            each.ask(world, LIMITS[1])
