"""One run of SWEEP over ledger rows on a table of the model: what it reads, notes and sends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fanfold import clock as product_clock
from fanfold import times
from fanfold.errors import TryLater
from fanfold.fanout.row import STALLED, Fanout
from fanfold.names import FANOUTS
from fanfold.sweep.course import Oldest
from fanfold.sweep.open_fanouts import OpenFanouts
from fanfold.sweep.sweep import Sweeping, Swept
from tests.service import AT_MS as AT
from tests.unit.stores import Queue, Tables

ROW = Fanout(
    fanout_id="post",
    publisher_id="ada",
    sort_key="",
    accepted_at=times.to_text(AT),
    expires_at=AT // 1000 + 90 * 86_400,
)
# Time enough for a run, in seconds of the monotonic clock.
STOP_AT = 40.0


class World(Tables):
    """SWEEP, its clock, its queues and the mappings that are paused."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.paused: set[str] = set()
        self.swept: list[Swept] = []

    def is_paused(self, url: str) -> bool:
        return url in self.paused

    def sweep(self, *, stop_at: float = STOP_AT) -> Oldest:
        mappings: Any = self
        run = Sweeping(self.open, self.ledger, self.commands, self.lanes, mappings)
        return run.sweep(stop_at=self.now + stop_at, report=self.swept.append)

    def add(self, *ids: str, segments: int = 0) -> None:
        for fanout_id in ids:
            row = replace(ROW, fanout_id=fanout_id)
            self.ledger.open(row)
            if segments:
                self.ledger.plan(row, segments=segments, followers=9, level=0, now=row.accepted_at)

    def asked(self, queue: Queue) -> list[tuple[str, Any]]:
        return [(each.content["fanout_id"], each.content.get("segment")) for each in queue.sent]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    each = World()
    monkeypatch.setattr(product_clock, "monotonic", lambda: each.now)
    monkeypatch.setattr(product_clock, "now_ms", lambda: AT + round(1000 * each.now))
    monkeypatch.setattr(product_clock, "sleep", lambda _seconds: None)
    return each


def test_each_kind_is_asked_about_in_its_own_queue_and_group(world: World) -> None:
    world.add("queued")
    world.add("single", segments=1)
    world.add("many", segments=12)
    world.now = 1_000.0
    oldest = world.sweep()
    assert world.asked(world.commands) == [("queued", None)]
    assert world.asked(world.express) == [("single", 0)]
    assert world.asked(world.bulk) == [("many", segment) for segment in range(10)]
    assert {message.group for message in world.bulk.sent} == {"ada"}
    assert (oldest.small_seconds, oldest.large_seconds) == (1_000, 1_000)
    assert sorted((each.fanout_id, each.what) for each in world.swept) == [
        ("many", "asked its lane"),
        ("queued", "asked PLAN"),
        ("single", "asked its lane"),
    ]


def test_a_run_without_time_reads_no_row_and_sends_nothing(world: World) -> None:
    world.add("queued")
    world.now = 1_000.0
    world.sweep(stop_at=0.0)
    assert not world.commands.sent
    assert world.row_of("queued").asks == 0
    assert world.open.memory().position == "", "the next run begins where this one would have"


def test_a_run_whose_time_ends_while_it_reads_notes_and_sends_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add("queued")
    world.now = 1_000.0
    plain = world.client.batch_get_item

    def slow(**request: Any) -> Any:
        world.now += STOP_AT
        return plain(**request)

    monkeypatch.setattr(world.client, "batch_get_item", slow, raising=False)
    world.sweep()
    assert not world.commands.sent
    assert world.row_of("queued").asks == 0


def test_keys_that_take_half_of_the_time_are_too_many_but_those_read_are_mended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add("a", "b")
    world.now = 1_000.0
    plain = world.open.key_pages

    def slow(self: OpenFanouts) -> Iterator[Any]:
        for page in plain():
            world.now += STOP_AT / 2 + 0.001
            yield page

    monkeypatch.setattr(OpenFanouts, "key_pages", slow)
    with pytest.raises(TryLater, match="More than 2 fan-outs are open"):
        world.sweep()
    assert len(world.commands.sent) == 2


def test_the_silence_of_a_queue_that_was_paused_counts_from_when_it_was_last_seen(
    world: World,
) -> None:
    world.add("queued")
    world.paused = {"Publish"}
    world.now = 1_000.0
    world.sweep()
    world.paused = {"Bulk"}
    world.now += 119.0
    world.sweep()
    assert not world.commands.sent
    at = AT + 1_000_000
    assert world.open.memory().paused == {"Publish": at, "Bulk": at + 119_000}
    world.paused = set()
    world.now += 1.0
    world.sweep()
    assert len(world.commands.sent) == 1


def test_an_error_with_one_queue_keeps_no_other_from_being_sent(world: World) -> None:
    world.add("queued")
    world.add("single", segments=1)
    world.now = 1_000.0
    world.commands.error = ConnectionError()
    with pytest.raises(ConnectionError):
        world.sweep()
    assert world.asked(world.express) == [("single", 0)]
    assert world.open.memory().position, "the next run goes on from there"


def test_rows_are_read_as_they_are_now(world: World) -> None:
    database = world.client.state
    database.hooks.read_lag = lambda _table: 5.0
    world.add("a")
    database.clock.advance(60)
    assert world.open.give_up(world.row_of("a"), now_ms=AT)
    row = world.open.rows(["a"])["a"]
    assert row is not None
    assert row.state == STALLED


def test_rows_that_are_read_in_parts_need_one_pause_where_a_call_brings_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"post-{number}" for number in range(5)]
    world.add(*ids)
    asked: list[int] = []
    slept: list[float] = []
    plain = world.client.batch_get_item

    def one(**request: Any) -> Any:
        keys = request["RequestItems"][FANOUTS.name]["Keys"]
        asked.append(len(keys))
        if len(asked) == 2:
            return {"Responses": {}, "UnprocessedKeys": {FANOUTS.name: {"Keys": keys}}}
        answer = plain(RequestItems={FANOUTS.name: {"Keys": keys[:1], "ConsistentRead": True}})
        return {**answer, "UnprocessedKeys": {FANOUTS.name: {"Keys": keys[1:]}} if keys[1:] else {}}

    monkeypatch.setattr(world.client, "batch_get_item", one, raising=False)
    monkeypatch.setattr(product_clock, "sleep", slept.append)
    assert all(world.open.rows(ids).values())
    assert asked == [5, 4, 4, 3, 2, 1]
    assert len(slept) == 1
