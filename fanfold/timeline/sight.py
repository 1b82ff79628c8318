"""QUERY: what one reader sees of a timeline: nothing of whom they have unfollowed or muted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from fanfold import clock
from fanfold.errors import TryLater
from fanfold.timeline import marks
from fanfold.timeline.entries import Entry
from fanfold.timeline.marks import Reader
from fanfold.timeline.picking import Show, Shown
from fanfold.timeline.readers import Readers, reader_of

if TYPE_CHECKING:
    from fanfold.aws.threads import Together

# Calls of BatchGetItem for the same rows, with jitter between them.
ATTEMPTS = 5
BACKOFF_SECONDS = 0.04

# Which of these publishers a user follows, read consistently, and which could not be read.
Followed: TypeAlias = Callable[[str, Collection[str]], tuple[set[str], set[str]]]


class Sights:
    """Makes the sight of each reader."""

    def __init__(self, readers: Readers, together: Together, followed: Followed) -> None:
        self.readers, self.together, self.followed = readers, together, followed

    def of(self, user_id: str, *, retention_days: int, reader: Reader | None = None) -> Sight:
        """For one page. Unless the user's row is given, the first Query reads it too."""
        return Sight(self, user_id, retention_days, reader)


class Sight:
    """One reader's, while one page is read.

    It is also the client of the timeline's store, so that the reader's row is read consistently
    beside the first Query of the page, and no page waits for it.
    """

    def __init__(
        self, sights: Sights, user_id: str, retention_days: int, reader: Reader | None
    ) -> None:
        self.reader = reader
        self._sights, self._user_id, self._retention_days = sights, user_id, retention_days
        self._now_ms = clock.now_ms()
        self._is_followed: dict[str, bool] = {}  # by publisher, as far as that was read

    def query(self, **request: Any) -> Any:
        """A Query of the timeline; the first one also reads the reader's row."""
        if self.reader is not None:
            return self._sights.together(("Query", request))[0]
        row = self._sights.readers.request(self._user_id)
        answer, found = self._sights.together(("Query", request), ("GetItem", row))
        self.reader = reader_of(found.get("Item", {}))
        return answer

    def unmarked(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Those of the entries that marks do not hide."""
        assert self.reader is not None
        hidden = marks.left_out(
            self.reader,
            {each.publisher_id for each in entries},
            now_ms=self._now_ms,
            retention_days=self._retention_days,
        )
        return [each for each in entries if each.publisher_id not in hidden] if hidden else entries

    def over(self, show: Show[Entry]) -> Show[Entry]:
        """Show what is also verified, where marks do not tell all; no post is read for the rest."""

        def shown(entries: Sequence[Entry], max_posts: int) -> Shown:
            verified = self._verified(entries)
            found = show(verified, max_posts)
            if found.looked_at == len(verified):
                return found._replace(looked_at=len(entries))
            return found._replace(looked_at=entries.index(verified[found.looked_at]))

        return shown

    def visible(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Those of up to 100 entries that the reader sees.

        Raises `TryLater` if whom the reader follows has to be read and cannot be.
        """
        return self._verified(self.unmarked(entries))

    def _verified(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        assert self.reader is not None
        if not marks.is_verifying(self.reader, now_ms=self._now_ms):
            return entries
        unknown = {each.publisher_id for each in entries} - self._is_followed.keys()
        if unknown:
            followed = self._followed(unknown)
            self._is_followed |= {each: each in followed for each in unknown}
        return [each for each in entries if self._is_followed[each.publisher_id]]

    def _followed(self, publisher_ids: set[str]) -> set[str]:
        found: set[str] = set()
        left = publisher_ids
        for _ in clock.tries(ATTEMPTS, BACKOFF_SECONDS):
            if left:
                more, left = self._sights.followed(self._user_id, left)
                found |= more
            if not left:
                return found
        raise TryLater("Whom you follow could not be read just now; try again.")
