"""What lies beside a follow's row, and how it can differ: lists, blocks, counts, privacy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby

from fanfold.doctor.findings import Difference, Pair, pair_of
from fanfold.follows.follows_table import Place, Waiting, places_of
from fanfold.follows.relation import BLOCKS, PUBLIC, REQUESTS, SEPARATOR, Follow, Privacy
from fanfold.ids import is_id
from fanfold.timeline.marks import Reader
from fanfold.timeline.readers import NO_COUNTS, Counts


@dataclass(frozen=True)
class Beside:
    """What was read of a relation beside its row, each as far as the row or a list needs it."""

    places: Set[Place] = frozenset()  # in lists
    inverse: Follow | None = None  # of the publisher to the user
    privacy: Privacy = PUBLIC  # of the publisher
    expires: bool = False  # the row


def pair_at(place: Place) -> Pair | None:
    """The relation that is at a place in a list; None if nothing can be there."""
    owner = place[0].partition(SEPARATOR)[0]
    kind = place[0].removeprefix(owner)
    if kind == BLOCKS:
        return (owner, place[1]) if is_id(place[1]) else None
    waiting = Waiting.of(place[1]) if kind == REQUESTS else None
    return waiting and (waiting.user_id, owner)


def inverse_of(pair: Pair) -> Pair:
    return pair[1], pair[0]


def block_of(pair: Pair) -> Place:
    """The place of a user's block of the publisher."""
    return f"{pair[0]}{BLOCKS}", pair[1]


def difference_of(row: Follow, beside: Beside) -> Difference | None:
    """How a relation disagrees with what is beside it.

    All but a request that may be opened is written in one transaction with the row. A block counts
    once: for who blocks, unless only the blocked user's row tells of it.
    """
    if row.is_active and row.is_blocked:
        return Difference.SHUT_FOLLOWED
    pair, places, wanted = pair_of(row), beside.places, places_of(row)
    inverse = beside.inverse or Follow(user_id=pair[1], publisher_id=pair[0])
    is_alone = row.shut and not inverse.shuts and block_of(inverse_of(pair)) not in places
    if is_alone or not row.shuts is inverse.shut is (block_of(pair) in places):
        return Difference.BLOCK
    if wanted - places:
        return Difference.UNLISTED
    if {place for place in places - wanted if place[0].endswith(REQUESTS)}:
        return Difference.LISTED
    if beside.expires and not row.expires:
        return Difference.EXPIRES
    if row.privacy > beside.privacy.version:
        return Difference.PRIVACY_BEHIND
    return Difference.WAITING if row.is_listed and not beside.privacy.is_private else None


@dataclass
class Tally:
    """Counts the rows of each reader; a scan reads them one after another."""

    _last: dict[str, tuple[Counts, Reader]] = field(default_factory=dict)

    def add(self, rows: Sequence[Follow], readers: Mapping[str, Reader]) -> Iterator[str]:
        """Add a page of rows; yields those who are over, and whose counts differ."""
        for user_id, own in groupby(rows, key=lambda row: row.user_id):
            before, _ = self._last.pop(user_id, (NO_COUNTS, None))
            yield from self.over()
            self._last[user_id] = counts_of(own, before), readers[user_id]

    def over(self) -> Iterator[str]:
        """The last one, if its counts differ."""
        yield from (user for user, (right, told) in self._last.items() if right != counted(told))
        self._last.clear()


def counts_of(rows: Iterable[Follow], before: Counts = NO_COUNTS) -> Counts:
    """What these rows are to count as, on top of those before."""
    follows, requests, blocks = before
    for row in rows:
        follows += row.has_place
        requests += row.is_requested
        blocks += row.shuts
    return Counts(follows, requests, blocks)


def counted(reader: Reader) -> Counts:
    return Counts(reader.follows, reader.requests, reader.blocks)
