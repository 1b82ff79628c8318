"""Marks: publishers that one reader does not see, although their entries are in the timeline. Pure.

An unfollow marks the publisher in the set of its week, in the transaction that ends the follow, and
a follow takes the mark away. A week's set outlives every entry of its unfollows. Mutes are marks
that only their reader takes away.

A mark is 8 bytes of a hash. boto3 spells a binary as bytes and the wire client as base64 text. Both
are kept as they came, since decoding a thousand of them would be a tenth of a page's CPU.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple, TypeAlias

from fanfold import invariants, times
from fanfold.settings import MOST_RETENTION_DAYS

# Live marks of unfollows in one row, 8 bytes each, so that a read takes one or two units.
# Concurrent unfollows may make it a few more.
MAX_HIDDEN = 500
# Mutes in one row.
MAX_MUTED = 500

DAY_SECONDS = 24 * 60 * 60
WEEK_MS = 7 * DAY_SECONDS * 1000
# A week's set lives on for the retention and this long after the week's end: for clocks that differ
# and for an entry that was written just before its unfollow with a time ahead of it.
MARGIN_DAYS = 8
# Entries of an unfollow without a mark are gone after the retention; a day is for the clocks.
VERIFY_MARGIN_DAYS = 1
# The longest that a mark outlives the retention: from the beginning of its week.
LONGEST_DAYS = 7 + MARGIN_DAYS
# Expired sets that one change removes. After a cut of the retention there may be hundreds, and an
# expression has at most 4 KB, which it may also need to delete marks from many sets.
MAX_EXPIRED = 50

Marks: TypeAlias = Sequence["bytes | str"]


class Reader(NamedTuple):
    """One reader's row."""

    follows: int = 0  # with requests
    requests: int = 0
    blocks: int = 0
    hidden: Mapping[int, Marks] = {}  # by the week of the unfollow
    muted: Marks = ()
    verify_until: int = 0  # epoch second until which marks do not tell everything
    marker: str = ""  # the sort key up to which the reader has read
    follows_until_ns: int = 0  # until when, since the epoch, the follows so far use up the rate
    channels: Marks = ()  # of followed publishers that have, or had, a channel
    channels_seen: int = 0  # the version of the head up to which `channels` is complete
    changes: int = 0  # follows and unfollows, in a stage with channels


class Change(NamedTuple):
    """What a follow or an unfollow changes in the marks of its reader's row."""

    adds: Mapping[int, bytes] = {}  # by week
    deletes: Mapping[int, Sequence[bytes]] = {}  # by week
    expired: Sequence[int] = ()  # weeks
    verify_until: int = 0  # unless 0


NO_CHANGE = Change()


def checked(reader: Reader, *, now_ms: int) -> Reader:
    """A row that was just read; reports what it can never say.

    Of channels that it knows ahead of time, it counts as knowing none: a page looks them up.
    """
    sets = [each for each in (reader.muted, reader.channels, *reader.hidden.values()) if each]
    latest, marker = now_ms + invariants.AHEAD_MS, reader.marker
    is_key = not marker or marker[times.WIDTH :][:1] == "#"
    used_up_by = (latest + DAY_SECONDS * 1000) * 1_000_000
    days = MOST_RETENTION_DAYS + LONGEST_DAYS
    verified_by = latest // 1000 + days * DAY_SECONDS
    invariants.check("reader_marks", all(_is_mark(each[0]) for each in sets))
    invariants.check("reader_mutes", len(reader.muted) <= MAX_MUTED)
    invariants.check("reader_weeks", max(reader.hidden, default=0) <= week_of(latest))
    invariants.check("reader_marker", is_key and marker <= times.to_text(latest))
    invariants.check("reader_rate", reader.follows_until_ns <= used_up_by)
    invariants.check("reader_verified", reader.verify_until <= verified_by)
    if invariants.check("channels_seen", reader.channels_seen <= latest):
        return reader
    return reader._replace(channels_seen=0)


def hash_of(publisher_id: str) -> bytes:
    """The mark of a publisher. Two publishers of one reader share it once in 10^12 readers."""
    return blake2b(publisher_id.encode(), digest_size=8).digest()


def _is_mark(mark: bytes | str) -> bool:
    """Whether a mark has 8 bytes, or 12 characters of base64."""
    return len(mark) == (8 if isinstance(mark, bytes) else 12)


def week_of(now_ms: int) -> int:
    """Whole weeks since the epoch."""
    return now_ms // WEEK_MS


def is_live(week: int, *, now_ms: int, retention_days: int) -> bool:
    """Whether there may still be entries that an unfollow of that week hides."""
    days = retention_days + MARGIN_DAYS
    return now_ms < (week + 1) * WEEK_MS + days * DAY_SECONDS * 1000


def is_verifying(reader: Reader, *, now_ms: int) -> bool:
    """Whether the reader has unfollowed more than marks tell, so that follows must be read."""
    return now_ms < reader.verify_until * 1000


def left_out(
    reader: Reader, publisher_ids: Collection[str], *, now_ms: int, retention_days: int
) -> set[str]:
    """Those of the publishers that the reader has unfollowed or muted, as far as marks tell."""
    live = [
        marks
        for week, marks in reader.hidden.items()
        if is_live(week, now_ms=now_ms, retention_days=retention_days)
    ]
    given = [marks for marks in (reader.muted, *live) if marks]
    if not given:
        return set()
    by_mark = _by_mark(publisher_ids, type(given[0][0]))
    asked = set(by_mark)
    return {by_mark[mark] for marks in given for mark in asked.intersection(marks)}


def holds(marks: Marks, publisher_id: str) -> bool:
    """Whether the publisher's mark is among these."""
    return bool(marks) and _spelled(publisher_id, type(marks[0])) in marks


def among(given: Marks, publisher_ids: Collection[str]) -> set[str]:
    """Those of the publishers whose marks are given."""
    if not given:
        return set()
    by_mark = _by_mark(publisher_ids, type(given[0]))
    return {by_mark[mark] for mark in given if mark in by_mark}


def weeks_of(reader: Reader, publisher_id: str) -> list[int]:
    """The weeks whose sets hold the publisher's mark."""
    return [week for week, marks in reader.hidden.items() if holds(marks, publisher_id)]


def unfollowed(
    reader: Reader, publisher_id: str, *, ended_at: int, now_ms: int, retention_days: int
) -> Change:
    """The change of a follow that ended at `ended_at`: a mark, or verification above the limit."""
    expired = _expired(reader, now_ms, retention_days)
    count = sum(len(marks) for week, marks in reader.hidden.items() if week not in expired)
    if count < MAX_HIDDEN:
        return Change(adds={week_of(ended_at): hash_of(publisher_id)}, expired=expired)
    days = retention_days + VERIFY_MARGIN_DAYS
    until = -(-now_ms // 1000) + days * DAY_SECONDS
    return Change(expired=expired, verify_until=max(reader.verify_until, until))


def followed(
    reader: Reader, ended: Mapping[str, int], *, now_ms: int, retention_days: int
) -> Change:
    """The change of new follows: no set holds their marks any more.

    `ended` is when each publisher was unfollowed before, or 0. A repair may mark it in that week
    after the reader's row was read, so the mark is deleted there, too.
    """
    expired = _expired(reader, now_ms, retention_days)
    deletes: dict[int, list[bytes]] = {}
    for publisher_id, ended_at in ended.items():
        repaired = {week_of(ended_at)} if ended_at else set()
        for week in repaired.union(weeks_of(reader, publisher_id)):
            if week not in expired:
                deletes.setdefault(week, []).append(hash_of(publisher_id))
    return Change(deletes=deletes, expired=expired)


def is_wrongly_hidden(
    reader: Reader, publisher_id: str, *, now_ms: int, retention_days: int
) -> bool:
    """Whether marks hide a publisher that is followed."""
    return any(
        is_live(week, now_ms=now_ms, retention_days=retention_days)
        for week in weeks_of(reader, publisher_id)
    )


def is_wrongly_shown(
    reader: Reader, publisher_id: str, *, ended_at: int, now_ms: int, retention_days: int
) -> bool:
    """Whether entries from before the end of a follow are still shown."""
    over = ended_at // 1000 + retention_days * DAY_SECONDS
    is_verified = reader.verify_until >= over
    return now_ms < over * 1000 and not is_verified and not weeks_of(reader, publisher_id)


def _expired(reader: Reader, now_ms: int, retention_days: int) -> list[int]:
    over = (
        week
        for week in sorted(reader.hidden)
        if not is_live(week, now_ms=now_ms, retention_days=retention_days)
    )
    return list(islice(over, MAX_EXPIRED))


def _by_mark(publisher_ids: Collection[str], spelling: type[bytes | str]) -> dict[bytes | str, str]:
    return {_spelled(each, spelling): each for each in publisher_ids}


# The publishers of the pages that a container reads; some are in most of them.
@lru_cache(maxsize=4096)
def _spelled(publisher_id: str, spelling: type[bytes | str]) -> bytes | str:
    """The mark of a publisher as boto3 spells it, or the wire client."""
    mark = hash_of(publisher_id)
    return mark if spelling is bytes else b64encode(mark).decode()
