"""What readers were shown, held to the record: all that they are owed, once, and nothing else."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.recorded import Key, Record

# Of the newest entries above the marker, how many `unread` counts at most.
MAX_UNREAD = 100


@dataclass
class Reading:
    """Pages that go on one from the other, with `hydrate=false`, and what they have shown."""

    reader: str
    begun: float
    ended: float = 0.0
    since: float = 0.0  # what was there before is owed
    above: Key = ("", "")  # only what is above this key is owed
    entries: list[dict[str, Any]] = field(default_factory=list)
    is_ordered: bool = True  # newest first
    what: str = "a reading"

    @property
    def keys(self) -> list[Key]:
        return [(each["published_at"], each["ref_id"]) for each in self.entries]

    def look_no_further(self) -> None:
        """Nothing is owed below what it has shown so far."""
        self.above = self.keys[-1] if self.entries else ("~", "")


@dataclass
class Judgement:
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


def judge(record: Record, readings: Sequence[Reading], *, has_channels: bool = False) -> Judgement:
    """Hold every reading to the requests, the posts and the other readings of its reader.

    What a timeline holds stays there, and is shown again after an unfollow and another follow. Of a
    channel, a reader is owed what was posted while they followed without an end.
    """
    found = Judgement()
    for reader in sorted({each.reader for each in readings}):
        own = [each for each in readings if each.reader == reader]
        there = _there(record, reader, [] if has_channels else own)
        for reading in own:
            found.shown += len(reading.entries)
            complaints = [
                *_wrongly_shown(record, reading),
                *_missing(record, reading, there, found, has_channels=has_channels),
            ]
            found.complaints += [f"{reading.what} of {reader} {each}" for each in complaints]
    return found


def _there(record: Record, reader: str, readings: Sequence[Reading]) -> list[tuple[Key, float]]:
    """The entries that a reader surely has, and from when on, oldest first.

    Whoever follows from before a post was sent until its delivery was complete is owed it; and
    what was seen once in these readings stays, hidden or not.
    """
    since: dict[str, float] = {}
    for reading in readings:
        for entry in reading.entries:
            ref_id = entry["ref_id"]
            since[ref_id] = min(reading.ended, since.get(ref_id, math.inf))
    for post in record.posts.values():
        pair = reader, post.publisher
        if pair in record.follows and record.is_followed(pair, post.begun, post.complete):
            since[post.ref_id] = min(post.complete, since.get(post.ref_id, math.inf))
    return sorted(
        (record.posts[ref_id].key, at) for ref_id, at in since.items() if ref_id in record.posts
    )


def _wrongly_shown(record: Record, reading: Reading) -> Iterator[str]:
    keys = reading.keys
    if reading.is_ordered and keys != sorted(keys, reverse=True):
        yield "is out of order"
    seen: set[str] = set()
    for entry, key in zip(reading.entries, keys, strict=True):
        ref_id, publisher = entry["ref_id"], entry["publisher_id"]
        if ref_id in seen:
            yield f"repeats {ref_id}"
        seen.add(ref_id)
        post = record.posts.get(ref_id)
        if post is None or (post.publisher, post.key) != (publisher, key):
            yield f"shows {entry}, which nobody published so"
        elif post.begun > reading.ended:
            yield f"shows {ref_id} before it was sent"
        elif record.is_visible((reading.reader, publisher), reading.begun, reading.ended) is False:
            yield f"shows {ref_id} of {publisher}, who is muted or not followed"


def _missing(
    record: Record,
    reading: Reading,
    there: Sequence[tuple[Key, float]],
    found: Judgement,
    *,
    has_channels: bool,
) -> Iterator[str]:
    shown = {ref_id for _, ref_id in reading.keys}
    for (_, ref_id), since in there[bisect_right(there, (reading.above, math.inf)) :]:
        if since >= reading.since:
            continue
        post = record.posts[ref_id]
        begun = post.begun if has_channels else reading.begun
        is_visible = record.is_visible((reading.reader, post.publisher), begun, reading.ended)
        found.count(is_visible)
        if is_visible and ref_id not in shown:
            yield f"does not show {ref_id} of {post.publisher}, which is there"


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
