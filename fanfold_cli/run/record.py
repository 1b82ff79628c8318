"""Records requests and answers of a run, and derives who followed whom when. Pure.

It asks nothing inside the service. Times are epoch seconds of this machine. Overlapping requests
may have been applied in either order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

Pair: TypeAlias = tuple[str, str]  # a reader and a publisher
Key: TypeAlias = tuple[str, str]  # a post's `published_at` and `ref_id`: the order of timelines


class Request(NamedTuple):
    """A request to follow or mute (`wanted`), or to end that, with its retries."""

    wanted: bool
    begun: float
    ended: float  # answered with success


def surely(requests: Sequence[Request], begun: float, ended: float) -> bool | None:
    """Whether the requests were in effect throughout an interval, or never; None if unknown."""
    before = [each for each in requests if each.ended < begun]
    # This request overrides those that were answered before it began.
    last_begun = max((each.begun for each in before), default=-math.inf)
    states = {each.wanted for each in before if each.ended >= last_begun} or {False}
    states |= {each.wanted for each in requests if each.ended >= begun and each.begun <= ended}
    return states.pop() if len(states) == 1 else None


@dataclass
class Post:
    ref_id: str
    publisher: str
    published_at: str
    begun: float  # sent; accepted between then and its answer
    body: Any = None
    # As the publisher was told: when it was delivered, and to how many if entries were pushed.
    complete: float = math.inf
    delivered: int | None = None
    answer: str = ""  # the last one: a state, or an error

    @property
    def key(self) -> Key:
        return self.published_at, self.ref_id

    @property
    def is_complete(self) -> bool:
        return self.complete < math.inf


@dataclass
class Record:
    follows: dict[Pair, list[Request]] = field(default_factory=lambda: defaultdict(list))
    mutes: dict[Pair, list[Request]] = field(default_factory=lambda: defaultdict(list))
    posts: dict[str, Post] = field(default_factory=dict)  # by ref_id

    def add(self, *posts: Post) -> None:
        """Add posts; of a post that is sent twice, the first request counts."""
        for post in posts:
            self.posts.setdefault(post.ref_id, post)

    def follow_all(
        self, followers: Mapping[str, Iterable[str]], begun: float, ended: float
    ) -> None:
        """Add follows of these users, by publisher, that were requested within an interval."""
        request = Request(True, begun, ended)
        for publisher, users in followers.items():
            for user in users:
                self.follows[user, publisher].append(request)

    def is_followed(self, pair: Pair, begun: float, ended: float) -> bool | None:
        return surely(self.follows.get(pair, ()), begun, ended)

    def is_muted(self, pair: Pair, begun: float, ended: float) -> bool | None:
        return surely(self.mutes.get(pair, ()), begun, ended)

    def is_visible(self, pair: Pair, begun: float, ended: float) -> bool | None:
        """Whether the publisher's entries were shown throughout an interval, or never."""
        followed, muted = self.is_followed(pair, begun, ended), self.is_muted(pair, begun, ended)
        if followed is False or muted is True:
            return False
        return True if followed and muted is False else None

    def newest(self, publisher: str, count: int) -> list[Post]:
        posts = [post for post in self.posts.values() if post.publisher == publisher]
        return sorted(posts, key=lambda post: post.key, reverse=True)[:count]
