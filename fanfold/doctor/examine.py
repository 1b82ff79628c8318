"""The use case behind `fanfold doctor`: do follows, edges and marks agree, and if not, make them.

The following row decides. One pass compares the edges with the rows, another the rows with the
edges and with the marks of their readers. A difference counts only if a second read, a moment
later, finds it again. A stage with channels has two passes before them (`examine_channels.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import MappingProxyType

from fanfold.doctor.audience import Tally, difference_of
from fanfold.doctor.examine_channels import ChannelExamination
from fanfold.doctor.findings import (
    TAKE_AWAY,
    Difference,
    Pair,
    Placements,
    Report,
    Snapshot,
    pair_of,
)
from fanfold.doctor.recheck import MOMENT_SECONDS, Recheck
from fanfold.doctor.repair import Repair, failure_of
from fanfold.doctor.scan import Records
from fanfold.doctor.scan_channels import ChannelRecords
from fanfold.follows.follows_table import Place
from fanfold.names import FOLLOWERS, FOLLOWING

# The most differences that await their second read. Scanning pauses above that, to save memory.
MAX_SUSPECTS = 20_000
# The most differences whose repairs run together.
TAKEN_AT_ONCE = 1_000


@dataclass(frozen=True)
class Phase:
    """A part of an examination; each of its `steps` says how many of `unit` it has done."""

    what: str
    unit: str
    total: int | None
    steps: Iterator[int]


@dataclass(frozen=True)
class Doctor:
    records: Records
    repair: Repair | None  # without it, differences are only reported
    recheck: Recheck
    report: Report
    channels: ChannelRecords | None = None  # of a stage that has them
    # Notes what a repair would take away, until `take_away`.
    set_aside: Callable[[Snapshot], None] = lambda _snapshot: None

    def examine(self, publisher_id: str | None = None) -> Iterator[Phase]:
        """Examine all follows and edges, or those of one publisher.

        Both tables are scanned for one publisher, too: follows are keyed by user, and edges may lie
        in shards that the publisher's row does not know.
        """
        if self.channels:
            yield from self._examine_channels(self.channels, publisher_id)
        followers, following = self.records.edges_table.table, self.records.follows.table
        # Edges first: they show up to which level the edge of a follow may lie.
        edges = self._compare_edges(publisher_id)
        yield Phase("Reading edges", "edges", self.records.count(followers), edges)
        rows = self._compare_rows(publisher_id)
        yield Phase("Reading follows", "follows", self.records.count(following), rows)
        if count := len(self.recheck):
            what = f"Reading differences again, {MOMENT_SECONDS:.0f} s after the first time"
            yield Phase(what, "differences", count, self._recheck_all())

    def _examine_channels(
        self, channels: ChannelRecords, publisher_id: str | None
    ) -> Iterator[Phase]:
        examination = ChannelExamination(
            channels, self.report, self.repair is not None, self._suspect_pairs
        )
        posts, readers = channels.fanouts_table, self.records.follows.readers.table
        steps = examination.compare_posts(publisher_id)
        yield Phase("Reading deliveries", "deliveries", self.records.count(posts), steps)
        steps = examination.compare_readers(publisher_id)
        yield Phase("Reading readers", "readers", self.records.count(readers), steps)

    def _suspect_pairs(self, pairs: Iterable[Pair]) -> None:
        """Suspect those without an edge, which finds relations without a row as well."""
        self._suspect(each for each in self._read(pairs) if not each.placements)

    def _compare_edges(self, publisher_id: str | None) -> Iterator[int]:
        """Find edges without a row. All other differences are found with the rows."""
        for scanned, page, unreadable in self.records.edges(publisher_id):
            self.report.add_unreadable(FOLLOWERS, unreadable)
            self.report.edges += sum(map(len, page.values()))
            self._raise_levels(page)
            # The copies of an edge may come in different pages: it counts with the lowest one.
            self._suspect(
                snapshot
                for snapshot in self._read(self.records.without_row(page))
                if min(snapshot.placements, default=None) == min(page[snapshot.pair])
            )
            yield scanned

    def _compare_rows(self, publisher_id: str | None) -> Iterator[int]:
        tally = Tally()
        for page in self.records.rows(publisher_id):
            rows = page.rows
            self.report.add_unreadable(FOLLOWING, page.unreadable)
            self.report.follows += sum(row.is_active for row in rows)
            placements = self.records.placements(self.records.levels(list(map(pair_of, rows))))
            readers = self.records.readers(rows)
            marks = self.records.marks(rows, readers)
            beside = self.records.beside(rows, page.expiring, {})
            snapshots = [
                Snapshot(
                    row,
                    placements.get(pair := pair_of(row), {}),
                    *marks[pair],
                    difference_of(row, beside[pair]),
                )
                for row in rows
            ]
            places = self.records.misplaced(page.places)
            differing = dict.fromkeys(each.pair for each in snapshots if each.difference)
            self._suspect(self._read(differing | places, places))
            if publisher_id is None:
                self._count(tally.add(rows, readers))
            yield page.scanned
        self._count(tally.over())

    def _count(self, users: Iterable[str]) -> None:
        """Find the users whose counts are wrong, and correct these if repairs are wanted.

        A change writes the counts with the row, so none is under way.
        """
        for miscount in filter(None, self.records.threads.map(self.records.miscount, users)):
            self.report.add_miscount(miscount)
            if self.repair:
                failure = failure_of(partial(self.repair.correct, miscount))
                self.report.add_repair(Difference.PLACES, failure)

    def _raise_levels(self, page: dict[Pair, Placements]) -> None:
        """Find the publishers with edges above their level, and raise it if repairs are wanted.

        A raise that fails ends the examination: below that level, nothing else can be repaired.
        """
        for publisher in self.records.above(page):
            self.report.add_unreachable(publisher)
            if self.repair:
                self.repair.raise_level(publisher.publisher_id, publisher.seen)
                self.report.repaired[Difference.UNREACHABLE] = len(self.report.unreachable)

    def _read(
        self, pairs: Iterable[Pair], places: Mapping[Pair, Set[Place]] = MappingProxyType({})
    ) -> Iterator[Snapshot]:
        """The snapshots of the relations that differ at their first read."""
        snapshots = self.records.threads.map(
            lambda pair: self.records.snapshot(pair, places.get(pair, frozenset())), pairs
        )
        return (snapshot for snapshot in snapshots if snapshot and snapshot.difference)

    def _suspect(self, snapshots: Iterable[Snapshot]) -> None:
        self.recheck.add(snapshots)
        self.report.awaiting = len(self.recheck)
        self._recheck(wait=len(self.recheck) > MAX_SUSPECTS)

    def _recheck_all(self) -> Iterator[int]:
        while len(self.recheck):
            yield self._recheck(wait=True)

    def _recheck(self, *, wait: bool) -> int:
        count, confirmed = self.recheck.due(wait=wait)
        self.report.awaiting = len(self.recheck)
        for snapshot in confirmed:
            self.report.add(snapshot)
        if self.repair:
            for snapshot in confirmed:
                if snapshot.takes_away:
                    self.set_aside(snapshot)
            self._reconcile(
                self.repair, [(each, each.difference) for each in confirmed if not each.takes_away]
            )
        return count

    def take_away(self, aside: Iterable[tuple[Pair, Difference]]) -> Phase:
        """Repair what was set aside, if a new read still finds it."""
        total = self.report.taken_away
        return Phase("Taking away", "differences", total, self._take_away(iter(aside)))

    def _take_away(self, aside: Iterator[tuple[Pair, Difference]]) -> Iterator[int]:
        assert self.repair
        while page := list(islice(aside, TAKEN_AT_ONCE)):
            snapshots = self.records.threads.map(self.records.snapshot, [pair for pair, _ in page])
            todo = []
            for (pair, difference), now in zip(page, snapshots, strict=True):
                if now and now.difference is None:
                    self.report.add_repair(difference, "")  # mended meanwhile
                elif now and _is_still(difference, now):
                    todo.append((now, difference))
                else:
                    user_id, publisher_id = pair
                    changed = f"The follow of '{publisher_id}' by '{user_id}' changed meanwhile."
                    self.report.add_repair(difference, changed)
            self._reconcile(self.repair, todo)
            yield len(page)

    def _reconcile(
        self, repair: Repair, found: Sequence[tuple[Snapshot, Difference | None]]
    ) -> None:
        repairs = [partial(repair.reconcile, snapshot) for snapshot, _ in found]
        failures = self.records.threads.map(failure_of, repairs)
        for (_, difference), failure in zip(found, failures, strict=True):
            self.report.add_repair(difference, failure)
        # Of a block or a row that was lost, its count may be left.
        lost = (
            seen.pair
            for seen, _ in found
            if seen.beside is Difference.BLOCK or not seen.row.version
        )
        self._count(sorted({user for pair in lost for user in pair}))


def _is_still(difference: Difference, now: Snapshot) -> bool:
    """Whether a repair would still take away what was noted: a follow, or an unfollow."""
    return now.difference in TAKE_AWAY if difference in TAKE_AWAY else now.takes_unfollow
