"""What pages over channels cost in read units, on the model of DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from fanfold import cursor, names, times
from fanfold.aws.items import binaries, expressions
from fanfold.channels.head import MOST
from fanfold.channels.known_head import HEAD_SECONDS
from fanfold.channels.windows import WINDOW
from fanfold.cursor import Cursor
from fanfold.timeline import marks
from proof.model.clock import START_MS
from proof.simulation.world.scheduler import Scheduler, virtual_time
from tests.integration.channel_stage import READER, Stage, publisher

FOLLOWED = [publisher(each) for each in range(MOST)]
OTHER = publisher(MOST)
# Of the reader's row, of the head, of a page of the own timeline, and of a window.
ROW, HEAD, OWN, A_WINDOW = 1.0, 1.0, 1.5, 5.0


@pytest.fixture(scope="module")
def filled() -> Stage:
    """All channels that there may be, and more in each than a window."""
    stage = Stage()
    with virtual_time(Scheduler(Random(0), clock=stage.clock)):
        for place, each in enumerate(FOLLOWED):
            stage.promote(each)
            for number in range(WINDOW + 5):
                entry = stage.entry(each, START_MS - 1_000_000 - 1_000 * number - place)
                stage.put(entry, is_told=False)
        for number in range(100):
            stage.push(stage.entry(OTHER, START_MS - 1_000_000 - 11 * number))
    return stage


@pytest.fixture
def stage(filled: Stage) -> Iterator[Stage]:
    """One reader of all, whose row has no memo yet, and a cold container."""
    with virtual_time(Scheduler(Random(0), clock=filled.clock)):
        filled.follow(*FOLLOWED, OTHER)
        filled.containers.clear()
        yield filled


def units(stage: Stage, **query: Any) -> float:
    before = stage.units
    page = stage.page(**query)
    assert len(page["entries"]) == (0 if "after" in query else 50)
    return stage.units - before


def test_the_first_page_after_a_promotion_reads_the_follows_too(stage: Stage) -> None:
    assert units(stage) == ROW + OWN + HEAD + MOST + MOST * A_WINDOW
    row = stage.client.get_item(TableName=names.READERS.name, Key={"user_id": {"S": READER}})
    assert set(row["Item"]["channels"]["BS"]) == set(map(marks.hash_of, FOLLOWED))


def test_a_cold_page_with_all_channels_takes_330_units_at_most(stage: Stage) -> None:
    stage.page()
    stage.containers.clear()
    assert units(stage) == ROW + OWN + HEAD + MOST * A_WINDOW <= 330


def test_a_warm_page_takes_three_and_a_half_units_at_most_and_an_idle_poll_one_less(
    stage: Stage,
) -> None:
    previous = stage.page()["previous"]
    assert units(stage) == ROW + OWN
    assert units(stage, after=previous) <= ROW + OWN == 2.5
    stage.clock.advance(HEAD_SECONDS)
    assert units(stage) == ROW + OWN + HEAD <= 3.5


def test_a_page_below_the_windows_reads_only_the_channels_that_it_may_show(stage: Stage) -> None:
    """Where one publisher has posted more often than all others."""
    busy = FOLLOWED[0]
    for number in range(2 * WINDOW):
        stage.put(stage.entry(busy, START_MS - number), is_told=False)
    stage.page()
    place: dict[str, Any] = {}
    for _ in range(2):
        place["before"] = stage.page(**place)["next"]
    assert units(stage, **place) <= ROW + OWN + 3.0


@pytest.mark.parametrize("is_warm", [True, False])
def test_pages_far_below_take_80_units_at_most(stage: Stage, is_warm: bool) -> None:
    """Of a reader who scrolls through all channels."""
    page = stage.page(before=cursor_at(START_MS - 1_010_000))
    if not is_warm:
        stage.containers.clear()
        stage.page(before=page["next"])
    else:
        stage.page()
    for _ in range(3):
        page = stage.page(before=page["next"])
        assert units(stage, before=page["next"]) <= 80


def cursor_at(ms: int) -> str:
    return cursor.encode(Cursor.at(times.to_text(ms)))


def test_a_page_that_is_filled_again_reads_no_channel_twice(stage: Stage) -> None:
    """Most of what it finds is of publishers whom the reader has unfollowed."""
    page = stage.page(before=cursor_at(START_MS - 1_010_000))
    unfollowed = list(map(marks.hash_of, FOLLOWED[: MOST * 3 // 4]))
    week = f"hidden_{marks.week_of(stage.clock.now_ms())}"
    stage.client.update_item(
        TableName=names.READERS.name,
        Key={"user_id": {"S": READER}},
        **expressions(adds={week: binaries(unfollowed)}),
    )
    assert units(stage, before=page["next"]) <= 160


def test_a_second_look_reads_each_channel_once(stage: Stage) -> None:
    page = stage.page()
    entry = stage.entry(OTHER, START_MS)
    stage.push(entry)
    page = stage.page()
    gone = {"user_id": {"S": READER}, "sort_key": {"S": entry.sort_key}}
    stage.client.delete_item(TableName=names.TIMELINES.name, Key=gone)
    assert units(stage, after=page["previous"]) <= 3 * (ROW + OWN) + HEAD * 2 + 2 * MOST
    assert units(stage, after=stage.page()["previous"]) <= ROW + OWN
