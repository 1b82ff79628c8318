"""Under load, in each minute: every accepted post is complete in time, or its alarm rings.

A post is accepted when a client was told so, or when SQS took it. The ledger only says which alarms
belong to a late post. A post that it calls complete must be in its followers' timelines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fanfold import names
from fanfold.aws.items import get_number, get_text
from fanfold.fanout.row import COMPLETE, ENDED, STALLED, VOID
from fanfold.ids import split_sort_key
from fanfold.settings import Settings
from proof.simulation.checks.evidence import Publish
from proof.simulation.clients.history import Operation
from proof.simulation.observed.cloudwatch import BEFORE, MINUTE, SWEPT, Watch
from proof.simulation.oracle.follows import Asked

if TYPE_CHECKING:
    from proof.simulation.world.world import World

# A small post that is older than 15 minutes at three reports of SWEEP rings. A run takes up to a
# minute, and the minute of its report has to end.
SMALL_MINUTES = 20
# A lane that stands still and holds messages rings after 15 minutes. SWEEP resends lost messages
# after seven minutes; then its reports are a few minutes apart.
LARGE_MINUTES = 30
# A post that has just become another case has not had three reports yet.
SETTLED_MINUTES = 6
# `SmallFanoutsLate` needs three reports of SWEEP within the five minutes that it evaluates.
REPORTS, REPORT_MINUTES = 3, 5
# A message that was received more than three times does not count in its queue's age: its alarm
# ends, and the next one is that of the dead letter.
COUNTED_RECEIVES = 3
UNCOUNTED_MINUTES = SETTLED_MINUTES + (
    (names.PUBLISH.max_receives - COUNTED_RECEIVES) * names.PUBLISH.visibility_seconds / MINUTE
)
# An alarm about runs of SWEEP that sometimes fail may have rung this long ago.
RECENT_MINUTES = 15

ABSENT, SMALL, LARGE = "not in the ledger", "small", "large"
# The alarms for late posts of each case, in addition to those of SWEEP itself.
BELONG = {
    ABSENT: ("PublishLate", "PublishFailed"),
    SMALL: ("SmallFanoutsLate",),
    # If the lane takes no orders, PLAN's command is late, and then a dead letter.
    LARGE: ("BulkStandsStill", "BulkFailed", "LargeFanoutsLate", "PublishLate", "PublishFailed"),
    STALLED: ("FanoutsStalled",),
}
OF_SWEEP = ("SweepNotRunning", "SweepFailing")


class Liveness:
    """The open posts of a run, and the alarms about late ones."""

    def __init__(self, watch: Watch) -> None:
        self.world: World = watch.world
        self.watch = watch
        self.late: dict[str, set[str]] = {}  # by late post: its cases so far
        self._seen = 0  # operations of the history
        self._unanswered: list[Operation] = []
        self._owed: dict[str, Operation] = {}  # by `ref_id`, in the order of their acceptance
        self._cases: dict[str, tuple[str, int]] = {}  # of late posts, each with its first minute
        self._impaired_since: int | None = None
        watch.lookers.append(self.look)

    def look(self) -> None:
        """Judge all posts that are too old."""
        self._note_accepted()
        self._note_sweep()
        now_ms = self.world.clock.now_ms()
        for ref_id, operation in list(self._owed.items()):
            # The service counts from the stamp of a clock that may be ahead.
            accepted_ms = operation.ended_ms + abs(self.world.door_skew_ms)
            minutes = (now_ms - accepted_ms) / 1000 / MINUTE
            if minutes < SMALL_MINUTES - SETTLED_MINUTES:
                break
            if minutes < SMALL_MINUTES:
                self._case(ref_id, operation.user)
            elif self._judge(ref_id, operation):
                del self._owed[ref_id]

    def _note_accepted(self) -> None:
        operations = self.world.history.operations
        fresh = (each for each in operations[self._seen :] if each.kind in ("publish", "send"))
        self._unanswered += fresh
        self._seen = len(operations)
        answered = [each for each in self._unanswered if each.is_acknowledged]
        if answered:
            self._unanswered = [each for each in self._unanswered if not each.is_acknowledged]
            for each in sorted(answered, key=lambda each: each.ended_ms):
                if each.kind == "send" or each.answer is not None:
                    self._owed.setdefault(each.subject, each)

    def _note_sweep(self) -> None:
        series = self.watch.series(SWEPT, "SampleCount")
        at = BEFORE + self.watch.minute
        if sum(bool(each) for each in series[at - REPORT_MINUTES : at]) >= REPORTS:
            self._impaired_since = None
        elif self._impaired_since is None:
            self._impaired_since = self.watch.minute

    def _judge(self, ref_id: str, operation: Operation) -> bool:
        """Whether a post is settled; note a violation if it is late and no alarm rings."""
        world, minute = self.world, self.watch.minute
        may_be_retracted = world.history.tried_to_retract(ref_id)
        case, since = self._case(ref_id, operation.user)
        if case == ABSENT and may_be_retracted:
            return True  # before it was there
        if case == LARGE and self._is_retracted(ref_id):
            return True  # nobody waits for it; SWEEP finds a lost order in time
        if case in ENDED:
            if case == COMPLETE and not may_be_retracted:
                self.watch.violations += self._missed(ref_id, operation)
            return True
        self.late.setdefault(ref_id, set()).add(case)
        if minute - since < SETTLED_MINUTES:
            return False
        if self._is_told(case, operation):
            world.reached.note(f"late, and told: {case}")
            return False
        wanted = ", ".join(BELONG[case])
        self.watch.violations.append(
            f"{ref_id} ({case}) is late in minute {minute}, and none of {wanted} rings."
        )
        return True  # once is enough

    def _case(self, ref_id: str, publisher: str) -> tuple[str, int]:
        """The case of a post, or how it has ended, and since which minute.

        The first case counts as old.
        """
        row = self.world.row(names.FANOUTS, {"fanout_id": {"S": ref_id}})
        case = row["state"]["S"] if row else ABSENT
        case = ABSENT if case == VOID else case
        if case not in (ABSENT, STALLED, *ENDED):
            case = LARGE if self._is_large(row, publisher) else SMALL
        known, since = self._cases.setdefault(ref_id, (case, 0))
        if known != case:
            since = self.watch.minute
            self._cases[ref_id] = case, since
        return case, since

    def _is_told(self, case: str, operation: Operation) -> bool:
        """Whether an alarm that belongs to a late post rings, or need not ring yet."""
        watch = self.watch
        if case == LARGE:
            still_since = self._bulk_wrote_at(operation)
            if watch.minute - still_since < LARGE_MINUTES:
                return True
            told = (*BELONG[LARGE], *OF_SWEEP)
            return any(watch.last_rang.get(each, -1) > still_since for each in told)
        if any(each in watch.ringing for each in BELONG[case]):
            return True
        if case == ABSENT:
            accepted = (operation.ended_ms - self.world.clock.start_ms) / 1000 / MINUTE
            since = max(accepted, watch.minute - UNCOUNTED_MINUTES)
            return any(watch.last_rang.get(each, -1) >= since for each in BELONG[case])
        if self._impaired_since is None:
            return False
        if watch.minute - self._impaired_since < SETTLED_MINUTES:
            return True
        return any(
            watch.last_rang.get(each, -1) > watch.minute - RECENT_MINUTES for each in OF_SWEEP
        )

    def _bulk_wrote_at(self, operation: Operation) -> float:
        """The minute of the bulk lane's last progress, or of the post's acceptance."""
        latest = operation.ended_ms
        observer = self.world.observer
        for entry, at_ms in observer.delivered_ms.items():
            if at_ms > latest:
                key = {"fanout_id": {"S": split_sort_key(entry[1])[1]}}
                row = self.world.row(names.FANOUTS, key)
                if self._is_large(row, get_text(row, "publisher_id")):
                    latest = at_ms
        return (latest - self.world.clock.start_ms) / 1000 / MINUTE

    def _is_large(self, row: dict[str, Any], publisher: str) -> bool:
        """Whether a post may be large, and the ledger says that it is; or it is over the rate.

        Both are in the bulk lane.
        """
        segments = get_number(row, "segments")
        if segments <= 1:
            is_rated = self.world.rate.limit < Settings.publishes_per_minute
            return is_rated and segments == 1 and get_text(row, "lane") == names.BULK.lane
        return not self.world.history.has_few_followers(publisher)

    def _is_retracted(self, ref_id: str) -> bool:
        return "deleted_at" in self.world.row(names.POSTS, {"ref_id": {"S": ref_id}})

    def _missed(self, ref_id: str, operation: Operation) -> Iterator[str]:
        """Users who surely follow and lack the entry of a complete post."""
        history, publisher = self.world.history, operation.user
        # An attempt whose answer was lost may have been accepted; the next is answered with its
        # time, and users who follow between the two need not have the post.
        tried = [each for each in history.of("publish", "send", subject=ref_id) if each.tries]
        skew_ms = abs(self.world.door_skew_ms)
        begun_ms = Publish(ref_id, publisher, tried, None, skew_ms).begun_ms
        if ref_id in self.world.channels.complete_ms:
            return  # the checks of readings say whether they have it
        have = {
            row["user_id"]["S"]
            for row in self.world.rows(names.TIMELINES)
            if split_sort_key(row["sort_key"]["S"])[1] == ref_id
        }
        for user in history.users():
            relation = history.relations.get((user, publisher))
            is_due = relation and _surely_follows(relation.requests, begun_ms)
            # Where publishers decide, the checks say what is due.
            if is_due and user not in have and publisher not in history.audience.deciding:
                yield f"{ref_id} is complete after {SMALL_MINUTES} minutes, and {user} lacks it."


def _surely_follows(requests: Sequence[Asked], before_ms: float) -> bool:
    """Whether a request to follow was answered before, and all unfollows even earlier."""
    opposite = [request.ended for request in requests if not request.follows]
    return any(
        request.ended < before_ms and max(opposite, default=0.0) <= request.begun
        for request in requests
        if request.follows and request.is_due and not request.is_message
    )
