"""What one reader sees of a timeline: nothing of whom they have unfollowed or muted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from fanfold import clock, times
from fanfold.channels.head import Head
from fanfold.errors import TryLater
from fanfold.timeline import marks
from fanfold.timeline.entries import Entries, Entry
from fanfold.timeline.marks import Reader
from fanfold.timeline.picking import Show, Shown, Source
from fanfold.timeline.readers import Readers, reader_of

if TYPE_CHECKING:
    from fanfold.aws.items import Item
    from fanfold.aws.threads import Together
    from fanfold.channels.reading import ChannelReading

# Calls of BatchGetItem for the same rows, with jitter between them.
ATTEMPTS = 5
BACKOFF_SECONDS = 0.04

# Which of these publishers a user follows, read consistently, and which could not be read.
Followed: TypeAlias = Callable[[str, Collection[str]], tuple[set[str], set[str]]]


class Visibility:
    """Makes the sight of each reader, who with `channels` sees these as well."""

    def __init__(
        self,
        readers: Readers,
        together: Together,
        followed: Followed,
        channels: ChannelReading | None = None,
        entry_days: int = 0,
    ) -> None:
        self.readers, self.together, self.followed = readers, together, followed
        self.channels, self.entry_days = channels, entry_days

    def of(self, user_id: str, *, retention_days: int) -> PageFilter:
        """For one page."""
        return PageFilter(self, user_id, retention_days)


class PageFilter:
    """One reader's, while one page is read.

    It is also the client of the timeline's store, so that the reader's row is read consistently
    beside the first Query of the page, and no page waits for it.
    """

    def __init__(self, sights: Visibility, user_id: str, retention_days: int) -> None:
        self.user_id, self.readers, self.together = user_id, sights.readers, sights.together
        self.reader: Reader | None = None
        self.has_row: bool  # set with the reader
        self.head: Head  # likewise
        self._sights, self._retention_days = sights, retention_days
        self._now_ms = clock.now_ms()
        self._is_followed: dict[str, bool] = {}  # by publisher, as far as that was read

    @property
    def since(self) -> str:
        """The time of the oldest post that is shown, or a moment before."""
        return times.to_text(self._now_ms - self._retention_days * marks.DAY_SECONDS * 1000)

    def source(self, timelines: Entries) -> Source[Entry]:
        """The reader's timeline, the first Query of which reads the row as well."""
        mine = replace(timelines, client=cast("Any", self))
        own = Source(partial(mine.newest, self.user_id), partial(mine.oldest, self.user_id))
        channels = self._sights.channels
        return channels.union(own, self) if channels else own

    def query(self, **request: Any) -> Any:
        """A Query of the timeline; the first one also reads the reader's row."""
        if self.reader is not None:
            return self.together(("Query", request))[0]
        return self.begin(("Query", request))[0]

    def begin(self, *calls: tuple[str, dict[str, Any]]) -> Sequence[Any]:
        """Make calls, and beside them read the reader's row and, if it is time, the head."""
        row = self.readers.request(self.user_id)
        channels = self._sights.channels
        asked = channels.head.request() if channels else None
        if channels and asked:
            *answers, found = self.together(*calls, ("BatchGetItem", _with_row(asked.wanted, row)))
            self.head = channels.head.receive(asked, found)
            if row["TableName"] in found.get("UnprocessedKeys", {}):
                (found,) = self.together(("GetItem", row))
        else:
            self.head = channels.head.cached if channels else Head()
            *answers, found = self.together(*calls, ("GetItem", row))
        items = [found["Item"]] if "Item" in found else _items(found, row["TableName"])
        self.has_row = bool(items)
        self.reader = reader_of(items[0] if items else {})
        return answers

    def unmarked(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Those of the entries that marks do not hide."""
        assert self.reader is not None
        hidden = self._left_out(self.reader, {each.publisher_id for each in entries})
        return [each for each in entries if each.publisher_id not in hidden] if hidden else entries

    def unfollowed_among(self, publisher_ids: set[str]) -> set[str]:
        """Those of the publishers that the reader has unfollowed, as far as marks tell."""
        assert self.reader is not None
        return self._left_out(self.reader._replace(muted=()), publisher_ids)

    def _left_out(self, reader: Reader, publisher_ids: set[str]) -> set[str]:
        days = max(self._retention_days, self._sights.entry_days)
        return marks.left_out(reader, publisher_ids, now_ms=self._now_ms, retention_days=days)

    def over(self, show: Show[Entry]) -> Show[Entry]:
        """Show what is also verified, where marks do not tell all; no post is read for the rest.

        It raises `TryLater` if whom the reader follows has to be read and cannot be.
        """

        def shown(entries: Sequence[Entry], max_posts: int) -> Shown:
            verified = self._verified(entries)
            found = show(verified, max_posts)
            if found.looked_at == len(verified):
                return found._replace(looked_at=len(entries))
            return found._replace(looked_at=entries.index(verified[found.looked_at]))

        return shown

    def _verified(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        assert self.reader is not None
        if not marks.is_verifying(self.reader, now_ms=self._now_ms):
            return entries
        followed = self.followed_among({each.publisher_id for each in entries})
        return [each for each in entries if each.publisher_id in followed]

    def followed_among(self, publisher_ids: set[str]) -> set[str]:
        """Those of the publishers that the reader follows; each is read once a page.

        Raises `TryLater`.
        """
        unknown = publisher_ids - self._is_followed.keys()
        if unknown:
            followed = self._followed(unknown)
            self._is_followed |= {each: each in followed for each in unknown}
        return {each for each in publisher_ids if self._is_followed[each]}

    def _followed(self, publisher_ids: set[str]) -> set[str]:
        found: set[str] = set()
        left = publisher_ids
        for _ in clock.tries(ATTEMPTS, BACKOFF_SECONDS):
            if left:
                more, left = self._sights.followed(self.user_id, left)
                found |= more
            if not left:
                return found
        raise TryLater("Whom you follow could not be read just now; try again.")


def _with_row(wanted: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """The BatchGetItem that reads a row beside others, where GetItem would read it alone."""
    alone = {"Keys": [row["Key"]], "ConsistentRead": row["ConsistentRead"]}
    return {"RequestItems": {**wanted, row["TableName"]: alone}}


def _items(answer: Mapping[str, Any], table: str) -> Sequence[Item]:
    found: Sequence[Item] = answer.get("Responses", {}).get(table, ())
    return found
