"""What pages of 50 cost in read units, on the model of DynamoDB, which counts them from bytes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from fanfold import names, times
from fanfold.aws.items import binaries, number, text
from fanfold.timeline import marks
from fanfold.timeline.entries import Entry
from fanfold.timeline.page_reads import MAX_POSTS
from fanfold.timeline.posts import Post
from fanfold.timeline.unread import UnreadCount
from proof.model.clock import START_MS
from proof.simulation.world.scheduler import Scheduler, virtual_time
from tests.integration.channel_stage import READER, Stage, publisher

ADA = publisher(1)
BEA = publisher(2)
LIMIT = 50
# Of the reader's row, which every page reads consistently beside its first Query.
ROW = 1.0


class Service(Stage):
    """A stage without channels: its reader's own timeline alone, and the content of its entries."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.entries: list[Entry] = []  # oldest first
        self.container().visibility.shared = None

    def add(self, count: int) -> None:
        for _ in range(count):
            entry = self.entry(ADA, START_MS - 1_000_000 + len(self.entries))
            at, _, ref_id = entry.sort_key.partition("#")
            post = Post(
                ref_id=ref_id,
                publisher_id=ADA,
                published_at=at,
                accepted_at=at,
                expires_at=entry.expires_at,
                body='{"title": "What I saw by the river"}',
            )
            self.stored.add(post, now=START_MS // 1000)
            self.push(entry)
            self.entries.append(entry)

    def read(self, **query: Any) -> tuple[dict[str, Any], float]:
        """A page, and the read units that it took."""
        before = self.units
        page = self.page(LIMIT, **query)
        return page, self.units - before


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    with virtual_time(Scheduler(Random(0), clock=service.clock)):
        yield service


def test_a_page_of_ids_takes_one_and_a_half_units_one_upwards_one_more_and_each_its_reader(
    service: Service,
) -> None:
    service.add(200)
    page, units = service.read()
    assert (len(page["entries"]), units) == (LIMIT, ROW + 1.5)
    service.add(60)
    upwards, units = service.read(after=page["previous"])
    assert (len(upwards["entries"]), upwards["more"], units) == (LIMIT, True, ROW + 2.5)


def test_an_idle_poll_takes_one_and_a_half_units_and_a_second_look_is_paid_once(
    service: Service,
) -> None:
    service.add(100)
    page, _ = service.read()
    idle, units = service.read(after=page["previous"])
    assert (idle["entries"], idle["previous"], units) == ([], page["previous"], ROW + 1.5)
    gone = {"user_id": {"S": READER}, "sort_key": {"S": service.entries[-3].sort_key}}
    service.timelines.client.delete_item(TableName=names.TIMELINES.name, Key=gone)
    first, units = service.read(after=page["previous"])
    assert units == ROW + 1.5 + 3.0
    assert service.read(after=first["previous"])[1] == ROW + 1.5


@pytest.mark.parametrize(("above", "query"), [(10, 0.5), (100, 2.5), (200, 2.5)])
def test_what_is_unread_takes_two_and_a_half_units_at_most_and_one_for_its_reader(
    service: Service, above: int, query: float
) -> None:
    service.add(300)
    service.readers.raise_marker(READER, service.entries[-1 - above].sort_key)
    before = service.units
    unread = UnreadCount(service.container().visibility)
    assert unread.count(READER) == {"unread": min(above, 100), "more": above > 100}
    assert service.units - before == ROW + query


def test_a_page_with_content_takes_a_unit_for_each_post_that_is_not_cached(
    service: Service,
) -> None:
    service.add(145)
    service.read(hydrate=True)
    service.add(5)  # a tenth of the page
    page, units = service.read(hydrate=True)
    assert (len(page["entries"]), units) == (LIMIT, ROW + 1.5 + 5)


@pytest.mark.parametrize(("known", "entries", "posts"), [(0, 6.5, MAX_POSTS), (200, 9.0, 151)])
def test_the_worst_page_takes_nine_units_for_entries_and_one_for_each_of_200_posts(
    service: Service, known: int, entries: float, posts: int
) -> None:
    """Nothing but retracted posts, of which the container knows some."""
    service.add(500)
    newest = service.entries[500 - known :]
    for each in newest:
        service.container().hydration.retracted[each.sort_key] = ADA
    for each in service.entries[: 500 - known]:
        service.stored.retract_own(each.sort_key.partition("#")[2], ADA, now_ms=START_MS)
    page, units = service.read(hydrate=True)
    assert (page["entries"], page["partial"]) == ([], True)
    assert units == ROW + entries + posts


@pytest.mark.parametrize(("each", "weeks", "row"), [(200, 6, 1.0), (500, 6, 2.0)])
def test_marks_and_mutes_take_one_unit_in_use_and_two_at_their_limits(
    service: Service, each: int, weeks: int, row: float
) -> None:
    """With a position up to which the reader has read, and unfollows in every week of a month."""
    service.add(200)
    this_week = marks.week_of(START_MS)
    hidden = [marks.hash_of(f"gone-{n}") for n in range(each)]
    item: dict[str, Any] = {
        "user_id": text(READER),
        "follows": number(5000),
        "muted": binaries([marks.hash_of(f"loud-{n}") for n in range(each)]),
        "marker": text(service.entries[-1].sort_key),
    }
    for week in range(weeks):
        item[f"hidden_{this_week - week}"] = binaries(hidden[week::weeks])
    service.client.put_item(TableName=names.READERS.name, Item=item)
    page, units = service.read()
    assert (len(page["entries"]), units) == (LIMIT, row + 1.5)
    assert units <= (2.5 if each == 200 else 3.5)


def test_verification_takes_a_unit_for_each_publisher_of_a_page(service: Service) -> None:
    service.add(200)
    until = START_MS // 1000 + 60
    item = {"user_id": text(READER), "verify_until": number(until)}
    service.client.put_item(TableName=names.READERS.name, Item=item)
    row = {"user_id": text(READER), "publisher_id": text(ADA), "state": text("followed")}
    service.client.put_item(TableName=names.FOLLOWING.name, Item=row)
    page, units = service.read()
    assert (len(page["entries"]), units) == (LIMIT, ROW + 1.5 + 1)


def test_for_hidden_entries_no_post_is_read_and_none_too_many_for_the_others(
    service: Service,
) -> None:
    service.add(200)
    for each in range(100):
        at = times.to_text(START_MS - 500_000 + each)
        entry = Entry(f"{at}#90570000-0000-4000-9000-{each:012d}", BEA, START_MS // 1000)
        service.timelines.push(entry, [READER])
    item = {
        "user_id": text(READER),
        f"hidden_{marks.week_of(START_MS)}": binaries([marks.hash_of(BEA)]),
    }
    service.client.put_item(TableName=names.READERS.name, Item=item)
    page, units = service.read(hydrate=True)
    assert {line["publisher_id"] for line in page["entries"]} == {ADA}
    assert (len(page["entries"]), units) == (LIMIT, ROW + 1.5 + 2.5 + LIMIT)
