"""`fanfold cost`: what a publish takes, worked out, and its ledger held against the model."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from aws_model.clock import Clock
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.capacity import WRITE, Meter
from aws_model.dynamodb.database import Database
from fanfold import names
from fanfold.budgets import DELIVER_MEMORY_MB, MAX_WRITE_CAPACITY, MIN_WRITE_CAPACITY, Budget
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.publish import NewPost, Publishing
from fanfold.fanout.segments import SEGMENT_FOLLOWERS
from fanfold.timeline.posts import Posts
from fanfold_cli.commands import cost
from fanfold_cli.console import ExpectedError
from fanfold_cli.main import app
from simulation.schemas import schema_of

NOW = "2026-11-20T18:00:00.123Z"


def run(*args: str) -> str:
    ran = CliRunner().invoke(app, ["cost", *args])
    assert ran.exit_code == 0, ran.output
    return ran.output


def document(*args: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("--json", *args))
    return found


def to(followers: int, units: int, *, memory_mb: int = 512) -> cost.Publish:
    return cost.Publish.to(followers, Budget.of(units), memory_mb=memory_mb)


@pytest.mark.parametrize("segments", [1, 2, 64, 1024])
def test_the_ledgers_units_are_those_that_the_model_of_dynamodb_counts(segments: int) -> None:
    clock = Clock()
    database = Database(clock, meter=Meter())
    database.create(*(schema_of(table) for table in names.TABLES))
    client: Any = dynamodb.Client(database, validates=False)
    fanouts = Ledger(client, names.FANOUTS.name)
    publishing = Publishing(Posts(client, names.POSTS.name), fanouts, retention_days=30)
    new = NewPost(publisher_id="p" * 36, ref_id="r" * 36, body="x" * 1_000)
    publishing.accept(new, accepted_at=clock.now_ms())
    followers = segments * SEGMENT_FOLLOWERS
    fanouts.plan(new.ref_id, segments=segments, followers=followers, level=0, now=NOW)
    for segment in range(segments):
        row = fanouts.get(new.ref_id)
        assert row is not None
        fanouts.finish_segment(row, segment, written=SEGMENT_FOLLOWERS, now=NOW)
    if segments > 1:
        fanouts.complete_if_delivered(new.ref_id, now=NOW)

    assert database.meter is not None
    counted = sum(units for (_, kind), units in database.meter.units.items() if kind == WRITE)
    assert cost.ledger_units(segments) == pytest.approx(counted, rel=0.01)


@pytest.mark.parametrize(
    ("followers", "lane", "segments", "dollars"),
    [
        (100, "express", 1, 0.0000684),
        (5_000, "express", 1, 0.0032),
        (5_001, "bulk", 2, 0.0032),
        (220_000, "bulk", 64, 0.138),
        (10_000_000, "bulk", 2_048, 6.28),
    ],
)
def test_a_publish_costs_its_entries_and_little_else(
    followers: int, lane: str, segments: int, dollars: float
) -> None:
    publish = to(followers, 40_000)
    assert (publish.lane, publish.segments) == (lane, segments)
    assert publish.dynamodb_dollars == pytest.approx(dollars, rel=0.02)
    assert followers < publish.write_units <= followers * 1.01 + 8
    # Lambda is next to nothing beside it.
    assert publish.lambda_dollars < 0.02 * publish.dynamodb_dollars


@given(st.integers(1, cost.MAX_FOLLOWERS), st.integers(MIN_WRITE_CAPACITY, MAX_WRITE_CAPACITY))
def test_nothing_is_promised_faster_than_the_lanes_share_allows(followers: int, units: int) -> None:
    publish = to(followers, units)
    fastest = followers / (units * (0.85 if publish.lane == "bulk" else 0.25))
    assert publish.seconds >= fastest


def test_the_largest_publish_keeps_all_of_bulk_busy_to_the_end() -> None:
    publish = to(10_000_000, 40_000)
    assert publish.seconds == pytest.approx(10_000_000 / 34_000, rel=0.03)


def test_lambda_is_paid_for_the_memory_of_the_transport() -> None:
    small, large = (to(220_000, 40_000, memory_mb=mb) for mb in DELIVER_MEMORY_MB.values())
    assert large.gb_seconds / small.gb_seconds == pytest.approx(1769 / 512)
    # 64 segments of 3,438 entries at 2,125 a second, and a little each, with half a gigabyte.
    assert small.gb_seconds == pytest.approx(0.5 * (220_000 / 2_125 + 64 * 0.05))
    assert small.lambda_dollars == pytest.approx(small.gb_seconds * 0.0000133334 + 64 * 0.2 / 1e6)


def test_the_sums_are_shown() -> None:
    shown = run()
    for sum_ in (
        "85 % of 40,000 is 34,000/s",
        "17.0, and 16 is the nearest power of two",
        "34,000 / 16 = 2,125",
        "10 % of 40,000 is 4,000/s",
        "2,000/s at least",
    ):
        assert sum_ in shown
    for row in ("100", "1,000", "220,000", "10,000,000"):
        assert f"\n{row:>10}  " in shown
    assert "us-east-1, November 2026" in shown
    assert "nothing is measured" in shown


def test_a_capacity_too_small_for_the_shares_says_so() -> None:
    small = run("--write-units", "1000")
    assert "relation work may write 400/s here, 40 % of the capacity and not 10 %" in small
    assert "nothing is left for express" in small
    for units in ("4000", "40000"):
        assert "not 10 %" not in run("--write-units", units)


def test_json_holds_the_budget_the_prices_and_every_publish() -> None:
    found = document("--write-units", "20000", "--followers", "7", "--followers", "220000")
    assert found["write_units_per_second"] == 20_000
    assert found["lanes"]["bulk"] == {
        "percent": 85,
        "rate": 17_000,
        "max_concurrency": 8,
        "worker_rate": 2_125,
        "most": 17_000,
    }
    assert set(found["lanes"]) == {"express", "bulk", "relation"}
    assert found["left_for_express"] == 1_000
    assert found["prices"]["region"] == "us-east-1"
    assert (found["transport"], found["deliver_memory_mb"]) == ("libcurl", 512)
    assert [publish["followers"] for publish in found["publishes"]] == [7, 220_000]
    assert found["publishes"][1]["segments"] == 64


def test_json_follows_the_transport() -> None:
    found = document("--transport", "boto3")
    assert (found["transport"], found["deliver_memory_mb"]) == ("boto3", 1769)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--write-units", "99"), "--write-units: A write capacity must be from 100 to 10,000,000"),
        (("--followers", "0"), "--followers must be from 1 to 1,000,000,000, not 0."),
        (("--followers", "5", "--followers", "1000000001"), "not 1,000,000,001."),
        (("--transport", "aiohttp"), "--transport must be libcurl or boto3, not 'aiohttp'."),
    ],
)
def test_a_bad_value_is_a_sentence(args: tuple[str, ...], sentence: str) -> None:
    ran = CliRunner().invoke(app, ["cost", *args])
    assert isinstance(ran.exception, ExpectedError)
    assert sentence in str(ran.exception)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.06, "0.1 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min 0 s"),
        (301.2, "5 min 1 s"),
        (11_765, "3 h 16 min"),
    ],
)
def test_a_duration_is_shown_in_the_units_of_its_size(seconds: float, shown: str) -> None:
    assert cost.duration(seconds) == shown


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0.000004, "<$0.00001"),
        (0.000068, "$0.000068"),
        (0.0321, "$0.032"),
        (0.1382, "$0.14"),
        (6.284, "$6.28"),
        (1_234.5, "$1,234.50"),
    ],
)
def test_an_amount_is_shown_with_two_digits_that_count(amount: float, shown: str) -> None:
    assert cost.dollars(amount) == shown
