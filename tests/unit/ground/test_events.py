"""The example events have the form that AWS sends, one for each kind of message."""

import json
from pathlib import Path
from typing import Any

from fanfold import contract

EVENTS = Path(__file__).parents[3] / "events"
FILES = sorted(EVENTS.rglob("*.json"))


def test_every_kind_of_message_has_an_event() -> None:
    kinds = {json.loads(record["body"])["type"] for record in records() if record["body"][0] == "{"}
    assert kinds - {"post.liked"} == {*contract.EVENTS, *contract.ORDERS}


def test_every_event_has_a_trigger_of_ours() -> None:
    for path in FILES:
        event = read(path)
        kinds = [
            event.get("version") == "2.0" and "requestContext" in event,
            bool(event.get("Records")),
            event.get("detail-type") == "Scheduled Event",
        ]
        assert kinds.count(True) == 1, path


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def requests() -> list[Any]:
    return [event for path in FILES if "routeKey" in (event := read(path))]


def records() -> list[Any]:
    return [record for path in FILES for record in read(path).get("Records", [])]


def test_a_request_event_agrees_with_itself() -> None:
    for event in requests():
        context = event["requestContext"]
        assert context["routeKey"] == event["routeKey"]
        assert context["http"]["path"] == event["rawPath"]
        if event["routeKey"] != "$default":
            method, _, template = event["routeKey"].partition(" ")
            assert context["http"]["method"] == method
            path = template.format(**event.get("pathParameters", {}))
            assert path == event["rawPath"]
