"""What the previous version has left in tables, queues and clients, in the hands of today's.

`tests/compat/previous.json` was written by the release before. At a release, record it anew, with
the code that is released: `RECORD=1 pytest tests/integration/test_previous_version.py`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fanfold import contract, names, times
from fanfold.fanout.backlog import Resume
from fanfold.follows import ring
from fanfold.follows.sharding import raised
from fanfold.timeline.entries import Entry
from tests.integration.system import HANDLERS, Json, System

RECORDING = Path(__file__).parents[1] / "compat/previous.json"
FIRST_SENT_AT = "1795197500000"
FOLLOWERS = 60
IS_RECORDING = bool(os.environ.get("RECORD"))


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut a fan-out into segments of about ten followers, counted from a sample of twenty."""
    monkeypatch.setattr("fanfold.fanout.plan.SEGMENT_FOLLOWERS", 10)
    monkeypatch.setattr("fanfold.follows.density.SAMPLE_EDGES", 20)


def publish(system: System, key: str, user: str = "ada") -> str:
    system.clock.advance(1)
    answer = system.publish(key, user=user, body={"title": key, "price": 1.10})
    assert answer.status == 202
    return str(answer.body["ref_id"])


def drain(system: System, queue: str) -> list[Json]:
    """Take all messages out of a queue, delayed ones too, each as it is to be sent again."""
    found = []
    while system.waiting(queue):
        system.clock.advance(30)
        for record in system.receive(queue):
            system.delete(queue, record)
            attributes = {
                name: {"DataType": "String", "StringValue": each["stringValue"]}
                for name, each in record["messageAttributes"].items()
            }
            group = record["attributes"].get("MessageGroupId", "none")
            found.append({"body": record["body"], "attributes": attributes, "group": group})
    return sorted(found, key=lambda message: message["body"])


def leave_behind(system: System) -> Json:
    """Use the service, stop it in the middle, and write down everything that is left."""
    for publisher in ("ada", "bea", "cleo"):
        assert system.follow("reader", publisher).status == 200
    assert system.follow("former", "ada").status == 200
    assert system.unfollow("former", "ada").status == 204
    seen = system.publishers.shards("ada")
    grown = raised(seen, level=1, now_ms=system.clock.ms)
    assert system.publishers.update("ada", seen=seen, shards=grown)
    users = system.give_followers(FOLLOWERS, "crowd")
    assert system.follow("reader", "crowd").status == 200

    delivered = [publish(system, f"post-{number}", "bea") for number in range(5)]
    retracted = publish(system, "retracted", "bea")
    system.pump()
    assert system.http("api/retract_post", user="bea", path={"ref_id": retracted}).status == 204

    stalled = publish(system, "stalled", "crowd")
    assert system.pump_once("Publish")
    drain(system, "Bulk")
    system.give_up(stalled)
    # Planned: one segment is done, another one is half done, the others wait.
    large = publish(system, "large", "crowd")
    assert system.pump_once("Publish")
    assert system.pump_once("Bulk")
    row = system.ledger(large)
    segment = min(row.pending)
    own = sorted(
        (user for user in users if ring.position(user) in _range_of(segment, row.segments)),
        key=ring.position,
    )
    system.timelines.push(Entry(row.sort_key, "crowd", row.expires_at), own[:2])
    resume = Resume(ring.position(own[2]), 2)
    assert system.fanouts.store_resume(row, segment, resume, now="2026-11-20T18:00:10.000Z")
    # In one segment, whose command waits; and accepted, with PLAN's command waiting.
    small = publish(system, "small", "ada")
    assert system.pump_once("Publish")
    queued = publish(system, "queued", "ada")

    # What other services have sent meanwhile; the first post was moved since.
    moved: Json = {contract.FIRST_SENT_AT: {"DataType": "String", "StringValue": FIRST_SENT_AT}}
    for message in (
        {"type": "post.published", "publisher_id": "bea", "ref_id": "other-1", "body": {"n": 1.10}},
        {"type": "post.published", "publisher_id": "bea", "ref_id": "other-2"},
        {"type": "post.deleted", "publisher_id": "bea", "ref_id": "other-2"},
        {"type": "follow.added", "user_id": "newcomer", "publisher_id": "bea"},
        {"type": "follow.removed", "user_id": "reader", "publisher_id": "cleo"},
    ):
        system.sqs.send_message(
            QueueUrl=system.url("Publish"),
            MessageBody=json.dumps({"version": contract.VERSION, **message}),
            MessageGroupId="other",
            MessageAttributes=moved if message.get("ref_id") == "other-1" else {},
        )
    assert system.follow("late", "cleo").status == 200

    page = system.timeline("reader", limit="2").body
    follows = system.http("api/list_following", user="reader", query={"limit": "2"}).body
    again = system.publish("post-0", user="bea", body={"title": "post-0", "price": 1.10}).body
    now_ms = system.clock.ms
    dump = system.dump()
    return {
        "at_ms": now_ms,
        "delivered": delivered,
        "large": large,
        "stalled": stalled,
        "small": small,
        "queued": queued,
        "retracted": retracted,
        "page": page,
        "follows": follows,
        "again": again,
        "tables": dump,
        "queues": {queue: drain(system, queue) for queue in HANDLERS},
    }


def _range_of(segment: int, segments: int) -> _Range:
    return _Range(segment * ring.RING_SIZE // segments, (segment + 1) * ring.RING_SIZE // segments)


class _Range:
    def __init__(self, lo: int, hi: int) -> None:
        self.lo, self.hi = lo, hi

    def __contains__(self, position: object) -> bool:
        return self.lo <= int(str(position), 16) < self.hi


@pytest.fixture
def left(system: System) -> Json:
    """What the previous version has left, in today's tables and queues; returns the recording."""
    recording: Json = json.loads(RECORDING.read_text())
    system.clock.ms = recording["at_ms"]
    for table, items in recording["tables"].items():
        for item in items:
            system.dynamodb.put_item(TableName=table, Item=item)
    for queue, messages in recording["queues"].items():
        for message in messages:
            system.sqs.send_message(
                QueueUrl=system.url(queue),
                MessageBody=message["body"],
                MessageGroupId=message["group"],
                MessageAttributes=message["attributes"],
            )
    return recording


@pytest.mark.skipif(not IS_RECORDING, reason="RECORD=1 records it, at a release.")
def test_what_this_version_leaves_is_recorded(system: System) -> None:
    recording = leave_behind(system)
    RECORDING.write_text(json.dumps(recording, indent=1, sort_keys=True) + "\n")


def test_every_kind_of_row_and_message_is_left(left: Json) -> None:
    assert {table.name for table in names.TABLES if left["tables"][table.name]} == {
        table.name for table in names.TABLES
    }
    sent = {
        json.loads(message["body"])["type"]
        for messages in left["queues"].values()
        for message in messages
    }
    published = {"post.published", "post.deleted", "follow.added", "follow.removed"}
    assert sent >= {"fanout.plan", "segment.deliver", "relation.settle", *published}


def test_what_was_promised_is_delivered_once(system: System, left: Json) -> None:
    system.pump()
    system.clock.advance(24 * 60 * 60)
    system.sweep()
    system.pump()
    crowd = sorted([*(f"follower-{number}" for number in range(FOLLOWERS)), "reader"])
    assert system.reached(left["large"]) == crowd
    for ref_id in (left["small"], left["queued"], "other-1", *left["delivered"]):
        assert "reader" in system.reached(ref_id), ref_id
        assert "former" not in system.reached(ref_id), ref_id
    for ref_id in (left["large"], left["small"], left["queued"], "other-1"):
        assert system.ledger(ref_id).state == "complete", ref_id
    assert system.ledger("other-1").accepted_at == times.to_text(int(FIRST_SENT_AT))
    assert not [letter for queue in HANDLERS for letter in system.rejected(queue)]


def test_a_delivery_that_was_given_up_is_reopened_and_completed(system: System, left: Json) -> None:
    stalled = system.ledger(left["stalled"])
    assert (stalled.state, stalled.delivered) == ("stalled", 0)
    assert system.fanouts.reopen(stalled, now="2026-11-20T19:00:00.000Z")
    system.clock.advance(24 * 60 * 60)
    for _ in range(3):
        system.sweep()
        system.pump()
        system.clock.advance(60 * 60)
    assert len(system.reached(left["stalled"])) == FOLLOWERS + 1


def test_follows_go_on_where_they_stood(system: System, left: Json) -> None:
    system.pump("Publish", "Relation")
    answer = system.http("api/list_following", user="reader")
    assert [each["publisher_id"] for each in answer.body["following"]] == ["ada", "bea", "crowd"]
    assert system.edges("bea") == ["newcomer", "reader"]
    assert system.edges("cleo") == ["late"]
    assert system.edges("ada") == ["reader"]
    assert system.follow("former", "ada").status == 200
    assert system.edges("ada") == ["former", "reader"]


def test_a_cursor_goes_on_behind_its_page(system: System, left: Json) -> None:
    query = {"limit": "100", "before": left["page"]["next"]}
    rest = system.timeline("reader", **query).body
    shown = [entry["ref_id"] for entry in [*left["page"]["entries"], *rest["entries"]]]
    assert shown == left["delivered"][::-1]
    assert rest["next"] is None


def test_a_cursor_of_the_follows_goes_on_behind_its_page(system: System, left: Json) -> None:
    query = {"cursor": left["follows"]["next"]}
    rest = system.http("api/list_following", user="reader", query=query).body
    shown = [each["publisher_id"] for each in [*left["follows"]["following"], *rest["following"]]]
    assert shown == ["ada", "bea", "cleo", "crowd"]


def test_a_key_stands_for_the_post_that_it_stood_for(system: System, left: Json) -> None:
    again = system.publish("post-0", user="bea", body={"price": 1.10, "title": "post-0"})
    assert (again.status, again.body) == (202, left["again"])
    assert system.publish("post-0", user="bea", body={}).slug == "key-reused"
    assert system.publish("retracted", user="bea").slug == "post-retracted"


def test_a_retracted_post_stays_retracted(system: System, left: Json) -> None:
    assert "reader" in system.reached(left["retracted"])
    shown = system.timeline("reader", limit="100").body["entries"]
    assert left["retracted"] not in [entry["ref_id"] for entry in shown]
