"""DELIVER: write one post into the timelines of the followers in one segment of the ring."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from fanfold import clock, invariants, times
from fanfold.aws.retries import CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS, SLOWEST_CALL_SECONDS
from fanfold.errors import BadInput, Undeliverable
from fanfold.fanout.backlog import Resume
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.lookup import Lookup
from fanfold.fanout.pacing import Pace
from fanfold.fanout.row import COMPLETE, ENDED, EXPIRED, STALLED, Fanout
from fanfold.fanout.segment_size import segment_range
from fanfold.fanout.transport.loop import Transport, run
from fanfold.fanout.worker_steps import Delivery, Done, Failed, HandBack, max_stragglers_of
from fanfold.follows.ring import RingRange, behind_all
from fanfold.messages import DeliverSegment
from fanfold.timeline.entries import Entry

# After a hand-back without progress, the rest waits, so that the table can recover: at most 4, 8,
# 16 … 300 s, on average half of that. Twelve of them are about a quarter of an hour without
# progress; then an operator should look.
MAX_HOPS = 12
HOP_BASE_SECONDS = 2
HOP_CAP_SECONDS = 300
# Time for the calls in flight to end, and then for three more at their slowest: up to three to the
# ledger, or one to the ledger and the hand-back to the lane.
HAND_BACK_SECONDS = CONNECT_TIMEOUT_SECONDS + READ_TIMEOUT_SECONDS + 3 * SLOWEST_CALL_SECONDS


class Outcome(NamedTuple):
    """What became of a command, for log and metrics."""

    what: str  # delivered, handed back, or why there was nothing to do
    written: int = 0
    seconds: float | None = None  # from acceptance to complete, if this worker completed it


@dataclass(frozen=True)
class Delivering:
    """The use case behind both lanes."""

    lookup: Lookup
    ledger: Ledger
    lanes: Lanes
    transport: Transport

    def deliver(
        self,
        command: DeliverSegment,
        *,
        publisher_id: str,
        pace: Pace,
        redelivered: bool,
        sent_at: int,
        stop_at: float,
    ) -> Outcome:
        """Deliver what is left of a segment, until about `stop_at` of the monotonic clock.

        `publisher_id` is probably the post's publisher. `pace` is this worker's pace on the
        command's lane; it outlives the command. `sent_at` is the epoch millisecond at which SQS
        took the command. If that was after SWEEP's last question about the fan-out, the question
        has left the lane too, and the ledger is told so.

        Raises `BadInput` for a command that contradicts the ledger, `Undeliverable` if the post is
        missing or after too many hand-backs without progress, and whatever error the transport
        failed with.
        """
        found = self.lookup.find(command.fanout_id, publisher_id)
        fanout = _checked(found.fanout, command)
        if fanout.state in ENDED:
            return Outcome(fanout.state)
        answers = fanout.is_answered_by(sent_at)
        if command.segment not in fanout.pending:
            seconds = self._complete(fanout)
            self._note_answer(fanout, answers)
            return Outcome("not pending", seconds=seconds)
        now_ms = clock.now_ms()
        if fanout.has_expired(now_ms):
            self.ledger.expire(fanout, now=times.to_text(now_ms))
            return Outcome(EXPIRED)
        part = segment_range(command.segment, command.segments)
        begin = _checked_resume(fanout, command.segment, part)
        # If the ledger is ahead of this message, another message continues the segment. But if this
        # message was received before, the other one may never have been sent; and if the fan-out
        # had stalled, an operator has sent this one. Then take over.
        takes_over = redelivered or fanout.state == STALLED
        if (command.position or part.lo) < begin.position and not takes_over:
            self._note_answer(fanout, answers)
            return Outcome("behind")
        post = found.post
        if post is None or not post.is_of(fanout.publisher_id, fanout.sort_key):
            # It was not retracted: that leaves a tombstone, which outlives the entries as a post
            # does.
            self._note_answer(fanout, answers)
            raise Undeliverable(
                f"The post '{fanout.fanout_id}' is missing, or another one has taken its ref_id, "
                "though its entries have not expired; restore its row from a backup of the posts "
                "table, then redrive, or end the delivery by `fanfold fanout abandon "
                f"{fanout.fanout_id}`."
            )
        if post.deleted:
            seconds = self._finish(fanout, command.segment, written=begin.written, answers=answers)
            return Outcome("post deleted", seconds=seconds)
        delivery = Delivery(
            start=begin.position,
            hi=part.hi,
            # Read now, not cached: no edge acknowledged before the publish lies higher.
            level=max(fanout.level, found.level),
            already=begin.written,
            stragglers=begin.stragglers,
            max_stragglers=max_stragglers_of(fanout.segments),
            pace=pace,
            stop_at=stop_at,
            chance=clock.chance,
        )
        entry = Entry(fanout.sort_key, fanout.publisher_id, fanout.expires_at)
        end = run(delivery, self.transport, entry)
        match end:
            case Done(written):
                seconds = self._finish(fanout, command.segment, written=written, answers=answers)
                return Outcome("delivered", written - begin.written, seconds)
            case HandBack():
                is_forward = end.position >= begin.position and end.written >= begin.written
                invariants.check("hand_back_forward", is_forward, fanout_id=command.fanout_id)
                self._hand_back(fanout, command, end, answers=answers)
                return Outcome("handed back", end.written - begin.written)
            case Failed(error):
                raise error

    def _note_answer(self, fanout: Fanout, answers: bool) -> None:
        """Tell the ledger of an answer, where the worker makes no other update."""
        if answers and fanout.is_open and fanout.pending and fanout.came_out < fanout.asked_at:
            self.ledger.note_answer(fanout)

    def _finish(self, fanout: Fanout, segment: int, *, written: int, answers: bool) -> float | None:
        """Finish the segment; the seconds since acceptance, if that completes the fan-out."""
        now = times.to_text(clock.now_ms())
        after = self.ledger.finish_segment(
            fanout, segment, written=written, now=now, answers=answers
        )
        if after is None:  # another worker was faster
            after = self.ledger.get(fanout.fanout_id)
            if after and after.pending:
                self._note_answer(fanout, answers)
        elif after.state == COMPLETE:  # it was the only segment
            return after.lag_seconds(now)
        return self._complete(after) if after else None

    def _complete(self, fanout: Fanout) -> float | None:
        """Complete the fan-out after its last segment, even if an earlier worker crashed there.

        Returns the seconds since acceptance; None if it is not complete, or was before.
        """
        if not fanout.pending and fanout.state != COMPLETE:
            now = times.to_text(clock.now_ms())
            if self.ledger.complete_if_delivered(fanout.fanout_id, now=now):
                return fanout.lag_seconds(now)
        return None

    def _hand_back(
        self, fanout: Fanout, command: DeliverSegment, end: HandBack, *, answers: bool
    ) -> None:
        """Store the progress, then send the rest: in that order, a crash loses neither."""
        hops = 0 if end.progress else command.hops + 1
        if hops > MAX_HOPS:
            self._note_answer(fanout, answers)
            raise Undeliverable(
                f"Segment {command.segment} of '{command.fanout_id}' made no progress in "
                f"{MAX_HOPS} hand-backs; find out what throttles the timelines table, then redrive."
            )
        now = times.to_text(clock.now_ms())
        if not end.progress:
            self.ledger.touch(fanout, now=now, answers=answers)
        else:
            resume = Resume(end.position, end.written, end.stragglers)
            if not self.ledger.store_resume(
                fanout, command.segment, resume, now=now, answers=answers
            ):
                self._note_answer(fanout, answers)
                return  # another worker is further on, or done
        rest = replace(command, position=end.position, hops=hops)
        ceiling = min(HOP_CAP_SECONDS, HOP_BASE_SECONDS * 2**hops)
        delay = 1 + int(clock.chance() * ceiling)
        message = rest.message(group=fanout.publisher_id, delay_seconds=delay)
        self.lanes.of_fanout(fanout).send(message)


def _checked(fanout: Fanout | None, command: DeliverSegment) -> Fanout:
    """The fan-out, if the command agrees with it; raises `BadInput`."""
    if fanout is None:
        raise BadInput(f"The ledger knows no fan-out '{command.fanout_id}'.")
    is_planned_so = fanout.segments == command.segments and command.segment < command.segments
    if fanout.state not in ENDED and not is_planned_so:
        raise BadInput(
            f"Segment {command.segment} of {command.segments} is not in the plan of "
            f"'{command.fanout_id}', which has {fanout.segments}."
        )
    return fanout


def _checked_resume(fanout: Fanout, segment: int, part: RingRange) -> Resume:
    """Where to begin with a segment: anew if it was handed back at a place that is not in it."""
    anew = Resume(part.lo, 0)
    resume = fanout.resume.get(segment, anew)
    ids = {"fanout_id": fanout.fanout_id, "segment": segment}
    is_within = part.lo <= resume.position <= behind_all(part.hi)
    if not invariants.check("resume_in_segment", is_within, **ids):
        return anew
    are_behind = all(part.lo <= each < resume.position for each in resume.stragglers)
    invariants.check("stragglers_behind", are_behind, **ids)
    return resume
