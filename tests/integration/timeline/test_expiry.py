"""Posts whose entries expire: their ids, their tombstones, and deliveries that come too late."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fanfold import names, times
from fanfold.fanout.row import VOID, VOID_MS
from tests.commands import run
from tests.service import POST, Json, System

REF = "post-1"
KEY = {"ref_id": {"S": REF}}
DAY = 24 * 60 * 60
RETENTION = 30 * DAY
# After this, the id of a post published now is free again.
UNTIL_FREE = 44 * DAY


@pytest.fixture(autouse=True)
def whole_seconds(system: System) -> None:
    """Begin at a whole second, because items expire at whole seconds."""
    system.clock.ms -= system.clock.ms % 1000


def message(system: System, kind: str, publisher: str = "ada", **fields: Any) -> Json:
    """An event with a message about the post on the publish queue, sent now."""
    content = {"version": 1, "type": kind, "publisher_id": publisher, "ref_id": REF, **fields}
    return {"Records": [system.record("Publish", content)]}


def published(system: System, publisher: str = "ada", *, ago: float = 0) -> Json:
    """The message that publishes the post as of `ago` seconds; its title is its publisher."""
    published_at = times.to_text(system.clock.ms - round(ago * 1000))
    body = {"title": publisher}
    return message(system, "post.published", publisher, published_at=published_at, body=body)


def deleted(system: System, publisher: str = "ada") -> Json:
    return message(system, "post.deleted", publisher)


def take(system: System, *events: Json) -> list[str]:
    """Take messages of the publish queue; return the reasons of those that were rejected."""
    for each in events:
        assert system.take(each) == []
    return [reason for _, reason in system.rejected("Publish")]


def raise_retention(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `timeline` show entries that have expired and are not deleted yet."""
    door = system.door("timeline")
    monkeypatch.setattr(door.visibility, "retention_days", 3650)


def shown(system: System, user: str = "follower-0") -> list[tuple[str, str]]:
    """Publisher and title of each entry that the user sees."""
    entries = system.timeline(user).body["entries"]
    return [(entry["publisher_id"], entry["body"]["title"]) for entry in entries]


def now(system: System) -> str:
    return times.to_text(system.clock.ms)


def state(system: System) -> str:
    return system.ledger(REF).state


# The id of an expired post


def test_a_ref_id_is_free_again_14_days_after_its_entries_expired(system: System) -> None:
    users = system.give_followers(2)
    assert take(system, published(system)) == []
    system.pump()
    first = system.ledger(REF).sort_key
    system.clock.advance(UNTIL_FREE - 1)
    assert "another publisher" in take(system, published(system, "eve"))[0]
    (reason,) = take(system, published(system))
    assert "has expired" in reason
    assert "not free again before 2027-01-03T18:00:00.000Z" in reason
    system.clock.advance(1)
    assert take(system, published(system)) == []
    system.pump()
    assert state(system) == "complete"
    assert system.ledger(REF).sort_key > first
    assert [shown(system, user) for user in users] == [[("ada", "ada")]] * 2


@pytest.mark.usefixtures("through_lanes")
def test_an_expired_id_that_is_taken_shows_no_content_under_the_first_ones_name(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    for publisher in ("ada", "eve"):
        system.give_followers(1, publisher)
    take(system, published(system))
    system.pump()
    raise_retention(system, monkeypatch)
    system.clock.advance(UNTIL_FREE - 1)
    take(system, published(system, "eve"))
    assert shown(system) == [("ada", "ada")], "the post outlives its entry"
    system.clock.advance(5)
    assert take(system, published(system, "eve")) == []
    assert shown(system) == []
    system.pump()
    assert shown(system) == [("eve", "eve")]


def test_a_late_copy_of_an_old_publish_is_still_the_same_publish(system: System) -> None:
    system.give_followers(2)
    first = published(system, ago=RETENTION - 60)
    take(system, first)
    system.pump()
    before = system.dump()
    system.clock.advance(10 * DAY)
    assert take(system, first) == []
    system.pump()
    assert system.dump() == before


def test_rows_of_the_post_and_of_the_ledger_outlive_the_entries(system: System) -> None:
    system.give_followers(1)
    take(system, published(system))
    system.pump()
    expires = [
        int(row["expires_at"]["N"])
        for table in (names.TIMELINES, names.POSTS, names.FANOUTS)
        for row in system.rows(table)
    ]
    at = system.clock.ms // 1000
    assert expires == [at + RETENTION, at + UNTIL_FREE, at + UNTIL_FREE]
    assert system.ledger(REF).expires_at == at + RETENTION


# Tombstones


def test_a_tombstone_lives_as_long_from_the_time_it_was_left(system: System) -> None:
    """Also in place of a post that is about to expire: a publish may come after that."""
    take(system, published(system))
    system.pump()
    system.clock.advance(UNTIL_FREE - 1)
    late = published(system)
    first = take(system, deleted(system))
    system.clock.advance(1)
    # DynamoDB deletes what has expired.
    for row in system.rows(names.POSTS):
        if int(row["expires_at"]["N"]) * 1000 <= system.clock.ms:
            system.dynamodb.delete_item(TableName="Posts", Key=KEY)
    assert first == take(system, late) == []
    assert system.post(REF).deleted
    system.clock.advance(UNTIL_FREE - 1)
    assert take(system, published(system, "eve")) == []


# A post that is missing though it has not expired


def taken_by(system: System, publisher: str, *, retracted: bool) -> None:
    """Let another post have the id, as only a fault can while it is not free."""
    system.dynamodb.delete_item(TableName="Posts", Key=KEY)
    system.clock.advance(1)
    take(system, deleted(system, publisher) if retracted else published(system, publisher))
    system.bodies("Publish")


@pytest.mark.usefixtures("through_lanes")
@pytest.mark.parametrize(
    ("by", "retracted"), [(None, False), ("eve", False), ("eve", True), ("ada", False)]
)
def test_a_fanout_without_its_post_is_visibly_not_delivered(
    system: System, by: str | None, retracted: bool
) -> None:
    users = system.give_followers(3)
    take(system, published(system))
    (row,) = system.rows(names.POSTS)
    fanout = system.rows(names.FANOUTS)
    system.dynamodb.delete_item(TableName="Posts", Key=KEY)
    if by:
        taken_by(system, by, retracted=retracted)
        system.dynamodb.put_item(TableName="Fanouts", Item=fanout[0])
    system.pump()
    assert system.rows(names.FANOUTS) == fanout, "nothing is counted as delivered"
    assert system.reached(REF) == []
    letters = system.rejected("Express")
    assert letters
    for _, reason in letters:
        assert "'post-1' is missing" in reason
        assert "then redrive, or end the delivery by `fanfold fanout abandon post-1`" in reason
    system.dynamodb.put_item(TableName="Posts", Item=row)
    system.take({"Records": [system.record("Express", letters[0][0])]})
    assert system.reached(REF) == users
    assert (state(system), system.ledger(REF).delivered) == ("complete", 3)


def test_a_post_that_is_missing_where_sweep_asks_ends_its_delivery_visibly(
    system: System, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    system.give_followers(3)
    system.publish()
    system.bodies("Publish")  # the door's command is lost, and so is the post
    key = {"ref_id": {"S": POST}}
    system.dynamodb.delete_item(TableName="Posts", Key=key)
    system.clock.advance(VOID_MS / 1000 + 1)
    system.sweep()
    system.pump()
    assert system.ledger().state == VOID
    (line,) = [each for each in caplog.records if "its post is missing" in each.getMessage()]
    assert (line.levelname, vars(line)["fanout_id"]) == ("WARNING", POST)
    emitted = [json.loads(each) for each in capsys.readouterr().out.splitlines() if each[:1] == "{"]
    counted = [each[names.FANOUTS_VOIDED] for each in emitted if names.FANOUTS_VOIDED in each]
    assert counted == [[1]]


@pytest.mark.usefixtures("through_lanes")
def test_a_retracted_post_completes_its_fanout_without_entries(system: System) -> None:
    system.give_followers(3)
    take(system, published(system), deleted(system))
    system.pump()
    assert (state(system), system.ledger(REF).delivered) == ("complete", 0)
    assert system.rejected("Express") == []
    assert system.reached(REF) == []


# Deliveries that come too late


@pytest.mark.usefixtures("through_lanes")
@pytest.mark.parametrize("queue", ["Publish", "Express"])
@pytest.mark.parametrize("is_post_missing", [False, True])
def test_an_order_that_comes_after_the_entries_time_to_live_ends_the_fanout(
    system: System, queue: str, is_post_missing: bool
) -> None:
    system.give_followers(3)
    take(system, published(system, ago=RETENTION - 60))
    order = {"version": 1, "type": "fanout.plan", "fanout_id": REF}
    if queue == "Express":
        (order,) = system.bodies("Express")
    system.clock.advance(60)
    if is_post_missing:
        system.dynamodb.delete_item(TableName="Posts", Key=KEY)
    for receives in (1, 2):
        record = system.record(queue, order, times_received=receives)
        assert system.take({"Records": [record]}) == []
        assert (state(system), system.ledger(REF).delivered) == ("expired", 0)
    assert system.reached(REF) == []
    assert system.open_fanouts() == []
    assert all(system.waiting(f"{each.name}Dlq") == 0 for each in names.QUEUES)


def test_a_fanout_is_delivered_until_the_last_second(system: System) -> None:
    users = system.give_followers(3)
    take(system, published(system, ago=RETENTION - 60))
    system.clock.advance(59.999)
    system.pump("Express")
    assert state(system) == "complete"
    assert system.reached(REF) == users


def test_a_redriven_segment_of_an_expired_fanout_keeps_what_was_delivered(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fanfold.fanout.plan.count_for", lambda _followers: 4)
    system.give_followers(40)
    take(system, published(system, ago=RETENTION - 60))
    assert system.pump_once("Bulk")
    delivered = system.ledger(REF).delivered
    assert delivered == len(system.reached(REF)) > 0
    system.give_up(REF)
    system.clock.advance(60)
    system.pump("Bulk")
    row = system.ledger(REF)
    assert (row.state, row.delivered, len(row.pending)) == ("expired", delivered, 3)
    assert list(system.fanouts.stalled_ids(page=10)) == []


def test_a_publish_that_is_taken_too_late_expires_and_whoever_asks_is_told(system: System) -> None:
    system.give_followers(3)
    late = published(system, ago=RETENTION - 60)
    system.clock.advance(60)
    assert take(system, late, late) == []
    assert [system.waiting(queue) for queue in ("Publish", "Express", "Bulk")] == [0, 0, 0]
    answer = system.http("api/show_delivery", user="ada", path={"ref_id": REF})
    assert answer.status == 200
    assert (answer.body["state"], answer.body["completed_at"]) == ("expired", None)
    assert (answer.body["followers_estimated"], answer.body["delivered"]) == (None, 0)
    assert run("fanout", "show", REF, "--json").json["state"] == "expired"
    watched = run("fanout", "watch", REF)
    assert watched.exit_code == 1
    assert "'post-1' has expired" in watched.said
