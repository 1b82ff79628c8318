"""Events for the doors: those of events/, made to fit the stub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench import stub_data
from fanfold.messages import Command, DeliverSegment, PlanFanout, ReconcileRelation

EVENTS = Path(__file__).parent.parent / "events"


def command(followers: int) -> DeliverSegment:
    """Deliver the post of the publisher with this many followers, in one segment."""
    return DeliverSegment(fanout_id=stub_data.post(followers), segment=0, segments=1)


def deliver(followers: int) -> dict[str, Any]:
    """The event of the express lane with that command."""
    return _sent("express_lane/segment_deliver", command(followers), stub_data.publisher(followers))


def api() -> dict[str, Any]:
    """The event of a publisher who posts."""
    event: dict[str, Any] = json.loads(EVENTS.joinpath("api/publish_post.json").read_text())
    return event


def plan() -> dict[str, Any]:
    """The event of the publish queue with the order for a post that is not planned."""
    order = PlanFanout(fanout_id=stub_data.post(stub_data.UNPLANNED))
    return _sent("publish_queue/fanout_plan", order, stub_data.publisher(stub_data.UNPLANNED))


def relate() -> dict[str, Any]:
    """The event of the relation queue with the order to settle a follow of today."""
    publisher_id = stub_data.publisher(1)
    order = ReconcileRelation(user_id=stub_data.READER, publisher_id=publisher_id)
    return _sent("relation_queue/relation_settle", order, publisher_id)


def sweep() -> dict[str, Any]:
    """The event of the clock."""
    event: dict[str, Any] = json.loads(EVENTS.joinpath("schedule/sweep.json").read_text())
    return event


def _sent(name: str, order: Command, group: str) -> dict[str, Any]:
    """An event of events/ with another message, sent a minute ago."""
    event: dict[str, Any] = json.loads(EVENTS.joinpath(f"{name}.json").read_text())
    (record,) = event["Records"]
    record["body"] = json.dumps(order.message(group=group).content)
    record["attributes"]["MessageGroupId"] = group
    record["attributes"]["SentTimestamp"] = str(stub_data.NOW_MS - 60_000)
    return event


def timeline(limit: int, reader: str = stub_data.READER, **query: str) -> dict[str, Any]:
    """The event of a reader who asks for a page of `limit` entries, by default the newest."""
    event: dict[str, Any] = json.loads(EVENTS.joinpath("timeline/read_timeline.json").read_text())
    event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = reader
    asked = {"limit": str(limit), **query}
    event["rawQueryString"] = urlencode(asked)
    event["queryStringParameters"] = asked
    return event
