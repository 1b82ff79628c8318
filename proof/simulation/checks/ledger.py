"""Checks of the ledger, and of what operators ended."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from fanfold import times
from fanfold.aws.items import get_number
from fanfold.fanout.row import ABANDONED, CHANNEL, COMPLETE, DELIVERING, PUSH, QUEUED, STALLED
from fanfold.names import GIVEN_UP, OPEN
from proof.simulation.checks.evidence import ROUNDING_MS, Evidence
from proof.simulation.faults.faults import MAX_SKEW_MS


def the_ledger_is_right(found: Evidence) -> Iterator[str]:
    """A complete fan-out has nothing pending, is not open, and has `delivered` entries."""
    for ref_id, row in found.fanouts.items():
        state = row["state"]["S"]
        yield from _indexes(ref_id, row)
        if state != COMPLETE:
            continue
        if "pending" in row:
            yield f"{ref_id} is complete, and has something pending."
        if found.is_in_channel(ref_id):
            continue  # followers are not counted
        delivered = int(row["delivered"]["N"])
        entries = sum(
            1 for user, each in found.entries.keys() - found.only_filled if each == ref_id
        )
        is_fixed = not found.has_changed(ref_id) and not found.history.tried_to_retract(ref_id)
        if is_fixed and delivered != entries:
            yield f"{ref_id} has {entries} entries, and the ledger says {delivered}."


def every_post_that_is_shown_is_owed_to_all(found: Evidence) -> Iterator[str]:
    """Even a post whose publisher got an error or no answer."""
    for ref_id, post in found.posts.items():
        row = found.fanouts.get(ref_id)
        if "deleted_at" in post or (row and row["sort_key"] == post["sort_key"]):
            continue
        yield f"{ref_id} is there, and the ledger does not know it."


def _indexes(ref_id: str, row: dict[str, Any]) -> Iterator[str]:
    """One index has the open fan-outs, for SWEEP; the other the stalled ones, for people."""
    state = row["state"]["S"]
    wanted = {QUEUED: OPEN, DELIVERING: OPEN, STALLED: GIVEN_UP}.get(state)
    for index in (OPEN, GIVEN_UP):
        if (index is wanted) is not (index.partition_key in row):
            is_there = "in" if index.partition_key in row else "not in"
            yield f"{ref_id} is {state} and {is_there} the index '{index.name}'."


def what_an_operator_ended_stays_ended(found: Evidence) -> Iterator[str]:
    """Nothing reopens an abandoned fan-out, and nobody else ends one."""
    for ref_id, is_certain in found.world.abandoned.items():
        if not is_certain:  # a restore may have lost the row of a retracted post
            continue
        state = found.fanouts[ref_id]["state"]["S"]
        if state != ABANDONED:
            yield f"{ref_id} was abandoned, and is {state}."
    for ref_id, row in found.fanouts.items():
        if row["state"]["S"] != ABANDONED:
            continue
        if ref_id not in found.world.abandoned:
            yield f"{ref_id} is abandoned, and nobody did that."


def publishers_are_told_what_the_ledger_says(found: Evidence) -> Iterator[str]:
    """The status of a delivery has the counts of its row, and the times and the way of the run."""
    world = found.world
    for ref_id, publish in found.publishes.items():
        told, row = publish.status, found.fanouts.get(ref_id)
        if told is None or row is None:
            continue
        segments, pending = get_number(row, "segments"), len(row.get("pending", {}).get("NS", ()))
        resumes = row.get("resume", {"M": {}})["M"].values()
        written = sum(int(each["S"].split(".")[1]) for each in resumes)
        counts = {
            "segments": segments,
            "segments_done": segments - pending,
            "delivered": get_number(row, "delivered") + written,
        }
        for name, count in counts.items():
            if told[name] != count:
                yield f"{ref_id} is told to have {told[name]} {name}, and has {count}."
        if told["state"] != COMPLETE:
            if told["lag_seconds"] is not None and told["completed_at"] is None:
                yield f"{ref_id} is told to have a lag, and to be under way."
            continue
        way = CHANNEL if ref_id in world.channels.complete_ms else PUSH
        # After a restore of the ledger, it may have been delivered again by push.
        is_again = way == CHANNEL and world.damage.is_ledger_restored
        if told["by"] != way and not is_again:
            yield f"{ref_id} is told to be delivered by {told['by']}, and was by {way}."
        begun_ms = times.to_ms(told["accepted_at"])
        ended_ms = times.to_ms(told["completed_at"])
        margin = MAX_SKEW_MS + found.skew_ms + ROUNDING_MS
        if ended_ms > world.observer.completed_last_ms.get(ref_id, math.inf) + margin:
            yield f"{ref_id} is told to be complete later than it was."
        if told["lag_seconds"] != max(0, ended_ms - begun_ms) / 1000:
            yield f"{ref_id} is told to have taken {told['lag_seconds']} s."
        # What PLAN delivers at once, it counts; a restore may have had it delivered otherwise.
        is_counted = ref_id in world.observer.at_once and not world.damage.is_ledger_restored
        is_known = way == PUSH and not found.history.tried_to_retract(ref_id)
        if is_counted and is_known and told["followers_estimated"] != told["delivered"]:
            yield f"{ref_id} is told to have {told['followers_estimated']} followers."
