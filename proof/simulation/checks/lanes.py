"""What a lane of its own is worth."""

from __future__ import annotations

from collections.abc import Iterator

from fanfold.ids import split_sort_key
from proof.simulation.checks.alarms import SMALL
from proof.simulation.checks.evidence import Evidence

# A small post waits for a worker of the publish queue and one of the express lane, and for their
# calls. A celebrity has none of the latter, whatever its backlog, and one of the former at a time.
SMALL_POST_SECONDS = 30.0


def a_small_post_waits_for_no_celebrity(found: Evidence) -> Iterator[str]:
    """Where only the bulk lane is slow, small posts take seconds.

    Small is what had few followers, and what the ledger says has one segment.
    """
    world = found.world
    if world.story != "celebrity" or world.faults.injected.keys() - SMALL:
        return
    entered_ms: dict[str, float] = {}
    for (_, sort_key), at_ms in world.observer.delivered_ms.items():
        ref_id = split_sort_key(sort_key)[1]
        entered_ms[ref_id] = max(at_ms, entered_ms.get(ref_id, 0.0))
    for operation in found.history.of("publish", "send"):
        row = found.fanouts.get(operation.subject, {})
        is_small = (
            found.history.has_few_followers(operation.user)
            or row.get("segments", {}).get("N") == "1"
        )
        if operation.is_acknowledged and is_small:
            seconds = (entered_ms.get(operation.subject, 0.0) - operation.ended_ms) / 1000
            if seconds > SMALL_POST_SECONDS:
                yield f"{operation.subject} took {seconds:.0f} s, beside a celebrity."
