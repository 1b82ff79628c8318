"""Whether follows and edges agree: compared both ways, looked at again, and settled if asked.

The following row decides. Follows go on meanwhile, so a difference counts only if it is still there
a moment later, at the same version of the row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import Any, TypeAlias

from fanfold import clock, ring
from fanfold.attributes import Item, get_number, get_text, number, text
from fanfold.calls import is_passing
from fanfold.errors import TryLater
from fanfold.followers import Followers, page_of
from fanfold.following import UNFOLLOWED, Follow, Following
from fanfold.names import EXPIRES_AT, FOLLOWERS
from fanfold.publishers import Publishers
from fanfold.relate import TOMBSTONE_SECONDS, Relations
from fanfold.ringread import RingRead

# A door that stopped half-way is followed by RELATE 10 s after it began: within this, all that was
# on its way has arrived.
MOMENT_SECONDS = 20.0
# Differences that wait for their second look; with more, reading waits for them.
MAX_SUSPECTS = 20_000
# Of what was found, so many are kept to be shown.
EXAMPLES = 100
# BatchGetItem takes no more keys, and leaves some when a table has enough to do.
MAX_KEYS = 100
ATTEMPTS = 6
BACKOFF_SECONDS = 0.05
# A sample is of whole segments of a scan, about so many, out of no more than DynamoDB cuts.
SEGMENTS_OF_A_SAMPLE = 32
MAX_SEGMENTS = 1_000_000
# Edges of each publisher beyond as many as it has follows in the sample: one too many is seen.
SPARE = 10
# Publishers whose level is remembered. One that has grown since is noticed at the second look.
MAX_LEVELS = 100_000

Pair: TypeAlias = tuple[str, str]  # user, publisher
Homes: TypeAlias = dict[int, int]  # of one relation's edge: its version at each level where it is


class Difference(StrEnum):
    """How the edges of one relation differ from its row."""

    MISSING = "missing"  # a follow without an edge
    STRAY = "stray"  # an edge without a follow
    OLDER = "older"  # edges of older versions only
    NEWER = "newer"  # an edge of a newer version, which the row's next unfollow would not end
    TWICE = "twice"  # the right edge, and one at another level: harmless, readers drop it


FAULTS = frozenset(Difference) - {Difference.TWICE}


def difference(row: Follow, homes: Mapping[int, int]) -> Difference | None:
    """How the edges of a relation differ from its row; None if they agree."""
    if not row.is_active:
        return Difference.STRAY if homes else None
    if not homes:
        return Difference.MISSING
    newest = max(homes.values())
    if newest != row.version:
        return Difference.NEWER if newest > row.version else Difference.OLDER
    return Difference.TWICE if len(homes) > 1 else None


@dataclass(frozen=True)
class Look:
    """A relation at one moment: its row, and where its edge is."""

    row: Follow
    homes: Homes

    @property
    def pair(self) -> Pair:
        """Whose relation it is."""
        return self.row.user_id, self.row.publisher_id

    @property
    def difference(self) -> Difference | None:
        """How they differ."""
        return difference(self.row, self.homes)

    @property
    def is_fault(self) -> bool:
        """Whether they differ in a way that does harm."""
        return self.difference in FAULTS


@dataclass
class Report:
    """What was looked at, and how many relations differed how."""

    follows: int = 0
    edges: int = 0
    found: Counter[Difference] = field(default_factory=Counter)
    mended: Counter[Difference] = field(default_factory=Counter)
    examples: list[Look] = field(default_factory=list)
    failure: str = ""  # why the last one that was not mended was not

    @property
    def wrong(self) -> int:
        """Relations that were wrong."""
        return sum(self.found[kind] for kind in FAULTS)

    @property
    def left(self) -> int:
        """Relations that are wrong still."""
        return self.wrong - self.mended.total()


@dataclass(frozen=True)
class Round:
    """A part of the examination. It goes on as `steps` are taken, each of so many of `what`."""

    what: str
    total: int | None
    steps: Iterator[int]


@dataclass(frozen=True)
class Records:
    """Rows and edges in bulk, read consistently; `threads` read many at a time."""

    following: Following
    followers: Followers
    publishers: Publishers
    threads: Executor
    _levels: dict[str, int] = field(default_factory=dict)

    def look(self, pair: Pair) -> Look | None:
        """The relation now; None if it changes meanwhile, because who does that settles it."""
        row = self._row(pair)
        # Behind the row: no edge that was acknowledged before lies at a higher level.
        level = self.publishers.shards(row.publisher_id).level
        homes = self.homes({pair: level}).get(pair, {})
        return Look(row, homes) if self._row(pair).version == row.version else None

    def follows(self, **scan: Any) -> Iterator[tuple[int, list[Follow]]]:
        """All rows or what the scan keeps of them, page by page, and how many were read for it."""
        for answer in self._scan(self.following.table, **scan):
            yield answer["ScannedCount"], [_follow(item) for item in answer["Items"]]

    def some_follows(self, size: int) -> Iterator[list[Follow]]:
        """So many rows, out of segments of the table that are drawn by lot."""
        a_part = max(1, size // SEGMENTS_OF_A_SAMPLE)
        segments = min(MAX_SEGMENTS, max(1, (self.count(self.following.table) or 0) // a_part))
        for segment in sorted(range(segments), key=lambda _segment: clock.chance()):
            for _, rows in self.follows(Segment=segment, TotalSegments=segments):
                yield rows[:size]
                size -= len(rows)
                if size <= 0:
                    return

    def edges(self) -> Iterator[dict[Pair, Homes]]:
        """All edges, page by page; one that is at two levels may come in two of them."""
        for answer in self._scan(self.followers.table):
            yield _homes(answer["Items"])

    def ring(
        self, publisher_id: str, lo: str, hi: str, limit: int | None = None
    ) -> Iterator[dict[Pair, Homes]]:
        """A publisher's edges in a range of the ring, of all levels, page by page."""
        wanted = RingRead(self.level(publisher_id), lo, hi)
        homes: dict[str, Homes] = {}
        while read := wanted.next_read():
            request = self.followers.page_request(publisher_id, read, limit)
            request["ProjectionExpression"] = "edge, version"
            answer = self.followers.client.query(**request)
            for item in answer["Items"]:
                home = homes.setdefault(get_text(item, "edge"), {})
                home[read.level] = get_number(item, "version")
            wanted.page_read(read, page_of(answer))
            if edges := wanted.take():
                yield {(ring.follower_of(edge), publisher_id): homes.pop(edge) for edge in edges}

    def some_edges(self, publisher_id: str, size: int) -> list[dict[Pair, Homes]]:
        """So many edges from a random place of the ring on, all if there are no more."""
        place = f"{int(clock.chance() * ring.RING_SIZE):016x}"
        pages: list[dict[Pair, Homes]] = []
        for lo, hi in ((place, ring.END), (ring.START, place)):
            for page in self.ring(publisher_id, lo, hi, limit=size):
                pages.append(dict(islice(page.items(), size)))
                size -= len(pages[-1])
                if size == 0:
                    return pages
        return pages

    def homes(self, levels: Mapping[Pair, int]) -> dict[Pair, Homes]:
        """Where the edges of these pairs are, each looked for up to its publisher's level."""
        keys = [_edge_key(pair, each) for pair, top in levels.items() for each in range(top + 1)]
        return _homes(self._get_all(self.followers.table, keys))

    def rows(self, pairs: Iterable[Pair]) -> dict[Pair, Follow]:
        """The rows of these pairs, as far as there are any."""
        keys = [_row_key(pair) for pair in pairs]
        rows = map(_follow, self._get_all(self.following.table, keys))
        return {(row.user_id, row.publisher_id): row for row in rows}

    def level(self, publisher_id: str) -> int:
        """The publisher's level when it was first asked for."""
        level = self._levels.get(publisher_id)
        if level is None:
            if len(self._levels) >= MAX_LEVELS:
                self._levels.clear()
            level = self.publishers.shards(publisher_id).level
            self._levels[publisher_id] = level
        return level

    def levels(self, pairs: Collection[Pair]) -> dict[Pair, int]:
        """The levels of these pairs' publishers."""
        publishers = list({publisher_id for _, publisher_id in pairs})
        levels = dict(zip(publishers, self.threads.map(self.level, publishers), strict=True))
        return {pair: levels[pair[1]] for pair in pairs}

    def count(self, table: str) -> int | None:
        """About how many items the table holds: DynamoDB counts them every six hours."""
        return self.following.client.describe_table(TableName=table)["Table"].get("ItemCount")

    def raise_row(self, seen: Follow, version: int) -> None:
        """Give the row a higher version; where there is none, put the end of a follow.

        Raises `TryLater` if it changed meanwhile.
        """
        client, table = self.following.client, self.following.table
        key = _row_key((seen.user_id, seen.publisher_id))
        try:
            if seen.version:
                client.update_item(
                    TableName=table,
                    Key=key,
                    UpdateExpression="SET version = :version",
                    ConditionExpression="version = :seen",
                    ExpressionAttributeValues={
                        ":version": number(version),
                        ":seen": number(seen.version),
                    },
                )
                return
            tombstone = {
                "state": text(UNFOLLOWED),
                "version": number(version),
                EXPIRES_AT: number(clock.now_ms() // 1000 + TOMBSTONE_SECONDS),
            }
            client.put_item(
                TableName=table,
                Item={**key, **tombstone},
                ConditionExpression="attribute_not_exists(user_id)",
            )
        except client.exceptions.ConditionalCheckFailedException:
            raise TryLater("The follow changed meanwhile; run it again.") from None

    def _row(self, pair: Pair) -> Follow:
        return self.following.get(*pair) or _no_row(pair)

    def _scan(self, table: str, **request: Any) -> Iterator[Any]:
        while True:
            answer = self.following.client.scan(TableName=table, ConsistentRead=True, **request)
            yield answer
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _get_all(self, table: str, keys: Sequence[Any]) -> list[Item]:
        parts = [keys[start : start + MAX_KEYS] for start in range(0, len(keys), MAX_KEYS)]
        if len(parts) == 1:
            # A look has no more, and is on a thread itself: it must not wait for another one.
            return self._get(table, parts[0])
        read = self.threads.map(lambda part: self._get(table, part), parts)
        return [item for items in read for item in items]

    def _get(self, table: str, keys: Sequence[Any]) -> list[Item]:
        found: list[Item] = []
        left: Any = keys
        for attempt in range(ATTEMPTS):
            request: Any = {table: {"Keys": left, "ConsistentRead": True}}
            answer: Any = self.following.client.batch_get_item(RequestItems=request)
            found += answer["Responses"].get(table, [])
            left = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
            if not left:
                return found
            clock.sleep(clock.chance() * BACKOFF_SECONDS * 2**attempt)
        raise TryLater("The tables are read faster than they take; run it again.")


@dataclass
class Doctor:
    """The use case behind `fanfold doctor`: each of its three ways goes on by its rounds."""

    records: Records
    relations: Relations | None  # what settles; with none it is only looked at
    report: Report = field(default_factory=Report)
    # In the order of their first look, with its time.
    _suspects: dict[Pair, tuple[float, Look]] = field(default_factory=dict)
    _told: set[Pair] = field(default_factory=set)

    def whole(self) -> Iterator[Round]:
        """Every follow and every edge."""
        count, records = self.records.count, self.records
        follows = self._compare_follows(records.follows())
        yield Round("follows", count(records.following.table), follows)
        yield Round("edges", count(records.followers.table), self._compare_edges(records.edges()))
        yield from self._rest()

    def publisher(self, publisher_id: str) -> Iterator[Round]:
        """Every follow and every edge of one publisher.

        For that all follows are read, because they are kept by user.
        """
        pages = self.records.follows(
            FilterExpression="publisher_id = :publisher",
            ExpressionAttributeValues={":publisher": text(publisher_id)},
        )
        count = self.records.count(self.records.following.table)
        yield Round("follows", count, self._compare_follows(pages))
        edges = self.records.ring(publisher_id, ring.START, ring.END)
        yield Round("edges", None, self._compare_edges(edges))
        yield from self._rest()

    def sample(self, size: int) -> Iterator[Round]:
        """So many follows at random, and some more edges of the publishers among them."""
        follows: Counter[str] = Counter()

        def some() -> Iterator[tuple[int, list[Follow]]]:
            for rows in self.records.some_follows(size):
                follows.update(row.publisher_id for row in rows)
                yield len(rows), rows

        total = min(size, self.records.count(self.records.following.table) or size)
        yield Round("follows", total, self._compare_follows(some()))
        near = self.records.threads.map(
            lambda each: self.records.some_edges(each[0], each[1] + SPARE), follows.items()
        )
        yield Round("edges", None, self._compare_edges(page for pages in near for page in pages))
        yield from self._rest()

    def _compare_follows(self, pages: Iterable[tuple[int, list[Follow]]]) -> Iterator[int]:
        for read, page in pages:
            rows = {(row.user_id, row.publisher_id): row for row in page}
            homes = self.records.homes(self.records.levels(rows))
            looks = [Look(row, homes.get(pair, {})) for pair, row in rows.items()]
            twice = sum(look.difference == Difference.TWICE for look in looks)
            self.report.found[Difference.TWICE] += twice
            self.report.follows += len(page)
            self._suspect(look.pair for look in looks if look.is_fault)
            yield read

    def _compare_edges(self, pages: Iterable[dict[Pair, Homes]]) -> Iterator[int]:
        for page in pages:
            rows = self.records.rows(page)
            looks = [Look(rows.get(pair) or _no_row(pair), homes) for pair, homes in page.items()]
            count = sum(map(len, page.values()))
            self.report.edges += count
            self._suspect(look.pair for look in looks if look.is_fault)
            yield count

    def _suspect(self, pairs: Iterable[Pair]) -> None:
        """Look closely at these, and once more at those that were looked at a moment ago."""
        new = [pair for pair in pairs if pair not in self._suspects and pair not in self._told]
        for look in self.records.threads.map(self.records.look, new):
            if look and look.is_fault:
                self._suspects[look.pair] = clock.monotonic(), look
        self._look_again(wait=len(self._suspects) > MAX_SUSPECTS)

    def _rest(self) -> Iterator[Round]:
        if self._suspects:
            yield Round("differences", len(self._suspects), self._look_at_the_rest())

    def _look_at_the_rest(self) -> Iterator[int]:
        while self._suspects:
            yield self._look_again(wait=True)

    def _look_again(self, *, wait: bool) -> int:
        if wait:
            first_at = next(at for at, _ in self._suspects.values())
            clock.sleep(max(0.0, first_at + MOMENT_SECONDS - clock.monotonic()))
        now = clock.monotonic()
        due = [pair for pair, (at, _) in self._suspects.items() if at + MOMENT_SECONDS <= now]
        looks = [self._suspects.pop(pair)[1] for pair in due]
        wrong = [look for look in self.records.threads.map(self._confirm, looks) if look]
        for look in wrong:
            self._count(look)
        if self.relations:
            self._mend_all(wrong, self.relations)
        return len(looks)

    def _confirm(self, first: Look) -> Look | None:
        second = self.records.look(first.pair)
        is_same = second is not None and second.row.version == first.row.version
        return second if second and is_same and second.is_fault else None

    def _count(self, wrong: Look) -> None:
        kind = wrong.difference
        assert kind is not None  # it is a fault
        self.report.found[kind] += 1
        if len(self.report.examples) < EXAMPLES:
            self.report.examples.append(wrong)
        if kind != Difference.MISSING:  # that one has no edge by which to be met again
            self._told.add(wrong.pair)

    def _mend_all(self, wrong: Sequence[Look], relations: Relations) -> None:
        failures = self.records.threads.map(lambda look: self._mend(look, relations), wrong)
        for look, failure in zip(wrong, failures, strict=True):
            if failure:
                self.report.failure = failure
            elif look.difference:
                self.report.mended[look.difference] += 1

    def _mend(self, wrong: Look, relations: Relations) -> str:
        """Let the edges agree with the row, whatever that says by now; or why they do not yet."""
        try:
            # An edge newer than its row, as after a table was restored, withstands every settling.
            # So the row is raised beyond it: nothing is deleted that may have come meanwhile.
            newest = max(wrong.homes.values(), default=0)
            if newest > wrong.row.version:
                self.records.raise_row(wrong.row, newest + 1)
            relations.settle(*wrong.pair)
            after = self.records.look(wrong.pair)
        except Exception as error:
            if not (isinstance(error, TryLater) or is_passing(error)):
                raise
            return str(error)
        return f"It is {after.difference} still." if after and after.is_fault else ""


def _follow(item: Item) -> Follow:
    row = _no_row((get_text(item, "user_id"), get_text(item, "publisher_id")))
    return replace(row, state=get_text(item, "state"), version=get_number(item, "version"))


def _no_row(pair: Pair) -> Follow:
    return Follow(user_id=pair[0], publisher_id=pair[1], state=UNFOLLOWED, version=0)


def _row_key(pair: Pair) -> dict[str, dict[str, str]]:
    return {"user_id": text(pair[0]), "publisher_id": text(pair[1])}


def _edge_key(pair: Pair, level: int) -> dict[str, dict[str, str]]:
    user_id, publisher_id = pair
    shard = ring.shard_of(ring.position(user_id), level)
    shard_id = ring.shard_key(publisher_id, level, shard)
    return {FOLLOWERS.partition_key: text(shard_id), "edge": text(ring.edge(user_id))}


def _homes(items: Iterable[Item]) -> dict[Pair, Homes]:
    """Items of the followers table by relation and level."""
    found: dict[Pair, Homes] = {}
    for item in items:
        publisher_id, _, shard = get_text(item, FOLLOWERS.partition_key).rpartition("#")
        pair = ring.follower_of(get_text(item, "edge")), publisher_id
        found.setdefault(pair, {})[int(shard.partition(".")[0])] = get_number(item, "version")
    return found
