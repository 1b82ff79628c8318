"""The cost of the first page, by how many publishers its reader follows."""

from __future__ import annotations

import gc
import heapq
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from random import Random
from statistics import median
from typing import Any, NamedTuple, cast

from fanfold import names, times
from fanfold.aws import items
from fanfold.aws.items import MAX_PUTS, binaries, get_text, text
from fanfold.aws.threads import together
from fanfold.timeline import marks
from fanfold.timeline.entries import Entries, Entry
from fanfold.timeline.paging import Asked
from fanfold.timeline.post_cache import Hydration
from fanfold.timeline.posts import Post
from fanfold.timeline.visibility import Reading, Visibility
from proof.bench.figures import BenchResult, Figure, Lines, Point, Row
from proof.bench.paired import Contestant, Paired, compare
from proof.bench.progress import with_progress
from proof.model.clock import START_MS, Clock
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.capacity import READ, Meter
from proof.model.dynamodb.database import Database
from proof.simulation.stage import stores
from proof.simulation.world.scheduler import Scheduler, virtual_time
from proof.simulation.world.schemas import schema_of

FOLLOWS = (1, 10, 100, 1_000, 5_000)
FEW, MANY = FOLLOWS[0], FOLLOWS[-1]
LIMIT = 50
# The first publisher's posts fill a page for a reader who follows nobody else.
FIRST_POSTS = 2 * LIMIT
POSTS, SHORT_POSTS = 10, 2  # of each other publisher
ROUNDS, SHORT_ROUNDS = 30, 8
PAGES = 200  # in a block of about 50 ms
PULLS = 3  # measurements of the pull model, for their median
RETENTION_DAYS = 30
# Of the reader with most follows: of ten publishers one is muted, and one was unfollowed just now.
MUTED, UNFOLLOWED, OF = 3, 7, 10
# Or as many others are, whose posts are not in the timeline.
ELSEWHERE = 1_000_000
MOST_WITH_MARKS = 1.10
TABLE = names.TIMELINES.name
SINCE = times.to_text(0)


class Recorded:
    """A client that records the model's answers, so that a replay leaves its CPU out."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.answers: list[Any] = []

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            self.answers.append(getattr(self.client, operation)(**request))
            return self.answers[-1]

        return call


class Replayed:
    """A client that repeats the answers to one page."""

    def __init__(self, answers: Sequence[Any]) -> None:
        self._answers = cycle(answers)

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        return lambda **_request: next(self._answers)


class Timelines:
    """Publishers with posts, and for each number of follows a reader of the first publishers."""

    def __init__(self, posts_each: int) -> None:
        self.clock = Clock()
        self.meter = Meter()
        database = Database(self.clock, meter=self.meter)
        database.create(*map(schema_of, names.TABLES))
        self.client = cast("Any", dynamodb.Client(database, validates=False))
        self.posts = stores(self.client).posts
        self.timelines = Entries(self.client, TABLE)
        self.most = FIRST_POSTS + (MANY - 1) * posts_each  # entries in one timeline
        self._fill(posts_each)

    def _fill(self, posts_each: int) -> None:
        for number in with_progress("read-growth, posts", range(MANY)):
            count = posts_each if number else FIRST_POSTS
            entries = [self._post(number, each, count) for each in range(count)]
            for follows in FOLLOWS:
                if number < follows:
                    self._deliver(_reader(follows), entries)

    def _post(self, publisher: int, each: int, count: int) -> Entry:
        """One of a publisher's posts, spread over an hour; publishers differ by milliseconds."""
        at = START_MS - 3_600_000 + 3_600_000 * each // count + publisher % 1_000
        post = Post(
            ref_id=f"90570000-0000-4000-{each:04d}-{publisher:012d}",
            publisher_id=_publisher(publisher),
            published_at=times.to_text(at),
            accepted_at=times.to_text(at),
            expires_at=START_MS // 1_000 + RETENTION_DAYS * 24 * 60 * 60,
            body='{"title": "What I saw by the river"}',
        )
        self.posts.add(post, now=START_MS // 1_000)
        return Entry(post.sort_key, post.publisher_id, post.expires_at)

    def _deliver(self, reader: str, entries: Sequence[Entry]) -> None:
        for start in range(0, len(entries), MAX_PUTS):
            chunk = entries[start : start + MAX_PUTS]
            puts = [
                put
                for each in chunk
                for put in self.timelines.push_request(each, [reader])["RequestItems"][TABLE]
            ]
            self.client.batch_write_item(RequestItems={TABLE: puts})

    def mark(self, first: int = 0) -> None:
        """Let the reader of most publishers mute 500 of those from `first` on, and unfollow 500."""

        def every(rest: int) -> dict[str, list[bytes]]:
            numbers = range(first + rest, first + MANY, OF)
            return binaries([marks.hash_of(_publisher(number)) for number in numbers])

        row = {
            "user_id": text(_reader(MANY)),
            "follows": items.number(MANY),
            "muted": every(MUTED),
            f"hidden_{marks.week_of(START_MS)}": every(UNFOLLOWED),
        }
        self.client.put_item(TableName=names.READERS.name, Item=row)

    def page(self, follows: int, *, hydrate: bool) -> list[Any]:
        return _page(self.client, follows, hydrate=hydrate)

    def replayed(self, follows: int) -> Replayed:
        """A client with the answers to a first page with content."""
        recorded = Recorded(self.client)
        _page(recorded, follows, hydrate=True)
        return Replayed(recorded.answers)

    def pull(self, follows: int) -> list[str]:
        """The first page without timelines (pull): query each publisher's outbox, and merge."""
        newest = heapq.merge(*map(self._newest, range(follows)), reverse=True)
        return list(islice(newest, LIMIT))

    def _newest(self, publisher: int) -> list[str]:
        found = self.client.query(
            TableName=names.POSTS.name,
            IndexName=names.OUTBOX.name,
            KeyConditionExpression="publisher_id = :publisher AND sort_key > :since",
            ExpressionAttributeValues={
                ":publisher": text(_publisher(publisher)),
                ":since": text(SINCE),
            },
            ProjectionExpression="sort_key",
            ScanIndexForward=False,
            Limit=LIMIT,
        )
        return [get_text(item, "sort_key") for item in found["Items"]]

    def units(self, read: Callable[[], Sequence[Any]]) -> float:
        """Read units of one page, over all tables and indexes."""
        before = self._read_units()
        if len(read()) != LIMIT:
            raise RuntimeError("The page is not full.")
        return self._read_units() - before

    def _read_units(self) -> float:
        return sum(units for (_, kind), units in self.meter.units.items() if kind == READ)


@contextmanager
def frozen(timelines: Timelines) -> Iterator[None]:
    """Let the product live at the model's time, and keep the garbage collector off its items."""
    gc.collect()
    gc.freeze()
    try:
        with virtual_time(Scheduler(Random(0), clock=timelines.clock)):
            yield
    finally:
        gc.unfreeze()


def run(*, short: bool) -> BenchResult:
    """Read the first page of readers who follow 1 to 5,000 publishers."""
    timelines = Timelines(SHORT_POSTS if short else POSTS)
    with frozen(timelines):
        return _measured(timelines, SHORT_ROUNDS if short else ROUNDS)


def _measured(timelines: Timelines, rounds: int) -> BenchResult:
    ids = {n: timelines.units(partial(timelines.page, n, hydrate=False)) for n in FOLLOWS}
    whole = {n: timelines.units(partial(timelines.page, n, hydrate=True)) for n in FOLLOWS}
    pulled = {n: timelines.units(partial(timelines.pull, n)) for n in FOLLOWS}
    cpu = compare(
        _pages(timelines.replayed(FEW), FEW),
        _pages(timelines.replayed(MANY), MANY),
        rounds=rounds,
        what="read-growth, CPU",
    )
    with_model = compare(
        _pages(timelines.client, FEW),
        _pages(timelines.client, MANY),
        rounds=rounds // 2,
        what="read-growth, CPU with the model's",
    )
    pull = Contestant("pull", lambda: _drop(timelines.pull(MANY)), units=1)
    pull_seconds = median(pull.measure() for _ in range(PULLS))
    plain = timelines.replayed(MANY)
    elsewhere = _marked(timelines, rounds, whole[MANY], plain, first=ELSEWHERE)
    hidden = _marked(timelines, rounds, whole[MANY], plain, first=0)
    ratios = {
        "read units, ids alone": ids[MANY] / ids[FEW],
        "read units, with content": whole[MANY] / whole[FEW],
        "CPU, with content": cpu.ratio,
    }
    return BenchResult(
        figures=[
            Figure(
                name="read_growth.ratio",
                value=max(ratios.values()),
                target=1.05,
                unit="x",
                against="the first page at 1 follow; ours is at 5,000, the largest of three ratios",
            ),
            Figure(
                name="read_growth.marks",
                value=elsewhere.ratio,
                target=MOST_WITH_MARKS,
                unit="x",
                against="the same page without marks; ours has 500 muted and 500 unfollowed "
                "publishers, none of them in the page; read units or CPU, the larger ratio",
            ),
            Figure(
                name="read_growth.marks_with_a_fifth_hidden",
                value=hidden.ratio,
                target=MOST_WITH_MARKS,
                unit="x",
                against="the same; ours leaves out a fifth of all entries, so that the page takes "
                "a second Query",
            ),
        ],
        rows=[
            *(Row(name, ratio, "x", "5,000 follows against 1") for name, ratio in ratios.items()),
            *_marked_rows("with marks", elsewhere, ids[MANY]),
            *_marked_rows("with a fifth hidden", hidden, ids[MANY]),
            Row("CPU at 1 follow", 1e6 * cpu.ours, "µs", f"a page; {cpu.interval}"),
            Row("CPU at 5,000 follows", 1e6 * cpu.theirs, "µs", "a page"),
            Row("CPU, with the model's own work", with_model.ratio, "x", with_model.interval),
            Row(
                "CPU of merging at 5,000",
                1e6 * pull_seconds,
                "µs",
                "one query a publisher, with the model's own work",
            ),
            *(
                Row(
                    f"{n:,} follows",
                    ids[n],
                    "read units",
                    f"{whole[n]:g} with content; merging takes {pulled[n]:g} for the ids",
                )
                for n in FOLLOWS
            ),
        ],
        setting={
            "page": f"{LIMIT} entries of {FIRST_POSTS:,}, "
            f"and at {MANY:,} follows {timelines.most:,}",
            "CPU": "of the use case: not the wire, and not the model but where it says so",
        },
        chart=Lines(
            title=f"The first {LIMIT} ids",
            x="publishers followed",
            y="read units",
            lines={"Fanfold": _line(ids), "one query a publisher, merged": _line(pulled)},
            log_x=True,
            log_y=True,
        ),
    )


class Marked(NamedTuple):
    """What marks cost."""

    ids: float  # read units
    units: float  # the ratio of read units, with content
    cpu: Paired

    @property
    def ratio(self) -> float:
        return max(self.units, self.cpu.ratio)


def _marked(
    timelines: Timelines, rounds: int, whole: float, plain: Replayed, *, first: int
) -> Marked:
    timelines.mark(first)
    with_marks = timelines.units(partial(timelines.page, MANY, hydrate=True))
    cpu = compare(
        _pages(plain, MANY),
        _pages(timelines.replayed(MANY), MANY),
        rounds=rounds,
        what="read-growth, CPU with marks",
    )
    ids_with_marks = timelines.units(partial(timelines.page, MANY, hydrate=False))
    return Marked(ids_with_marks, with_marks / whole, cpu)


def _marked_rows(name: str, marked: Marked, ids: float) -> list[Row]:
    return [
        Row(f"CPU, {name}", marked.cpu.ratio, "x", marked.cpu.interval),
        Row(f"read units, {name}", marked.units, "x", "with content"),
        Row(f"a page of ids, {name}", marked.ids, "read units", f"{ids:g} without marks"),
    ]


def _page(client: Any, follows: int, *, hydrate: bool) -> list[Any]:
    """The first page, with nothing in the cache."""
    hydration = Hydration(stores(client).posts, {})
    visibility = Visibility(
        Entries(client, TABLE),
        stores(client).readers,
        partial(together, client, None),
        _nobody,
        RETENTION_DAYS,
    )
    reading = Reading(hydration, visibility)
    page = reading.page(_reader(follows), Asked(LIMIT), hydrate=hydrate)
    entries: list[Any] = page["entries"]
    return entries


def _nobody(_user_id: str, _publisher_ids: Collection[str]) -> tuple[set[str], set[str]]:
    raise RuntimeError("No reader of this bench has more unfollows than marks tell.")


def _pages(client: Any, follows: int) -> Contestant:
    def block() -> None:
        for _ in range(PAGES):
            _page(client, follows, hydrate=True)

    return Contestant(f"{follows:,} follows", block, units=PAGES)


def _drop(_page: object) -> None:
    """Ignore a page that is read only for its cost."""


def _line(units: dict[int, float]) -> list[Point]:
    return [(float(follows), found) for follows, found in units.items()]


def _publisher(number: int) -> str:
    return f"ada00000-0000-4000-8000-{number:012d}"


def _reader(follows: int) -> str:
    return f"b0b00000-0000-4000-8000-{follows:012d}"
