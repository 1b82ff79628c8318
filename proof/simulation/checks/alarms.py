"""Which alarms must ring, and which must not."""

from __future__ import annotations

from collections.abc import Iterator

from fanfold import names
from fanfold.aws.retries import SEND
from fanfold.ids import split_sort_key
from proof.simulation.checks.evidence import Evidence
from proof.simulation.world.world import World

# Faults that need no redelivery of a message.
SMALL = {"partial", "duplicated", "skewed", "unsent"}
# How many edits before their posts may ring the alarm on late messages, one after the other; and
# how often each is received, before SQS leaves it out of the queue's age.
EARLY_EDITS = 2
RECEIVES_IN_AN_AGE = 3
# A small post waits for a worker of the publish queue and one of the express lane, and for their
# calls. A celebrity has none of the latter, whatever its backlog, and one of the former at a time.
SMALL_POST_SECONDS = 30.0


def a_late_post_rings_its_alarm(found: Evidence) -> Iterator[str]:
    """In every minute, each accepted post is complete in time, or its alarm rings."""
    if found.world.watch:
        yield from found.world.watch.violations


def a_calm_world_rings_no_alarm(found: Evidence) -> Iterator[str]:
    """Faults that pass within minutes and are handled where they occur ring no alarm."""
    world = found.world
    if world.watch is None or not is_calm(world):
        return
    # What breaks the contract is a dead letter at once; and so is what SQS has delivered too
    # often, by copies alone.
    copies = world.faults.injected["duplicated"]
    copied = {queue.name for queue, _ in world.dead_letters() if copies >= queue.max_receives}
    # And an edit whose post never came, such as one that was over the rate, after half an hour.
    is_edited = any(found.lacks_its_post(letter) for _, letter in world.dead_letters())
    failed = {names.PUBLISH.name, *copied} if world.noise or is_edited else copied
    by_right = {f"{name}{alarm}" for name in failed for alarm in ("Failed", "FailedMore")}
    # If every attempt to send an order is refused, its message comes again after the timeout.
    if world.faults.injected["unsent"] >= SEND.attempts:
        by_right.add("PublishLate")
    # One edit that waits for its post is late for 90 s; several in turn are late for minutes.
    if len(world.observer.early) >= EARLY_EDITS * RECEIVES_IN_AN_AGE:
        by_right.add("PublishLate")
    for name, minute in world.watch.first_rang.items():
        if name not in by_right:
            yield f"{name} rings in minute {minute}, and nothing is wrong."


def a_calm_world_reports_how_long_each_delivery_took(found: Evidence) -> Iterator[str]:
    """Only a worker that dies, or an answer that is lost, leaves one out."""
    missing = found.world.observer.unreported.total()
    if missing and found.world.watch and is_calm(found.world):
        yield f"{missing} deliveries are complete, and nobody has reported how long they took."


def is_calm(world: World) -> bool:
    """Whether nothing happened that should ring an alarm."""
    triggers = world.triggers
    # A slow bulk lane is a large event, in which no alarm rings by design.
    has_slow_lane = triggers.seconds_a_message > 0 and names.EXPRESS in triggers.slow_lanes
    is_slow = triggers.was_paused or has_slow_lane or world.is_busy
    is_ill = any(trouble.tells for trouble in world.troubles)
    # All calls that a trouble fails are counted, even if it need not ring an alarm.
    return not (is_slow or is_ill or world.faults.injected.keys() - SMALL - {"troubled"})


def a_small_post_waits_for_no_celebrity(found: Evidence) -> Iterator[str]:
    """If only the bulk lane is slow, small posts take seconds.

    A post is small if its publisher had few followers and the ledger has one segment.
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
