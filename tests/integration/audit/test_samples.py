"""How often a sample finds what is missing, and what it reads, against the formulas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from fanfold import names
from fanfold.audit.audit import Audit
from fanfold.audit.meter import Meter, Metered
from fanfold.audit.reads import Reads
from fanfold.stores import Stores
from tests.service import System

pytestmark = pytest.mark.thorough

READERS, POSTS = 40, 20
PUBLISHERS = [f"publisher-{number}" for number in range(5)]
PAIRS, MISSING, RUNS = 60, 40, 150
# Of a sound audit, one in a thousand deviates by more standard deviations.
DEVIATIONS = 3.3


@pytest.fixture
def many(system: System) -> System:
    """A hundred posts of five publishers, whom the same readers follow: 4,000 entries."""
    for number in range(READERS):
        for publisher in PUBLISHERS:
            assert system.follow(f"reader-{number}", publisher).status == 200
    system.pump("Relation")
    for number in range(POSTS):
        system.clock.advance(600)
        for publisher in PUBLISHERS:
            system.publish(f"post-{number}", user=publisher)
        system.pump("Publish")
    system.clock.advance(120)
    assert len(system.rows(names.TIMELINES)) == READERS * len(PUBLISHERS) * POSTS
    return system


def audited(system: System, seed: int, pairs: int, client: Any) -> Audit:
    reads = Reads(Stores(client, system.settings))
    auditing = Audit(reads, Random(seed).random, sleep=lambda _seconds: None)
    assert sum(auditing.sample(pairs, hours=24)) == pairs
    return auditing


def test_a_sample_finds_scattered_losses_as_often_as_computed(many: System) -> None:
    def hits() -> Iterator[bool]:
        for seed in range(RUNS):
            lost = Random(f"{seed} lost").sample(rows, MISSING)
            for row in lost:
                key = {name: row[name] for name in ("user_id", "sort_key")}
                many.dynamodb.delete_item(TableName=names.TIMELINES.name, Key=key)
            yield audited(many, seed, PAIRS, many.dynamodb).report.findings > 0
            for row in lost:
                many.dynamodb.put_item(TableName=names.TIMELINES.name, Item=row)

    rows = many.rows(names.TIMELINES)
    chance = 1 - (1 - MISSING / len(rows)) ** PAIRS
    deviation = math.sqrt(chance * (1 - chance) / RUNS)
    assert sum(hits()) / RUNS == pytest.approx(chance, abs=DEVIATIONS * deviation)


def test_a_sample_reads_about_what_its_forecast_says(many: System) -> None:
    meter = Meter(rate=math.inf)
    auditing = audited(many, 1, 300, Metered(many.dynamodb, meter))
    assert meter.units == pytest.approx(auditing.units(300), rel=0.1)
