"""What callers sent and were answered, and what follows from it for what is followed. Pure.

Nobody inside the service is asked. Times are epoch seconds of this machine. What overlaps may count
either way.
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
    """A request to follow or to mute (`wanted`), or to end that, and all its repetitions."""

    wanted: bool
    begun: float
    ended: float  # answered with success


def surely(requests: Sequence[Request], begun: float, ended: float) -> bool | None:
    """Whether what is requested held throughout an interval, or at no time of it; None: unknown."""
    before = [each for each in requests if each.ended < begun]
    # Whatever was answered before this one began, this one has undone.
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
    # What its publisher was told: when it was delivered, and to how many if entries were pushed.
    complete: float = math.inf
    delivered: int | None = None
    answer: str = ""  # the last: a state, or why there is none

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
        """Note posts; of one that is sent twice, the first request counts."""
        for post in posts:
            self.posts.setdefault(post.ref_id, post)

    def follow_all(
        self, followers: Mapping[str, Iterable[str]], begun: float, ended: float
    ) -> None:
        """Note that all these users, by publisher, have followed within an interval."""
        request = Request(True, begun, ended)
        for publisher, users in followers.items():
            for user in users:
                self.follows[user, publisher].append(request)

    def is_followed(self, pair: Pair, begun: float, ended: float) -> bool | None:
        return surely(self.follows.get(pair, ()), begun, ended)

    def is_muted(self, pair: Pair, begun: float, ended: float) -> bool | None:
        return surely(self.mutes.get(pair, ()), begun, ended)

    def is_visible(self, pair: Pair, begun: float, ended: float) -> bool | None:
        """Whether its entries are shown throughout an interval, or at no time of it."""
        followed, muted = self.is_followed(pair, begun, ended), self.is_muted(pair, begun, ended)
        if followed is False or muted is True:
            return False
        return True if followed and muted is False else None

    def newest(self, publisher: str, count: int) -> list[Post]:
        posts = [post for post in self.posts.values() if post.publisher == publisher]
        return sorted(posts, key=lambda post: post.key, reverse=True)[:count]
