"""Requests and answers keep every character on the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.aws.connections import DYNAMODB, SQS, Connections
from fanfold.aws.curl import Client
from fanfold.aws.json_protocol import encode
from fanfold.fanout.transport.curl_transport import ALL_WRITTEN, Body
from fanfold.timeline.entries import Entries, Entry
from tests.wire.conftest import environment
from tests.wire.server import Server, reply

TIMELINES = Entries(None, "Timelines")  # type: ignore[arg-type]
ENTRY = Entry("2026-11-20T18:00:00.123Z#post-1", "ada", 1_900_000_000)
ODD = [
    '"',
    "\\",
    '\\"',
    "\\u0041",
    "a\nb\tc\x00\x1b\x7f",
    "grüße",
    "日本語",
    "\N{GRINNING FACE}",
    "\u2028\u2029\ufeff",
    "{}[],:'</script>",
    " ",
    "x" * 2000,
]
# Half a surrogate pair is no character, but JSON can spell it.
USERS = st.lists(st.text(st.characters()), min_size=1, max_size=25)


@given(USERS, st.text(st.characters(exclude_characters="\0\\", exclude_categories=["Cs"])))
def test_a_prebuilt_body_equals_the_request_of_the_store(users: list[str], text: str) -> None:
    for odd in (text, ENTRY.publisher_id):
        entry = Entry(f"2026#{odd}", odd, 7)
        body = Body(TIMELINES, entry).of(users)
        assert json.loads(body) == TIMELINES.push_request(entry, users)
    users = ["ada", *ODD, "bob"]
    assert Body(TIMELINES, ENTRY).of(users) == encode(TIMELINES.push_request(ENTRY, users))
    assert TIMELINES.unwritten(json.loads(ALL_WRITTEN)) == []


@pytest.mark.network
@pytest.mark.parametrize("ascii", [True, False])
def test_a_request_and_its_answer_keep_every_character(server: Server, ascii: bool) -> None:
    def echo(call: Any) -> Any:
        return reply(json.dumps(call.content, ensure_ascii=ascii).encode())

    server.answer = echo
    env = environment(server.url)
    tables, queues = Client(Connections(DYNAMODB, env)), Client(Connections(SQS, env))
    for odd in [*ODD, "".join(ODD)]:
        item = {odd: {"S": odd}, "n": {"N": "-1.5E+3"}, "set": {"SS": [odd]}, "no": {"NULL": True}}
        for call in (tables.get_item, tables.update_item, tables.query, tables.batch_get_item):
            assert call(Item=item) == {"Item": item}
        for call in (queues.send_message, queues.send_message_batch):
            assert call(MessageBody=odd) == {"MessageBody": odd}
