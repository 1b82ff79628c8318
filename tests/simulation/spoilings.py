"""A world in which all went well, and all the ways in which it is spoiled.

Its course is written down and not drawn, so that each spoiling finds what it spoils.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias
from unittest.mock import patch

from fanfold import names, times
from fanfold.aws import boto
from fanfold.follows.edges_table import edge_key
from fanfold.ids import ref_id_for
from fanfold.timeline.visibility import PageFilter
from proof.model.clock import START_MS
from proof.simulation.clients import requests
from proof.simulation.clients.climbs import Climb
from proof.simulation.observed.channels import ChannelSettings
from proof.simulation.stage import stores
from proof.simulation.world.world import World

PUBLISHER, OTHER = "p0", "p1"
FOLLOWERS = ("ann", "bob", "cy", "dan", "eve", "fay")
# Of the other publisher, who has one follower; the second one is edited.
SMALL, CHANGED = ref_id_for(OTHER, "other"), ref_id_for(OTHER, "changed")
# Of the posts: by request, by message, retracted after its delivery, and abandoned.
POST, SENT, RETRACTED, ENDED = (
    ref_id_for(PUBLISHER, "post"),
    "sent",
    ref_id_for(PUBLISHER, "retracted"),
    "ended",
)
NOISE = "not JSON"
EDITED = {"title": "edited"}


def calm() -> World:
    """A world without faults, and without anything that a seed draws beside them."""
    for seed in count():
        world = World(seed)
        world.has_last_posts = True
        is_calm = not (world.is_busy or world.is_crowded or world.triggers.seconds_a_message)
        if is_calm and world.time_pressure == 1.0 and world.worker_rate == 10_000.0:
            world.faults.rates = dict.fromkeys(world.faults.rates, 0.0)
            world.door_skew_ms = world.backfill = 0
            return world
    raise AssertionError("unreachable")


def settled() -> World:
    """The calm world, after its few users have done what they do."""
    world = calm()
    world.run(lambda each: each.start_client("all", lambda: _live(each)))
    return world


def channelled() -> World:
    """The same course on a stage with channels: the posts of one publisher are in one."""
    world = calm()
    world.channels.stage = ChannelSettings(threshold=len(FOLLOWERS), containers=1)
    world.run(lambda each: each.start_client("all", lambda: _live(each)))
    return world


def _live(world: World) -> None:
    wait = world.scheduler.sleep
    for user in FOLLOWERS:
        requests.relate(world, "follow", user, PUBLISHER)
    requests.relate(world, "unfollow", "fay", PUBLISHER)
    requests.relate(world, "follow", "ann", OTHER)
    requests.relate_by_queue(world, "follow", "gus", PUBLISHER)
    wait(60)
    climb = Climb("ann")
    world.history.climbs.append(climb)
    climb.ask(world, limit=50)
    requests.by_http(world, PUBLISHER, "post")
    requests.by_http(world, PUBLISHER, "retracted")
    requests.by_queue(world, PUBLISHER, SENT)
    requests.by_http(world, OTHER, "other")
    requests.by_http(world, OTHER, "changed")
    wait(60)
    climb.ask(world, limit=50)
    requests.edit(world, OTHER, CHANGED, EDITED)
    requests.edit(world, "eve", CHANGED, EDITED)
    requests.retract(world, PUBLISHER, RETRACTED)
    requests.squat(world, POST)
    world.noise.add(NOISE)
    requests.send(world, NOISE)
    requests.by_queue(world, PUBLISHER, ENDED)
    ledger = stores(boto.dynamodb()).ledger
    while not ledger.abandon(ENDED, now=times.to_text(world.clock.now_ms())):
        wait(0.005)
    world.abandoned[ENDED] = True


# What spoils a world: perhaps it has to last while the world is checked.
Spoil: TypeAlias = Callable[[World], AbstractContextManager[object] | None]


@dataclass(frozen=True)
class Spoiling:
    """What is done to a world, which check notices, and a part of what it says."""

    check: str
    says: str
    spoil: Spoil
    world: Callable[[], World] = settled


SPOILINGS: list[Spoiling] = []


def spoil_for(
    check: Callable[..., object],
    spoilings: Mapping[str, Spoil],
    world: Callable[[], World] = settled,
) -> None:
    """Register what spoils a world, each by a part of the sentence that `check` says then."""
    SPOILINGS.extend(Spoiling(check.__name__, *each, world) for each in spoilings.items())


def spoils(check: Callable[..., object], *says: str) -> Callable[[Spoil], Spoil]:
    """Register what spoils a world, by the parts of the sentences that `check` says then."""

    def register(spoil: Spoil) -> Spoil:
        SPOILINGS.extend(Spoiling(check.__name__, each, spoil) for each in says)
        return spoil

    return register


# What is done to rows


def changed(world: World, table: names.Table, key: dict[str, str], **attributes: Any) -> None:
    """Change attributes of a row that exists, to a value or by a function; None removes one."""
    item = world.row(table, keyed(key))
    assert item, key
    for name, value in attributes.items():
        if value is None:
            del item[name]
        else:
            item[name] = value(item[name]) if callable(value) else value
    world.dynamodb.put_item(TableName=table.name, Item=item)


def gone(world: World, table: names.Table, key: dict[str, str]) -> None:
    """Delete a row that exists."""
    assert world.row(table, keyed(key)), key
    world.dynamodb.delete_item(TableName=table.name, Key=keyed(key))


def put(world: World, table: names.Table, **attributes: Any) -> None:
    world.dynamodb.put_item(TableName=table.name, Item=attributes)


def keyed(key: dict[str, str]) -> dict[str, Any]:
    return {name: {"S": value} for name, value in key.items()}


def text(value: str) -> dict[str, str]:
    return {"S": value}


def number(value: float) -> dict[str, str]:
    return {"N": str(int(value))}


def later(value: dict[str, str]) -> dict[str, str]:
    """A number that is one more."""
    return number(int(value["N"]) + 1)


def soon(_value: object) -> dict[str, str]:
    """An epoch second a minute after the beginning of a run."""
    return number(START_MS / 1000 + 60)


def entry_of(world: World, user: str, ref_id: str) -> dict[str, str]:
    """The key of an entry."""
    sort_key = world.row(names.FANOUTS, keyed({"fanout_id": ref_id}))["sort_key"]["S"]
    return {"user_id": user, "sort_key": sort_key}


def edge_of(world: World, user: str, publisher: str) -> dict[str, Any]:
    """The edge of a user."""
    (found,) = [
        row
        for row in world.rows(names.FOLLOWERS)
        if row["edge"]["S"].endswith(f"#{user}") and row["shard_id"]["S"].startswith(publisher)
    ]
    return found


def acting(world: World, name: str, act: Callable[[], object]) -> None:
    """Run a task under another's name, to do what that one would never do."""

    def start(each: World) -> None:
        each.scheduler.start(act, name)

    world.run(start)


def fanout(world: World, ref_id: str, **attributes: Any) -> None:
    """Change the row of a fan-out."""
    changed(world, names.FANOUTS, {"fanout_id": ref_id}, **attributes)


def follow(world: World, user: str, **attributes: Any) -> None:
    """Change the row of a follow of the first publisher."""
    key = {"user_id": user, "publisher_id": PUBLISHER}
    changed(world, names.FOLLOWING, key, **attributes)


def post(world: World, ref_id: str, **attributes: Any) -> None:
    """Change the row of a post."""
    changed(world, names.POSTS, {"ref_id": ref_id}, **attributes)


def entry(world: World, user: str, ref_id: str, **attributes: Any) -> None:
    """Change an entry, or put one like it where there is none."""
    key = entry_of(world, user, ref_id)
    like = world.row(names.TIMELINES, keyed(entry_of(world, "ann", ref_id)))
    put(world, names.TIMELINES, **{**like, **keyed(key), **attributes})


def edge(world: World, user: str, *, level: int | None = None, **attributes: Any) -> None:
    """Change an edge at the first publisher; with another key, the old one is gone."""
    row = edge_of(world, user, PUBLISHER)
    without_edge(world, user)
    if level is not None:
        row |= edge_key(PUBLISHER, user, level)
    put(world, names.FOLLOWERS, **{**row, **attributes})


def without_edge(world: World, user: str) -> None:
    """Delete an edge at the first publisher."""
    row = edge_of(world, user, PUBLISHER)
    gone(world, names.FOLLOWERS, {name: row[name]["S"] for name in ("shard_id", "edge")})


# What is done while a world is checked


def with_newest(change: Callable[[list[Any]], list[Any]]) -> AbstractContextManager[object]:
    """Have the newest entries changed that a page reads."""
    newest = PageFilter._newest

    def wrong(self: PageFilter, *arguments: Any, **more: Any) -> Any:
        found, has_more = newest(self, *arguments, **more)
        return change([*found]), has_more

    return patch.object(PageFilter, "_newest", wrong)
