"""The commands that our functions send each other."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput
from fanfold.messages import (
    MAX_FIRST_SENT_MS,
    BackfillRelation,
    Command,
    DeliverSegment,
    PlanFanout,
    ReconcileRelation,
    first_message_id,
    first_sent_at,
    parse,
)

COMMANDS: list[Command] = [
    PlanFanout(fanout_id="post-1"),
    DeliverSegment(fanout_id="p" * 128, segment=3, segments=4, position="8" * 16, hops=2),
    BackfillRelation(user_id="bob", publisher_id="ada"),
    ReconcileRelation(user_id="bob", publisher_id="ada"),
]


@pytest.mark.parametrize("order", COMMANDS, ids=lambda order: order.type)
def test_a_command_is_read_as_it_was_sent(order: Command) -> None:
    message = order.message(group="ada", delay_seconds=7)
    assert (message.group, message.delay_seconds) == ("ada", 7)
    content = parse(json.dumps(message.content))
    assert content["version"] == 1
    assert type(order).from_content(content) == order
    # It is small, and names no followers.
    assert len(json.dumps(content)) < 1024
    assert all(isinstance(value, str | int) for value in content.values())


@pytest.mark.parametrize("order", COMMANDS, ids=lambda order: order.type)
def test_a_command_with_missing_or_unknown_fields_is_refused(order: Command) -> None:
    content = dict(order.message(group="ada").content)
    for name in [name for name in content if name not in ("version", "type")]:
        less = {key: value for key, value in content.items() if key != name}
        with pytest.raises(BadInput, match=f"missing or unknown: '{name}'"):
            type(order).from_content(less)
    with pytest.raises(BadInput, match="missing or unknown: 'more'"):
        type(order).from_content({**content, "more": 1})


@pytest.mark.parametrize("value", [None, True, -1, 1.0, "1", [], {}])
@pytest.mark.parametrize("name", ["segment", "segments", "hops"])
def test_a_number_must_be_a_whole_number_of_0_or_more(name: str, value: Any) -> None:
    content = {**COMMANDS[1].message(group="ada").content, name: value}
    with pytest.raises(BadInput, match=f"'{name}' is not a whole number"):
        DeliverSegment.from_content(content)


@pytest.mark.parametrize("value", [None, True, 1, [], {}])
@pytest.mark.parametrize("name", ["fanout_id", "position"])
def test_a_text_must_be_a_string(name: str, value: Any) -> None:
    content = {**COMMANDS[1].message(group="ada").content, name: value}
    with pytest.raises(BadInput, match=f"'{name}' is not a string"):
        DeliverSegment.from_content(content)


@pytest.mark.parametrize("order", COMMANDS, ids=lambda order: order.type)
def test_a_command_of_another_type_is_refused_with_the_expected_type(order: Command) -> None:
    content = {**order.message(group="ada").content, "type": "post.published"}
    with pytest.raises(BadInput, match=order.type):
        type(order).from_content(content)


@pytest.mark.parametrize("version", [None, 0, 2, True, 1.0, "1", [1]])
def test_only_version_1_is_read(version: Any) -> None:
    with pytest.raises(BadInput, match="send 'version': 1"):
        parse(json.dumps({"version": version}))


@given(st.text() | st.sampled_from(["[" * 100_000, "9" * 5_000, "[]", "null", '"x"', "NaN"]))
def test_a_message_that_is_not_a_json_object_is_refused(raw: str) -> None:
    with pytest.raises(BadInput):
        parse(raw)


@pytest.mark.parametrize(
    ("attribute", "is_believed"),
    [
        ("00000000-0000-4000-8000-000000000005", True),
        ("x" * 100, True),
        *((odd, False) for odd in ("x" * 101, "", "a b", "\u00e9", "a\n")),
    ],
)
def test_a_first_id_is_believed_if_it_can_be_one(attribute: str, is_believed: bool) -> None:
    found = first_message_id(attribute, message_id="own")
    assert found == (attribute if is_believed else "own")


SENT_AT = 1_795_000_000_000


@pytest.mark.parametrize("first", [SENT_AT, SENT_AT - 1, SENT_AT - MAX_FIRST_SENT_MS])
def test_a_message_that_was_moved_counts_from_its_first_time(first: int) -> None:
    assert first_sent_at(str(first), sent_at=SENT_AT) == first


@pytest.mark.parametrize(
    "attribute",
    [
        "",
        "yesterday",
        "-5",
        "1e12",
        "\u0661\u0662",
        "9" * 5000,
        str(SENT_AT + 1),
        str(SENT_AT - MAX_FIRST_SENT_MS - 1),
        "0",
    ],
)
def test_a_first_time_that_cannot_be_believed_is_ignored(attribute: str) -> None:
    assert first_sent_at(attribute, sent_at=SENT_AT) == SENT_AT
