"""A database of what callers sent and were answered, and what SQL says of what readers were shown.

Nobody inside the service is asked. Times are epoch seconds of this machine, as in `recorded.py`.
What overlaps may count either way.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.recorded import Record

_TABLES = """
CREATE TABLE follow (reader, publisher, wanted, begun, ended);
CREATE TABLE post (ref_id PRIMARY KEY, publisher, key, begun, complete);
CREATE TABLE scroll (id PRIMARY KEY, reader, what, begun, since, ended, above, is_ordered);
CREATE TABLE shown (scroll, place, ref_id, publisher, key);
CREATE INDEX follows ON follow (reader, publisher);
CREATE INDEX posts ON post (publisher);
CREATE INDEX shows ON shown (scroll, ref_id);
"""
# Surely followed from before the post was sent until the scroll ended, which began or went on after
# the post was delivered.
_MUST = """
CREATE TEMP TABLE must AS
SELECT DISTINCT scroll.id AS scroll, post.ref_id FROM scroll
JOIN follow USING (reader) JOIN post USING (publisher)
WHERE post.complete < scroll.since AND post.key > scroll.above
AND follow.wanted AND follow.ended < post.begun
AND NOT EXISTS (
    SELECT 1 FROM follow AS other
    WHERE (other.reader, other.publisher) = (follow.reader, follow.publisher)
    AND NOT other.wanted AND other.begun <= scroll.ended AND other.ended >= follow.begun)
"""
# Sent before the scroll ended, by somebody whom the reader perhaps followed while it lasted.
_MAY = """
CREATE TEMP TABLE may AS
SELECT DISTINCT scroll.id AS scroll, post.ref_id, post.publisher, post.key FROM scroll
JOIN follow USING (reader) JOIN post USING (publisher)
WHERE post.begun <= scroll.ended AND follow.wanted AND follow.begun <= scroll.ended
AND NOT EXISTS (
    SELECT 1 FROM follow AS other
    WHERE (other.reader, other.publisher) = (follow.reader, follow.publisher)
    AND NOT other.wanted AND other.begun > follow.ended AND other.ended < scroll.begun)
"""
_COMPLAINTS = {
    "does not show": "SELECT scroll, ref_id FROM must EXCEPT SELECT scroll, ref_id FROM shown",
    "must not show": """
        SELECT scroll, ref_id FROM shown
        EXCEPT SELECT scroll, ref_id FROM shown JOIN may USING (scroll, ref_id, publisher, key)
    """,
    "repeats": "SELECT scroll, ref_id FROM shown GROUP BY scroll, ref_id HAVING count(*) > 1",
    "has in the wrong place": """
        SELECT scroll, ref_id FROM (
            SELECT scroll, ref_id, key, LAG(key) OVER (PARTITION BY scroll ORDER BY place) AS above
            FROM shown WHERE scroll IN (SELECT id FROM scroll WHERE is_ordered))
        WHERE key >= above
    """,
}


@dataclass
class Scroll:
    """Pages that go on one from the other; what they have shown, page by page."""

    reader: str
    what: str
    begun: float
    since: float = 0.0  # what was delivered before is owed
    ended: float = 0.0
    above: str = ""  # only what is above this key is owed
    entries: list[dict[str, Any]] = field(default_factory=list)
    is_ordered: bool = True  # newest first


@dataclass(frozen=True)
class Judgement:
    complaints: list[str]
    owed: int
    shown: int


def judge(record: Record, scrolls: list[Scroll]) -> Judgement:
    """Hold scrolls to the requests and the posts of the record: must ⊆ shown ⊆ may."""
    database = sqlite3.connect(":memory:")
    database.executescript(_TABLES)
    database.executemany("INSERT INTO follow VALUES (?, ?, ?, ?, ?)", _follows(record))
    database.executemany(
        "INSERT INTO post VALUES (?, ?, ?, ?, ?)",
        (
            (each.ref_id, each.publisher, f"{each.published_at}#{each.ref_id}", each.begun, at)
            for each in record.posts.values()
            for at in [min(each.complete, 1e12)]
        ),
    )
    for number, each in enumerate(scrolls):
        row = (each.begun, each.since, each.ended, each.above, each.is_ordered)
        database.execute(
            "INSERT INTO scroll VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (number, each.reader, each.what, *row),
        )
        database.executemany(
            "INSERT INTO shown VALUES (?, ?, ?, ?, ?)", _shown(number, each.entries)
        )
    database.execute(_MUST)
    database.execute(_MAY)
    complaints = [
        f"{scrolls[scroll].what} of {scrolls[scroll].reader} {complaint} {ref_id}"
        for complaint, question in _COMPLAINTS.items()
        for scroll, ref_id in database.execute(question)
    ]
    ((owed,),) = database.execute("SELECT count(*) FROM must")
    ((shown,),) = database.execute("SELECT count(*) FROM shown")
    return Judgement(complaints, owed, shown)


def _follows(record: Record) -> Iterator[tuple[Any, ...]]:
    for (reader, publisher), requests in record.follows.items():
        for wanted, begun, ended in requests:
            yield reader, publisher, wanted, begun, ended


def _shown(scroll: int, entries: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    for place, entry in enumerate(entries):
        key = f"{entry['published_at']}#{entry['ref_id']}"
        yield scroll, place, entry["ref_id"], entry["publisher_id"], key
