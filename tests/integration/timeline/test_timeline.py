"""Reading one's own timeline."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from fanfold import cursor, names, times
from fanfold.cursor import Cursor
from fanfold.ids import sort_key
from fanfold.timeline.entries import Entry
from fanfold.timeline.posts import Post
from tests.service import AT_MS, Answer, FailFirst, Json, System, error

RETENTION_MS = 30 * 86_400_000


def give(system: System, count: int, *, user: str = "bob", start_ms: int = AT_MS) -> list[str]:
    """Put posts into a user's timeline, a second apart; returns their ids, newest first."""
    refs = [f"post-{number:03d}" for number in range(count)]
    for number, ref_id in enumerate(refs):
        published_at = times.to_text(start_ms - number * 1000)
        system.posts.add(
            Post(
                ref_id=ref_id,
                publisher_id="ada",
                published_at=published_at,
                accepted_at=published_at,
                expires_at=1_900_000_000,
                body=f'{{"number":{number}}}',
            ),
            now=AT_MS // 1000,
        )
        system.timelines.push(Entry(sort_key(published_at, ref_id), "ada", 1_900_000_000), [user])
    return refs


def retract(system: System, *refs: str) -> None:
    for ref_id in refs:
        assert system.http("api/retract_post", path={"ref_id": ref_id}).status == 204


def at(position: str) -> str:
    """A cursor at a place."""
    return cursor.encode(Cursor.at(position))


def shown(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [entry["ref_id"] for entry in answer.body["entries"]]


def walk(system: System, user: str = "bob", **query: str) -> list[list[str]]:
    """All pages of a timeline."""
    pages: list[list[str]] = []
    before: dict[str, str] = {}
    for _ in range(100):
        answer = system.timeline(user, **query, **before)
        pages.append(shown(answer))
        if answer.body["next"] is None:
            return pages
        before = {"before": answer.body["next"]}
    raise AssertionError("the pages do not end")


def test_a_page_is_newest_first_with_the_content_beside_each_entry(system: System) -> None:
    give(system, 2)
    answer = system.timeline("bob")
    newest = sort_key("2026-11-20T18:00:00.123Z", "post-000")
    previous = cursor.decode(answer.body.pop("previous"), is_position=bool)
    assert (previous.position, previous.low) == (newest, "2026-10-21T18:00:00.123Z")
    assert len(previous.seen) == 2
    assert answer.body == {
        "entries": [
            {
                "ref_id": "post-000",
                "publisher_id": "ada",
                "published_at": "2026-11-20T18:00:00.123Z",
                "edited_at": None,
                "body": {"number": 0},
            },
            {
                "ref_id": "post-001",
                "publisher_id": "ada",
                "published_at": "2026-11-20T17:59:59.123Z",
                "edited_at": None,
                "body": {"number": 1},
            },
        ],
        "next": None,
    }


@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (4, [4]), (5, [4, 1]), (8, [4, 4])])
def test_pages_show_every_entry_once_and_end_exactly(
    system: System, count: int, sizes: list[int]
) -> None:
    refs = give(system, count)
    pages = walk(system, limit="4")
    assert [len(each) for each in pages] == sizes
    assert list(itertools.chain(*pages)) == refs


def test_a_page_has_50_entries_by_default_and_at_most_100(system: System) -> None:
    give(system, 101)
    assert len(shown(system.timeline("bob"))) == 50
    assert len(shown(system.timeline("bob", limit="100"))) == 100
    assert len(shown(system.timeline("bob", limit="1"))) == 1


# Deleted posts


def test_an_entry_whose_post_is_missing_is_left_out(system: System) -> None:
    give(system, 3)
    system.dynamodb.delete_item(TableName="Posts", Key={"ref_id": {"S": "post-001"}})
    assert shown(system.timeline("bob")) == ["post-000", "post-002"]


def test_a_page_of_ids_only_does_not_read_the_posts(system: System, fail_first: Any) -> None:
    give(system, 3)
    retract(system, "post-001")
    calls = fail_first(system.dynamodb, "batch_get_item", [])
    answer = system.http("timeline/read_timeline_ids_only")
    assert shown(answer) == ["post-000", "post-001", "post-002"]
    assert answer.body["entries"][0] == {
        "ref_id": "post-000",
        "publisher_id": "ada",
        "published_at": "2026-11-20T18:00:00.123Z",
    }
    assert calls == []


def test_pages_are_full_behind_fifteen_retractions(system: System) -> None:
    refs = give(system, 28)
    retract(system, *refs[5:20])
    pages = walk(system, limit="5")
    assert [len(each) for each in pages] == [5, 5, 3]
    assert list(itertools.chain(*pages)) == refs[:5] + refs[20:]


# Upwards, and ranges


def late(system: System, name: str, ms: int) -> None:
    system.timelines.push(Entry(sort_key(times.to_text(ms), name), "ada", 1_900_000_000), ["bob"])


def test_a_client_pages_upwards_without_a_gap(system: System) -> None:
    give(system, 2, start_ms=AT_MS - 60_000)
    opened = system.timeline("bob", hydrate="false")
    for number in range(5):
        late(system, f"new-{number}", AT_MS - 50_000 + number)
    late(system, "late", AT_MS - 60_500)
    first = system.timeline("bob", limit="4", hydrate="false", after=opened.body["previous"])
    assert shown(first) == ["new-2", "new-1", "new-0", "late"]
    assert first.body["more"] is True
    second = system.timeline("bob", limit="4", hydrate="false", after=first.body["previous"])
    assert shown(second) == ["new-4", "new-3"]
    assert second.body.keys() == {"entries", "next", "previous"}
    idle = system.timeline("bob", limit="4", hydrate="false", after=second.body["previous"])
    assert (shown(idle), idle.body["previous"]) == ([], second.body["previous"])


def test_a_range_is_read_in_both_directions(system: System) -> None:
    refs = give(system, 9)
    bounds = {"from": times.to_text(AT_MS - 7_000), "to": times.to_text(AT_MS - 1_000)}
    assert walk(system, limit="4", **bounds) == [refs[2:6], refs[6:8]]
    empty = system.timeline("bob", **{"from": bounds["from"], "to": bounds["from"]})
    first = system.timeline("bob", limit="4", **bounds, after=empty.body["previous"])
    second = system.timeline("bob", limit="4", **bounds, after=first.body["previous"])
    assert (shown(first), shown(second)) == (refs[4:8], refs[2:4])
    assert "more" not in second.body


# Retention


def test_entries_older_than_the_retention_are_not_shown_before_they_are_deleted(
    system: System,
) -> None:
    now, bound = AT_MS, AT_MS - RETENTION_MS
    for name, ms in (("now", now), ("just-in", bound), ("just-out", bound - 1), ("old", 0)):
        system.timelines.push(Entry(sort_key(times.to_text(ms), name), "ada", 1), ["bob"])
    assert walk(system, hydrate="false") == [["now", "just-in"]]
    assert walk(system, hydrate="false", limit="1") == [["now"], ["just-in"]]
    system.clock.advance(0.001)
    assert walk(system, hydrate="false") == [["now"]]
    assert len(system.rows(names.TIMELINES)) == 4


# Faults


def test_posts_that_cannot_be_read_are_not_taken_for_deleted(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(system, 2)

    def get_none(*, RequestItems: Json) -> Any:  # noqa: N803 - boto3's name
        return {"Responses": {}, "UnprocessedKeys": RequestItems}

    with monkeypatch.context() as patched:
        patched.setattr(system.dynamodb, "batch_get_item", get_none)
        answer = system.timeline("bob")
    assert (answer.status, answer.slug) == (503, "try-later")
    assert shown(system.timeline("bob")) == ["post-000", "post-001"]


def test_a_busy_timelines_table_is_answered_with_try_later(
    system: System, fail_first: FailFirst
) -> None:
    fail_first(system.dynamodb, "query", [error("ProvisionedThroughputExceededException")])
    answer = system.timeline("bob")
    assert (answer.status, answer.slug) == (503, "try-later")


def test_a_page_of_the_example_events_continues_below_its_cursor(system: System) -> None:
    give(system, 3, start_ms=AT_MS - 2_123)  # the cursor of the event is just above the newest
    assert shown(system.http("timeline/read_timeline_page")) == ["post-000", "post-001", "post-002"]
    assert shown(system.http("timeline/read_timeline")) == ["post-000", "post-001", "post-002"]
