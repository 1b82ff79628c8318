"""QUERY: posts apart from timelines, as their readers see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fanfold import clock, names, times
from fanfold.errors import NoPost
from fanfold.timeline.posts import Post, Posts
from fanfold.timeline.read import Hydration, shown

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True)
class Feeds:
    """The use case behind the routes of single posts and of publishers' own feeds.

    `readers` is one of `names.POST_READERS`. What it shows ends with the retention, as in
    timelines.
    """

    posts: Posts
    hydration: Hydration
    retention_days: int
    readers: str

    def post(self, user_id: str, ref_id: str) -> dict[str, Any]:
        """One post, as it is now: no cache has it. Raises `NoPost`, always in the same words."""
        post = self.posts.one(ref_id)
        if post is None or not self._may_read(user_id, post.publisher_id) or self._is_gone(post):
            raise NoPost(
                f"There is no post '{ref_id}' that you may read; it was never published, was "
                "retracted, or has expired, or only its publisher may read it here."
            )
        return {
            "ref_id": post.ref_id,
            "publisher_id": post.publisher_id,
            "published_at": post.published_at,
            **shown(post),
        }

    def _may_read(self, user_id: str, publisher_id: str) -> bool:
        return self.readers == names.USERS or user_id == publisher_id

    def _is_gone(self, post: Post) -> bool:
        # DynamoDB may not have deleted an expired row, and a changed retention moves none.
        is_over = post.sort_key <= self._floor() or post.expires_at * 1000 <= clock.now_ms()
        return post.deleted or is_over

    def _floor(self) -> str:
        """The time at which what is shown begins."""
        return times.to_text(clock.now_ms() - self.retention_days * _DAY_MS)
