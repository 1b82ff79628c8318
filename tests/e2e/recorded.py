"""What callers sent and were answered, and what follows from it for what a reader is shown. Pure.

Nobody inside the service is asked. Times are epoch seconds of this machine, whose clock the service
has too. What overlaps may count either way.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

Pair: TypeAlias = tuple[str, str]  # a reader and a publisher
Key: TypeAlias = tuple[str, str]  # a post's `published_at` and `ref_id`: the order of timelines

# Of the newest entries above the marker, how many `unread` counts at most.
MAX_UNREAD = 100


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
    complete: float = math.inf  # when it was delivered, as its publisher was told

    @property
    def key(self) -> Key:
        return self.published_at, self.ref_id


@dataclass(frozen=True)
class Reading:
    """The first pages of a timeline, one after the other, with `hydrate=false`."""

    reader: str
    begun: float
    ended: float
    entries: Sequence[dict[str, Any]]
    is_whole: bool  # the last page said that nothing is below it

    @property
    def keys(self) -> list[Key]:
        return [(each["published_at"], each["ref_id"]) for each in self.entries]

    @property
    def bottom(self) -> Key:
        """Everything from here on was looked at."""
        if self.is_whole:
            return "", ""
        return self.keys[-1] if self.entries else ("~", "")


@dataclass
class Record:
    """Everything that was sent and answered, and what all its readings say of each other."""

    follows: dict[Pair, list[Request]] = field(default_factory=lambda: defaultdict(list))
    mutes: dict[Pair, list[Request]] = field(default_factory=lambda: defaultdict(list))
    posts: dict[str, Post] = field(default_factory=dict)
    readings: list[Reading] = field(default_factory=list)
    markers: dict[str, list[Key]] = field(default_factory=lambda: defaultdict(list))

    def is_followed(self, pair: Pair, begun: float, ended: float) -> bool | None:
        return surely(self.follows[pair], begun, ended)

    def is_muted(self, pair: Pair, begun: float, ended: float) -> bool | None:
        return surely(self.mutes[pair], begun, ended)

    def is_visible(self, pair: Pair, begun: float, ended: float) -> bool | None:
        """Whether its entries are shown throughout an interval, or at no time of it."""
        followed, muted = self.is_followed(pair, begun, ended), self.is_muted(pair, begun, ended)
        if followed is False or muted is True:
            return False
        return True if followed and muted is False else None

    def newest(self, publisher: str, count: int) -> list[Post]:
        posts = [post for post in self.posts.values() if post.publisher == publisher]
        return sorted(posts, key=lambda post: post.key, reverse=True)[:count]

    def judged(self) -> Judged:
        """Hold every reading to the requests, the posts and the readings before it."""
        found = Judged()
        for reader in sorted({each.reader for each in self.readings}):
            readings = [each for each in self.readings if each.reader == reader]
            exists = self._exists_from(reader, readings)
            for reading in readings:
                found.complaints += self._wrongly_shown(reading, found)
                found.complaints += self._missing(reading, exists, found)
        return found

    def _exists_from(self, reader: str, readings: Sequence[Reading]) -> list[tuple[Key, float]]:
        """The entries that a timeline surely holds, and from when on, oldest first.

        Whoever follows from before a post was sent until its delivery was complete is owed it; and
        what was seen once stays, hidden or not.
        """
        since: dict[str, float] = {}
        for reading in readings:
            for entry in reading.entries:
                ref_id = entry["ref_id"]
                since[ref_id] = min(reading.ended, since.get(ref_id, math.inf))
        for post in self.posts.values():
            pair = reader, post.publisher
            if pair in self.follows and self.is_followed(pair, post.begun, post.complete):
                since[post.ref_id] = min(post.complete, since.get(post.ref_id, math.inf))
        return sorted(
            (self.posts[ref_id].key, at) for ref_id, at in since.items() if ref_id in self.posts
        )

    def _wrongly_shown(self, reading: Reading, found: Judged) -> Iterator[str]:
        reader, keys = reading.reader, reading.keys
        if keys != sorted(keys, reverse=True):
            yield f"{reader} sees entries out of order."
        if len({ref_id for _, ref_id in keys}) != len(keys):
            yield f"{reader} sees a post twice."
        for entry, key in zip(reading.entries, keys, strict=True):
            post = self.posts.get(entry["ref_id"])
            if post is None or (post.publisher, post.key) != (entry["publisher_id"], key):
                yield f"{reader} sees {entry}, which nobody published so."
        for publisher in {each["publisher_id"] for each in reading.entries}:
            pair = reader, publisher
            if self.is_followed(pair, reading.begun, reading.ended) is False:
                yield f"{reader} sees {publisher}, whom they do not follow."
            if self.is_muted(pair, reading.begun, reading.ended) is True:
                yield f"{reader} sees {publisher}, whom they have muted."
        found.shown += len(keys)

    def _missing(
        self, reading: Reading, exists: Sequence[tuple[Key, float]], found: Judged
    ) -> Iterator[str]:
        shown = {ref_id for _, ref_id in reading.keys}
        visible: dict[str, bool | None] = {}
        for (_, ref_id), since in exists[bisect_left(exists, (reading.bottom, 0.0)) :]:
            if since >= reading.begun:
                continue
            publisher = self.posts[ref_id].publisher
            if publisher not in visible:
                pair = reading.reader, publisher
                visible[publisher] = self.is_visible(pair, reading.begun, reading.ended)
            found.count(visible[publisher])
            if visible[publisher] and ref_id not in shown:
                yield f"{reading.reader} does not see {ref_id} of {publisher}, which is there."


@dataclass
class Judged:
    """What contradicts the record, and how much of what was looked at could contradict it."""

    complaints: list[str] = field(default_factory=list)
    shown: int = 0
    owed: int = 0  # entries that readings had to show
    hidden: int = 0  # entries that they must not show
    open: int = 0  # entries that they might show or not

    def count(self, is_visible: bool | None) -> None:
        if is_visible is None:
            self.open += 1
        elif is_visible:
            self.owed += 1
        else:
            self.hidden += 1


def wrong_about_unread(
    answer: dict[str, Any], marker: Key | None, whole: Reading, *, hides_nothing: bool
) -> str | None:
    """What is wrong with an answer to `unread`, of a timeline at rest.

    Hidden entries are among the newest 100 that are looked at. So the answer may be less than what
    is shown above the marker, if it says that there is more.
    """
    above = sum(key > marker for key in whole.keys) if marker else len(whole.keys)
    unread, more = answer["unread"], answer["more"]
    if hides_nothing:
        is_right = (unread, more) == (min(above, MAX_UNREAD), above > MAX_UNREAD)
    elif more:
        is_right = unread <= min(above, MAX_UNREAD)
    else:
        is_right = unread == above
    return None if is_right else f"{whole.reader} is told {answer}, and {above} are above {marker}."
