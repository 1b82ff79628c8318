"""Events for the doors: those of events/, made to fit the stub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fanfold.messages import DeliverSegment
from proof.bench import stub_data

EVENTS = Path(__file__).parents[2] / "events"


def command(followers: int) -> DeliverSegment:
    """Deliver the post of the publisher with this many followers, in one segment."""
    return DeliverSegment(fanout_id=stub_data.post(followers), segment=0, segments=1)


def deliver(followers: int) -> dict[str, Any]:
    """The event of the express lane with that command."""
    name, group = "express_lane/segment_deliver.json", stub_data.publisher(followers)
    event: dict[str, Any] = json.loads(EVENTS.joinpath(name).read_text())
    (record,) = event["Records"]
    record["body"] = json.dumps(command(followers).message(group=group).content)
    record["attributes"]["MessageGroupId"] = group
    record["attributes"]["SentTimestamp"] = str(stub_data.NOW_MS - 60_000)
    return event


def api() -> dict[str, Any]:
    """The event of a publisher who posts."""
    event: dict[str, Any] = json.loads(EVENTS.joinpath("api/publish_post.json").read_text())
    return event


def timeline(limit: int, reader: str = stub_data.READER, **query: str) -> dict[str, Any]:
    """The event of a reader who asks for a page of `limit` entries, by default the newest."""
    event: dict[str, Any] = json.loads(EVENTS.joinpath("timeline/read_timeline.json").read_text())
    event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = reader
    asked = {"limit": str(limit), **query}
    event["rawQueryString"] = urlencode(asked)
    event["queryStringParameters"] = asked
    return event
