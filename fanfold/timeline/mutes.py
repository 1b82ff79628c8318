"""Mutes: publishers that a reader does not see for now, whether or not they are followed.

Two rows change in one transaction: the one with the names, which is listed, and the reader's own,
which every page reads and where a mute is a mark of eight bytes (`marks.py`). A follow or an
unfollow changes neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fanfold import clock, cursor
from fanfold.aws.items import binaries, expressions, number, text, texts
from fanfold.aws.transactions import transact
from fanfold.cursor import Cursor
from fanfold.errors import Contended, TooManyMutes
from fanfold.ids import is_id
from fanfold.timeline import marks
from fanfold.timeline.readers import Readers

# An attempt fails while another request changes one of the rows.
ATTEMPTS = 6
BACKOFF_SECONDS = 0.05


@dataclass(frozen=True)
class Mutes:
    """The use case behind the mute routes."""

    readers: Readers

    def mute(self, user_id: str, publisher_id: str) -> None:
        """Show nothing of the publisher from now on. Idempotent.

        Raises `TooManyMutes` and `Contended`.
        """
        has_room = (
            "attribute_not_exists(#publishers) OR contains(#publishers, :publisher) "
            "OR size(#publishers) < :most"
        )
        values = {":publisher": text(publisher_id), ":most": number(marks.MAX_MUTED)}
        if not self._change(user_id, publisher_id, "adds", condition=has_room, values=values):
            raise TooManyMutes(
                f"A user may mute at most {marks.MAX_MUTED} publishers, and '{user_id}' has; "
                "unmute one, then mute again."
            )

    def unmute(self, user_id: str, publisher_id: str) -> None:
        """Show the publisher's entries again. Idempotent. Raises `Contended`."""
        # Nothing is left to do for whoever never muted, and no empty row.
        self._change(user_id, publisher_id, "deletes", condition="attribute_exists(#user_id)")

    def list(
        self, user_id: str, *, limit: int, after: str | None
    ) -> tuple[Sequence[str], str | None]:
        """One page of whom the user has muted, in order, and the cursor to the next page."""
        last = cursor.decode(after, is_position=is_id).position if after is not None else ""
        request = self.readers.request(_names_of(user_id))
        item: Any = self.readers.client.get_item(**request).get("Item", {})
        muted = sorted(each for each in item.get("publishers", {}).get("SS", ()) if each > last)
        page = muted[:limit]
        return page, cursor.encode(Cursor.at(page[-1])) if len(muted) > limit else None

    def _change(self, user_id: str, publisher_id: str, verb: str, **condition: Any) -> bool:
        """Whether both rows are changed: not if the condition on the row with the names fails."""
        names: Any = {verb: {"publishers": texts([publisher_id])}, **condition}
        mark: Any = {verb: {"muted": binaries([marks.hash_of(publisher_id)])}}
        actions: Any = [
            {"Update": {**self._row(_names_of(user_id)), **expressions(**names)}},
            {"Update": {**self._row(user_id), **expressions(**mark)}},
        ]
        for _ in clock.tries(ATTEMPTS, BACKOFF_SECONDS):
            reasons = transact(self.readers.client, actions)
            if not reasons or "ConditionalCheckFailed" in reasons:
                return not reasons
        raise Contended("Other requests of yours kept changing the same row; try again.")

    def _row(self, user_id: str) -> dict[str, Any]:
        return {"TableName": self.readers.table, "Key": {"user_id": text(user_id)}}


def _names_of(user_id: str) -> str:
    """The key of the row with the names; no id contains a `#`."""
    return f"{user_id}#muted"
