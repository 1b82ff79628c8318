"""What the ledger says, and what nobody else may end."""

from __future__ import annotations

from collections.abc import Iterator

from fanfold.fanout.row import ABANDONED
from simulation.checks.evidence import Evidence
from simulation.world import accepted_ms


def the_ledger_is_right(found: Evidence) -> Iterator[str]:
    """Complete means nothing pending, not open, and `delivered` entries in the timelines."""
    for ref_id, row in found.fanouts.items():
        if row["state"]["S"] == ABANDONED:
            continue
        if row["state"]["S"] != "complete":
            if "open_fanout" not in row:
                yield f"{ref_id} is {row['state']['S']} and not in the index of open fan-outs."
            continue
        if "pending" in row or "open_fanout" in row:
            yield f"{ref_id} is complete, and has something pending or open."
        delivered = int(row["delivered"]["N"])
        entries = sum(1 for _, each in found.entries if each == ref_id)
        relates = found.history.of("follow", "unfollow", subject=row["publisher_id"]["S"])
        has_changed = any(each.ended_ms >= accepted_ms(row) for each in relates)
        is_fixed = not has_changed and not found.history.tried_to_retract(ref_id)
        if is_fixed and delivered != entries:
            yield f"{ref_id} has {entries} entries, and the ledger says {delivered}."


def what_an_operator_ended_stays_ended(found: Evidence) -> Iterator[str]:
    """Nothing reopens an abandoned fan-out, and nobody else ends one."""
    for ref_id, is_certain in found.world.abandoned.items():
        state = found.fanouts[ref_id]["state"]["S"]
        if is_certain and state != ABANDONED:
            yield f"{ref_id} was abandoned, and is {state}."
    for ref_id, row in found.fanouts.items():
        if row["state"]["S"] != ABANDONED:
            continue
        if ref_id not in found.world.abandoned:
            yield f"{ref_id} is abandoned, and nobody did that."
        if "open_fanout" in row or "stalled_fanout" in row:
            yield f"{ref_id} is abandoned, and in an index."
