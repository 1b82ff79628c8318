"""The stage's own counts: what passes on the way to the table, and the verdict on every row."""

import json
from collections import Counter
from typing import Any

import pytest

from fanfold_cli.console import rings
from fanfold_cli.console.views import CELLS, Ring
from fanfold_cli.run.verdict import DOUBLED, EXTRA, MISCOUNTED, MISSING, REPEATED, UNKNOWN, Verdict
from proof.hurt import counting
from proof.hurt.meter import Meter, cell_of
from proof.model.endpoint import Answer, Request
from tests.unit.cli.console.test_console_reading import fanout

AT = "2026-11-20T18:00:00.123Z"
USERS = [f"reader-{number}" for number in range(20)]
WANTED = Counter(map(cell_of, USERS))


def batch(users: list[str], ref_id: str = "post-1", table: str = "Timelines") -> Request:
    items = [{"user_id": {"S": user}, "sort_key": {"S": f"{AT}#{ref_id}"}} for user in users]
    content = {"RequestItems": {table: [{"PutRequest": {"Item": item}} for item in items]}}
    return Request("BatchWriteItem", {}, json.dumps(content).encode())


def takes_all(_: Request) -> Answer:
    return Answer(200, b'{"UnprocessedItems": {}}')


def filled(meter: Meter) -> Ring:
    return meter.filled(rings.view(fanout(state="delivering", segments=1)), WANTED)


def test_the_ring_shows_what_the_table_took() -> None:
    meter = Meter(takes_all, "Timelines")
    meter.answer(batch(USERS[:10]))
    meter.answer(batch(USERS[:5], table="Followers"))
    ring = filled(meter)
    assert (ring.delivered, ring.followers) == (10, 20)
    assert {cell for cell, share in enumerate(ring.have) if share} == set(map(cell_of, USERS[:10]))
    assert sum(ring.again) == sum(ring.refused) == 0
    assert (len(ring.have), meter.refused, meter.rewritten) == (CELLS, 0, 0)


def refuses_two(request: Request) -> Answer:
    tables: dict[str, list[Any]] = json.loads(request.body)["RequestItems"]
    left = {table: writes[:2] for table, writes in tables.items()}
    return Answer(200, json.dumps({"UnprocessedItems": left}).encode())


def test_what_is_refused_is_not_in_the_ring() -> None:
    for backend, passed in ((refuses_two, 18), (lambda _: Answer(400, b"{}"), 0)):
        meter = Meter(backend, "Timelines")
        meter.answer(batch(USERS))
        ring = filled(meter)
        assert (ring.delivered, sum(ring.refused), meter.refused) == (passed, 20 - passed, 1)


@pytest.mark.parametrize(
    ("faults", "wrong_readers", "end"),
    [
        ({}, (), "0 lost, 0 seen twice"),
        ({MISSING: 1}, (), "1 lost, 0 seen twice"),
        ({DOUBLED: 1, REPEATED: 2}, ("bob",), "0 lost, 3 seen twice, 1 timeline wrong"),
        ({EXTRA: 1, UNKNOWN: 1}, (), "0 lost, 0 seen twice, 2 unexpected"),
        ({MISCOUNTED: 2}, (), "0 lost, 0 seen twice, 2 counts wrong"),
    ],
)
def test_the_verdict_is_one_line_with_each_fault(
    faults: dict[str, int], wrong_readers: tuple[str, ...], end: str
) -> None:
    found = Verdict(3, 3 - faults.get(MISSING, 0), Counter(faults))
    found.wrong_readers.update(wrong_readers)
    shown = counting.view(found, seconds=158.2, killed=2, refused=1, copies=0)
    assert shown.is_right is (not faults)
    assert shown.sentence == (
        f"demo: delivered {found.right} of 3 entries in 158 s; 2 workers killed, 1 batch refused, "
        f"0 copies, {end}"
    )
