"""QUERY: one page of a reader's own timeline, newest first."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cachetools import TTLCache

from fanfold import clock, cursor, times
from fanfold.errors import TryLater
from fanfold.ids import is_sort_key, split_sort_key
from fanfold.json_text import Verbatim
from fanfold.timeline.entries import Entries, Entry
from fanfold.timeline.posts import Post, Posts

# A container may show a retracted post for this long if it read the post just before; documented.
CACHE_SECONDS = 5
# At 5 KB each, 10 MB.
CACHE_POSTS = 2_000
# Calls of BatchGetItem for one page, with jitter between them: one may leave keys unprocessed.
ATTEMPTS = 5
BACKOFF_SECONDS = 0.04

_DAY_MS = 24 * 60 * 60 * 1000

# Cached in place of the content of an entry that is not to be shown.
_GONE = object()


def _cache() -> MutableMapping[str, tuple[str, Any]]:
    return TTLCache(CACHE_POSTS, CACHE_SECONDS, timer=clock.monotonic)


@dataclass(frozen=True)
class Hydration:
    """Reads the content of posts through a cache in the warm container.

    It holds publisher and content by the sort key of the entry that they were read for, so that
    they are never shown beside another entry with the same `ref_id`.
    """

    posts: Posts
    cache: MutableMapping[str, tuple[str, Any]] = field(default_factory=_cache)

    def contents(self, entries: Sequence[Entry]) -> dict[str, dict[str, Any]]:
        """What is shown of the posts of one reader's entries, by sort key.

        Entries that are not to be shown are left out: their post was retracted, or is gone, perhaps
        with another one in its place. Raises `TryLater` if posts cannot be read now.
        """
        found: dict[str, Any] = {}
        missing: dict[str, list[Entry]] = {}
        for entry in entries:
            sort_key, publisher_id, _ = entry
            try:
                cached_for, content = self.cache[sort_key]
            except KeyError:  # `in` could be true an instant before the entry expires
                cached_for = ""
            if cached_for == publisher_id:
                found[sort_key] = content
            else:
                missing.setdefault(split_sort_key(sort_key)[1], []).append(entry)
        for _ in clock.tries(ATTEMPTS, BACKOFF_SECONDS):
            if missing:
                posts, left = self.posts.get(missing)
                for ref_id in missing.keys() - left:
                    for entry in missing.pop(ref_id):
                        content = _content(posts.get(ref_id), entry)
                        self.cache[entry.sort_key] = entry.publisher_id, content
                        found[entry.sort_key] = content
            if not missing:
                return {key: content for key, content in found.items() if content is not _GONE}
        raise TryLater("The posts of this page could not be read just now; try again.")


def _content(post: Post | None, entry: Entry) -> Any:
    if post is None or post.deleted or not post.is_of(entry.publisher_id, entry.sort_key):
        return _GONE
    return shown(post)


def shown(post: Post) -> dict[str, Any]:
    """What every answer with the content of a post shows of it, whoever reads it."""
    return {"edited_at": post.edited_at or None, "body": Verbatim(post.body or "null")}


@dataclass(frozen=True)
class Reading:
    """The use case behind the timeline route."""

    timelines: Entries
    hydration: Hydration
    retention_days: int

    def page(
        self, user_id: str, *, limit: int, before: str | None, hydrate: bool = True
    ) -> dict[str, Any]:
        """A page of at most `limit` entries, older than the cursor `before` if one is given.

        `next` is the cursor for the following page, or None at the end. It is the position of the
        last entry *read*: leaving out entries of retracted posts does not end the timeline.
        """
        since = times.to_text(clock.now_ms() - self.retention_days * _DAY_MS)
        position = cursor.decode(before, is_position=is_sort_key) if before is not None else None
        if position is not None and position <= since:
            return {"entries": [], "next": None}  # DynamoDB rejects a start key outside the range
        # One entry more than the limit tells whether a next page exists, so that none is empty.
        entries, more = self.timelines.newest(
            user_id, since=since, before=position, limit=limit + 1
        )
        page = entries[:limit]
        more = more or len(entries) > limit
        lines: list[dict[str, Any]] = [
            {"ref_id": ref_id, "publisher_id": entry.publisher_id, "published_at": published_at}
            for entry in page
            for published_at, ref_id in [split_sort_key(entry.sort_key)]
        ]
        return {
            "entries": self._hydrated(page, lines) if hydrate else lines,
            "next": cursor.encode(page[-1].sort_key) if page and more else None,
        }

    def _hydrated(self, page: Sequence[Entry], lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        contents = self.hydration.contents(page)
        return [
            {**line, **contents[entry.sort_key]}
            for entry, line in zip(page, lines, strict=True)
            if entry.sort_key in contents
        ]
