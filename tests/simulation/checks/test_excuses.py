"""What checks do not hold against the product, because nothing promises it; and no more than that.

A world in which all went well goes on with a course that is right, and then with one that is not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from fanfold import contract, names, times
from fanfold.aws.items import expressions, number, text
from fanfold.ids import ref_id_for
from fanfold.messages import DeliverSegment
from fanfold.rates import Rate
from fanfold.sweep.open_fanouts import MEMORY_ID
from proof.model.sqs.messages import Message
from proof.simulation.actors import on_call
from proof.simulation.checks import alarms, edits, entries, follows, ledger, posts, rows, work
from proof.simulation.checks.evidence import Evidence
from proof.simulation.clients import requests
from proof.simulation.clients.history import Operation
from proof.simulation.clients.spans import Span
from proof.simulation.faults.faults import BELATED_SECONDS, FREEZE_SECONDS
from proof.simulation.kinds import operated
from proof.simulation.observed.cloudwatch import Watch
from proof.simulation.oracle.liveness import Liveness
from proof.simulation.world import commands
from proof.simulation.world.aws_clients import BotoClient
from proof.simulation.world.lambdas import dlq_url, installed, queue_url
from proof.simulation.world.world import World
from tests.simulation.spoilings import (
    EDITED,
    NOISE,
    POST,
    PUBLISHER,
    SENT,
    acting,
    calm,
    edge_of,
    entry_of,
    fanout,
    gone,
    keyed,
    later,
    post,
    settled,
)


@pytest.fixture
def world() -> Iterator[World]:
    with installed():
        yield settled()


# A straggler whose order was given up


def write_again(world: World, user: str) -> None:
    """A second worker writes an entry of the post."""
    item = world.row(names.TIMELINES, keyed(entry_of(world, user, POST)))
    items = {names.TIMELINES.name: [{"PutRequest": {"Item": item}}]}
    dynamodb = BotoClient("dynamodb", 1)
    acting(world, "deliver on Express", lambda: dynamodb.batch_write_item(RequestItems=items))


def give_up(world: World, ref_id: str) -> None:
    """An order is a dead letter after its last hand-back."""
    order = DeliverSegment(fanout_id=ref_id, segment=0, segments=1, hops=world.max_hops)
    body = json.dumps(order.message(group="g").content, separators=(",", ":"))
    world.sqs.send_message(QueueUrl=dlq_url(names.EXPRESS), MessageBody=body)


@pytest.mark.parametrize(
    ("given_up", "written", "is_told"),
    [
        ([POST], ["ann"], False),  # a second time, after its order was given up
        ([POST], ["ann", "ann"], True),
        ([POST], ["bob"], True),  # who is no straggler
        ([], ["ann"], True),
        ([SENT], ["ann"], True),  # the order of another post
    ],
)
def test_a_straggler_may_be_written_once_more_after_its_order_was_given_up(
    world: World, given_up: list[str], written: list[str], is_told: bool
) -> None:
    for ref_id in given_up:
        give_up(world, ref_id)
    for user in written:
        write_again(world, user)
    world.faults.hot = frozenset({"ann"})
    said = [*work.stragglers_have_nobody_written_again(Evidence(world))]
    assert bool(said) is is_told
    assert any("Beside 1 stragglers" in each for each in said) is is_told


# A post that is delivered again, because the ledger was restored without it


def publish_again(world: World) -> None:
    """The row of a fan-out is lost, and its post is published again by the queue."""
    gone(world, names.FANOUTS, {"fanout_id": POST})
    event = {"type": contract.POST_PUBLISHED, "publisher_id": PUBLISHER, "ref_id": POST}
    acting(world, "restore", lambda: requests.send(world, {"version": 1, **event}))


def delivered(world: World) -> int:
    return int(world.row(names.FANOUTS, keyed({"fanout_id": POST}))["delivered"]["N"])


@pytest.mark.parametrize("is_again", [True, False])
def test_a_delivery_is_counted_exactly_unless_somebody_changed_before_a_second_one(
    world: World, is_again: bool
) -> None:
    first = delivered(world)
    if is_again:
        publish_again(world)
    else:
        acting(world, "bob", lambda: requests.relate(world, "unfollow", "bob", PUBLISHER))
    assert [*ledger.the_ledger_is_right(Evidence(world))] == []
    fanout(world, POST, delivered=later)
    (said,) = ledger.the_ledger_is_right(Evidence(world))
    assert "entries, and the ledger says" in said
    if not is_again:  # bob keeps an entry that a second delivery does not count
        publish_again(world)
        assert delivered(world) == first - 1
        assert world.row(names.TIMELINES, keyed(entry_of(world, "bob", POST)))
        assert [*ledger.the_ledger_is_right(Evidence(world))] == []


# A post that was accepted at an attempt whose answer was lost


def attempted_twice(*, first_is_accepted: bool) -> World:
    """Bob follows between two attempts at a post; only the second is answered."""
    world = calm()
    Liveness(Watch(world))

    def act() -> None:
        requests.relate(world, "follow", "ann", PUBLISHER)
        world.scheduler.sleep(5)
        if first_is_accepted:
            lost = requests.by_http(world, PUBLISHER, "post")
            lost.answer, lost.ended, lost.ended_ms = None, math.inf, math.inf
        else:
            now_ms = world.clock.now_ms()
            lost = Operation("publish", PUBLISHER, POST, world.scheduler.turns, now_ms)
            lost.tries.append(Span(now_ms, now_ms + 1))
            world.history.add(lost)
        world.scheduler.sleep(5)
        requests.relate(world, "follow", "bob", PUBLISHER)
        world.scheduler.sleep(5)
        requests.by_http(world, PUBLISHER, "post")
        world.scheduler.sleep(5)

    world.run(lambda each: each.start_client("all", act))
    return world


@pytest.mark.parametrize(
    ("first_is_accepted", "lacks", "is_told"),
    [
        (True, "bob", False),  # who follows after the attempt that was accepted
        (True, "ann", True),
        (False, "bob", True),
    ],
)
def test_only_who_follows_after_the_attempt_that_was_accepted_need_not_have_the_post(
    first_is_accepted: bool, lacks: str, is_told: bool
) -> None:
    with installed():
        world = attempted_twice(first_is_accepted=first_is_accepted)
        has_it = world.row(names.TIMELINES, keyed(entry_of(world, lacks, POST)))
        assert bool(has_it) is is_told
        if has_it:
            gone(world, names.TIMELINES, entry_of(world, lacks, POST))
        acting(world, "idle", lambda: world.scheduler.sleep(1_800.0))
    assert world.watch
    said = world.watch.violations
    assert [f"{lacks} lacks it" in each for each in said] == [True] * is_told


# A post over its publisher's rate


def test_a_post_over_the_rate_takes_the_two_units_of_its_key_in_the_bulk_lane() -> None:
    with installed():
        world = calm()
        world.rate = Rate.a_minute(1)

        def act() -> None:
            requests.relate(world, "follow", "ann", PUBLISHER)
            world.scheduler.sleep(60)
            for ref_id in ("first", "second"):
                requests.by_queue(world, PUBLISHER, ref_id)
                world.scheduler.sleep(5)

        world.run(lambda each: each.start_client("all", act))
        row = world.row(names.FANOUTS, keyed({"fanout_id": "second"}))
        assert row["lane"]["S"] == names.BULK.lane
        assert [*work.book_keeping_is_a_few_units(Evidence(world))] == []
        world.meter.book_keeping["second"] += 1
        (said,) = work.book_keeping_is_a_few_units(Evidence(world))
        assert "second took 10 write units" in said


# An edit whose post never comes


def edit_of_nothing(world: World) -> Message:
    acting(world, "ann", lambda: requests.edit_by_queue(world, "ann", "never", {}))
    (letter,) = [each for _, each in world.dead_letters() if "never" in each.body]
    return letter


def test_an_edit_of_a_post_that_never_came_stays_a_dead_letter(world: World) -> None:
    letter = edit_of_nothing(world)
    Watch(world).first_rang["PublishFailed"] = 32
    world.noise.clear()
    assert [*alarms.a_calm_world_rings_no_alarm(Evidence(world))] == []
    world.noise.add(NOISE)
    assert [*operated.only_letters_that_break_the_contract_are_left(Evidence(world))] == []
    body = letter.body
    letter.body = body.replace("never", POST)  # a post that is there
    assert [*operated.only_letters_that_break_the_contract_are_left(Evidence(world))]
    letter.body, letter.dead_letter_source = body, ""
    (said,) = operated.only_letters_that_break_the_contract_are_left(Evidence(world))
    assert "post.updated" in said
    world.noise.clear()
    assert [*alarms.a_calm_world_rings_no_alarm(Evidence(world))]


# An entry that was refused


def test_an_entry_that_was_left_unprocessed_is_not_delivered_yet(world: World) -> None:
    key = "u", "2026-11-20T18:00:00.000Z#late"
    item = {"user_id": {"S": key[0]}, "sort_key": {"S": key[1]}, "publisher_id": {"S": PUBLISHER}}
    puts = {names.TIMELINES.name: [{"PutRequest": {"Item": item}}]}

    def write(left: dict[str, Any]) -> None:
        answer = {"UnprocessedItems": left}
        observed = world.observer.applied
        act = partial(observed, "batch_write_item", {"RequestItems": puts}, answer)
        acting(world, "deliver on Bulk", act)

    write(puts)
    assert key not in world.observer.delivered_ms
    write({})
    assert key in world.observer.delivered_ms


# An edge that lands after its time-out


@pytest.mark.parametrize("ends_well", [False, True])
@pytest.mark.parametrize("is_before", [False, True])
def test_an_edge_that_lands_late_excuses_an_entry_until_relate_has_read_the_row_again(
    world: World, is_before: bool, ends_well: bool
) -> None:
    edge, landed = edge_of(world, "ann", PUBLISHER), []

    def put_late() -> None:
        """An invocation gives a write up, and dies, or reads the row and ends."""
        world.scheduler.current.work = worker = Span(world.clock.now_ms())
        world.faults.are_on, world.faults.rates["belated"] = True, 1.0
        with pytest.raises(ReadTimeoutError):
            BotoClient("dynamodb", 1).put_item(TableName=names.FOLLOWERS.name, Item=edge)
        world.faults.rates["belated"] = 0.0
        if ends_well:
            worker.ended_ms = world.clock.now_ms()

    def act() -> None:
        if is_before:
            put_late()
        requests.relate(world, "unfollow", "ann", PUBLISHER)
        assert ("ann", PUBLISHER) not in world.edges()
        if not is_before:
            world.scheduler.sleep(1.0)
            put_late()
        world.scheduler.sleep(BELATED_SECONDS)
        assert ("ann", PUBLISHER) in world.edges()
        landed.append(world.clock.now_ms())
        requests.by_http(world, PUBLISHER, "behind")

    acting(world, "client ann", act)
    said = [*entries.nobody_gets_what_they_do_not_follow(Evidence(world))]
    told = [each.startswith("ann surely does not follow") for each in said]
    assert told == [True] * (not is_before)
    relation, ten_seconds_later = world.history.relations["ann", PUBLISHER], landed[0] + 10_000
    assert relation.has_late_edge(-math.inf, math.inf) is is_before
    for order in relation.orders:  # RELATE comes, and puts it right
        order.ended_ms = ten_seconds_later
    assert not relation.has_late_edge(ten_seconds_later + 1, math.inf)


# A run of SWEEP that was frozen, and one whose note lands after its time-out


def update(fanout_id: str = POST, **sets: Any) -> None:
    """SWEEP changes a row of the ledger, without any condition."""
    key, change = keyed({"fanout_id": fanout_id}), expressions(sets=sets)
    BotoClient("dynamodb", 1).update_item(TableName=names.FANOUTS.name, Key=key, **change)


def note(world: World, asks: int) -> None:
    """SWEEP notes a question about the post."""
    update(asked_at=number(world.clock.now_ms()), asks=number(asks))


def order() -> str:
    """The body of an order to deliver the post."""
    message = DeliverSegment(fanout_id=POST, segment=0, segments=1).message(group="g")
    return json.dumps(message.content)


def test_a_run_of_sweep_that_is_frozen_may_send_what_it_has_noted(world: World) -> None:
    def send() -> None:
        world.observer.sweeps.sending({"fanout_id": POST})

    def act() -> None:
        note(world, 1)
        world.scheduler.sleep(FREEZE_SECONDS)
        send()

    acting(world, "sweep", act)
    assert world.observer.violations == []
    acting(world, "sweep", send)
    assert "before it notes it" in world.observer.violations[-1]


@pytest.mark.parametrize(("asks", "is_told"), [(1, False), (2, True)])
def test_a_note_of_sweep_is_compared_with_the_row_that_it_changes(
    world: World, asks: int, is_told: bool
) -> None:
    def act() -> None:
        world.faults.are_on, world.faults.rates["belated"] = True, 1.0
        with pytest.raises(ReadTimeoutError):
            note(world, asks)
        world.faults.rates["belated"] = 0.0
        for _ in range(2):
            update("#sweep", asks=number(7))
        world.scheduler.sleep(BELATED_SECONDS)

    acting(world, "sweep", act)
    assert any("counts the asks" in line for line in world.observer.violations) is is_told


@pytest.mark.parametrize("is_late", [False, True])
def test_a_fanout_may_be_given_up_whose_order_sqs_itself_keeps_for_hours(
    world: World, is_late: bool
) -> None:
    """Its rounds have come out in vain, and an answer overtakes what is late."""
    fanout(world, POST, state={"S": "delivering"}, pending={"NS": ["0"]}, rounds={"N": "10"})

    def act() -> None:
        world.queues.hooks.late_seconds = lambda _queue, _message: 3_600.0 if is_late else 0.0
        url = queue_url(names.EXPRESS)
        world.sqs.send_message(QueueUrl=url, MessageBody=order(), DelaySeconds=60)
        update(state={"S": "stalled"})

    acting(world, "sweep", act)
    said = [line for line in world.observer.violations if "all of it waits" in line]
    assert bool(said) is not is_late


# An import that has stopped


@pytest.mark.parametrize("is_told", [False, True])
def test_a_write_that_an_import_has_given_up_may_land_after_its_end(
    world: World, tmp_path: Path, is_told: bool
) -> None:
    def load() -> None:
        world.faults.are_on, world.faults.rates["belated"] = True, 1.0
        on_call.load_follows(world, Random(1), tmp_path, ["zoe"], [PUBLISHER])
        world.faults.are_on = False

    with commands.installed():
        acting(world, "import", load)
    (change,) = world.observer.changes["zoe", PUBLISHER]
    first, second, *_ = world.history.relations["zoe", PUBLISHER].requests
    assert change.follows
    assert change.at < second.begun  # in the pause before the command is repeated
    if is_told:
        first.ended = change.at - 1
    said = [*follows.follows_change_as_they_were_asked_to(Evidence(world))]
    assert bool(said) is is_told


# An edit whose own write lands late


@pytest.mark.parametrize("is_late", [True, False])
def test_an_edit_that_was_answered_404_has_its_effect_only_if_its_own_write_lands_late(
    world: World, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    ref_id = ref_id_for(PUBLISHER, "new")
    belated = iter([BELATED_SECONDS] if is_late else [])
    monkeypatch.setattr(world.faults, "belated_seconds", lambda _: next(belated, None))

    def act() -> None:
        assert requests.edit(world, PUBLISHER, ref_id, EDITED).status == 404
        requests.by_http(world, PUBLISHER, "new")
        world.scheduler.sleep(BELATED_SECONDS + 1)

    acting(world, "client p0", act)
    (edit,) = world.history.edits.by_post[ref_id]
    if not is_late:
        at = text(times.to_text(edit.stamp))
        post(world, ref_id, body=text(json.dumps(EDITED)), edited_at=at)
    assert json.loads(world.row(names.POSTS, keyed({"ref_id": ref_id}))["body"]["S"]) == EDITED
    found = Evidence(world)
    for check, sentence in {
        rows.posts_are_stored_as_they_were_sent: "has a body that nobody sent",
        posts.a_key_stands_for_one_post: "with another body than the stored one",
        edits.posts_are_shown_with_their_latest_edit: "that nobody sent",
    }.items():
        assert any(sentence in line for line in check(found)) is not is_late


@pytest.mark.parametrize("is_unread", [False, True])
@pytest.mark.parametrize("is_noted", [False, True])
def test_sweep_may_send_to_a_paused_queue_only_if_nothing_tells_it_of_the_pause(
    world: World, is_unread: bool, is_noted: bool
) -> None:
    world.triggers.paused.add(names.EXPRESS.name)
    if is_noted:
        memory = {"fanout_id": {"S": MEMORY_ID}, "held": {"SS": [names.EXPRESS.name]}}
        world.dynamodb.put_item(TableName=names.FANOUTS.name, Item=memory)

    def act() -> None:
        mapping = {"UUID": names.EXPRESS.name}
        world.observer.failed("get_event_source_mapping", mapping)
        if not is_unread:  # the second try was answered
            world.observer.applied("get_event_source_mapping", mapping, {})
        entry = {"Id": "0", "MessageBody": order(), "DelaySeconds": 0}
        BotoClient("sqs", 1).send_message_batch(QueueUrl=queue_url(names.EXPRESS), Entries=[entry])

    acting(world, "sweep", act)
    said = [line for line in world.observer.violations if "which is paused" in line]
    assert bool(said) is (is_noted or not is_unread)
