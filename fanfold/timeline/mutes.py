"""Mutes: publishers that a reader does not see for now, whether or not they are followed.

Each transaction changes two rows: one lists the names; the other is the reader's own, which every
page reads and where a mute is a mark of eight bytes (`marks.py`). Follows and unfollows leave mutes
alone. The row with the names stores when the last change was requested, so a much older request
that arrives late changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fanfold import clock, cursor, times
from fanfold.aws.dynamodb import transact
from fanfold.aws.items import binaries, expressions, get_number, number, text, texts
from fanfold.aws.retries import STEP
from fanfold.cursor import Cursor
from fanfold.errors import Contended, MuteOvertaken, TooManyMutes
from fanfold.ids import is_id
from fanfold.timeline import marks
from fanfold.timeline.readers import Readers


class _Names(NamedTuple):
    """The row with the names, and the epoch millisecond of its last change."""

    publishers: Sequence[str]
    asked_at: int


@dataclass(frozen=True)
class Mutes:
    """The use case behind the mute routes."""

    readers: Readers

    def mute(self, user_id: str, publisher_id: str, *, asked_at: int) -> None:
        """Show nothing of the publisher from now on. Idempotent.

        `asked_at` is the epoch millisecond of the request. Raises `TooManyMutes`, `Contended`, and
        `MuteOvertaken` where a later request of the user was answered meanwhile.
        """
        self._change(user_id, publisher_id, "adds", asked_at)

    def unmute(self, user_id: str, publisher_id: str, *, asked_at: int) -> None:
        """Show the publisher's entries again; idempotent. Raises `Contended`, `MuteOvertaken`."""
        self._change(user_id, publisher_id, "deletes", asked_at)

    def list(
        self, user_id: str, *, limit: int, after: str | None
    ) -> tuple[Sequence[str], str | None]:
        """One page of the user's muted publishers, in order, and the cursor to the next page."""
        last = cursor.decode(after, is_position=is_id).position if after is not None else ""
        muted = sorted(each for each in self._names(user_id).publishers if each > last)
        page = muted[:limit]
        return page, cursor.encode(Cursor.at(page[-1])) if len(muted) > limit else None

    def _change(self, user_id: str, publisher_id: str, verb: str, asked_at: int) -> None:
        mark: Any = {verb: {"muted": binaries([marks.hash_of(publisher_id)])}}
        for _ in clock.tries(*STEP):  # one fails while another request changes a row
            seen = self._names(user_id)
            if seen.asked_at > asked_at + times.OVERTAKEN_MS:
                raise MuteOvertaken(
                    "A mute or unmute that you sent later was answered meanwhile; send this one "
                    "again if it still holds."
                )
            is_new = verb == "adds" and publisher_id not in seen.publishers
            if is_new and len(seen.publishers) >= marks.MAX_MUTED:
                raise TooManyMutes(
                    f"A user may mute at most {marks.MAX_MUTED} publishers, and '{user_id}' has; "
                    "unmute one, then mute again."
                )
            names: Any = {
                verb: {"publishers": texts([publisher_id])},
                # It rises with each change, so it also tells whether the row is as it was read.
                "sets": {"asked_at": number(max(asked_at, seen.asked_at + 1))},
                "condition": "#asked_at = :seen"
                if seen.asked_at
                else "attribute_not_exists(#asked_at)",
                "values": {":seen": number(seen.asked_at)} if seen.asked_at else {},
            }
            actions: Any = [
                {"Update": {**self._row(_names_of(user_id)), **expressions(**names)}},
                {"Update": {**self._row(user_id), **expressions(**mark)}},
            ]
            if not transact(self.readers.client, actions):
                return
        raise Contended("Other requests of yours kept changing the same row; try again.")

    def _names(self, user_id: str) -> _Names:
        request = self.readers.request(_names_of(user_id))
        item: Any = self.readers.client.get_item(**request).get("Item", {})
        return _Names(item.get("publishers", {}).get("SS", ()), get_number(item, "asked_at"))

    def _row(self, user_id: str) -> dict[str, Any]:
        return {"TableName": self.readers.table, "Key": {"user_id": text(user_id)}}


def _names_of(user_id: str) -> str:
    """The key of the row with the names; no id contains a `#`."""
    return f"{user_id}#muted"
