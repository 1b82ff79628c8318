"""What a publisher decides: who may follow it, and whom it blocks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from fanfold import clock, cursor
from fanfold.aws.retries import STEP
from fanfold.cursor import Cursor
from fanfold.errors import BadInput, Contended, NoRequest, TryLater
from fanfold.follows.follows_table import Waiting
from fanfold.follows.relation import (
    Asked,
    Follow,
    Privacy,
    approved,
    blocked,
    chosen,
    removed,
    unblocked,
)
from fanfold.follows.relations import Relations, Verdict
from fanfold.ids import is_id
from fanfold.messages import OpenRequests

# Requests that one command opens: three seconds, at 30 ms each.
PAGE = 100


def is_place(text: str) -> bool:
    """Whether this is a place in a list of requests."""
    return Waiting.of(text) is not None


@dataclass(frozen=True)
class Audience(Relations):
    """The use case behind the routes and messages of publishers about their followers.

    `asked_at` is the epoch millisecond of a request. All verbs are idempotent, and raise
    `Contended`.
    """

    def approve(
        self, publisher_id: str, user_id: str, *, asked_at: int, by_message: bool = False
    ) -> Follow:
        """Turn a request into a follow. Raises `NoRequest` if there is neither.

        By a message, only if the request may still come; otherwise nothing changes.
        """
        _check_others(publisher_id, user_id)
        asked = Asked(asked_at, clock.now_ms(), by_message)

        def decide(seen: Sequence[Follow], asked: Asked) -> Verdict:
            (row,) = seen
            target = approved(row, asked)
            is_over = row.has_place or row.shut or row.shuts or asked.is_late(row.left_at)
            if target is row and not row.is_active and not (is_over and by_message):
                who = f"'{user_id}'"
                none = f"No request of {who} to follow you waits; list those that do."
                anew = f"{who} has asked anew since; approve again."
                raise NoRequest(anew if row.is_listed else none, quoted=who)
            return [target], ()

        return self.change([(user_id, publisher_id)], decide, asked, actor=publisher_id)[0]

    def remove(
        self, publisher_id: str, user_id: str, *, asked_at: int, by_message: bool = False
    ) -> None:
        """Deny a request, or remove a follower; it is never refused (`Relations.change`)."""
        _check_others(publisher_id, user_id)
        asked = Asked(asked_at, clock.now_ms(), by_message)

        def decide(seen: Sequence[Follow], asked: Asked) -> Verdict:
            return [removed(seen[0], asked, privacy=self.privacies.read(publisher_id).version)], ()

        self.change([(user_id, publisher_id)], decide, asked, actor=publisher_id)

    def block(
        self, user_id: str, other_id: str, *, asked_at: int, by_message: bool = False
    ) -> None:
        """End all that is between the user and the other, and keep it from beginning again.

        Raises `TooManyBlocks` and `TooOften` if it ends nothing.
        """
        self._shut(user_id, other_id, True, Asked(asked_at, clock.now_ms(), by_message))

    def unblock(
        self, user_id: str, other_id: str, *, asked_at: int, by_message: bool = False
    ) -> None:
        """Undo a block; nothing that it has ended begins again."""
        self._shut(user_id, other_id, False, Asked(asked_at, clock.now_ms(), by_message))

    def _shut(self, user_id: str, other_id: str, shut: bool, asked: Asked) -> None:
        _check_others(user_id, other_id)
        decided = blocked if shut else unblocked

        def decide(seen: Sequence[Follow], asked: Asked) -> Verdict:
            theirs, mine = seen
            privacy = self.privacies.read(user_id).version
            return decided(theirs, mine, asked, privacy=privacy), ()

        self.change([(other_id, user_id), (user_id, other_id)], decide, asked, actor=user_id)

    def choose(self, publisher_id: str, *, is_private: bool, asked_at: int) -> Privacy:
        """Go private, or public; returns the privacy then.

        Going public opens the requests that wait: RELATE is told before it, and once more after it.
        To be public already tells nothing: the order from before the change is under way.
        """
        asked = Asked(asked_at, clock.now_ms())
        command, is_sent = OpenRequests(publisher_id=publisher_id), False
        for _ in clock.tries(*STEP):
            seen = self.privacies.read(publisher_id)
            new = chosen(seen, is_private, asked._replace(now=clock.now_ms()))
            opens = new.version > seen.version and not new.is_private
            if opens and not is_sent:
                self._send(command, delayed=True)
                is_sent = True
            if new is seen or self.privacies.replace(publisher_id, seen, new):
                if opens:
                    self._send(command)
                return new
        who = f"'{publisher_id}'"
        raise Contended(f"The privacy of {who} changed too often; try again.", quoted=who)

    def open_all(self, publisher_id: str, after: str, *, stop_at: float) -> None:
        """Open a page of the requests that wait for a publisher who went public, behind `after`.

        One by one, since each checks the same row. RELATE is told of those that are left, on later
        pages or at `stop_at` of the monotonic clock. A request that cannot be opened now holds up
        no other, and lengthens no page: its own command, which `open` sends before it changes
        anything, opens it when it settles. Raises `BadInput`.
        """
        if after and not is_place(after):
            raise BadInput("'after' is no place in a list of requests.")
        if self.privacies.read(publisher_id).is_private:
            return
        found, more = self.follows.requests(publisher_id, after=after or None, limit=PAGE)
        for waiting in filter(None, map(Waiting.of, found)):
            if clock.monotonic() >= stop_at:
                more = True
                break
            with suppress(TryLater):
                row = self.open(waiting.user_id, publisher_id)
                # It may also have been decided with a later privacy, which a restore has lost.
                if row.is_listed and self.privacies.read(publisher_id).is_private:
                    return
            after = waiting.place
        if more:
            self._send(OpenRequests(publisher_id=publisher_id, after=after))

    def requests(
        self, publisher_id: str, *, limit: int, after: str | None
    ) -> tuple[list[Waiting], str | None]:
        """One page of who asks to follow, newest first, and the cursor to the next page."""
        last = cursor.decode(after, is_position=is_place).position if after is not None else None
        found, end = _page(*self.follows.requests(publisher_id, after=last, limit=limit))
        return [each for each in map(Waiting.of, found) if each], end

    def blocks(
        self, user_id: str, *, limit: int, after: str | None
    ) -> tuple[list[str], str | None]:
        """One page of whom the user blocks, in order of id, and the cursor to the next page."""
        last = cursor.decode(after, is_position=is_id).position if after is not None else None
        return _page(*self.follows.blocks(user_id, after=last, limit=limit))


def _check_others(user_id: str, other_id: str) -> None:
    if user_id == other_id:
        raise BadInput("That is your own id; name another user.")


def _page(found: list[str], more: bool) -> tuple[list[str], str | None]:
    return found, cursor.encode(Cursor.at(found[-1])) if more and found else None
