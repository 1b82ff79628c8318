"""What one reader sees, page by page: nothing of publishers they have unfollowed or muted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from fanfold import clock, times
from fanfold.aws.retries import STEP
from fanfold.errors import TryLater
from fanfold.ids import split_sort_key
from fanfold.timeline import marks, paging
from fanfold.timeline.entries import Entries, Entry, checked, found
from fanfold.timeline.marks import Reader
from fanfold.timeline.page_reads import Range, Show, Shown, Source, Visible
from fanfold.timeline.paging import Asked
from fanfold.timeline.readers import Readers, reader_of

if TYPE_CHECKING:
    from typing import Protocol

    from fanfold.aws.items import Item
    from fanfold.aws.threads import Together
    from fanfold.timeline.post_cache import Hydration

    class SharedTimelines(Protocol):  # `channels.reading`; no cold start pays for the protocol
        """What a page shows besides the reader's own timeline, and the rows that takes."""

        source: Source[Entry]

        def wanted(self) -> dict[str, Any] | None: ...

        def receive(self, answer: Mapping[str, Any]) -> None: ...


# Which of these publishers a user follows, read consistently, and which could not be read.
Followed: TypeAlias = Callable[[str, Collection[str]], tuple[set[str], set[str]]]


class Visibility:
    """What the filters of all pages share; `shared` makes a page's view of channels."""

    def __init__(
        self,
        timelines: Entries,
        readers: Readers,
        together: Together,
        followed: Followed,
        retention_days: int,
        shared: Callable[[Source[Entry], PageFilter], SharedTimelines] | None = None,
        entry_days: int = 0,
    ) -> None:
        self.timelines, self.readers, self.together = timelines, readers, together
        self.followed, self.shared = followed, shared
        self.retention_days, self.entry_days = retention_days, entry_days


class PageFilter:
    """What one reader sees, while one page is read.

    The reader's row is read consistently beside the first Query of the page, so that no page waits
    for it.
    """

    def __init__(self, visibility: Visibility, user_id: str) -> None:
        self.user_id = user_id
        self.readers, self.together = visibility.readers, visibility.together
        self.reader: Reader | None = None
        self.has_row: bool  # set with the reader
        self._visibility, self._now_ms = visibility, clock.now_ms()
        self._is_followed: dict[str, bool] = {}  # by publisher, as far as that was read
        own = Source(self._newest, self._oldest)
        self._shared = visibility.shared(own, self) if visibility.shared else None
        self.source: Source[Entry] = self._shared.source if self._shared else own

    @property
    def since(self) -> str:
        """The time of the oldest post that is shown, or a moment before."""
        days = self._visibility.retention_days
        return times.to_text(self._now_ms - days * marks.DAY_SECONDS * 1000)

    def _newest(
        self, within: Range, *, before: str | None, limit: int
    ) -> tuple[Sequence[Entry], bool]:
        return self._query(within, before, limit, ScanIndexForward=False)

    def _oldest(
        self, within: Range, *, after: str | None, limit: int, is_consistent: bool
    ) -> tuple[Sequence[Entry], bool]:
        order = {"ScanIndexForward": True, "ConsistentRead": is_consistent}
        return self._query(within, after, limit, **order)

    def _query(
        self, within: Range, start: str | None, limit: int, **order: bool
    ) -> tuple[Sequence[Entry], bool]:
        """A Query of the reader's timeline; the first one also reads the reader's row."""
        timelines = self._visibility.timelines
        query = timelines.request(self.user_id, within, start=start, limit=limit, **order)
        call = "Query", query
        (answer,) = self.begin(call) if self.reader is None else self.together(call)
        entries, has_more = found(answer)
        is_up = order["ScanIndexForward"]
        return checked(entries, within, start=start, is_ascending=is_up), has_more

    def begin(self, *calls: tuple[str, dict[str, Any]]) -> Sequence[Any]:
        """Make calls, and at the same time read the reader's row, and what channels need."""
        row = self.readers.request(self.user_id)
        wanted = self._shared.wanted() if self._shared else None
        if self._shared and wanted:
            *answers, read = self.together(*calls, ("BatchGetItem", _with_row(wanted, row)))
            self._shared.receive(read)
            if row["TableName"] in read.get("UnprocessedKeys", {}):
                (read,) = self.together(("GetItem", row))
        else:
            *answers, read = self.together(*calls, ("GetItem", row))
        rows = read.get("Responses", {}).get(row["TableName"], ())
        item: Item = read.get("Item") or next(iter(rows), {})
        self.has_row = bool(item)
        self.reader = marks.checked(reader_of(item), now_ms=self._now_ms)
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
        days = max(self._visibility.retention_days, self._visibility.entry_days)
        return marks.left_out(reader, publisher_ids, now_ms=self._now_ms, retention_days=days)

    def over(self, show: Show[Entry]) -> Show[Entry]:
        """`show`, for verified entries only if marks do not tell all; others cost no read.

        It raises `TryLater` if follows must be read and cannot be.
        """

        def shown(entries: Sequence[Entry], max_posts: int) -> Shown:
            verified = self._verified(entries)
            some = show(verified, max_posts)
            if some.looked_at == len(verified):
                return some._replace(looked_at=len(entries))
            return some._replace(looked_at=entries.index(verified[some.looked_at]))

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
        followed: set[str] = set()
        left = publisher_ids
        for _ in clock.tries(*STEP):
            if left:
                more, left = self._visibility.followed(self.user_id, left)
                followed |= more
            if not left:
                return followed
        raise TryLater("Whom you follow could not be read just now; try again.")


def _with_row(wanted: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """The BatchGetItem that reads a row beside others, where GetItem would read it alone."""
    alone = {"Keys": [row["Key"]], "ConsistentRead": row["ConsistentRead"]}
    return {"RequestItems": {**wanted, row["TableName"]: alone}}


def ids_alone(entries: Sequence[Entry], _max_posts: int) -> Shown:
    """Show every entry, whatever became of its post."""
    return Shown({each.sort_key: {} for each in entries}, len(entries), 0)


@dataclass(frozen=True)
class Reading:
    """The use case behind the timeline route."""

    hydration: Hydration
    visibility: Visibility

    def page(self, user_id: str, asked: Asked, *, hydrate: bool = True) -> dict[str, Any]:
        """A page of what the user sees, with the content of each entry, or ids alone."""
        page_filter = PageFilter(self.visibility, user_id)
        show = self.hydration.show if hydrate else ids_alone
        return answer(
            page_filter.source,
            page_filter.over(show),
            asked,
            retention_days=self.visibility.retention_days,
            visible=page_filter.unmarked,
        )


def answer(
    source: Source[Entry],
    show: Show[Entry],
    asked: Asked,
    *,
    retention_days: int,
    visible: Visible[Entry] = lambda entries: entries,
) -> dict[str, Any]:
    """The answer with the requested page; what it shows ends with the retention.

    Raises `TryLater` if posts cannot be read now.
    """
    floor, now = shown_since(retention_days), times.to_text(clock.now_ms())
    page = paging.page(source, show, asked, floor=floor, now=now, visible=visible)
    return page.answer([_line(each, page.contents[each.sort_key]) for each in page.entries])


def shown_since(retention_days: int) -> str:
    """The time of the oldest post that is shown."""
    return times.to_text(clock.now_ms() - retention_days * marks.DAY_SECONDS * 1000)


def _line(entry: Entry, content: Mapping[str, Any]) -> dict[str, Any]:
    published_at, ref_id = split_sort_key(entry.sort_key)
    return {
        "ref_id": ref_id,
        "publisher_id": entry.publisher_id,
        "published_at": published_at,
        **content,
    }
