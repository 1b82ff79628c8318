"""Whether follows and edges agree: compared both ways, looked at again, and settled if asked.

The following row decides. Follows go on meanwhile, so a difference counts only if it is still there
a moment later, at the same version of the row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import islice

from fanfold import clock
from fanfold.aws.items import text
from fanfold.aws.retries import is_transient
from fanfold.doctor.scan import Key, Pair, Placements, Records
from fanfold.errors import TryLater
from fanfold.follows import ring
from fanfold.follows.follow import Following
from fanfold.follows.follows_table import Follow
from fanfold.names import FOLLOWERS, FOLLOWING, PLAN, Table
from fanfold.settings import HIGHEST_LEVEL

# Where a door stopped half-way, RELATE comes when its time is over: after this, all that was on its
# way has arrived. The longest time is that of PLAN, which takes follows from the publish queue. As
# long is that of DELIVER: whoever read a level before an edge was there has ended, too.
MOMENT_SECONDS = PLAN.seconds + 20.0
# Differences that wait for their second look; with more, reading waits for them.
MAX_SUSPECTS = 20_000
# Of what was found, so many are kept to be shown.
EXAMPLES = 100
# Edges of each publisher beyond as many as it has follows in the sample: one too many is seen.
SPARE = 10


class Difference(StrEnum):
    """How the edges of one relation differ from its row; the last two are of other things."""

    MISSING = "missing"  # a follow without an edge
    ORPHANED = "stray"  # an edge without a follow
    OLDER = "older"  # edges of older versions only
    NEWER = "newer"  # an edge of a newer version, which the row's next unfollow would not end
    TWICE = "twice"  # the right edge, and one at another level: harmless, readers drop it
    UNREACHABLE = "hidden"  # a publisher with edges above the level of its row: nobody looks there
    UNREADABLE = "unreadable"  # an item that is no edge or no row; never mended


FAULTS = frozenset(Difference) - {Difference.TWICE}


@dataclass(frozen=True)
class Look:
    """A relation at one moment: its row, and where its edge is."""

    row: Follow
    placements: Placements

    @property
    def pair(self) -> Pair:
        """Whose relation it is."""
        return self.row.user_id, self.row.publisher_id

    @property
    def difference(self) -> Difference | None:
        """How the edges differ from the row; None if they agree."""
        if not self.row.is_active:
            return Difference.ORPHANED if self.placements else None
        if not self.placements:
            return Difference.MISSING
        newest = max(self.placements.values())
        if newest != self.row.version:
            return Difference.NEWER if newest > self.row.version else Difference.OLDER
        return Difference.TWICE if len(self.placements) > 1 else None

    @property
    def is_fault(self) -> bool:
        """Whether they differ in a way that does harm."""
        return self.difference in FAULTS


@dataclass(frozen=True)
class Unreachable:
    """A publisher with edges above the level that its row knew, and the highest of those."""

    publisher_id: str
    level: int
    seen: int


@dataclass
class Report:
    """What was looked at, and how many relations differed how."""

    follows: int = 0  # without those that have ended
    edges: int = 0
    found: Counter[Difference] = field(default_factory=Counter)
    mended: Counter[Difference] = field(default_factory=Counter)
    examples: list[Look] = field(default_factory=list)
    hidden: dict[str, Unreachable] = field(default_factory=dict)  # by publisher
    unreadable: list[tuple[Table, Key]] = field(default_factory=list)  # some of them
    suspected: int = 0  # differences that wait for their second look
    failure: str = ""  # why the last one that was not mended was not

    @property
    def wrong(self) -> int:
        """Relations, publishers and items that were wrong."""
        return sum(self.found[kind] for kind in FAULTS)

    @property
    def left(self) -> int:
        """Those that are wrong still."""
        return self.wrong - self.right_again

    @property
    def right_again(self) -> int:
        """Those that were wrong and are mended."""
        return sum(self.mended[kind] for kind in FAULTS)

    @property
    def mendable(self) -> int:
        """Those of them that a repair can mend."""
        return self.left - self.found[Difference.UNREADABLE]

    def keep(self, looks: Iterable[Look]) -> None:
        """Keep these as examples, as long as there are few."""
        self.examples += islice(looks, EXAMPLES - len(self.examples))


@dataclass(frozen=True)
class Round:
    """A part of the examination. It goes on as `steps` are taken, each of so many of `what`."""

    what: str
    total: int | None
    steps: Iterator[int]
    note: str = ""  # what to know of it before


@dataclass
class Doctor:
    """The use case behind `fanfold doctor`: each of its three ways goes on by its rounds."""

    records: Records
    relations: Following | None  # what settles; with none it is only looked at
    report: Report = field(default_factory=Report)
    # In the order of their first look, with its time.
    _suspects: dict[Pair, tuple[float, Look]] = field(default_factory=dict)
    _told: set[Pair] = field(default_factory=set)
    _raised: set[str] = field(default_factory=set)  # publishers

    def whole(self) -> Iterator[Round]:
        """Every edge and every follow."""
        count, records = self.records.count, self.records
        # Edges first: they tell at which levels those of a follow may be.
        edges = self._compare_edges(self._readable_edges(records.edges()))
        yield Round("edges", count(records.followers.table), edges)
        follows = self._compare_follows(self._readable_rows(records.follows()))
        yield Round("follows", count(records.following.table), follows)
        yield from self._rest()

    def publisher(self, publisher_id: str) -> Iterator[Round]:
        """Every follow and every edge of one publisher.

        For that all follows are read, because they are kept by user.
        """
        above = range(self.records.level(publisher_id) + 1, HIGHEST_LEVEL + 1)
        if above:
            shards = sum(2**level for level in above)
            yield Round("shards", shards, self._look_above(publisher_id, above))
        pages = self.records.follows(
            FilterExpression="publisher_id = :publisher",
            ExpressionAttributeValues={":publisher": text(publisher_id)},
        )
        count = self.records.count(self.records.following.table)
        yield Round("follows", count, self._compare_follows(self._readable_rows(pages)))
        edges = self.records.ring(publisher_id, ring.START, ring.END)
        yield Round("edges", None, self._compare_edges(edges))
        yield from self._rest()

    def sample(self, size: int) -> Iterator[Round]:
        """So many follows at random, and some more edges of the publishers among them."""
        follows: Counter[str] = Counter()

        def some() -> Iterator[tuple[int, list[Follow]]]:
            for read, rows in self._readable_rows(self.records.some_follows(size)):
                follows.update(row.publisher_id for row in rows)
                yield read, rows

        total = min(size, self.records.count(self.records.following.table) or size)
        yield Round("follows", total, self._compare_follows(some()))
        near = self.records.threads.map(
            lambda each: self.records.some_edges(each[0], each[1] + SPARE), follows.items()
        )
        yield Round("edges", None, self._compare_edges(page for pages in near for page in pages))
        yield from self._rest()

    def look(self, pair: Pair) -> Look | None:
        """The relation now; None if it changes meanwhile, because who does that settles it."""
        row = self.records.row(pair)
        if row is None:
            return None  # it is unreadable, and told as that
        # Behind the row: no edge that was acknowledged before lies at a higher level.
        level = self.records.level_now(row.publisher_id)
        placements = self.records.placements({pair: level}).get(pair, {})
        now = self.records.row(pair)
        return Look(row, placements) if now and now.version == row.version else None

    def _compare_follows(self, pages: Iterable[tuple[int, list[Follow]]]) -> Iterator[int]:
        for read, page in pages:
            rows = {(row.user_id, row.publisher_id): row for row in page}
            placements = self.records.placements(self.records.levels(rows))
            looks = [Look(row, placements.get(pair, {})) for pair, row in rows.items()]
            twice = [look for look in looks if look.difference == Difference.TWICE]
            self.report.found[Difference.TWICE] += len(twice)
            self.report.keep(twice)
            self.report.follows += sum(row.is_active for row in page)
            self._suspect(look.pair for look in looks if self._is_due(look))
            yield read

    def _compare_edges(self, pages: Iterable[dict[Pair, Placements]]) -> Iterator[int]:
        for page in pages:
            self._find_hidden(page)
            rows = self.records.rows(page)
            looks = [
                Look(rows.get(pair) or Follow(user_id=pair[0], publisher_id=pair[1]), placements)
                for pair, placements in page.items()
            ]
            count = sum(map(len, page.values()))
            self.report.edges += count
            self._suspect(look.pair for look in looks if look.is_fault)
            yield count

    def _readable_edges(
        self, pages: Iterable[tuple[dict[Pair, Placements], list[Key]]]
    ) -> Iterator[dict[Pair, Placements]]:
        for edges, unreadable in pages:
            self._unreadable(FOLLOWERS, unreadable)
            yield edges

    def _readable_rows(
        self, pages: Iterable[tuple[int, list[Follow], list[Key]]]
    ) -> Iterator[tuple[int, list[Follow]]]:
        for read, rows, unreadable in pages:
            self._unreadable(FOLLOWING, unreadable)
            yield read, rows

    def _unreadable(self, table: Table, keys: Sequence[Key]) -> None:
        self.report.found[Difference.UNREADABLE] += len(keys)
        room = EXAMPLES - len(self.report.unreadable)
        self.report.unreadable += [(table, key) for key in keys[:room]]

    def _look_above(self, publisher_id: str, levels: Sequence[int]) -> Iterator[int]:
        """Look for the highest of these levels at which the publisher has edges."""
        # From above: one that all are kept at may lie far above a publisher's, beyond empty ones.
        for level in reversed(levels):
            look = partial(self.records.has_edges, publisher_id, level)
            has_edges = self.records.threads.map(look, range(2**level))
            has_any = any(list(has_edges))  # a list, so that none is under way any more
            if has_any:
                self._hidden(publisher_id, level)
            yield 2**level
            if has_any:
                return

    def _find_hidden(self, page: dict[Pair, Placements]) -> None:
        """Find the publishers whose edges lie above the level that is known of them."""
        tops: dict[str, int] = {}
        for (_, publisher_id), placements in page.items():
            tops[publisher_id] = max(tops.get(publisher_id, 0), *placements)
        high = [publisher_id for publisher_id, top in tops.items() if top > 0]
        levels = list(self.records.threads.map(self.records.level, high))
        for publisher_id, level in zip(high, levels, strict=True):
            if tops[publisher_id] > level:
                self._hidden(publisher_id, tops[publisher_id])

    def _hidden(self, publisher_id: str, level: int) -> None:
        """An edge lies above what was known; count it unless the publisher has just grown."""
        own = self.records.see(publisher_id, level)
        if level <= own:
            return
        before = self.report.hidden.get(publisher_id)
        self.report.hidden[publisher_id] = Unreachable(
            publisher_id, before.level if before else own, level
        )
        self.report.found[Difference.UNREACHABLE] = len(self.report.hidden)
        if self.relations:
            self._raise(publisher_id, level, self.relations)

    def _raise(self, publisher_id: str, level: int, relations: Following) -> None:
        """Let the publisher's row know the level, so that all who look for its edges see them."""
        self._raised.discard(publisher_id)
        try:
            self.records.raise_level(publisher_id, level)
            self._raised.add(publisher_id)
        except Exception as error:
            if not _may_be_mended_later(error):
                raise
            self.report.failure = str(error)
        relations.edges.forget()  # among others the level from before
        # What was settled was so up to the level from before.
        self._told = {pair for pair in self._told if pair[1] != publisher_id}
        self.report.mended[Difference.UNREACHABLE] = len(self._raised)

    def _suspect(self, pairs: Iterable[Pair]) -> None:
        """Look closely at these, and once more at those that were looked at a moment ago."""
        new = [pair for pair in pairs if pair not in self._suspects and pair not in self._told]
        for look in self.records.threads.map(self.look, new):
            if look and self._is_due(look):
                self._suspects[look.pair] = clock.monotonic(), look
        self.report.suspected = len(self._suspects)
        self._look_again(wait=len(self._suspects) > MAX_SUSPECTS)

    def _rest(self) -> Iterator[Round]:
        while count := len(self._suspects):
            note = (
                f"{count:,} differences are looked at again {MOMENT_SECONDS:.0f} s after the first "
                "time: by then what was on its way has arrived."
            )
            yield Round("differences", count, self._look_at_the_rest(count), note)

    def _look_at_the_rest(self, count: int) -> Iterator[int]:
        while count > 0:
            looked = self._look_again(wait=True)
            count -= looked
            yield looked

    def _look_again(self, *, wait: bool) -> int:
        if wait:
            first_at = next(at for at, _ in self._suspects.values())
            clock.sleep(max(0.0, first_at + MOMENT_SECONDS - clock.monotonic()))
        now = clock.monotonic()
        due = [pair for pair, (at, _) in self._suspects.items() if at + MOMENT_SECONDS <= now]
        looks = [self._suspects.pop(pair)[1] for pair in due]
        self.report.suspected = len(self._suspects)
        wrong = [look for look in self.records.threads.map(self._confirm, looks) if look]
        for look in wrong:
            self._count(look)
        if self.relations:
            self._mend_all(wrong, self.relations)
        return len(looks)

    def _confirm(self, first: Look) -> Look | None:
        second = self.look(first.pair)
        if second is None or second.row.version != first.row.version:
            return None
        if second.difference is Difference.TWICE:
            # One that has come meanwhile does not count: a delivery under way may have missed it,
            # and read the others yet.
            placements = dict(first.placements.items() & second.placements.items())
            second = Look(second.row, placements)
            return second if second.difference is Difference.TWICE else None
        return second if second.is_fault else None

    def _is_due(self, look: Look) -> bool:
        """Whether there is something to tell of or to mend."""
        return look.is_fault or (bool(self.relations) and look.difference is Difference.TWICE)

    def _count(self, wrong: Look) -> None:
        kind = wrong.difference
        if kind is None or kind is Difference.TWICE:
            return  # those were counted when they were met
        self.report.found[kind] += 1
        self.report.keep([wrong])
        if kind != Difference.MISSING:  # that one is met once, by its row
            self._told.add(wrong.pair)

    def _mend_all(self, wrong: Sequence[Look], relations: Following) -> None:
        ends = self.records.threads.map(lambda look: self._mend(look, relations), wrong)
        for look, (failure, after) in zip(wrong, ends, strict=True):
            if failure:
                self.report.failure = failure
                continue
            assert look.difference
            self.report.mended[look.difference] += 1
            if after and after.difference is Difference.TWICE:
                # What was wrong is there still, below. It is taken out a moment later, too.
                self.report.found[Difference.TWICE] += 1
                self._suspects[look.pair] = clock.monotonic(), after

    def _mend(self, wrong: Look, relations: Following) -> tuple[str, Look | None]:
        """Let the edges agree with the row, whatever that says by now.

        Returns why they do not yet, and how it is now.
        """
        try:
            if wrong.difference is Difference.TWICE:
                self.records.unite(wrong.row, wrong.placements)
                return "", None
            # An edge newer than its row, as after a table was restored, withstands every settling.
            # So the row is raised beyond it: nothing is deleted that may have come meanwhile.
            newest = max(wrong.placements.values(), default=0)
            if newest > wrong.row.version:
                self.records.raise_row(wrong.row, newest + 1)
            relations.reconcile(*wrong.pair)
            after = self.look(wrong.pair)
        except Exception as error:
            if not _may_be_mended_later(error):
                raise
            return str(error), None
        return f"It is {after.difference} still." if after and after.is_fault else "", after


def _may_be_mended_later(error: Exception) -> bool:
    return isinstance(error, TryLater) or is_transient(error)
