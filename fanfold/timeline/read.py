"""QUERY: one page of a reader's own timeline, newest first."""

from __future__ import annotations

import json
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cachetools import TTLCache

from fanfold import clock, cursor, times
from fanfold.errors import TryLater
from fanfold.ids import is_sort_key, split_sort_key
from fanfold.timeline.entries import Entries
from fanfold.timeline.posts import Post, Posts

# A container may show a retracted post for this long if it read the post just before; documented.
CACHE_SECONDS = 5
# At 5 KB each, 10 MB.
CACHE_POSTS = 2_000
# Calls of BatchGetItem for one page, with jitter between them: one may leave keys unprocessed.
ATTEMPTS = 5
BACKOFF_SECONDS = 0.04

_DAY_MS = 24 * 60 * 60 * 1000

# Cached in place of the body of a post that is not to be shown: retracted or missing.
_GONE = object()


def _cache() -> MutableMapping[str, Any]:
    return TTLCache(CACHE_POSTS, CACHE_SECONDS, timer=clock.monotonic)


@dataclass(frozen=True)
class Hydration:
    """Reads the content of posts through a cache in the warm container."""

    posts: Posts
    cache: MutableMapping[str, Any] = field(default_factory=_cache)

    def bodies(self, ref_ids: Sequence[str]) -> dict[str, Any]:
        """The bodies by `ref_id`; None for a post without a body.

        Posts that are not to be shown are left out. Raises `TryLater` if posts cannot be read now.
        """
        found: dict[str, Any] = {}
        missing: set[str] = set()
        for ref_id in ref_ids:
            try:
                found[ref_id] = self.cache[ref_id]
            except KeyError:  # `in` could be true an instant before the entry expires
                missing.add(ref_id)
        for _ in clock.tries(ATTEMPTS, BACKOFF_SECONDS):
            if missing:
                posts, left = self.posts.get(missing)
                for ref_id in missing - left:
                    found[ref_id] = self.cache[ref_id] = _body(posts.get(ref_id))
                missing = left
            if not missing:
                return {ref_id: body for ref_id, body in found.items() if body is not _GONE}
        raise TryLater("The posts of this page could not be read just now; try again.")


def _body(post: Post | None) -> Any:
    if post is None or post.deleted:
        return _GONE
    return json.loads(post.body) if post.body else None


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
        lines = [
            {"ref_id": ref_id, "publisher_id": entry.publisher_id, "published_at": published_at}
            for entry in page
            for published_at, ref_id in [split_sort_key(entry.sort_key)]
        ]
        return {
            "entries": self._hydrated(lines) if hydrate else lines,
            "next": cursor.encode(page[-1].sort_key) if page and more else None,
        }

    def _hydrated(self, lines: list[dict[str, str]]) -> list[dict[str, Any]]:
        bodies = self.hydration.bodies([line["ref_id"] for line in lines])
        return [
            {**line, "body": bodies[line["ref_id"]]} for line in lines if line["ref_id"] in bodies
        ]
