"""The content of posts for pages and feeds, through a cache in the warm container."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cachetools import LRUCache, TTLCache

from fanfold import clock
from fanfold.aws.retries import STEP
from fanfold.errors import TryLater
from fanfold.ids import split_sort_key
from fanfold.json_text import Verbatim
from fanfold.timeline.entries import Entry
from fanfold.timeline.page_reads import Shown
from fanfold.timeline.posts import Post, Posts

# For this long, a container may show a retracted post, or leave out one that was missing;
# documented.
CACHE_SECONDS = 5
# At 5 KB each, 10 MB.
CACHE_POSTS = 2_000
# Retractions are final, so they are cached for the container's life; at 250 bytes each, 5 MB.
CACHE_RETRACTED = 20_000

# Cached in place of the content of an entry that is not to be shown.
_GONE: dict[str, Any] = {}


@dataclass(frozen=True)
class Hydration:
    """Reads the content of posts through a cache in the warm container.

    It holds publisher and content by the sort key of the entry that they were read for, so that
    they are never shown beside another entry with the same `ref_id`.
    """

    posts: Posts
    cache: MutableMapping[str, tuple[str, dict[str, Any]]] = field(
        default_factory=lambda: TTLCache(CACHE_POSTS, CACHE_SECONDS, timer=clock.Lasting())
    )
    retracted: MutableMapping[str, str] = field(  # publishers
        default_factory=lambda: LRUCache(CACHE_RETRACTED)
    )

    def show(self, entries: Sequence[Entry], max_posts: int) -> Shown:
        """The content of one reader's entries: fields by sort key, `body` as text.

        Reads at most `max_posts` posts, and looks at no entry beyond. An entry without content is
        not shown: its post was retracted or is gone, perhaps with another one in its place.
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
