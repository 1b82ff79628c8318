"""What a user decides: whom to follow."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from fanfold import clock, cursor
from fanfold.aws.retries import STEP
from fanfold.cursor import Cursor
from fanfold.errors import Contended, NoRequest
from fanfold.follows.relation import FOLLOWED, REQUESTED, Asked, Follow, Privacy, granted
from fanfold.follows.relations import Reconciled, Relations, Verdict, command_of, contended
from fanfold.ids import is_id
from fanfold.messages import BackfillRelation

# Rows read for one page of follows: many at a time, because tombstones are among them, but at most
# ten times, because a user with thousands of tombstones would use up the door's 10 s.
PAGE = 200
MAX_PAGES = 10


@dataclass(frozen=True)
class Following(Relations):
    """The use case behind the follow routes, the follow messages and RELATE."""

    def follow(
        self,
        user_id: str,
        publisher_id: str,
        *,
        asked_at: int,
        by_message: bool = False,
        approves: bool = False,
    ) -> Follow:
        """Follow, or ask a private publisher to; idempotent.

        When this returns a follow, every publish accepted from now on reaches the user, unless a
        later request stays in effect (relation.py). `asked_at` is the epoch millisecond of the
        request. `by_message`, an edge that cannot be put now is left to RELATE. A message that
        `approves` comes with the publisher's approval. Raises `TooManyFollows`, `TooOften`,
        `BlockedByYou` and `Contended`.
        """
        asked = Asked(asked_at, clock.now_ms(), by_message)

        def decide(seen: Sequence[Follow], asked: Asked) -> Verdict:
            return [granted(seen[0], True, asked, privacy_of=self._privacy, approves=approves)], ()

        return self.change([(user_id, publisher_id)], decide, asked, actor=user_id)[0]

    def unfollow(
        self, user_id: str, publisher_id: str, *, asked_at: int, by_message: bool = False
    ) -> Follow:
        """Stop following, or take back a request; the arguments are those of `follow`.

        It is never refused (`Relations.change`). Raises `Contended`.
        """
        asked = Asked(asked_at, clock.now_ms(), by_message)
        pair = user_id, publisher_id
        return self.change(
            [pair], lambda seen, now: ([granted(seen[0], False, now)], ()), asked, actor=user_id
        )[0]

    def relation(self, user_id: str, publisher_id: str) -> Follow:
        """The follow, or the request. Raises `NoRequest` if there is neither."""
        row = self.follows.get(user_id, publisher_id)
        if not row.has_place:
            who = f"'{publisher_id}'"
            raise NoRequest(
                f"You neither follow {who} nor have asked to; follow first.", quoted=who
            )
        return row

    def must_ask(self, row: Follow) -> bool:
        """Whether a request to follow would have to wait for the publisher's approval."""
        return row.shut or (row.needs_privacy and self._privacy(row).is_private)

    def _privacy(self, row: Follow) -> Privacy:
        return self.privacies.known(row.publisher_id, at_least=row.privacy)

    def settle(self, user_id: str, publisher_id: str) -> Reconciled:
        """Reconcile for RELATE, with the edge and with what the user's row says of a channel.

        A post that was accepted just before its edge was put may reach the outbox after it. So
        each function that puts an edge has RELATE make a second pass, and so does RELATE itself.

        A request may have been written by a function that did not know yet that its publisher had
        gone public, after RELATE had opened those that waited: it is opened here.
        """
        done = self.reconcile(user_id, publisher_id)
        if done.row.is_listed and not done.row.must_wait(self.privacies.read(publisher_id)):
            with suppress(Contended):  # it has sent another command; this one need not come again
                self.open(user_id, publisher_id)
            done = self.reconcile(user_id, publisher_id)
        self._note_channel(done.row)
        if done.has_put and self.backfills:
            self._send(command_of(BackfillRelation, done.row), delayed=True)
        return done

    def _note_channel(self, row: Follow) -> None:
        for _ in clock.tries(*STEP):
            if self.follows.note_channel(row, now_ms=clock.now_ms()):
                return
            row = self.follows.get(row.user_id, row.publisher_id)
        raise contended(row.user_id, row.publisher_id)

    def list(
        self, user_id: str, *, limit: int, after: str | None, state: str = FOLLOWED
    ) -> tuple[list[Follow], str | None]:
        """One page of a user's follows, or requests, in order of publisher, and the next cursor.

        Tombstones are left out, and the page is filled from the rows after them.
        """
        last = cursor.decode(after, is_position=is_id).position if after is not None else None
        found: list[Follow] = []
        for _ in range(MAX_PAGES):
            rows, more = self.follows.page(user_id, after=last, limit=PAGE)
            found += [row for row in rows if row.state == state]
            last = rows[-1].publisher_id if rows else last
            if len(found) > limit:
                return found[:limit], cursor.encode(Cursor.at(found[limit - 1].publisher_id))
            if not more:
                return found, None
        # Too many tombstones: a short page that is not the last.
        return found, cursor.encode(Cursor.at(last)) if last else None

    def count(self, user_id: str, state: str = FOLLOWED) -> int:
        """How many publishers the user follows, or has asked to, read consistently."""
        reader = self.follows.readers.get(user_id)
        # Below 0 after a restore, until the count is right again.
        return max(0, reader.requests if state == REQUESTED else reader.follows - reader.requests)
