"""Posts apart from timelines, as their readers see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from fanfold import clock, names
from fanfold.errors import FeedClosed, NoPost
from fanfold.timeline.outbox import Outbox
from fanfold.timeline.page_reads import Source
from fanfold.timeline.paging import Asked
from fanfold.timeline.post_cache import Hydration, shown
from fanfold.timeline.posts import Post, Posts
from fanfold.timeline.visibility import answer, ids_alone, shown_since

CLOSED = (
    "Follow the publisher to find its posts in your timeline; a private one has to approve you."
)


@dataclass(frozen=True)
class Feeds:
    """The use case behind the routes of single posts and of publishers' own feeds.

    `readers` is one of `names.READER_KINDS`. As in timelines, posts end with the retention.
    """

    posts: Posts
    outbox: Outbox
    hydration: Hydration
    retention_days: int
    readers: str
    # Whether a user may see what was read of a publisher before this call.
    may_see: Callable[[str, str], bool]

    def post(self, user_id: str, ref_id: str) -> dict[str, Any]:
        """One post, read past all caches. Raises `NoPost`, always in the same words."""
        post = self.posts.one(ref_id)
        if (
            post is None
            or not self._may_read(user_id, post.publisher_id)
            or self._is_gone(post)
            or not self.may_see(user_id, post.publisher_id)
        ):
            raise NoPost(
                f"There is no post '{ref_id}' that you may read; it was never published, was "
                "retracted, or has expired, or is not for you to read here."
            )
        return {
            "ref_id": post.ref_id,
            "publisher_id": post.publisher_id,
            "published_at": post.published_at,
            **shown(post),
        }

    def page(
        self, user_id: str, publisher_id: str, asked: Asked, *, hydrate: bool = True
    ) -> dict[str, Any]:
        """A page of a publisher's own posts, in the form of a timeline's. Raises `FeedClosed`.

        The page of an unknown publisher is empty.
        """
        if not self._may_read(user_id, publisher_id):
            raise FeedClosed(CLOSED)
        source = Source(
            partial(self.outbox.newest, publisher_id), partial(self.outbox.oldest, publisher_id)
        )
        show = self.hydration.show if hydrate else ids_alone
        page = answer(source, show, asked, retention_days=self.retention_days)
        if not self.may_see(user_id, publisher_id):
            raise FeedClosed(CLOSED)
        return page

    def _may_read(self, user_id: str, publisher_id: str) -> bool:
        return self.readers == names.USERS or user_id == publisher_id

    def _is_gone(self, post: Post) -> bool:
        # A changed retention does not change the end of stored rows.
        is_over = post.sort_key <= shown_since(self.retention_days)
        return post.deleted or is_over or post.has_ended(clock.now_ms())
