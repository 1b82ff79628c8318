"""Changes of relations: written, then reconciled with the edges, before anybody is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

from fanfold import clock
from fanfold.aws.queues import WorkQueue
from fanfold.aws.retries import STEP, is_transient
from fanfold.errors import Contended, FanfoldError, TooOften, TryLater
from fanfold.follows.edges import Edges, new_deadline
from fanfold.follows.follows_table import MAX_BLOCKS, FollowsTable, too_many, too_many_blocks
from fanfold.follows.publisher.privacy import Privacies
from fanfold.follows.relation import Asked, Follow, Move, is_begun, is_counted, may_be_new, opened
from fanfold.messages import BackfillRelation, OpenRequests, ReconcileRelation
from fanfold.rates import Rate, spoken
from fanfold.timeline.readers import Counted

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

    from fanfold.names import Function
    from fanfold.settings import Settings

# What becomes of relations that were just read, and the actions of a transaction that this needs.
Verdict: TypeAlias = tuple[Sequence[Follow], Sequence[Any]]


class Reconciled(NamedTuple):
    """A relation with which its edges agree, and whether a follow's edge was put only now."""

    row: Follow
    has_put: bool


@dataclass(frozen=True)
class Relations:
    """What users and publishers share who change relations.

    If the stage `backfills`, RELATE gets a command for that too (backfill.py). `rate` bounds what
    one user requests over HTTP: follows, requests, blocks, and tombstones of what was never
    followed.
    """

    follows: FollowsTable
    edges: Edges
    privacies: Privacies
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
        privacies: Privacies,
        sqs: SQSClient,
    ) -> Self:
        """The use case for the function `runs_in`.

        RELATE reconciles each change when that function's run has ended and its writes have landed.
        """
        return cls(
            table,
            edges,
            privacies,
            WorkQueue(sqs, settings.relation_queue_url),
            settings.max_follows,
            runs_in.settled_seconds,
            backfills=settings.backfill > 0,
            rate=Rate.a_day(settings.follows_per_day) if settings.follows_per_day else None,
        )

    def reconcile(self, user_id: str, publisher_id: str, *, is_new: bool = False) -> Reconciled:
        """Make the edge agree with the row; repeat until the row has not changed meanwhile.

        If the change `is_new`, no edge has the row's version yet: it is put without reading first.
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
        raise contended(user_id, publisher_id)

    def change(
        self,
        pairs: Sequence[tuple[str, str]],
        decide: Callable[[Sequence[Follow], Asked], Verdict],
        asked: Asked,
        *,
        actor: str,
    ) -> list[Follow]:
        """Change the relations of these pairs (user, publisher) as `decide` says; returns them.

        It is told the time anew after each read: a frozen function may go on much later.

        When this returns, their edges agree with them, unless a message left one to RELATE. What
        ends something is never refused. But over the rate of the `actor`, a tombstone of what was
        never followed is not written: what was sent before it, and comes after it, takes effect.
        Raises what `decide` does, and `TooManyFollows`, `TooManyBlocks`, `TooOften`, `Contended`,
        and `TryLater` if an edge takes too long.
        """
        is_sent = False
        for _ in clock.tries(*STEP):
            seen = [self.follows.get(*pair) for pair in pairs]
            targets, also = decide(seen, asked._replace(now=clock.now_ms()))
            moves = list(zip(seen, targets, strict=True))
            counted = None if asked.by_message else self._counted(moves, actor, asked.at)
            if counted and (refusal := self._refusal(moves, counted, actor)):
                if [self.follows.get(*pair).version for pair in pairs] != [
                    each.version for each in seen
                ]:
                    continue  # it may be so already, by the same request that was repeated
                if is_begun(moves):
                    raise refusal
                return seen
            if counted and not is_begun(moves) and not self.follows.readers.count(actor, counted):
                continue
            if not is_sent:
                # Sent before anything changes, and received after this worker's time-out: wherever
                # the worker stops, RELATE reconciles the edge.
                for each in targets:
                    self._send(command_of(ReconcileRelation, each), delayed=True)
                is_sent = True
            changed = self._write(moves, counted, also)
            if changed is None:
                continue
            for (before, _), after in zip(moves, changed, strict=True):
                self._follow_up(after, asked, is_new=after.version > before.version)
            return changed
        raise contended(*pairs[-1])

    def _write(
        self, moves: Sequence[Move], counted: Counted | None, also: Sequence[Any]
    ) -> list[Follow] | None:
        """Write what changes; None if somebody else changed it meanwhile."""
        new = [(seen, target) for seen, target in moves if target is not seen]
        how = {"now_ms": clock.now_ms(), "max_follows": self.max_follows}
        written = self.follows.write(
            new, **how, counted=counted if is_begun(new) else None, also=also if new else ()
        )
        if written is None:
            return None
        return [written.pop(0) if target is not seen else seen for seen, target in moves]

    def _follow_up(self, row: Follow, asked: Asked, *, is_new: bool) -> None:
        try:
            done = self.reconcile(row.user_id, row.publisher_id, is_new=is_new)
        except TryLater:
            if not asked.by_message:
                raise
        else:
            if self.backfills and done.has_put and may_be_new(row, asked.at):
                self._backfill_now(row)

    def _counted(self, moves: Sequence[Move], actor: str, at_ms: int) -> Counted | None:
        if not self.rate or not is_counted(moves):
            return None
        # Read after the rows of the relations, as their marks require.
        return Counted(self.follows.readers.get(actor), self.rate, at_ms)

    def _refusal(self, moves: Sequence[Move], counted: Counted, actor: str) -> FanfoldError | None:
        begins = is_begun(moves)
        blocks = any(target.shuts > seen.shuts for seen, target in moves)
        if blocks and counted.reader.blocks >= MAX_BLOCKS:
            return too_many_blocks(actor)
        if begins and not blocks and counted.reader.follows >= self.max_follows:
            return too_many(actor, self.max_follows)
        if not counted.wait_ms:
            return None
        who = f"'{actor}'"
        return TooOften(
            f"{who} follows or blocks more users in a day than one user may; wait as long "
            f"as Retry-After says ({spoken(counted.wait_ms)}), then send the same request again.",
            wait_ms=counted.wait_ms,
            quoted=who,
        )

    def open(self, user_id: str, publisher_id: str) -> Follow:
        """Turn a request into a follow if its publisher is public; returns the relation then."""
        now = clock.now_ms()

        def decide(seen: Sequence[Follow], _: Asked) -> Verdict:
            (row,) = seen
            privacy = self.privacies.read(publisher_id)
            if row.must_wait(privacy):
                return [row], ()
            follow = opened(row, clock.now_ms())  # once it was public
            return [follow], [self.privacies.unchanged(publisher_id, privacy)]

        return self.change([(user_id, publisher_id)], decide, Asked(now, now), actor=user_id)[0]

    def _backfill_now(self, new: Follow) -> None:
        """Have RELATE backfill a new follow at once; otherwise it does so when it reconciles."""
        try:
            self._send(command_of(BackfillRelation, new))
        except Exception as error:
            if not is_transient(error):
                raise

    def _send(
        self, command: BackfillRelation | ReconcileRelation | OpenRequests, *, delayed: bool = False
    ) -> None:
        """Send RELATE a command; in a rush of follows of one publisher, only its group waits.

        A `delayed` one is received when this function's run has ended.
        """
        delay = self.reconcile_after_seconds if delayed else 0
        self.relation_queue.send(command.message(group=command.publisher_id, delay_seconds=delay))


def command_of(
    kind: type[BackfillRelation | ReconcileRelation], row: Follow
) -> BackfillRelation | ReconcileRelation:
    return kind(user_id=row.user_id, publisher_id=row.publisher_id)


def contended(user_id: str, publisher_id: str) -> Contended:
    who = f"'{user_id}'"
    return Contended(
        f"The relation of {who} to '{publisher_id}' changed too often meanwhile; try again.",
        quoted=who,
    )
