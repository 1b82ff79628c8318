"""`fanfold cost`: its estimates, and its write units against the model of DynamoDB."""

import json
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fanfold import clock as product_clock
from fanfold import names
from fanfold.budgets import MAX_WRITE_CAPACITY, MIN_WRITE_CAPACITY, Budget
from fanfold.fanout.backlog import Resume
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.pacing import Pace
from fanfold.fanout.publishing.post_rate import PostCounts
from fanfold.fanout.publishing.publish import NewPost, Publishing
from fanfold.fanout.segment_size import MAX_SEGMENTS, SEGMENT_FOLLOWERS, count_for, segment_range
from fanfold.follows.backfill import Backfilling, NewestPosts
from fanfold.follows.edges import Edges
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.follow import Following
from fanfold.follows.follows_table import FollowsTable
from fanfold.follows.levels import Growing, Levels
from fanfold.follows.publisher.audience import Audience
from fanfold.follows.publisher.privacy import Privacies
from fanfold.follows.publishers_table import PublishersTable
from fanfold.rates import Rate
from fanfold.timeline.entries import Entries
from fanfold.timeline.outbox import Outbox
from fanfold.timeline.posts import Posts
from fanfold.timeline.readers import Readers
from fanfold_cli.app import app
from fanfold_cli.commands import cost
from fanfold_cli.cost import follow
from fanfold_cli.cost.follow import FirstFollow
from fanfold_cli.cost.publish import WORKER_SECONDS, Publish, ledger_units, one_hop_units
from fanfold_cli.terminal import WrongValue, dollars, duration
from functions._intake import body_of
from proof.model.clock import Clock
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.capacity import READ, WRITE, Meter
from proof.model.dynamodb.database import Database
from proof.simulation.world.schemas import schema_of

NOW = "2026-11-20T18:00:00.123Z"


def run(*args: str) -> str:
    ran = CliRunner().invoke(app, ["cost", *args])
    assert ran.exit_code == 0, ran.output
    return ran.output


def publish(followers: int, units: int = 40_000, *, memory_mb: int = 512) -> Publish:
    return Publish.to(followers, Budget.of(units), memory_mb=memory_mb)


class Model:
    """All tables on the model of DynamoDB, and the units that it has counted."""

    def __init__(self) -> None:
        self.clock, self.meter = Clock(), Meter()
        database = Database(self.clock, meter=self.meter)
        database.create(*(schema_of(table) for table in names.TABLES))
        client: Any = dynamodb.Client(database, validates=False)
        self.client, self.fanouts = client, Ledger(client, names.FANOUTS.name)

    def used(self, kind: str = WRITE) -> float:
        return float(sum(units for (_, each), units in self.meter.units.items() if each == kind))


def accepted() -> tuple[Model, str]:
    """An accepted post of 1 KB, and its id."""
    model = Model()
    counts = PostCounts(model.client, names.PUBLISHERS.name, Rate.a_minute(60))
    posts = Posts(model.client, names.POSTS.name)
    publishing = Publishing(posts, model.fanouts, 30, counts)
    new = NewPost(publisher_id="p" * 36, ref_id="r" * 36, body=body_of({"x": "x" * 992}))
    publishing.accept(new, accepted_at=model.clock.now_ms())
    return model, new.ref_id


# What a worker writes in its time if all 64 are at their slowest pace: entries.
HANDED_BACK_AFTER = Budget.of(150_000).bulk.slowest_rate * WORKER_SECONDS


@pytest.mark.parametrize(
    ("followers", "percent"),
    [
        (SEGMENT_FOLLOWERS, None),
        (2 * SEGMENT_FOLLOWERS, None),
        (64 * SEGMENT_FOLLOWERS, 0.14),
        (MAX_SEGMENTS * SEGMENT_FOLLOWERS // 2 + 1, 0.78),
        (MAX_SEGMENTS * SEGMENT_FOLLOWERS, 0.75),
    ],
)
def test_the_units_of_the_ledger_agree_with_the_model_of_dynamodb_and_with_the_data_model(
    followers: int, percent: float | None
) -> None:
    model, ref_id = accepted()
    fanouts = model.fanouts
    row = fanouts.get(ref_id)
    assert row is not None
    segments = count_for(followers)
    fanouts.plan(row, segments=segments, followers=followers, level=0, now=NOW)
    row = fanouts.get(ref_id)
    assert row is not None
    hand_backs = followers // segments // HANDED_BACK_AFTER if percent else 0
    for written_before in range(hand_backs):
        for segment in range(segments):
            resume = Resume(segment_range(segment, segments).lo, written_before)
            assert fanouts.store_resume(row, segment, resume, now=NOW)
    for segment in range(segments):
        fanouts.finish_segment(row, segment, written=followers // segments, now=NOW)
    if segments > 1:
        fanouts.complete_if_delivered(ref_id, now=NOW)
    error = 0.02 if hand_backs else 0.01
    assert ledger_units(segments, hand_backs) == pytest.approx(model.used(), rel=error)
    if percent:
        assert 100 * model.used() / followers == pytest.approx(percent, abs=0.005)


def test_a_publish_in_one_hop_costs_what_the_model_of_dynamodb_counts() -> None:
    model, ref_id = accepted()
    model.fanouts.complete_at_once(ref_id, followers=1_000, now=NOW)
    assert one_hop_units() == model.used() == 8


@pytest.mark.parametrize(
    ("followers", "lane", "segments", "dollars"),
    [
        (1_199, "publish", 1, 0.00076),
        (1_201, "express", 1, 0.00077),
        (5_000, "express", 1, 0.0032),
        (5_001, "bulk", 2, 0.0032),
        (10_000_000, "bulk", 512, 6.28),
    ],
)
def test_a_publish_costs_little_more_than_its_entries(
    followers: int, lane: str, segments: int, dollars: float
) -> None:
    estimate = publish(followers)
    assert (estimate.lane, estimate.segments) == (lane, segments)
    assert estimate.dynamodb_dollars == pytest.approx(dollars, rel=0.02)
    assert followers < estimate.write_units <= followers * 1.01 + 8
    assert estimate.lambda_dollars < 0.02 * estimate.dynamodb_dollars


@given(st.integers(1, cost.MAX_FOLLOWERS), st.integers(MIN_WRITE_CAPACITY, MAX_WRITE_CAPACITY))
def test_no_estimate_is_faster_than_the_share_of_its_lane(followers: int, units: int) -> None:
    estimate = publish(followers, units)
    if estimate.lane == "publish":
        followers -= Budget.of(units).publish_burst
    fastest = followers / (units * (0.85 if estimate.lane == "bulk" else 0.25))
    assert estimate.seconds >= fastest


def test_the_output_shows_the_calculation_and_every_size() -> None:
    shown = run()
    for text in (
        "85 % of 40,000 is 34,000/s",
        "17.0 workers, and 16 is the nearest power of two",
        "34,000 / 16 = 2,125",
        "10 % of 40,000 is 4,000/s",
        "at least 2,000/s",
        "us-east-1, November 2026",
        "nothing is measured",
        *(f"\n{followers:>10}  " for followers in ("100", "1,000", "220,000", "10,000,000")),
    ):
        assert text in shown
    sentences = " ".join(shown.split())
    for text in (
        "86 workers: publish 10, express 40, bulk 16, relation 20",
        "they need 108 concurrent executions",
        "a new account has 10",
        "the 30 posts that it brings: 35 write and 26 read units, $0.000025.",
        "keeps up with 133 follows a second, as its share of the capacity allows",
        "A request to a private publisher: 6 write and 12 read units, $5.25 a million.",
    ):
        assert text in sentences
    assert "brings no posts: 5 write and 8 read units" in " ".join(run("--backfill", "0").split())
    assert json.loads(run("--json", "--backfill", "10"))["first_follow"]["write_units"] == 15


def test_json_holds_the_budget_the_prices_the_transport_and_every_publish() -> None:
    args = ("--write-units", "20000", "--followers", "7", "--followers", "220000")
    found = json.loads(run("--json", *args))
    assert found["write_units_per_second"] == 20_000
    bulk = {"percent": 85, "rate": 17_000, "max_concurrency": 8, "worker_rate": 2_125}
    assert found["lanes"]["bulk"] == {**bulk, "most": 17_000}
    assert set(found["lanes"]) == {"publish", "express", "bulk", "relation"}
    assert (found["left_for_express"], found["concurrency"]) == (1_000, None)
    assert found["prices"]["region"] == "us-east-1"
    publishes = [(each["followers"], each["segments"]) for each in found["publishes"]]
    assert publishes == [(7, 1), (220_000, 64)]
    boto3 = json.loads(run("--json", "--transport", "boto3"))
    transports = [(each["transport"], each["deliver_memory_mb"]) for each in (found, boto3)]
    assert transports == [("libcurl", 512), ("boto3", 1769)]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--write-units", "99"), "--write-units: A write capacity must be from 100 to 10,000,000"),
        (("--concurrency", "9"), "--concurrency: The queues want at least 8 workers"),
        (("--concurrency", "9"), "for requests and SWEEP. Give 10 or more."),
        (("--followers", "0"), "--followers must be from 1 to 1,000,000,000, not 0."),
        (("--followers", "5", "--followers", "1000000001"), "not 1,000,000,001."),
        (("--backfill", "31"), "--backfill must be from 0 to 30, not 31."),
        (("--active", "5"), "--active needs --channels."),
        (("--transport", "aiohttp"), "--transport must be libcurl or boto3, not 'aiohttp'."),
    ],
)
def test_an_invalid_value_is_answered_with_its_range(args: tuple[str, ...], sentence: str) -> None:
    ran = CliRunner().invoke(app, ["cost", *args])
    assert isinstance(ran.exception, WrongValue)
    assert sentence in str(ran.exception)


def test_channels_are_priced_next_to_pushed_posts_on_request() -> None:
    shown = run("--channels", "64", "--active", "1")
    assert "In one of 64, where 1 % of the followers read on a day:" in shown
    row = "10,000,000      $6.31     $0.000015           15           $0.075       $0.0093"
    assert row in shown
    assert "64: 320 read units, by up to 16 calls at the same time" in shown
    assert "channel" not in run()
    assert "In the only channel, where 10 %" in run("--channels", "1")
    assert "channels" not in json.loads(run("--json"))
    few, many = (
        json.loads(run("--json", "--channels", "8", "--active", active, "--followers", "10000000"))
        for active in ("1", "20")
    )
    assert (few["channels"]["channels"], few["channels"]["active_percent"]) == (8, 1)
    (one,), (other,) = few["channels"]["publishes"], many["channels"]["publishes"]
    assert one["write_units"] == other["write_units"] == 10
    assert other["promotion_dollars"] == pytest.approx(20 * one["promotion_dollars"], rel=0.01)
    assert one["pushed_dollars"] > 100_000 * other["dollars"]


def test_durations_have_the_unit_of_their_size_and_amounts_two_significant_digits() -> None:
    seconds = (0.06, 9.94, 9.96, 0, 59, 59.6, 301.2, 11_765, 90_061)
    shown = ["0.1 s", "9.9 s", "10 s", "0 s", "59 s", "1 min 0 s", "5 min 1 s", "3 h 16 min"]
    shown.append("1 d 1 h")
    assert list(map(duration, seconds)) == shown
    amounts = (0.000004, 0.000068, 0.0321, 0.1382, 6.284, 1_234.5)
    shown = ["<$0.00001", "$0.000068", "$0.032", "$0.14", "$6.28", "$1,234.50"]
    assert list(map(dollars, amounts)) == shown


# A first follow


class NoQueue:
    def send(self, *messages: Any) -> None: ...


def users_of(model: Model) -> tuple[Following, Audience]:
    """Both use cases in a warm container, which knows the publisher's level."""
    client, queue = model.client, NoQueue()
    growing = Growing(
        Levels(PublishersTable(client, names.PUBLISHERS.name)), 8, 10_000, lambda *_: None
    )
    growing.levels.to_write("p" * 36)
    table = FollowsTable(client, names.FOLLOWING.name, Readers(client, names.READERS.name), 30)
    edges = Edges(EdgesTable(client, names.FOLLOWERS.name), growing)
    privacies = Privacies(client, names.PUBLISHERS.name)
    given: Any = table, edges, privacies, queue, 5_000, 10
    how: Any = {"backfills": True, "rate": Rate.a_day(1_000)}
    return Following(*given, **how), Audience(*given, **how)


def spent_on_a_first_follow(posts: int) -> tuple[float, float]:
    """The write and read units of a follow, and of both of RELATE's orders, on the model."""
    model = Model()
    client, clock = model.client, model.clock
    publishing = Publishing(Posts(client, names.POSTS.name), model.fanouts, 30)
    for number in range(posts + 5):
        new = NewPost(publisher_id="p" * 36, ref_id=f"{number:036d}")
        publishing.accept(new, accepted_at=clock.now_ms() + number)
    following, _ = users_of(model)
    newest = NewestPosts(Outbox(client, names.POSTS.name), 30, posts)
    backfilling = Backfilling(newest, Entries(client, names.TIMELINES.name))
    model.meter.units.clear()
    with patch.object(product_clock, "now_ms", clock.now_ms):
        now, pace = clock.now_ms(), Pace(1e6)
        following.follow("u" * 36, "p" * 36, asked_at=now)
        row = following.follows.get("u" * 36, "p" * 36) if posts else None
        if row:
            backfilling.first(row, sent_at=now, redelivered=False, pace=pace, stop_at=1e18)
        row, _ = following.settle("u" * 36, "p" * 36)
        backfilling.second(row, sent_at=now, pace=pace, stop_at=1e18)
    return model.used(WRITE), model.used(READ)


@pytest.mark.parametrize("posts", [0, 1, 10, 30])
def test_the_units_of_a_first_follow_agree_with_the_model_of_dynamodb(posts: int) -> None:
    estimate = FirstFollow.bringing(posts)
    assert (estimate.write_units, estimate.read_units) == spent_on_a_first_follow(posts)


def test_the_units_of_a_request_and_its_approval_agree_with_the_model_of_dynamodb() -> None:
    model = Model()
    pair, now = ("u" * 36, "p" * 36), model.clock.now_ms()
    following, audience = users_of(model)

    def spent(act: Callable[[], object]) -> dict[str, float]:
        model.meter.units.clear()
        act()
        following.settle(*pair)
        return {"writes": model.used(WRITE), "reads": model.used(READ)}

    with patch.object(product_clock, "now_ms", model.clock.now_ms):
        audience.choose(pair[1], is_private=True, asked_at=now)
        asked = spent(lambda: following.follow(*pair, asked_at=now))
        approved = spent(lambda: audience.approve(*reversed(pair), asked_at=now))
    assert asked == follow.REQUEST
    assert approved == follow.APPROVAL


@pytest.mark.parametrize(
    ("arguments", "follows", "bound"),
    [
        (["--write-units", "4000"], 13, "its share of the capacity allows"),
        (["--concurrency", "10"], 50, "the CPU of its 2 workers allows"),
        (["--concurrency", "50", "--backfill", "10"], 225, "the CPU of its 9 workers allows"),
    ],
)
def test_relate_keeps_up_as_far_as_both_its_share_and_its_cpu_allow(
    arguments: list[str], follows: int, bound: str
) -> None:
    shown = " ".join(run(*arguments).split())
    assert f"keeps up with {follows} follows a second, as {bound}" in shown
    found = json.loads(run(*arguments, "--json"))["first_follow"]["follows_per_second"]
    assert int(found) == follows
