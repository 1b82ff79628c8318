"""One table is restored to an earlier moment, as docs/operations.md says, during requests."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from fanfold import contract, names
from fanfold.aws.items import get_number
from fanfold.follows.relation import FOLLOWED
from fanfold.ids import split_sort_key
from fanfold_cli.commands import pause
from proof.simulation.actors import on_call
from proof.simulation.clients import requests
from proof.simulation.observed.channels import is_channel
from proof.simulation.oracle.follows import Asked, RowChange
from proof.simulation.world.commands import repeat
from proof.simulation.world.world import World

Rows = dict[str, dict[str, Any]]  # by key

# This long after their queues were paused, workers hold no messages.
IN_FLIGHT_SECONDS = 150.0
# Functions cache a publisher's level for a minute, and write edges there; the doctor runs later.
REMEMBERED_SECONDS = 120.0
# The ledger is restored with the timelines, so that later posts are delivered again.
RESTORED = (
    (names.FOLLOWERS,),
    (names.PUBLISHERS,),
    (names.FOLLOWING,),
    (names.READERS,),
    (names.FANOUTS,),
    (names.TIMELINES, names.FANOUTS),
)
# A restore of relations undoes blocks, and one of publishers what they chose, which the oracle does
# not follow.
WITH_AUDIENCES = tuple(
    each for each in RESTORED if not {names.FOLLOWING, names.PUBLISHERS}.intersection(each)
)
PAUSED = (pause.Lane.PUBLISH, pause.Lane.ALL)
PATIENCE = 60


def restore_a_table(world: World, random: Random) -> None:
    """Pause, restore, repair, and resume."""
    tables = random.choice(WITH_AUDIENCES if world.has_audiences else RESTORED)
    world.scheduler.sleep(random.uniform(0, 60))
    before = {table: _rows(world, table) for table in tables}
    at_ms = world.clock.now_ms()
    world.scheduler.sleep(random.uniform(1, 60))
    for lane in PAUSED:
        repeat(world, random, partial(pause.pause, lane=lane), times=PATIENCE)
    world.scheduler.sleep(IN_FLIGHT_SECONDS)
    for table in tables:
        undone = _Undone(world, _rows(world, table), before[table])
        _put_back(world, table, undone)
        world.note(f"restored: {table.name}, to {(world.clock.now_ms() - at_ms) / 1000:.1f} s ago")
        if note := _NOTES.get(table.name):
            note(undone)
    if names.FANOUTS in tables:
        _publish_again(world)
    if names.PUBLISHERS in tables:
        world.damage.are_rates_restored = True
        world.scheduler.sleep(REMEMBERED_SECONDS)
    begun_ms = world.clock.now_ms()
    if repeat(world, random, on_call.repair, times=PATIENCE):
        on_call.note_repair(world, begun_ms)
    for lane in PAUSED:
        repeat(world, random, partial(pause.resume, lane=lane), times=PATIENCE)


class _Undone:
    """The rows of a table before it was restored, and since."""

    def __init__(self, world: World, now: Rows, then: Rows) -> None:
        self.world, self.now, self.then = world, now, then
        self.changed = sorted(key for key in {*now, *then} if now.get(key) != then.get(key))


def _rows(world: World, table: names.Table) -> Rows:
    keys = [name for name in (table.partition_key, table.sort_key) if name]
    return {json.dumps([row[name] for name in keys]): row for row in world.rows(table)}


def _put_back(world: World, table: names.Table, undone: _Undone) -> None:
    """Put rows back without calls, because nothing throttles a restore."""
    meter, world.database.meter = world.database.meter, None
    keys = [name for name in (table.partition_key, table.sort_key) if name]
    for key in undone.changed:
        if key in undone.then:
            world.dynamodb.put_item(TableName=table.name, Item=undone.then[key])
        else:
            gone = {name: undone.now[key][name] for name in keys}
            world.dynamodb.delete_item(TableName=table.name, Key=gone)
    world.database.meter = meter


def _note_follows(undone: _Undone) -> None:
    """Note restored follows as requests of the operator; counts are not restored."""
    world, now_ms = undone.world, undone.world.clock.now_ms()
    for key in undone.changed:
        row = undone.now.get(key) or undone.then[key]
        pair = user, _ = row["user_id"]["S"], row["publisher_id"]["S"]
        world.damage.undone.add(pair)
        did, does = (_follows(rows.get(key)) for rows in (undone.now, undone.then))
        world.damage.miscounted[user] += did - does
        world.damage.miscounted_ms[user] = now_ms
        relation, restored = world.history.relations[pair], Asked(does, now_ms, is_import=True)
        # Messages may take effect again, because later requests are forgotten.
        relation.requests += [
            Asked(each.follows, now_ms, is_message=True, is_due=False)
            for each in relation.requests
            if each.is_message
        ]
        relation.requests.append(restored)
        relation.ends(restored, now_ms, None)
        if did is not does:
            world.observer.changes[pair].append(RowChange(now_ms, does))


def _follows(row: dict[str, Any] | None) -> bool:
    return row is not None and row["state"]["S"] == FOLLOWED


def _note_counts(undone: _Undone) -> None:
    for key in undone.changed:
        row = undone.now.get(key) or undone.then[key]
        was, count = (
            get_number(rows.get(key, {}), "follows") for rows in (undone.now, undone.then)
        )
        user, damage = row["user_id"]["S"], undone.world.damage
        damage.miscounted[user] += count - was
        damage.miscounted_ms[user] = undone.world.clock.now_ms()
        damage.unmarked.add(user)


def _note_levels(undone: _Undone) -> None:
    for key in undone.changed:
        (publisher,), row = json.loads(key), undone.then.get(key, {})
        level, at_ms = get_number(row, "level"), get_number(row, "last_updated")
        undone.world.observer.levels.restored(publisher["S"], level, at_ms)
    undone.world.damage.headless_ms = undone.world.clock.now_ms(), math.inf


def _note_entries(undone: _Undone) -> None:
    """Note lost entries: their posts are delivered again, to users who follow then.

    Those of a channel are lost for everybody.
    """
    for key in undone.changed:
        if key not in undone.then:
            entry = undone.now[key]
            owner, ref_id = entry["user_id"]["S"], split_sort_key(entry["sort_key"]["S"])[1]
            users = undone.world.history.users() if is_channel(owner) else [owner]
            undone.world.damage.lost_entries |= {(user, ref_id) for user in users}


def _note_deliveries(undone: _Undone) -> None:
    """Note that the restore may have undone the end of a delivery by an operator."""
    undone.world.damage.is_ledger_restored = True
    for ref_id in undone.world.abandoned:
        undone.world.abandoned[ref_id] = False


_NOTES: dict[str, Callable[[_Undone], None]] = {
    names.FOLLOWING.name: _note_follows,
    names.READERS.name: _note_counts,
    names.FANOUTS.name: _note_deliveries,
    names.TIMELINES.name: _note_entries,
    names.PUBLISHERS.name: _note_levels,
}


def _publish_again(world: World) -> None:
    """Publish by queue every post that the ledger does not know, which reopens its row."""
    known = {row["fanout_id"]["S"] for row in world.fanouts()}
    for row in sorted(world.rows(names.POSTS), key=lambda row: row["ref_id"]["S"]):
        if "deleted_at" in row or row["ref_id"]["S"] in known:
            continue
        about = {name: row[name]["S"] for name in ("publisher_id", "ref_id")}
        requests.send(world, {"version": 1, "type": contract.POST_PUBLISHED, **about})
