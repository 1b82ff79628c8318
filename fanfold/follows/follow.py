"""Follow and unfollow: change the row, which decides, then reconcile the edges with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fanfold import clock, cursor
from fanfold.aws.queues import WorkQueue
from fanfold.aws.retries import STEP, is_transient
from fanfold.cursor import Cursor
from fanfold.errors import Contended, FanfoldError, TooOften, TryLater
from fanfold.follows.edges import Edges, new_deadline
from fanfold.follows.follows_table import FollowsTable, too_many
from fanfold.follows.relation import Follow, granted, may_be_new
from fanfold.ids import is_id
from fanfold.messages import BackfillRelation, ReconcileRelation
from fanfold.rates import Rate, spoken
from fanfold.timeline.readers import Counted

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

    from fanfold.names import Function
    from fanfold.settings import Settings

# Rows read for one page of follows: many at a time, because tombstones are among them, but at most
# ten times, because a user with thousands of tombstones would use up the door's 10 s.
PAGE = 200
MAX_PAGES = 10


class Reconciled(NamedTuple):
    """A relation with which its edges agree, and whether a follow's edge was put only now."""

    row: Follow
    has_put: bool


@dataclass(frozen=True)
class Following:
    """The use case behind the follow routes, the follow messages and RELATE.

    If the stage `backfills`, RELATE gets a command for that too (backfill.py). `rate` bounds what
    one user requests over HTTP: follows, and tombstones of what was never followed.
    """

    follows: FollowsTable
    edges: Edges
    relation_queue: WorkQueue
    max_follows: int
    reconcile_after_seconds: int
    backfills: bool = False
    rate: Rate | None = None

    @classmethod
    def of(
        cls,
        settings: Settings,
        runs_in: Function,
        table: FollowsTable,
        edges: Edges,
        sqs: SQSClient,
    ) -> Following:
        """The use case for the function `runs_in`.

        RELATE reconciles each change when that function's run has ended and its writes have landed.
        """
        return cls(
            table,
            edges,
            WorkQueue(sqs, settings.relation_queue_url),
            settings.max_follows,
            runs_in.settled_seconds,
            backfills=settings.backfill > 0,
            rate=Rate.a_day(settings.follows_per_day) if settings.follows_per_day else None,
        )

    def follow(
        self, user_id: str, publisher_id: str, *, asked_at: int, by_message: bool = False
    ) -> Follow:
        """Follow; idempotent. Raises `TooManyFollows`, `TooOften` and `Contended`.

        When this returns, every publish accepted from now on reaches the user, unless a later
        request stays in effect (relation.py). `asked_at` is the epoch millisecond of the request.
        `by_message`, an edge that cannot be put now is left to RELATE.
        """
        return self._ask(True, user_id, publisher_id, asked_at, by_message=by_message)

    def unfollow(
        self, user_id: str, publisher_id: str, *, asked_at: int, by_message: bool = False
    ) -> Follow:
        """Stop following; the arguments are those of `follow`. Raises `Contended`.

        It is never refused. But over the rate, an unfollow of a publisher never followed leaves no
        tombstone: a follow message sent before it that comes after it takes effect.
        """
        return self._ask(False, user_id, publisher_id, asked_at, by_message=by_message)

    def settle(self, user_id: str, publisher_id: str) -> Reconciled:
        """Reconcile for RELATE, with the edge and with what the user's row says of a channel.

        A post that was accepted just before its edge was put may reach the outbox after it. So
        each function that puts an edge has RELATE make a second pass, and so does RELATE itself.
        """
        done = self.reconcile(user_id, publisher_id)
        self._note_channel(done.row)
        if done.has_put and self.backfills:
            self._send(BackfillRelation, done.row, delay_seconds=self.reconcile_after_seconds)
        return done

    def _note_channel(self, row: Follow) -> None:
        for _ in clock.tries(*STEP):
            if self.follows.note_channel(row, now_ms=clock.now_ms()):
                return
            row = self.follows.get(row.user_id, row.publisher_id)
        raise _contended(row.user_id, row.publisher_id)

    def reconcile(self, user_id: str, publisher_id: str, *, is_new: bool = False) -> Reconciled:
        """Make the edge agree with the row; repeat until the row has not changed meanwhile.

        If the change `is_new`, nobody has put its edge yet, so it is put without reading first.
        """
        deadline = new_deadline()
        row, has_put = self.follows.get(user_id, publisher_id), False
        for _ in clock.tries(*STEP):
            if not row.is_active:
                self.edges.remove(publisher_id, user_id, version=row.version)
            elif is_new:
                self.edges.put(publisher_id, user_id, version=row.version)
                has_put = True
            elif self.edges.ensure(publisher_id, user_id, version=row.version):
                has_put = True
            now = self.follows.get(user_id, publisher_id)
            if now.version == row.version:
                return Reconciled(now, has_put and now.is_active)
            row = now
            deadline.check()
        raise _contended(user_id, publisher_id)

    def list(
        self, user_id: str, *, limit: int, after: str | None
    ) -> tuple[list[Follow], str | None]:
        """One page of a user's follows, in order of publisher, and the cursor to the next page.

        Tombstones are left out, and the page is filled from the rows after them.
        """
        last = cursor.decode(after, is_position=is_id).position if after is not None else None
        found: list[Follow] = []
        for _ in range(MAX_PAGES):
            rows, more = self.follows.page(user_id, after=last, limit=PAGE)
            found += [row for row in rows if row.is_active]
            last = rows[-1].publisher_id if rows else last
            if len(found) > limit:
                return found[:limit], cursor.encode(Cursor.at(found[limit - 1].publisher_id))
            if not more:
                return found, None
        # Too many tombstones: a short page that is not the last.
        return found, cursor.encode(Cursor.at(last)) if last else None

    def count(self, user_id: str) -> int:
        """How many publishers the user follows, read consistently."""
        # Below 0 after a restore, until the count is right again.
        return max(0, self.follows.readers.get(user_id).follows)

    def _ask(
        self, wanted: bool, user_id: str, publisher_id: str, asked_at: int, *, by_message: bool
    ) -> Follow:
        is_sent = False
        for _ in clock.tries(*STEP):
            seen = self.follows.get(user_id, publisher_id)
            now = clock.now_ms()
            target = granted(seen, wanted, asked_at=asked_at, by_message=by_message, now=now)
            counted = None if by_message else self._counted(target, seen, asked_at)
            if counted and (refusal := self._refusal(target, counted)):
                if self.follows.get(user_id, publisher_id).version != seen.version:
                    continue  # it may be followed already, by the same request that was repeated
                if wanted:
                    raise refusal
                return seen
            if counted and not wanted and not self.follows.readers.count(user_id, counted):
                continue
            if not is_sent:
                # Sent before anything changes, and received after this worker's time-out: wherever
                # the worker stops, RELATE reconciles the edge.
                self._send(ReconcileRelation, target, delay_seconds=self.reconcile_after_seconds)
                is_sent = True
            changed = self._write(target, seen, counted)
            if changed:
                try:
                    is_new = changed.version > seen.version
                    done = self.reconcile(user_id, publisher_id, is_new=is_new)
                except TryLater:
                    if not by_message:
                        raise
                else:
                    if self.backfills and done.has_put and may_be_new(changed, asked_at):
                        self._backfill_now(changed)
                return changed
        raise _contended(user_id, publisher_id)

    def _counted(self, target: Follow, seen: Follow, asked_at: int) -> Counted | None:
        """How the change counts against the rate: only if it makes a row that stays.

        That is a follow, or a tombstone of what was never followed. Follows pay for other
        tombstones.
        """
        is_new = target.state != seen.state if target.is_active else not seen.version
        if not self.rate or not is_new:
            return None
        # Read after the row of the follow, as its marks require.
        return Counted(self.follows.readers.get(target.user_id), self.rate, asked_at)

    def _refusal(self, target: Follow, counted: Counted) -> FanfoldError | None:
        if target.is_active and counted.reader.follows >= self.max_follows:
            return too_many(target.user_id, self.max_follows)
        if not counted.wait_ms:
            return None
        who = f"'{target.user_id}'"
        return TooOften(
            f"{who} follows more publishers in a day than one user may; wait as long "
            f"as Retry-After says ({spoken(counted.wait_ms)}), then send the same request again.",
            wait_ms=counted.wait_ms,
            quoted=who,
        )

    def _backfill_now(self, new: Follow) -> None:
        """Have RELATE backfill a new follow at once; otherwise it does so when it reconciles."""
        try:
            self._send(BackfillRelation, new)
        except Exception as error:
            if not is_transient(error):
                raise

    def _send(
        self,
        kind: type[BackfillRelation | ReconcileRelation],
        row: Follow,
        *,
        delay_seconds: int = 0,
    ) -> None:
        """Send RELATE a command; in a rush of follows of one publisher, only its group waits."""
        command = kind(user_id=row.user_id, publisher_id=row.publisher_id)
        message = command.message(group=row.publisher_id, delay_seconds=delay_seconds)
        self.relation_queue.send(message)

    def _write(self, target: Follow, seen: Follow, counted: Counted | None) -> Follow | None:
        """Write `target` over the relation `seen`; None if somebody else changed it meanwhile."""
        if target is seen:
            return seen
        now_ms = clock.now_ms()
        if target.state == seen.state:
            return self.follows.ask_again(target, now_ms=now_ms)
        if target.is_active:
            return self.follows.follow(
                target, now_ms=now_ms, max_follows=self.max_follows, counted=counted
            )
        return self.follows.unfollow(target, now_ms=now_ms)


def _contended(user_id: str, publisher_id: str) -> Contended:
    who = f"'{user_id}'"
    return Contended(
        f"The relation of {who} to '{publisher_id}' changed too often meanwhile; try again.",
        quoted=who,
    )
