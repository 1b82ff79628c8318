"""A busy service around a run: messages of others in each queue, and open fan-outs of others.

The messages are always there and change nothing. The fan-outs are the first in order of id, and
never end: their workers progress all the time.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fanfold import names, times
from fanfold.fanout.row import Fanout
from fanfold.messages import DeliverSegment, PlanFanout
from proof.simulation.stage import stores
from proof.simulation.world.lambdas import MAPPED, queue_url

if TYPE_CHECKING:
    from proof.simulation.world.world import World

OPEN = ("-0", "-1", "-2")
DONE = "-done"
# In each queue: more messages than in a queue that looks nearly empty.
MESSAGES = 11
# Delayed as long as SQS allows, and sent again before they come out.
DELAY_SECONDS, EVERY_SECONDS = 900, 840.0
TOUCH_SECONDS = 60.0
PUBLISHER = "neighbour"


def is_of_neighbours(fanout_id: str) -> bool:
    return fanout_id.startswith("-")


def is_message_of_neighbours(body: str) -> bool:
    return f'"{DONE}"' in body


class Neighbours:
    """The neighbours of one run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger = stores(world.dynamodb).ledger
        self._open()
        self._touch()
        self._send()

    def _open(self) -> None:
        accepted_at = times.to_text(self.world.clock.now_ms() - 3_600_000)
        for fanout_id in (*OPEN, DONE):
            fanout = Fanout(
                fanout_id=fanout_id,
                publisher_id=PUBLISHER,
                sort_key=f"{accepted_at}#{fanout_id}",
                accepted_at=accepted_at,
                expires_at=self.world.clock.now_ms() // 1000 + 30 * 86_400,
            )
            self.ledger.open(fanout)
            self.ledger.plan(fanout, segments=1, followers=1, level=0, now=accepted_at)
        self.ledger.finish_segment(replace(fanout, segments=1), 0, written=0, now=accepted_at)

    def _touch(self) -> None:
        now = times.to_text(self.world.clock.now_ms())
        for fanout_id in OPEN:
            row = self.ledger.get(fanout_id)
            assert row
            self.ledger.touch(row, now=now)
        self.world.scheduler.at(self.world.scheduler.now + TOUCH_SECONDS, self._touch)

    def _send(self) -> None:
        plan = PlanFanout(fanout_id=DONE).message(group=PUBLISHER)
        deliver = DeliverSegment(fanout_id=DONE, segment=0, segments=1).message(group=PUBLISHER)
        for queue in MAPPED:
            message: Any = plan if queue is names.PUBLISH else deliver
            for _ in range(MESSAGES):
                self.world.sqs.send_message(
                    QueueUrl=queue_url(queue),
                    MessageBody=json.dumps(message.content),
                    MessageGroupId=PUBLISHER,
                    DelaySeconds=DELAY_SECONDS,
                )
        self.world.scheduler.at(self.world.scheduler.now + EVERY_SECONDS, self._send)
