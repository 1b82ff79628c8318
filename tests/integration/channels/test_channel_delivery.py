"""A post in its publisher's channel: which posts go there, and whatever happens on their way."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fanfold import names
from fanfold.aws.retries import BATCH
from fanfold.channels import delivery
from fanfold.channels.head import MOST, Channel, Head, partition_of
from fanfold.channels.head_table import HeadTable
from fanfold.channels.promotion import Choice
from fanfold.follows.follower_estimate import Estimate, Sample
from fanfold.timeline.entries import Entries
from tests.integration.fanout.test_one_hop import order, published, waiting
from tests.service import POST, FailFirst, System, error

THRESHOLD, FOLLOWERS = 3, 5
UNTIL = 1_900_000_000
Reports = list[tuple[str, int, Choice]]


@pytest.fixture
def channel_threshold() -> int:
    return THRESHOLD


@pytest.fixture
def reports(system: System, monkeypatch: pytest.MonkeyPatch) -> Reports:
    """What PLAN reports, in the place of its log and metrics."""
    heard: Reports = []
    planning = system.door("plan").planning
    told = replace(planning.channels, report=lambda *what: heard.append(what))
    monkeypatch.setattr(system.door("plan"), "planning", replace(planning, channels=told))
    return heard


def demote(system: System) -> Channel:
    head = system.heads.demote("ada", until=UNTIL)
    channel = head and head.of("ada")
    assert channel
    return channel


def fill(system: System, room: int = MOST) -> None:
    """Give all the room for channels to others."""
    system.promote(*(f"other-{number}" for number in range(room)))


def seq(system: System) -> int:
    channel = system.heads.get().of("ada")
    assert channel is not None
    return channel.seq


def assert_in_channel(system: System, ref_id: str = POST, publisher: str = "ada") -> None:
    """The post is one entry, which is for all of its publisher's followers."""
    assert system.reached(ref_id) == [partition_of(publisher)]
    row = system.ledger(ref_id)
    assert (row.state, row.by) == ("complete", "channel")
    assert (row.followers, row.delivered, row.segments) == (FOLLOWERS, FOLLOWERS, 0)
    assert ref_id not in system.open_fanouts()
    assert waiting(system) == 0


def assert_pushed(system: System, users: list[str], ref_id: str = POST) -> None:
    assert [user for user in system.reached(ref_id) if not user.startswith("#")] == users
    row = system.ledger(ref_id)
    assert (row.state, row.by, row.delivered) == ("complete", "push", len(users))


def before(
    monkeypatch: pytest.MonkeyPatch, owner: type, step: str, happens: Callable[[], object]
) -> None:
    """Have something happen once, just before a step."""
    plain, left = getattr(owner, step), [happens]

    def run_step(*given: Any, **more: Any) -> Any:
        if left:
            left.pop()()
        return plain(*given, **more)

    monkeypatch.setattr(owner, step, run_step)


# Which way


def test_a_publisher_with_enough_followers_gets_a_channel_and_the_post_in_hand_goes_there(
    system: System, reports: Reports
) -> None:
    published(system, FOLLOWERS)
    assert system.take(order(system)) == []
    assert_in_channel(system)
    channel = system.heads.get().of("ada")
    assert channel is not None
    assert (channel.is_active, channel.seq, channel.followers) == (True, 1, FOLLOWERS)
    assert reports == [("ada", FOLLOWERS, Choice.PROMOTE)]
    (entry,) = system.rows(names.TIMELINES)
    row = system.ledger()
    assert entry["sort_key"]["S"] == row.sort_key
    assert entry["expires_at"]["N"] == str(row.expires_at)


def test_fewer_followers_get_an_entry_each(system: System) -> None:
    users = published(system, THRESHOLD - 1)
    system.take(order(system))
    assert_pushed(system, users)
    assert system.heads.get() == Head()


@pytest.mark.parametrize("has_channel", [True, False])
def test_without_a_threshold_no_channel_is_added_and_existing_ones_still_take_posts(
    system: System, monkeypatch: pytest.MonkeyPatch, has_channel: bool
) -> None:
    planning = system.door("plan").planning
    without = replace(planning, channels=replace(planning.channels, threshold=0))
    monkeypatch.setattr(system.door("plan"), "planning", without)
    if has_channel:
        system.promote("ada")
    users = published(system, FOLLOWERS)
    system.take(order(system))
    if has_channel:
        assert_in_channel(system)
    else:
        assert_pushed(system, users)


@pytest.mark.parametrize("followers", [0, 1])
def test_a_publisher_who_has_a_channel_keeps_it_with_fewer_followers_and_writes_for_any(
    system: System, followers: int
) -> None:
    system.promote("ada")
    published(system, followers)
    system.take(order(system))
    assert system.reached() == [partition_of("ada")] * followers
    assert (system.ledger().state, seq(system)) == ("complete", followers)


def test_whom_a_person_has_demoted_is_not_promoted_again(system: System) -> None:
    system.promote("ada")
    demote(system)
    users = published(system, FOLLOWERS)
    system.take(order(system))
    assert_pushed(system, users)
    assert system.reached() == users


def test_without_room_for_a_channel_the_post_is_pushed_and_that_is_told(
    system: System, reports: Reports
) -> None:
    fill(system)
    users = published(system, FOLLOWERS)
    system.take(order(system))
    assert_pushed(system, users)
    assert reports == [("ada", FOLLOWERS, Choice.REFUSE)]
    assert system.heads.get().of("ada") is None


@pytest.mark.parametrize("state", ["complete", "expired"])
def test_a_retracted_or_expired_post_does_not_go_into_a_channel(system: System, state: str) -> None:
    system.promote("ada")
    published(system, FOLLOWERS)
    if state == "expired":
        system.clock.advance(31 * 86_400)
    else:
        system.http("api/retract_post", path={"ref_id": POST})
    system.take(order(system))
    system.pump()
    assert (system.reached(), system.ledger().state, seq(system)) == ([], state, 0)


def test_what_happens_to_a_publisher_is_logged_and_refusals_are_counted(
    system: System, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    published(system, FOLLOWERS)
    system.take(order(system))
    fill(system, MOST - 1)
    system.give_followers(FOLLOWERS, "bea")
    ref_id = str(system.publish(user="bea").body["ref_id"])
    system.take(order(system, group="bea", ref_id=ref_id))
    said = {each.message: vars(each).get("publisher_id") for each in caplog.records}
    assert said["A publisher has a channel."] == "ada"
    assert said["A publisher gets no channel: there is no room for more."] == "bea"
    out = capsys.readouterr().out.splitlines()
    lines = [json.loads(line) for line in out if line.startswith("{")]
    counted = [line[names.CHANNELS_REFUSED] for line in lines if names.CHANNELS_REFUSED in line]
    assert counted == [[1]]


# Everything happens twice


@pytest.mark.parametrize(("owner", "step"), [(Entries, "push"), (HeadTable, "raise_seq")])
def test_a_channel_that_is_gone_meanwhile_is_decided_about_anew(
    system: System, monkeypatch: pytest.MonkeyPatch, owner: type, step: str
) -> None:
    published(system, FOLLOWERS)
    before(monkeypatch, owner, step, lambda: system.heads.remove(demote(system)))
    assert system.take(order(system)) == []
    assert_in_channel(system)
    assert seq(system) == 1


def test_a_head_that_changes_before_a_promotion_is_read_again(
    system: System, monkeypatch: pytest.MonkeyPatch, reports: Reports
) -> None:
    published(system, FOLLOWERS)
    before(monkeypatch, HeadTable, "add", lambda: system.promote("bea"))
    assert system.take(order(system)) == []
    assert_in_channel(system)
    assert len(system.heads.get().channels) == 2
    assert len(reports) == 1


def test_a_post_is_pushed_if_the_head_keeps_changing(
    system: System, monkeypatch: pytest.MonkeyPatch, reports: Reports
) -> None:
    users, tries = published(system, FOLLOWERS), []

    def refuse(*_args: object, **_more: object) -> None:
        tries.append(1)

    monkeypatch.setattr(HeadTable, "add", refuse)
    assert system.take(order(system)) == []
    assert_pushed(system, users)
    assert (len(tries), reports) == (delivery.DECISIONS, [])


# What the tables leave undone


THROTTLE = error("ProvisionedThroughputExceededException")


def throttle_head(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(_table: HeadTable, *, is_consistent: bool = True) -> Head:
        raise THROTTLE

    monkeypatch.setattr(HeadTable, "get", get)


def test_a_post_is_planned_by_a_head_of_any_age_while_it_is_throttled(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.promote("ada")
    system.door("plan").heads.get()
    published(system, FOLLOWERS)
    system.clock.advance(3_600)
    with monkeypatch.context() as hot:
        throttle_head(hot)
        assert system.take(order(system)) == []
    assert_in_channel(system)


@pytest.mark.parametrize("followers", [1, delivery.PUSHED_UNSEEN + 1])
def test_a_cold_container_that_cannot_read_the_head_pushes_small_posts(
    system: System, monkeypatch: pytest.MonkeyPatch, followers: int
) -> None:
    published(system, 1)
    sample = Sample([], Estimate(followers, exact=True))
    monkeypatch.setattr("fanfold.fanout.plan.follower_estimate.sample", lambda *_a, **_k: sample)
    with monkeypatch.context() as hot:
        throttle_head(hot)
        failed = system.take(order(system))
    expected = (0, "complete") if followers == 1 else (1, "queued")
    assert (len(failed), system.ledger().state) == expected


def test_a_throttled_entry_is_put_again_before_the_head_counts_it(
    system: System, fail_first: FailFirst
) -> None:
    published(system, FOLLOWERS)
    calls = fail_first(system.dynamodb, "batch_write_item", [THROTTLE] * 3)
    assert system.take(order(system)) == []
    assert_in_channel(system)
    assert len(calls) == 4


def test_an_entry_that_stays_throttled_fails_the_message_and_counts_nothing(
    system: System, fail_first: FailFirst
) -> None:
    published(system, FOLLOWERS)
    calls = fail_first(system.dynamodb, "batch_write_item", [THROTTLE] * BATCH.attempts)
    assert len(system.take(order(system))) == 1
    assert len(calls) == BATCH.attempts
    assert (system.ledger().state, system.reached(), seq(system)) == ("queued", [], 0)
    assert system.take(order(system, receives=2)) == []
    assert_in_channel(system)
