"""The use case behind `fanfold audit`: a sample of a stage, one post, or one reader.

It writes nothing, takes no lock and may run beside everything. Each part counts what it has read,
so an audit that is cut short still says what it proves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from itertools import cycle, islice

from fanfold import clock, times
from fanfold.audit import rule, sampling
from fanfold.audit.reads import Pair, Reads
from fanfold.audit.rule import AGAIN_SECONDS, SETTLED_SECONDS, SLOW, Finding, Look, Shown
from fanfold.fanout.row import Fanout
from fanfold.follows.relation import Follow
from fanfold.timeline.entries import Entry

# Pairs of one round: as many keys as one call takes.
ROUND = 100
# Draws for each pair that is wanted: some posts are not owed, as to a reader who follows since.
DRAWS = 4
# Posts of each follow of one reader who is audited alone.
NEWEST = 10
# What seems wrong and awaits its second look, at most, to save memory.
MAX_SUSPECTS = 20_000
# Findings that are kept and listed; all are counted.
EXAMPLES = 100


@dataclass(frozen=True)
class Found:
    """A finding, and whose: a post (of an entry, its sort key), its reader and its publisher."""

    finding: Finding
    post: str
    user_id: str
    publisher_id: str


@dataclass
class Report:
    """What was read so far, and what was found."""

    wanted: int = 0  # pairs
    pairs: int = 0  # that were owed, and found or not
    entries: int = 0  # that were examined
    posts: int = 0  # of which pairs were drawn
    posts_known: int = 0  # about how many there are that could have been drawn
    readers: int = 0
    states: Counter[str] = field(default_factory=Counter)  # of posts without a claim
    counts: Counter[Finding] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)
    repaired: int = 0  # entries that were missing, and are written

    @property
    def findings(self) -> int:
        """All that is surely wrong."""
        return self.counts.total() - self.counts[Finding.UNSURE]

    @property
    def left(self) -> int:
        """Findings that are not repaired."""
        return self.findings - self.repaired

    def add(self, found: Found) -> None:
        self.counts[found.finding] += 1
        if len(self.found) < EXAMPLES:
            self.found.append(found)


@dataclass
class Audit:
    """Raises `TryLater` where DynamoDB goes on throttling; `chance` draws from [0, 1).

    Posts that were accepted before `since_ms` are left out. What an earlier version wrote counts as
    written at `updated_ms`, the stage's last deploy; if that is unknown, nothing is claimed of it.
    """

    reads: Reads
    chance: Callable[[], float]
    since_ms: int = 0
    updated_ms: float = math.inf
    # Writes the entries of pairs that are missing; returns how many.
    repair: Callable[[Sequence[Pair]], int] = lambda _missing: 0
    sleep: Callable[[float], None] = lambda seconds: clock.sleep(seconds)
    report: Report = field(default_factory=Report)
    _first: dict[tuple[str, str], tuple[float, Look]] = field(default_factory=dict)
    _shown: list[tuple[float, str, Entry, Finding]] = field(default_factory=list)

    def units(self, count: int) -> float:
        """About the read units of a sample, if nothing is missing."""
        settings = self.reads.stores.settings
        readers = max(1, self.reads.count(settings.readers_table))
        return sampling.units_of_sample(count, self.reads.count(settings.following_table) / readers)

    def sample(self, count: int, *, hours: float) -> Iterator[int]:
        """Audit `count` pairs; yields how many more are done.

        One half are followers of posts that were complete in the last `hours`, the other half are
        follows of readers with a post of the publisher's. If there are too few of one kind, the
        other kind fills the sample.
        """
        self.report.wanted += count
        since_ms, end = self._since(hours), self.report.pairs + count
        yield from self._rounds(self._of_posts(count, since_ms), (count + 1) // 2)
        yield from self._rounds(self._of_readers(count), end - self.report.pairs)
        yield from self._rounds(self._of_posts(count, since_ms), end - self.report.pairs)
        self._finish()

    def largest(self, count: int, *, hours: float) -> Iterator[int]:
        """Audit one follower in each segment of the posts with the most segments."""
        found = self._posts(self._since(hours))
        posts = nlargest(count, found, key=lambda each: each.segments)
        yield from self._all(pair for each in posts for pair in self._in_arcs(each, each.segments))

    def post(self, fanout: Fanout) -> Iterator[int]:
        """Audit all followers of one post."""
        followers = self.reads.followers(fanout.publisher_id) if self._claims(fanout) else ()
        yield from self._all(Pair(fanout, user_id) for user_id in followers)

    def reader(self, user_id: str) -> Iterator[int]:
        """Audit one reader: the newest posts of each follow, and the newest entries."""
        self._examine([(user_id, entry) for entry in self.reads.entries(user_id)])
        parts = _parts(self.reads.rows_of(user_id))
        yield from self._all(pair for part in parts for pair in self._of_rows(part, is_newest=True))

    def _all(self, pairs: Iterable[Pair]) -> Iterator[int]:
        """Audit all of these; as many are wanted as turn out to be owed."""
        before = self.report.pairs
        yield from self._rounds(pairs, math.inf)
        self._finish()
        self.report.wanted += self.report.pairs - before

    def _since(self, hours: float) -> float:
        return max(self.since_ms, clock.now_ms() - hours * 3_600_000)

    # What is drawn

    def _of_posts(self, count: int, since_ms: float) -> Iterator[Pair]:
        """Followers of sampled posts: one in each arc of the ring, then again in other places."""
        posts: list[Fanout] = []
        places = 0
        for post in self._posts(since_ms):
            posts.append(post)
            places += min(sampling.MOST_PLACES, max(1, post.segments))
            if places >= count / 2:
                break
        self.report.posts = max(self.report.posts, len(posts))
        for post in islice(cycle(posts), DRAWS * count):
            yield from self._in_arcs(post)

    def _posts(self, since_ms: float) -> Iterator[Fanout]:
        """The posts since then in a random order, as the segments of the ledger are drawn."""
        table = self.reads.stores.settings.fanouts_table
        segments = sampling.scan_segments(self.reads.count(table))
        known = 0
        for read, segment in enumerate(sampling.drawn(segments, self.chance), 1):
            for fanout in self.reads.fanouts(segment, segments):
                if times.to_ms(fanout.accepted_at) >= since_ms and self._claims(fanout):
                    known += 1
                    yield fanout
            self.report.posts_known = max(self.report.posts, known * segments // read)

    def _in_arcs(self, post: Fanout, most: int = sampling.MOST_PLACES) -> Iterator[Pair]:
        for arc in sampling.arcs(post.segments, self.chance, most=max(1, most)):
            user_id = self.reads.follower_in(arc, post.publisher_id)
            if user_id is not None:
                yield Pair(post, user_id)

    def _of_readers(self, count: int) -> Iterator[Pair]:
        """Follows of whole readers in a random order, and an entry of each reader."""
        table = self.reads.stores.settings.following_table
        segments = sampling.scan_segments(self.reads.count(table))
        follows = 0
        for segment in sampling.drawn(segments, self.chance):
            for some in _parts(self.reads.rows(segment, segments)):
                self._examine_one_each({row.user_id for row in some})
                yield from self._of_rows(some)
                follows += len(some)
                if follows >= DRAWS * count:
                    return

    def _of_rows(self, rows: Iterable[Follow], *, is_newest: bool = False) -> Iterator[Pair]:
        """Of each follow, a post of the publisher's since, at a random time; or the newest ones."""
        wanted = dict[str, list[str]]()
        floor_ms, now_ms = times.to_ms(self.reads.since), clock.now_ms()
        for row in filter(lambda row: row.is_active, rows):
            if row.is_blocked:
                whose = {"user_id": row.user_id, "publisher_id": row.publisher_id}
                self.report.add(Found(Finding.BLOCKED, "", **whose))
                continue
            since_ms = max(row.changed_at, self.since_ms, floor_ms)
            until = times.to_text(since_ms + int(self.chance() * max(0, now_ms - since_ms)))
            posts_of = partial(self.reads.posts_of, row.publisher_id, times.to_text(since_ms))
            ref_ids = posts_of(None, limit=NEWEST) if is_newest else posts_of(until)
            for ref_id in ref_ids or posts_of(None):
                wanted.setdefault(ref_id, []).append(row.user_id)
        for ref_id, fanout in self.reads.fanouts_of(list(wanted)).items():
            if times.to_ms(fanout.accepted_at) >= self.since_ms and self._claims(fanout):
                yield from (Pair(fanout, user_id) for user_id in wanted[ref_id])

    def _claims(self, fanout: Fanout) -> bool:
        if not rule.claims(fanout):
            self.report.states[fanout.state] += 1
        return rule.claims(fanout)

    # What is read of it

    def _rounds(self, pairs: Iterable[Pair], most: float) -> Iterator[int]:
        """Look at pairs until `most` of them were owed."""
        drawn, end = iter(pairs), self.report.pairs + most
        while (left := end - self.report.pairs) > 0:
            some = list(islice(drawn, int(min(ROUND, left))))
            if not some:
                return
            before = self.report.pairs
            self._look(some)
            yield self.report.pairs - before

    def _look(self, pairs: Sequence[Pair]) -> None:
        looks = self.reads.missed(pairs)
        missed = {look.subject for look in looks}
        self.report.pairs += sum(pair.subject not in missed for pair in pairs)
        for look in looks:
            if rule.judged(look, updated_ms=self.updated_ms) is not None:
                self.report.pairs += 1
                self._first.setdefault(look.subject, (clock.monotonic(), look))
        if len(self._first) > MAX_SUSPECTS:
            self._finish()

    def _examine_one_each(self, users: set[str]) -> None:
        """One of the newest entries of each of these readers."""
        self.report.readers += len(users)
        drawn = [
            (user_id, entries[int(self.chance() * len(entries))])
            for user_id in sorted(users)
            if (entries := self.reads.entries(user_id))
        ]
        self._examine(drawn)

    def _examine(self, entries: Sequence[tuple[str, Entry]]) -> None:
        self.report.entries += len(entries)
        for shown in self.reads.shown(entries) if entries else ():
            finding = self._wrong(shown)
            if finding is not None:
                at = clock.monotonic()
                self._shown.append((at, shown.row.user_id, shown.entry, finding))

    def _finish(self) -> None:
        """Look again at what seemed wrong: a little later, or once RELATE has settled it."""
        slow, fast = list[tuple[float, Look]](), list[tuple[float, Look]]()
        for at, look in self._first.values():
            is_slow = rule.judged(look, updated_ms=self.updated_ms) in SLOW
            (slow if is_slow else fast).append((at, look))
        missing: list[Pair] = []
        for due, seconds in ((fast, AGAIN_SECONDS), (slow, SETTLED_SECONDS)):
            self._wait([at for at, _ in due], seconds)
            for start in range(0, len(due), ROUND):
                missing += self._look_again([look for _, look in due[start : start + ROUND]])
        if missing:
            self.report.repaired += self.repair(missing)
        self._first.clear()
        self._wait([at for at, *_ in self._shown], SETTLED_SECONDS)
        for start in range(0, len(self._shown), ROUND):
            self._examine_again(self._shown[start : start + ROUND])
        self._shown.clear()

    def _look_again(self, first: Sequence[Look]) -> list[Pair]:
        """Count what both looks find; returns the pairs without an entry."""
        pairs = [Pair(look.fanout, look.row.user_id) for look in first]
        before = {look.subject: look for look in first}
        missing = []
        for look in self.reads.consistent.missed(pairs):
            finding = rule.confirmed(before[look.subject], look, updated_ms=self.updated_ms)
            if finding is not None:
                self.report.add(Found(finding, *look.subject, look.fanout.publisher_id))
            if finding is Finding.ENTRY_MISSING:
                missing.append(Pair(look.fanout, look.row.user_id))
        return missing

    def _examine_again(self, first: Sequence[tuple[float, str, Entry, Finding]]) -> None:
        again = self.reads.consistent.shown([(user_id, entry) for _, user_id, entry, _ in first])
        for (*_, before), shown in zip(first, again, strict=True):
            if self._wrong(shown) is before:
                self.report.add(Found(before, *shown.subject, shown.entry.publisher_id))

    def _wrong(self, shown: Shown) -> Finding | None:
        return rule.wrong(shown, since=max(self.reads.since, times.to_text(self.since_ms)))

    def _wait(self, since: Sequence[float], seconds: float) -> None:
        if since:
            self.sleep(max(0.0, max(since) + seconds - clock.monotonic()))


def _parts(rows: Iterator[Follow]) -> Iterator[list[Follow]]:
    while part := list(islice(rows, ROUND)):
        yield part
