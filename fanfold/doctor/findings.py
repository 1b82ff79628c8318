"""What an examination finds: differences between follows and edges, and the report on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from fanfold.channels import following
from fanfold.channels.head import Head
from fanfold.fanout.row import Fanout
from fanfold.follows.follows_table import Place
from fanfold.follows.relation import Follow
from fanfold.names import Table
from fanfold.timeline import marks
from fanfold.timeline.marks import Reader
from fanfold.timeline.readers import Counts

# Differences and unreadable items that a report lists; it counts all of them.
EXAMPLES = 100

Pair: TypeAlias = tuple[str, str]  # user, publisher
Placements: TypeAlias = dict[int, int]  # the version of one relation's edge at each level
Key: TypeAlias = tuple[str, str]  # of an item: partition key, sort key


def pair_of(row: Follow) -> Pair:
    return row.user_id, row.publisher_id


class Difference(StrEnum):
    """How follows can disagree with edges or readers' marks, and how channels can be wrong."""

    MISSING = "missing"  # a follow without an edge
    ORPHANED = "orphaned"  # an edge without a follow
    OLDER = "older"  # edges of older versions than the row only
    NEWER = "newer"  # an edge of a newer version, which the next unfollow would not delete
    HIDDEN = "hidden"  # a follow whose publisher is marked as unfollowed
    SHOWN = "shown"  # a recent unfollow that is missing in its user's marks
    CHANNEL_MISSING = "channel_missing"  # a follow whose channel the reader's pages leave out
    CHANNEL_EXTRA = "channel_extra"  # a channel that a reader's pages read without a follow
    POST_MISSING = "post_missing"  # a post that is complete in a channel, and is not there
    NOT_IN_HEAD = "not_in_head"  # a publisher whose channel is in use, and is not in the head
    HEAD_OUTDATED = "head_outdated"  # the head, if readers or the ledger know a later one
    SHUT_FOLLOWED = "shut_followed"  # a follow under a block
    BLOCK = "block"  # a block that one of both rows, or its list, does not tell of
    UNLISTED = "unlisted"  # a request that is not in its publisher's list
    LISTED = "listed"  # a place in a list of requests without its request
    EXPIRES = "expires"  # a row that DynamoDB will delete, though it has not ended
    PRIVACY_BEHIND = "privacy_behind"  # decided with a later privacy than its publisher's
    WAITING = "waiting"  # a request that waits for a public publisher
    PLACES = "places"  # a reader whose follows, requests or blocks are counted wrong
    UNREACHABLE = "unreachable"  # a publisher with edges above the level of its row
    UNREADABLE = "unreadable"  # an item that is neither an edge nor a row; never repaired


# No table records what their repair takes away, unless the user had ended it.
TAKE_AWAY = frozenset({Difference.ORPHANED, Difference.CHANNEL_EXTRA})


def mark_of(
    row: Follow, reader: Reader, *, now_ms: int, retention_days: int, head: Head | None = None
) -> Difference | None:
    """How the marks of a reader differ from the row. A user who never followed has left none.

    With the `head` of a stage with channels, also the marks that say which channels the reader
    follows.
    """
    times = {"now_ms": now_ms, "retention_days": retention_days}
    if head and row.is_active and following.is_channel_missing(reader, head, row.publisher_id):
        return Difference.CHANNEL_MISSING
    if head and not row.is_active and following.is_channel_extra(reader, head, row.publisher_id):
        return Difference.CHANNEL_EXTRA
    if row.is_active:
        is_wrong = marks.is_wrongly_hidden(reader, row.publisher_id, **times)
        return Difference.HIDDEN if is_wrong else None
    is_wrong = marks.is_wrongly_shown(reader, row.publisher_id, ended_at=row.ended_at, **times)
    return Difference.SHOWN if is_wrong else None


class Miscount(NamedTuple):
    """What a reader's row counts, and what the follows are."""

    user_id: str
    counted: Counts
    right: Counts


@dataclass(frozen=True)
class Snapshot:
    """One relation at one moment: its row, where its edge lies, and how marks and lists differ."""

    row: Follow
    placements: Placements
    mark: Difference | None = None
    is_marked: bool = False  # whether a mark says that the user has unfollowed, live or expired
    beside: Difference | None = None
    places: Set[Place] = frozenset()  # in lists

    @property
    def pair(self) -> Pair:
        return pair_of(self.row)

    @property
    def has_newer_edge(self) -> bool:
        """Whether an edge is of a newer version than the row."""
        return max(self.placements.values(), default=0) > self.row.version

    @property
    def difference(self) -> Difference | None:
        """How the edge differs from the row, or else the mark or a list; None if all agree."""
        return self._of_edge or self.mark or self.beside

    @property
    def takes_away(self) -> bool:
        """Whether its repair takes from the user what no table records afterwards.

        That is an unfollow, or a follow; but not a follow that the row says has ended, with a
        version as late as the edges, as after a restore of the edges.
        """
        is_ended = self.row.version > 0 and not self.has_newer_edge
        return self.takes_unfollow or (self.difference in TAKE_AWAY and not is_ended)

    @property
    def takes_unfollow(self) -> bool:
        """Whether its repair erases a mark that may be all that is left of an unfollow.

        That is so after a restore of the follows. After one of the readers, the mark is old.
        """
        return self.row.is_active and self.is_marked and self.difference is not None

    @property
    def _of_edge(self) -> Difference | None:
        """How the edge differs from the row.

        Copies of the edge at other levels are no difference if their versions are not newer:
        readers drop them, and an unfollow deletes them.
        """
        if not self.row.is_active:
            return Difference.ORPHANED if self.placements else None
        if not self.placements:
            return Difference.MISSING
        if self.has_newer_edge:
            return Difference.NEWER
        is_current = self.row.version in self.placements.values()
        return None if is_current else Difference.OLDER


@dataclass(frozen=True)
class Unreachable:
    """A publisher with edges above the level of its row."""

    publisher_id: str
    level: int  # of the row when the examination began
    seen: int  # the highest level at which there is an edge


@dataclass
class Report:
    """What was examined, found and repaired so far."""

    follows: int = 0  # without those that have ended
    edges: int = 0
    found: Counter[Difference] = field(default_factory=Counter)
    repaired: Counter[Difference] = field(default_factory=Counter)
    awaiting: int = 0  # differences that await their second read
    taken_away: int = 0  # differences whose repair takes a follow, or an unfollow, from a user
    unfollows: int = 0  # of these, the ones that take an unfollow
    examples: list[Snapshot] = field(default_factory=list)
    unreachable: dict[str, Unreachable] = field(default_factory=dict)  # by publisher
    unreadable: list[tuple[Table, Key]] = field(default_factory=list)
    posts: int | None = None  # complete in channels; None in a stage without channels
    post_missing: list[Fanout] = field(default_factory=list)
    not_in_head: list[str] = field(default_factory=list)  # publishers
    miscounts: list[Miscount] = field(default_factory=list)
    failure: str = ""  # of the latest repair that failed

    @property
    def left(self) -> int:
        """Differences that are not repaired."""
        return self.found.total() - self.repaired.total()

    @property
    def repairable(self) -> int:
        """Those of them that a repair can remove."""
        return self.left - self.found[Difference.UNREADABLE]

    def add(self, snapshot: Snapshot) -> None:
        assert snapshot.difference
        self.found[snapshot.difference] += 1
        self.taken_away += snapshot.takes_away
        self.unfollows += snapshot.takes_unfollow
        if len(self.examples) < EXAMPLES:
            self.examples.append(snapshot)

    def add_miscount(self, miscount: Miscount) -> None:
        self.found[Difference.PLACES] += 1
        if len(self.miscounts) < EXAMPLES:
            self.miscounts.append(miscount)

    def add_repair(self, difference: Difference | None, failure: str) -> None:
        assert difference
        self.repaired[difference] += not failure
        self.failure = failure or self.failure

    def add_unreachable(self, publisher: Unreachable) -> None:
        before = self.unreachable.get(publisher.publisher_id, publisher)
        self.unreachable[publisher.publisher_id] = replace(publisher, level=before.level)
        self.found[Difference.UNREACHABLE] = len(self.unreachable)

    def add_post_missing(self, fanouts: list[Fanout]) -> None:
        self.found[Difference.POST_MISSING] += len(fanouts)
        self.post_missing += fanouts[: EXAMPLES - len(self.post_missing)]

    def add_unreadable(self, table: Table, keys: list[Key]) -> None:
        self.found[Difference.UNREADABLE] += len(keys)
        self.unreadable += [(table, key) for key in keys[: EXAMPLES - len(self.unreadable)]]
