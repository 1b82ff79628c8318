"""How many entries are above the read marker, as the timeline shows them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fanfold import times
from fanfold.contract import MAX_UNREAD
from fanfold.ids import sort_key
from fanfold.timeline.entries import Entry
from fanfold.timeline.page_reads import MAX_LOOKED_AT
from tests.service import AT_MS, Answer, FailFirst, System, error

# What a reader does, and what comes.
ACTS = (*["entry"] * 4, "late", *["follow", "unfollow"] * 2, "mute", "unmute", "marker")
DAY_MS = 24 * 60 * 60 * 1000


def give(
    system: System, number: int, *, user: str = "bob", publisher: str = "ada", before: float = 0
) -> str:
    """Put an entry into a timeline, so many seconds before now; returns its `ref_id`."""
    ref_id = f"post-{number}"
    at = times.to_text(system.clock.ms - round(before * 1000))
    system.timelines.push(Entry(sort_key(at, ref_id), publisher, 1_900_000_000), [user])
    return ref_id


def unread(system: System, *, user: str = "bob") -> tuple[int, bool]:
    answer = system.http("timeline/count_unread", user=user)
    assert answer.status == 200, answer.body
    return answer.body["unread"], answer.body["more"]


def read_up_to(system: System, entry: Any, *, user: str = "bob") -> None:
    """Move the marker up to an entry, as the timeline shows it."""
    body = {name: entry[name] for name in ("published_at", "ref_id")}
    assert system.http("api/move_marker", user=user, body=body).status == 200


def page(system: System, **query: str) -> Answer:
    return system.timeline("bob", hydrate="false", **query)


def entries(system: System) -> list[Any]:
    """The whole timeline, without content."""
    found: list[Any] = []
    query: dict[str, str] = {}
    while True:
        body = page(system, **query).body
        found += body["entries"]
        if body["next"] is None:
            return found
        query = {"before": body["next"]}


@pytest.mark.parametrize(("above", "more"), [(100, False), (101, True)])
def test_at_most_a_hundred_are_counted_and_more_says_that_there_are_others(
    system: System, above: int, more: bool
) -> None:
    give(system, 0, before=1)
    read_up_to(system, entries(system)[0])
    for number in range(1, above + 1):
        give(system, number)
    assert unread(system) == (min(above, MAX_UNREAD), more)


def test_the_retention_ends_what_is_unread_too(system: System) -> None:
    give(system, 1)
    system.clock.ms += 30 * DAY_MS
    assert unread(system) == (1, False)
    system.clock.ms += 1
    assert unread(system) == (0, False)
    read_up_to(system, {"published_at": times.to_text(AT_MS - DAY_MS), "ref_id": "old"})
    assert unread(system) == (0, False), "a marker below the retention brings nothing back"
    give(system, 2)
    assert unread(system) == (1, False)


@pytest.mark.parametrize("operation", ["get_item", "query"])
def test_what_cannot_be_read_is_never_counted_as_nothing(
    system: System, fail_first: FailFirst, operation: str
) -> None:
    give(system, 1)
    fail_first(system.door("timeline").stores.client, operation, [error("ThrottlingException")])
    assert system.http("timeline/count_unread").slug == "try-later"
    assert unread(system) == (1, False)


@pytest.mark.parametrize(
    ("entries", "hidden", "told"),
    [
        (120, 58, (62, False)),
        (150, 50, (100, False)),
        (151, 50, (100, True)),
        # With one more, DynamoDB does not yet know that there is nothing below a full page.
        (MAX_LOOKED_AT - 1, MAX_LOOKED_AT - 1, (0, False)),
        (MAX_LOOKED_AT + 1, MAX_LOOKED_AT, (0, True)),
    ],
)
def test_what_is_left_out_makes_room_for_what_lies_below(
    system: System, entries: int, hidden: int, told: tuple[int, bool]
) -> None:
    system.follow("bob")
    for number in range(entries):
        give(system, number, publisher="ada" if number < hidden else "grace", before=number)
    system.unfollow("bob")
    assert unread(system) == told


# At most so many marks; with fewer, rows of follows are read.
@pytest.mark.parametrize("max_hidden", [500, 1, 0])
def test_the_count_agrees_with_the_timeline_whatever_a_reader_does(
    system: System, max_hidden: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fanfold.timeline.marks.MAX_HIDDEN", max_hidden)
    chance = Random(max_hidden)
    publishers = ["ada", "grace", "linus", "kim"]
    for number in range(120):
        system.clock.advance(chance.random())
        publisher = chance.choice(publishers)
        match chance.choice(ACTS):
            case "entry":
                give(system, number, publisher=publisher)
            case "late":
                give(system, number, publisher=publisher, before=chance.uniform(0, 20))
            case "marker":
                if shown := entries(system):
                    read_up_to(system, chance.choice(shown))
            case act:
                path = {"publisher_id": publisher}
                assert system.http(f"api/{act}", user="bob", path=path).status in (200, 204)
        marker = system.http("timeline/read_marker", user="bob").body
        place = (marker["published_at"] or "", marker["ref_id"] or "")
        above = [each for each in entries(system) if (each["published_at"], each["ref_id"]) > place]
        assert unread(system) == (len(above), False)
    verifies = any("verify_until" in row for row in system.rows_of("Readers"))
    assert verifies or max_hidden > 0
    assert not verifies or max_hidden < 500
