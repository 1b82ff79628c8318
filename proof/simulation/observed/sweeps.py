"""Observes what SWEEP notes and sends, call by call."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fanfold import contract, names
from fanfold.aws.items import get_number
from fanfold.fanout.row import QUEUED, STALLED
from fanfold.sweep.silence import MAX_ASKS, MAX_ROUNDS, PLAN_SILENCE_SECONDS, SILENCE_SECONDS
from proof.simulation.clients.bodies import content_of
from proof.simulation.faults.faults import MAX_SKEW_MS
from proof.simulation.world.lambdas import queue_url

if TYPE_CHECKING:
    from proof.simulation.world.world import World

LANES = (names.EXPRESS, names.BULK)
# What a note of SWEEP sets, which counter it raises, and the counter's bound.
MARKS = (("asked_at", "asks", MAX_ASKS), ("sent_at", "rounds", MAX_ROUNDS))


@dataclass
class Sweeps:
    """The asks and rounds of all runs of SWEEP: both are bounded, and so is what it sends."""

    world: World
    violations: list[str] = field(default_factory=list)
    # When each fan-out was last noted, in seconds of the clock, and all runs that noted it.
    _noted: dict[str, float] = field(default_factory=dict)
    _noted_by: set[tuple[str, int]] = field(default_factory=set)
    _before: dict[str, Any] = field(default_factory=dict)

    def noting(self, request: dict[str, Any]) -> None:
        """SWEEP is about to change a row of the ledger."""
        self._before = self.world.row(names.FANOUTS, request["Key"])

    def noted(self, request: dict[str, Any]) -> None:
        """SWEEP has changed a row of the ledger."""
        fanout_id = request["Key"]["fanout_id"]["S"]
        row, values = self.world.row(names.FANOUTS, request["Key"]), self._values(request)
        for mark, count, most in MARKS:
            if f":{mark}" not in values:
                continue
            self._noted[fanout_id] = self.world.clock.elapsed
            self._noted_by.add((fanout_id, self.world.scheduler.current.number))
            number = get_number(row, count)
            if number != get_number(self._before, count) + 1:
                self.violations.append(f"SWEEP counts the {count} of {fanout_id} twice as one.")
            if number > most:
                self.violations.append(f"SWEEP has made {number} {count} of {fanout_id}.")
        if ":asked_at" in values:
            self._check_patience(fanout_id)
        if values.get(":state") == {"S": STALLED}:
            if get_number(row, "asks") < MAX_ASKS and get_number(row, "rounds") < MAX_ROUNDS:
                self.violations.append(f"SWEEP gives {fanout_id} up too early.")
            if self._waits(row):
                self.violations.append(f"SWEEP gives {fanout_id} up, and all of it waits.")

    def _check_patience(self, fanout_id: str) -> None:
        """Check that the wait between two asks doubles each time, up to the longest."""
        before = self._before
        if not (asked_ms := get_number(before, "asked_at")):
            return
        silence = PLAN_SILENCE_SECONDS if before["state"]["S"] == QUEUED else SILENCE_SECONDS
        doublings = max(get_number(before, "asks"), get_number(before, "rounds")) - 1
        wait = min(self.world.longest_wait_seconds, silence * 2 ** max(0, doublings))
        waited = (self.world.clock.now_ms() - asked_ms + 2 * MAX_SKEW_MS) / 1000
        if waited < wait:
            self.violations.append(f"SWEEP asks about {fanout_id} after {waited} s, before {wait}.")

    def sending(self, content: dict[str, Any]) -> None:
        """SWEEP is about to send an order, which it must have noted before.

        Two runs that note it in the same millisecond both send. A run that is frozen in between
        sends long after its note.
        """
        fanout_id = content["fanout_id"]
        if (fanout_id, self.world.scheduler.current.number) in self._noted_by:
            return
        noted = self._noted.get(fanout_id, -math.inf)
        if self.world.clock.elapsed - noted > names.SWEEP.seconds:
            self.violations.append(f"SWEEP sends {content} before it notes it.")

    def _values(self, request: dict[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = request.get("ExpressionAttributeValues", {})
        return values

    def _waits(self, row: dict[str, Any]) -> bool:
        """Whether there is an untried message for everything that is pending.

        "When that batch comes out of the lane, everything that was sent before in that group has
        come out too" (docs/decisions/0013-sweep-asks.md): not what SQS itself keeps for hours.
        SWEEP cannot know of it, and its rounds may all have come out in vain before.
        """
        fanout_id = row["fanout_id"]["S"]
        queues = (names.PUBLISH,) if "segments" not in row else LANES
        found = set()
        for queue in queues:
            for message in self.world.queues.queue(queue_url(queue)).messages():
                content = content_of(message.body)
                if message.receives or content.get("hops") or math.isfinite(message.late_since):
                    continue
                if content.get("fanout_id") == fanout_id:
                    found.add(str(content.get("segment", "")))
                if content.get("type") == contract.POST_PUBLISHED:
                    found |= {""} if content.get("ref_id") == fanout_id else set()
        return found >= set(row.get("pending", {}).get("NS", [""]))
