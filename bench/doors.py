"""Events for the doors: those of events/, made to fit the stub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import stub_data
from fanfold.messages import DeliverSegment

EVENTS = Path(__file__).parent.parent / "events"


def command(followers: int) -> DeliverSegment:
    """Deliver the post of the publisher with this many followers, in one segment."""
    return DeliverSegment(fanout_id=stub_data.post(followers), segment=0, segments=1)


def deliver(followers: int) -> dict[str, Any]:
    """The event of the express lane with that command."""
    event: dict[str, Any] = json.loads(
        EVENTS.joinpath("express_lane/segment_deliver.json").read_text()
    )
    message = command(followers).message(group=stub_data.publisher(followers))
    event["Records"][0]["body"] = json.dumps(message.content)
    return event


def timeline(limit: int) -> dict[str, Any]:
    """The event of a reader who asks for the newest page of `limit` entries."""
    event: dict[str, Any] = json.loads(EVENTS.joinpath("timeline/read_timeline.json").read_text())
    event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = stub_data.READER
    event["rawQueryString"] = f"limit={limit}"
    event["queryStringParameters"] = {"limit": str(limit)}
    return event
