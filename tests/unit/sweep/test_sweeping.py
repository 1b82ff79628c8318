"""One run of SWEEP over ledger rows on a table of the model: what it reads, notes and sends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fanfold import clock as product_clock
from fanfold.errors import TryLater
from fanfold.fanout.row import STALLED
from fanfold.names import FANOUTS
from tests.service import AT_MS as AT
from tests.stores import Queue, SweepStage


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> SweepStage:
    return SweepStage(monkeypatch)


def asked(queue: Queue) -> list[tuple[str, Any]]:
    return [(each.content["fanout_id"], each.content.get("segment")) for each in queue.sent]


def test_each_kind_is_asked_about_in_its_own_queue_and_group(stage: SweepStage) -> None:
    stage.add("queued")
    stage.add("single", segments=1)
    stage.add("many", segments=12)
    stage.clock.advance(1_000)
    oldest = stage.sweep()
    assert asked(stage.commands) == [("queued", None)]
    assert asked(stage.express) == [("single", 0)]
    assert asked(stage.bulk) == [("many", segment) for segment in range(10)]
    assert {message.group for message in stage.bulk.sent} == {"ada"}
    assert (oldest.small_seconds, oldest.large_seconds) == (1_000, 1_000)
    assert sorted((each.fanout_id, each.what) for each in stage.swept) == [
        ("many", "asked its lane"),
        ("queued", "asked PLAN"),
        ("single", "asked its lane"),
    ]


def test_a_delivery_that_a_run_completes_is_reported_with_how_long_it_took(
    stage: SweepStage,
) -> None:
    stage.add("queued")
    stage.add("done", segments=2)
    for segment in (0, 1):  # and the worker of the last one crashed
        now = stage.row_of("done").accepted_at
        stage.ledger.finish_segment(stage.row_of("done"), segment, written=5, now=now)
    stage.clock.advance(1_000)
    stage.sweep()
    assert {each.fanout_id: each.seconds for each in stage.swept} == {"queued": None, "done": 1_000}


def test_a_run_without_time_reads_no_row_and_sends_nothing(stage: SweepStage) -> None:
    stage.add("queued")
    stage.clock.advance(1_000)
    stage.sweep(within=0.0)
    assert not stage.commands.sent
    assert stage.row_of("queued").asks == 0
    assert stage.open.memory().position == "", "the next run begins where this one would have"


def test_a_run_whose_time_ends_while_it_reads_notes_and_sends_nothing(
    stage: SweepStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.add("queued")
    stage.clock.advance(1_000)
    plain = stage.client.batch_get_item

    def slow(**request: Any) -> Any:
        stage.clock.advance(40.0)
        return plain(**request)

    monkeypatch.setattr(stage.client, "batch_get_item", slow, raising=False)
    stage.sweep()
    assert not stage.commands.sent
    assert stage.row_of("queued").asks == 0


def test_keys_that_take_half_of_the_time_are_too_many_but_those_read_are_mended(
    stage: SweepStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.add("a", "b")
    stage.clock.advance(1_000)
    keys = list(stage.open.key_pages())

    def slow(_: Any) -> Iterator[Any]:
        for page in keys:
            stage.clock.advance(20.001)
            yield page

    monkeypatch.setattr(type(stage.open), "key_pages", slow)
    with pytest.raises(TryLater, match="More than 2 fan-outs are open"):
        stage.sweep()
    assert len(stage.commands.sent) == 2


def test_the_silence_of_a_queue_that_was_paused_counts_from_when_it_was_last_seen(
    stage: SweepStage,
) -> None:
    stage.add("queued")
    stage.paused = {"Publish"}
    stage.clock.advance(1_000)
    stage.sweep()
    stage.paused = {"Bulk"}
    stage.clock.advance(119.0)
    stage.sweep()
    assert not stage.commands.sent
    at = AT + 1_000_000
    assert stage.open.memory().paused == {"Publish": at, "Bulk": at + 119_000}
    stage.paused = set()
    stage.clock.advance(1.0)
    stage.sweep()
    assert len(stage.commands.sent) == 1


def test_an_error_with_one_queue_keeps_no_other_from_being_sent(stage: SweepStage) -> None:
    stage.add("queued")
    stage.add("single", segments=1)
    stage.clock.advance(1_000)
    stage.commands.error = ConnectionError()
    with pytest.raises(ConnectionError):
        stage.sweep()
    assert asked(stage.express) == [("single", 0)]
    assert stage.open.memory().position, "the next run goes on from there"


def test_rows_are_read_as_they_are_now(stage: SweepStage) -> None:
    database = stage.client.state
    database.hooks.read_lag = lambda _table: 5.0
    stage.add("a")
    database.clock.advance(60)
    assert stage.open.give_up(stage.row_of("a"), now_ms=AT)
    row = stage.open.rows(["a"])["a"]
    assert row is not None
    assert row.state == STALLED


def test_rows_that_are_read_in_parts_need_one_pause_where_a_call_brings_none(
    stage: SweepStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"post-{number}" for number in range(4)]
    stage.add(*ids)
    asked, slept = list[int](), list[float]()
    plain = stage.client.batch_get_item

    def one(**request: Any) -> Any:
        keys = request["RequestItems"][FANOUTS.name]["Keys"]
        asked.append(len(keys))
        found = 0 if len(asked) == 2 else 1
        answer = plain(RequestItems={FANOUTS.name: {"Keys": keys[:1]}}) if found else {}
        left = {FANOUTS.name: {"Keys": keys[found:]}} if keys[found:] else {}
        return {"Responses": {}, **answer, "UnprocessedKeys": left}

    monkeypatch.setattr(stage.client, "batch_get_item", one, raising=False)
    monkeypatch.setattr(product_clock, "sleep", slept.append)
    assert all(stage.open.rows(ids).values())
    assert asked == [4, 3, 3, 2, 1]
    assert len(slept) == 1
