"""Pages of a reader's own timeline, newest first, downwards and upwards."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cachetools import LRUCache, TTLCache

from fanfold import clock, times
from fanfold.aws.retries import STEP
from fanfold.errors import TryLater
from fanfold.ids import split_sort_key
from fanfold.json_text import Verbatim
from fanfold.timeline import paging
from fanfold.timeline.entries import Entry
from fanfold.timeline.paging import Asked
from fanfold.timeline.picking import Show, Shown, Source, Visible
from fanfold.timeline.posts import Post, Posts
from fanfold.timeline.visibility import PageFilter, Visibility

# A container may show a retracted post for this long if it read the post just before, and take a
# post for missing; documented.
CACHE_SECONDS = 5
# At 5 KB each, 10 MB.
CACHE_POSTS = 2_000
# Retractions are final, so they are cached for the container's life; at 250 bytes each, 5 MB.
CACHE_RETRACTED = 20_000

_DAY_MS = 24 * 60 * 60 * 1000

# Cached in place of the content of an entry that is not to be shown.
_GONE: dict[str, Any] = {}


def _cache() -> MutableMapping[str, tuple[str, dict[str, Any]]]:
    return TTLCache(CACHE_POSTS, CACHE_SECONDS, timer=clock.Lasting())


def _retracted() -> MutableMapping[str, str]:
    return LRUCache(CACHE_RETRACTED)


@dataclass(frozen=True)
class Hydration:
    """Reads the content of posts through a cache in the warm container.

    It holds publisher and content by the sort key of the entry that they were read for, so that
    they are never shown beside another entry with the same `ref_id`.
    """

    posts: Posts
    cache: MutableMapping[str, tuple[str, dict[str, Any]]] = field(default_factory=_cache)
    retracted: MutableMapping[str, str] = field(default_factory=_retracted)  # publishers

    def show(self, entries: Sequence[Entry], max_posts: int) -> Shown:
        """The content of one reader's entries: fields by sort key, `body` as text.

        Reads at most so many posts, and looks at no entry beyond. Entries without content are not
        to be shown: their post was retracted, or is gone, perhaps with another one in its place.
        Raises `TryLater` if posts cannot be read now.
        """
        found: dict[str, dict[str, Any]] = {}
        unread: dict[str, list[Entry]] = {}  # by `ref_id`
        looked_at = 0
        for entry in entries:
            content = self._cached(entry)
            if content is not None:
                found[entry.sort_key] = content
            else:
                ref_id = split_sort_key(entry.sort_key)[1]
                if ref_id not in unread and len(unread) == max_posts:
                    break
                unread.setdefault(ref_id, []).append(entry)
            looked_at += 1
        read = len(unread)
        found |= self._read(unread)
        shown = {key: content for key, content in found.items() if content is not _GONE}
        return Shown(shown, looked_at, read)

    def _cached(self, entry: Entry) -> dict[str, Any] | None:
        sort_key, publisher_id, _ = entry
        if self.retracted.get(sort_key) == publisher_id:
            return _GONE
        try:
            cached_for, content = self.cache[sort_key]
        except KeyError:  # `in` could be true an instant before the entry expires
            return None
        return content if cached_for == publisher_id else None

    def _read(self, unread: dict[str, list[Entry]]) -> dict[str, dict[str, Any]]:
        """The content of entries by sort key, `_GONE` where there is none; empties `unread`."""
        found: dict[str, dict[str, Any]] = {}
        if not unread:
            return found
        for _ in clock.tries(*STEP):  # a call may leave keys unprocessed
            posts, left = self.posts.get(unread)
            for ref_id in unread.keys() - left:
                for entry in unread.pop(ref_id):
                    found[entry.sort_key] = self._content(posts.get(ref_id), entry)
            if not unread:
                return found
        raise TryLater("The posts of this page could not be read just now; try again.")

    def _content(self, post: Post | None, entry: Entry) -> dict[str, Any]:
        content = _content(post, entry)
        if post and post.deleted and post.publisher_id == entry.publisher_id:
            self.retracted[entry.sort_key] = entry.publisher_id
        else:
            self.cache[entry.sort_key] = entry.publisher_id, content
        return content


def _content(post: Post | None, entry: Entry) -> dict[str, Any]:
    if post is None or post.deleted or not post.is_of(entry.publisher_id, entry.sort_key):
        return _GONE
    if post.has_ended(clock.now_ms()):  # filled in by a follow, after the retention was raised
        return _GONE
    return shown(post)


def shown(post: Post) -> dict[str, Any]:
    """What every answer with the content of a post shows of it."""
    return {"edited_at": post.edited_at or None, "body": Verbatim(post.body or "null")}


def ids_alone(entries: Sequence[Entry], _max_posts: int) -> Shown:
    """Show every entry, whatever became of its post."""
    return Shown(dict.fromkeys((each.sort_key for each in entries), _GONE), len(entries), 0)


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
    """The page that is asked for, as its reader is answered; what it shows ends with the retention.

    Raises `TryLater` if posts cannot be read now.
    """
    floor, now = shown_since(retention_days), times.to_text(clock.now_ms())
    page = paging.page(source, show, asked, floor=floor, now=now, visible=visible)
    return page.answer([_line(each, page.contents[each.sort_key]) for each in page.entries])


def shown_since(retention_days: int) -> str:
    """The time of the oldest post that is shown."""
    return times.to_text(clock.now_ms() - retention_days * _DAY_MS)


def _line(entry: Entry, content: Mapping[str, Any]) -> dict[str, Any]:
    published_at, ref_id = split_sort_key(entry.sort_key)
    return {
        "ref_id": ref_id,
        "publisher_id": entry.publisher_id,
        "published_at": published_at,
        **content,
    }
