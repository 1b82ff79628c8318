"""SWEEP: every minute, send again what was accepted and then lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

from fanfold import clock, times
from fanfold.aws.event_sources import EventSourceMappings
from fanfold.aws.queues import WorkQueue
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import COMPLETE, DELIVERING, QUEUED, STALLED, Fanout, Ledger
from fanfold.messages import PlanFanout

# PLAN takes a message within seconds unless its queue is long, so two minutes are ample.
QUEUED_TOO_LONG_SECONDS = 120
# With at most this many messages in the queue, a segment without progress is lost, not late.
NEARLY_EMPTY = 10
# After this many rounds without progress the fan-out stalls, and an operator should look.
MAX_ROUNDS = 10
# Open fan-outs examined in one run.
MAX_EXAMINED = 1_000
PAGE = 100


IsPaused = Callable[[str], bool]


@dataclass(frozen=True)
class Swept:
    """What SWEEP did with one fan-out."""

    fanout_id: str
    what: str


@dataclass(frozen=True)
class Sweeping:
    """The use case behind the schedule."""

    ledger: Ledger
    publish_queue: WorkQueue
    lanes: Lanes
    overdue_seconds: int
    mappings: EventSourceMappings

    def sweep(self) -> Iterator[Swept]:
        """Examine open fan-outs and repair those that need it. Concurrent runs do no harm.

        A fan-out that waits in a paused queue is not lost; no round is counted for it.
        """
        # Asked once per run and queue: Lambda's API allows few calls per second.
        is_paused = cache(self.mappings.is_paused)
        for fanout_id in islice(self.ledger.open_ids(page=PAGE), MAX_EXAMINED):
            fanout = self.ledger.get(fanout_id)
            what = self._repair(fanout, is_paused) if fanout else ""
            if what:
                yield Swept(fanout_id, what)

    def stalled(self) -> int:
        """How many fan-outs have stalled, up to `MAX_EXAMINED`, for the alarm."""
        return sum(1 for _ in islice(self.ledger.stalled_ids(page=PAGE), MAX_EXAMINED))

    def _repair(self, fanout: Fanout, is_paused: IsPaused) -> str:
        idle_seconds = (clock.now_ms() - times.to_ms(fanout.changed_at)) / 1000
        if fanout.state == QUEUED and idle_seconds > QUEUED_TOO_LONG_SECONDS:
            # A long backlog explains the silence; another message would only lengthen it.
            if self.publish_queue.backlog() > NEARLY_EMPTY or is_paused(self.publish_queue.url):
                return ""
            return self._again(fanout, self._send_plan)
        if fanout.state == COMPLETE:  # the index lags behind
            return ""
        if fanout.segments and not fanout.pending:  # its last worker crashed before completing it
            now = times.to_text(clock.now_ms())
            done = self.ledger.complete_if_delivered(fanout.fanout_id, now=now)
            return "completed" if done else ""
        if fanout.state == DELIVERING and self._is_overdue(fanout, idle_seconds, is_paused):
            return self._again(fanout, self.lanes.send_pending)
        return ""

    def _is_overdue(self, fanout: Fanout, idle_seconds: float, is_paused: IsPaused) -> bool:
        """Whether it was silent longer than a lane's visibility timeout, without explanation."""
        if idle_seconds <= self.overdue_seconds:
            return False
        lane = self.lanes.for_segments(fanout.segments)
        return lane.backlog() <= NEARLY_EMPTY and not is_paused(lane.url)

    def _send_plan(self, fanout: Fanout) -> None:
        command = PlanFanout(fanout_id=fanout.fanout_id)
        self.publish_queue.send(command.message(group=fanout.publisher_id))

    def _again(self, fanout: Fanout, send: Callable[[Fanout], None]) -> str:
        """Count the round before sending, so that runs that crash here cannot go on for ever."""
        now = times.to_text(clock.now_ms())
        if fanout.rounds >= MAX_ROUNDS:
            return STALLED if self.ledger.give_up(fanout, now=now) else ""
        if not self.ledger.next_round(fanout, now=now):
            return ""  # it made progress meanwhile, or another run took it
        send(fanout)
        return "sent again"
