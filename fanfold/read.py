"""QUERY: one page of a reader's own timeline, newest first."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cachetools import TTLCache

from fanfold import clock, cursor, times
from fanfold.errors import TryLater
from fanfold.ids import is_sort_key
from fanfold.posts import Post, Posts
from fanfold.timelines import Entry, Timelines

# A retracted post may be shown for so long by a container that read it just before; documented.
CACHE_SECONDS = 5
# At 5 KB a post, 10 MB.
CACHE_POSTS = 2_000
# Keys that BatchGetItem leaves for another call are asked for again so often, with jitter.
ATTEMPTS = 5
BACKOFF_SECONDS = 0.02

_DAY_MS = 24 * 60 * 60 * 1000


def _cache() -> MutableMapping[str, Post | None]:
    return TTLCache(CACHE_POSTS, CACHE_SECONDS, timer=clock.monotonic)


@dataclass(frozen=True)
class Hydration:
    """Puts the content beside the entries. None stands for a post that is not to be shown."""

    posts: Posts
    cache: MutableMapping[str, Post | None] = field(default_factory=_cache)

    def hydrate(self, entries: list[Entry]) -> list[tuple[Entry, Post | None]]:
        """Each entry with its post, or None where the post is retracted or gone."""
        found: dict[str, Post | None] = {}
        for entry in entries:
            with suppress(KeyError):  # not in the cache, or too old since a moment ago
                found[entry.ref_id] = self.cache[entry.ref_id]
        missing = {e.ref_id for e in entries} - found.keys()
        for attempt in range(ATTEMPTS):
            if not missing:
                return [(entry, found[entry.ref_id]) for entry in entries]
            if attempt:
                clock.sleep(clock.chance() * BACKOFF_SECONDS * 2**attempt)
            posts, left = self.posts.get(missing)
            for ref_id in missing - left:
                post = posts.get(ref_id)
                found[ref_id] = post if post and not post.deleted else None
                self.cache[ref_id] = found[ref_id]
            missing = left
        raise TryLater("The posts of this page could not be read just now; try again.")


@dataclass(frozen=True)
class Reading:
    """The use case behind the timeline route."""

    timelines: Timelines
    hydration: Hydration
    retention_days: int

    def page(
        self, user_id: str, *, limit: int, before: str | None, hydrate: bool = True
    ) -> dict[str, Any]:
        """A page of at most `limit` entries, older than the cursor `before` if one is given.

        `next` is the cursor to pass as `before` for the page after it, or None at the end. It names
        the last entry *looked at*, so entries of retracted posts, which are left out, end nothing.
        """
        since = times.to_text(clock.now_ms() - self.retention_days * _DAY_MS)
        position = cursor.decode(before, is_position=is_sort_key) if before is not None else None
        if position is not None and position <= since:
            return {"entries": [], "next": None}  # DynamoDB refuses to start beyond the range
        # One more than asked tells whether there is a next page, without an empty one at the end.
        entries, more = self.timelines.newest(
            user_id, since=since, before=position, limit=limit + 1
        )
        page = entries[:limit]
        more = more or len(entries) > limit
        return {
            "entries": self._shown(page) if hydrate else [_line(entry) for entry in page],
            "next": cursor.encode(page[-1].sort_key) if page and more else None,
        }

    def _shown(self, entries: list[Entry]) -> list[dict[str, Any]]:
        return [
            {**_line(entry), "body": json.loads(post.body) if post.body else None}
            for entry, post in self.hydration.hydrate(entries)
            if post
        ]


def _line(entry: Entry) -> dict[str, Any]:
    return {
        "ref_id": entry.ref_id,
        "publisher_id": entry.publisher_id,
        "published_at": entry.published_at,
    }
