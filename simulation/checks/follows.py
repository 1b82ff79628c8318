"""Rows, edges and counts of follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fanfold import names
from simulation.checks.evidence import Evidence
from simulation.wishes import unexplained

# A message is stamped by a clock of whole milliseconds, and each change moves `asked_at` on by one.
ROUNDING_MS = 10


def edges_agree_with_the_following_rows(found: Evidence) -> Iterator[str]:
    """Each followed row has an edge, no other row has one, and the counts of follows are exact."""
    world = found.world
    pairs = world.edges()
    followed = {
        (row["user_id"]["S"], row["publisher_id"]["S"])
        for row in world.rows(names.FOLLOWING)
        if row["state"]["S"] == "followed"
    }
    failed = " ".join(
        message.body
        for queue, message in world.dead_letters()
        if queue in (names.RELATION, names.PUBLISH)
    )
    for user, publisher in followed ^ pairs:
        if f'"{user}"' not in failed:
            yield f"The edge of {user} at {publisher} does not agree with the following row."
    counts = Counter(user for user, _ in followed)
    for row in world.rows(names.READERS):
        if int(row.get("follows", {"N": "0"})["N"]) != counts[row["user_id"]["S"]]:
            yield f"The count of follows of {row['user_id']['S']} is not exact."


def follows_change_as_they_were_asked_to(found: Evidence) -> Iterator[str]:
    """Requests are linearizable; a message has one effect, or none after a later wish."""
    world = found.world
    dead_letters = " ".join(message.body for _, message in world.dead_letters())
    for (user, publisher), wishes in found.history.wishes.items():
        if f'"{user}"' in dead_letters:
            continue
        changes = world.observer.relations.changes((user, publisher))
        skew_ms = abs(world.door_skew_ms) + ROUNDING_MS
        for sentence in unexplained(changes, wishes, skew_ms=skew_ms):
            yield f"{user} at {publisher}: {sentence}"
