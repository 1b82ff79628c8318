"""The example events have the form that AWS sends, one for each kind of message."""

import json
from pathlib import Path

from fanfold import contract

FILES = sorted((Path(__file__).parents[3] / "events").rglob("*.json"))
EVENTS = {path: json.loads(path.read_text(encoding="utf-8")) for path in FILES}
RECORDS = [record for event in EVENTS.values() for record in event.get("Records", [])]


def test_every_kind_of_message_has_an_event() -> None:
    kinds = {json.loads(record["body"])["type"] for record in RECORDS if record["body"][0] == "{"}
    assert kinds - {"post.liked"} == {*contract.EVENTS, *contract.COMMANDS}


def test_every_event_has_a_trigger_of_ours() -> None:
    for path, event in EVENTS.items():
        kinds = [
            event.get("version") == "2.0" and "requestContext" in event,
            bool(event.get("Records")),
            event.get("detail-type") == "Scheduled Event",
        ]
        assert kinds.count(True) == 1, path


def test_a_request_event_agrees_with_itself() -> None:
    for event in (each for each in EVENTS.values() if "routeKey" in each):
        context = event["requestContext"]
        assert context["routeKey"] == event["routeKey"]
        assert context["http"]["path"] == event["rawPath"]
        if event["routeKey"] != "$default":
            method, _, template = event["routeKey"].partition(" ")
            assert context["http"]["method"] == method
            path = template.format(**event.get("pathParameters", {}))
            assert path == event["rawPath"]
