"""Judges the rows of timelines and the pages that readers got, by the record alone.

Each owed entry must exist once, and no other. Counts that publishers were told must be right.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fanfold.ids import sort_key
from fanfold_cli.run.record import Key, Post, Record
from fanfold_cli.run.rows import Row
from fanfold_cli.terminal import counted

# Of each fault, to keep a report readable.
EXAMPLES = 5

MISSING = "missing"
LATE = "late"
EXTRA = "extra"
UNKNOWN = "unknown"
DOUBLED = "doubled"
WRONG = "wrong"
MISCOUNTED = "miscounted"
REPEATED = "repeated"  # within a reading

SENTENCES = {
    MISSING: ("row is missing", "rows are missing", "its user followed when it was published"),
    LATE: ("row has not come yet", "rows have not come yet", "the delivery is not complete"),
    EXTRA: ("row is too many", "rows are too many", "its user did not follow its publisher"),
    UNKNOWN: ("row is of no known post", "rows are of no known post", "the run published no such"),
    DOUBLED: ("row is doubled", "rows are doubled", "the user has the post under another key too"),
    WRONG: ("row is wrong", "rows are wrong", "another publisher or time than was published"),
    MISCOUNTED: ("count is wrong", "counts are wrong", "the publisher was told another number"),
}


@dataclass
class Reading:
    """Consecutive pages, and their entries."""

    reader: str
    begun: float
    ended: float = 0.0
    since: float = 0.0  # entries that existed before are owed
    above: Key = ("", "")  # only what is above this key is owed
    entries: list[Any] = field(default_factory=list)
    pages: int = 0  # that were answered
    is_ordered: bool = True  # newest first
    has_bodies: bool = False
    what: str = "a reading"

    @property
    def keys(self) -> list[Key]:
        return [(each["published_at"], each["ref_id"]) for each in self.entries]

    def look_no_further(self) -> None:
        """Expect nothing below the entries so far."""
        self.above = self.keys[-1] if self.entries else ("~", "")


@dataclass
class Verdict:
    """Contradictions to the record, and how many entries could have contradicted it."""

    expected: int = 0  # rows
    right: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    complaints: list[str] = field(default_factory=list)  # about readings
    wrong_readers: set[str] = field(default_factory=set)
    shown: int = 0
    owed: int = 0  # entries that readings had to show
    hidden: int = 0  # entries that they must not show
    open: int = 0  # entries that they might show or not

    @property
    def is_right(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> list[str]:
        """A sentence for each kind of wrong rows, and for each complaint about a reading."""
        found = []
        for kind, (one, many, why) in SENTENCES.items():
            if self.faults[kind]:
                shown = "; ".join(self.examples[kind])
                found.append(f"{counted(self.faults[kind], one, many)} ({why}): {shown}")
        return found + self.complaints

    def note(self, kind: str, *what: str) -> None:
        """Count a fault; keep the first of each kind as examples."""
        self.faults[kind] += 1
        if len(self.examples[kind]) < EXAMPLES:
            self.examples[kind].append(" ".join(what))

    def count(self, is_visible: bool | None) -> None:
        if is_visible is None:
            self.open += 1
        elif is_visible:
            self.owed += 1
        else:
            self.hidden += 1


def judge(
    record: Record,
    readings: Sequence[Reading] = (),
    *,
    rows: Iterable[Row] | None = None,
    ours: str | None = "",
    has_channels: bool = False,
) -> Verdict:
    """Compare readings, and all `rows` of the table, with the requests and posts of a run.

    Entries stay in a timeline, and are shown again after an unfollow and another follow. Posts in a
    channel are owed to readers who have followed ever since. An entry of a post that is not in the
    record is a fault only if the id of its user begins with `ours`; with None, it never is.
    """
    found = Verdict()
    if rows is not None:
        _judge_rows(record, rows, found, ours)
    for reader in sorted({each.reader for each in readings}):
        own = [each for each in readings if each.reader == reader]
        there = _there(record, reader, [] if has_channels else own)
        for reading in own:
            found.shown += len(reading.entries)
            complaints = [
                *_wrongly_shown(record, reading, found, ours),
                *_missing(record, reading, there, found, has_channels=has_channels),
            ]
            found.complaints += [f"{reading.what} of {reader} {each}" for each in complaints]
            if complaints:
                found.wrong_readers.add(reader)
    return found


def _judge_rows(record: Record, rows: Iterable[Row], found: Verdict, ours: str | None) -> None:
    owed = _owed(record, found)
    seen: dict[str, set[str]] = {ref_id: set() for ref_id in owed}
    for row in rows:
        user, ref_id = row.user, row.ref_id
        post = record.posts.get(ref_id)
        if post is None:
            if _is_ours(user, ours):
                found.note(UNKNOWN, user, ref_id)
        elif record.is_followed((user, post.publisher), post.begun, math.inf) is False:
            found.note(EXTRA, user, ref_id)
        elif user in seen[ref_id]:
            found.note(DOUBLED, user, ref_id)
        else:
            seen[ref_id].add(user)
            if (row.sort_key, row.publisher) != (sort_key(*post.key), post.publisher):
                found.note(WRONG, user, ref_id)
            elif user in owed[ref_id]:
                found.right += 1
    for ref_id, users in owed.items():
        kind = MISSING if record.posts[ref_id].is_complete else LATE
        for user in sorted(users - seen[ref_id]):
            found.note(kind, user, ref_id)


def _owed(record: Record, found: Verdict) -> dict[str, set[str]]:
    """Who must have each post; counts that publishers were told must equal their number."""
    readers: dict[str, list[str]] = defaultdict(list)
    for reader, publisher in record.follows:
        readers[publisher].append(reader)
    owed: dict[str, set[str]] = {}
    for ref_id, post in record.posts.items():
        followed = {
            user: record.is_followed((user, post.publisher), post.begun, post.complete)
            for user in readers[post.publisher]
        }
        owed[ref_id] = {user for user, is_sure in followed.items() if is_sure}
        found.expected += len(owed[ref_id])
        is_known = post.delivered is not None and None not in followed.values()
        if is_known and post.delivered != len(owed[ref_id]):
            found.note(MISCOUNTED, f"{post.delivered:,} instead of {len(owed[ref_id]):,}", ref_id)
    return owed


def _there(record: Record, reader: str, readings: Sequence[Reading]) -> list[tuple[Key, float]]:
    """The entries that a reader must have, and since when, oldest first.

    These are posts that were sent and delivered while the user followed, and all entries in the
    readings: they stay, even if hidden.
    """
    since: dict[str, float] = {}
    for reading in readings:
        for entry in reading.entries:
            ref_id = entry["ref_id"]
            since[ref_id] = min(reading.ended, since.get(ref_id, math.inf))
    for post in record.posts.values():
        if record.is_followed((reader, post.publisher), post.begun, post.complete):
            since[post.ref_id] = min(post.complete, since.get(post.ref_id, math.inf))
    return sorted(
        (record.posts[ref_id].key, at) for ref_id, at in since.items() if ref_id in record.posts
    )


def _is_ours(user: str, ours: str | None) -> bool:
    return ours is not None and user.startswith(ours)


def _wrongly_shown(
    record: Record, reading: Reading, found: Verdict, ours: str | None
) -> Iterator[str]:
    keys = reading.keys
    if reading.is_ordered and keys != sorted(keys, reverse=True):
        yield "is out of order"
    seen: set[str] = set()
    for entry, key in zip(reading.entries, keys, strict=True):
        ref_id, publisher = entry["ref_id"], entry["publisher_id"]
        if ref_id in seen:
            found.faults[REPEATED] += 1
            yield f"repeats {ref_id}"
        seen.add(ref_id)
        post = record.posts.get(ref_id)
        if post is None and not _is_ours(reading.reader, ours):
            continue
        if post is None or not _is_as_published(entry, key, post, has_body=reading.has_bodies):
            yield f"shows {entry}, which nobody published so"
        elif post.begun > reading.ended:
            yield f"shows {ref_id} before it was sent"
        elif record.is_visible((reading.reader, publisher), reading.begun, reading.ended) is False:
            yield f"shows {ref_id} of {publisher}, who is muted or not followed"


def _is_as_published(entry: Any, key: Key, post: Post, *, has_body: bool) -> bool:
    if has_body and entry["body"] != post.body:
        return False
    return (post.publisher, post.key) == (entry["publisher_id"], key)


def _missing(
    record: Record,
    reading: Reading,
    there: Sequence[tuple[Key, float]],
    found: Verdict,
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
