"""Validation of HTTP bodies and messages, and the sentences that senders get."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fanfold import contract
from fanfold.errors import BadInput, TooLarge
from functions import _intake
from functions._intake import FollowAdded, FollowRemoved, PostDeleted, PostPublished

PUBLISHED: dict[str, Any] = {
    "version": 1,
    "type": "post.published",
    "publisher_id": "ada",
    "ref_id": "post-1",
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def sentence_of(raw: str) -> str:
    with pytest.raises(BadInput) as refused:
        _intake.read_publish_request(raw)
    return refused.value.sentence


def test_a_request_with_every_field_is_read() -> None:
    wish = _intake.read_publish_request(
        '{"ref_id":"post-1","published_at":"2026-11-20T18:00:00.123Z","body":{"title":"Hello"}}'
    )
    assert (wish.ref_id, wish.published_at) == ("post-1", "2026-11-20T18:00:00.123Z")
    assert wish.body == {"title": "Hello"}


@pytest.mark.parametrize("raw", ["{}", '{"ref_id":null,"published_at":null,"body":null}'])
def test_every_field_of_a_request_is_optional(raw: str) -> None:
    wish = _intake.read_publish_request(raw)
    assert (wish.ref_id, wish.published_at, wish.body) == (None, None, None)


SENTENCES = {
    "{": 'The request body is not JSON; send an object such as {"body": {"title": "Hello"}}.',
    "[]": "The request body is not a JSON object.",
    '{"ref": 1}': "Unknown field 'ref'; the known ones are ref_id, published_at, body.",
    '{"x\\n\\u2028": 1}': (
        "Unknown field 'x\\n\\u2028'; the known ones are ref_id, published_at, body."
    ),
    '{"ref_id": "a b"}': (
        "'ref_id' is not a valid id; use 1 to 128 characters "
        "out of letters, digits and _ . : | @ + = -"
    ),
    '{"ref_id": 5}': "'ref_id' is not valid: Input should be a valid string.",
    '{"body": [1]}': '\'body\' is not a JSON object; send one such as {"title": "Hello"}.',
    '{"published_at": "now"}': (
        "'published_at' is not a UTC time with milliseconds; "
        "write it like 2026-11-20T18:00:00.123Z."
    ),
}


@pytest.mark.parametrize(("raw", "sentence"), SENTENCES.items())
def test_the_first_error_is_reported_with_what_to_change(raw: str, sentence: str) -> None:
    assert sentence_of(raw) == sentence


def test_a_long_unknown_field_is_cut() -> None:
    assert len(sentence_of(json.dumps({"x" * 10_000: 1}))) < 150


def test_a_request_may_have_16_kb_and_no_byte_more() -> None:
    assert _intake.read_publish_request("{}".rjust(contract.MAX_REQUEST_BYTES)).body is None
    with pytest.raises(TooLarge, match="16384 bytes"):
        _intake.read_publish_request("{}".rjust(contract.MAX_REQUEST_BYTES + 1))


@example(json.dumps({"\U0001f600" * 41: None}))
@given(st.text() | json_values.map(json.dumps))
def test_any_request_is_read_or_refused_in_one_short_ascii_sentence(raw: str) -> None:
    try:
        wish = _intake.read_publish_request(raw)
        _intake.body_text(wish.body)
    except BadInput as refused:
        sentence = refused.sentence
    else:
        sentence = "."
    assert sentence.isascii()
    assert len(sentence) < 300
    assert "\n" not in sentence


# The queue


@pytest.mark.parametrize(
    ("content", "model"),
    [
        (PUBLISHED, PostPublished),
        ({**PUBLISHED, "type": "post.deleted"}, PostDeleted),
        (
            {"version": 1, "type": "follow.added", "user_id": "b", "publisher_id": "a"},
            FollowAdded,
        ),
        (
            {"version": 1, "type": "follow.removed", "user_id": "b", "publisher_id": "a"},
            FollowRemoved,
        ),
    ],
)
def test_a_message_becomes_the_event_of_its_type(
    content: dict[str, Any], model: type[_intake.Event]
) -> None:
    assert type(_intake.read_event(content)) is model


def test_every_type_of_the_contract_is_read() -> None:
    assert set(_intake.EVENTS) == {
        contract.POST_PUBLISHED,
        contract.POST_DELETED,
        contract.FOLLOW_ADDED,
        contract.FOLLOW_REMOVED,
    }


@pytest.mark.parametrize("name", ["publisher_id", "ref_id"])
def test_a_missing_field_is_named(name: str) -> None:
    content = {key: value for key, value in PUBLISHED.items() if key != name}
    with pytest.raises(BadInput, match=f"'{name}' is missing; send it."):
        _intake.read_event(content)


@pytest.mark.parametrize("kind", [None, 1, [], {}, "post.liked", "fanout.plan", "segment.deliver"])
def test_an_unknown_type_is_refused_with_the_known_ones(kind: Any) -> None:
    with pytest.raises(BadInput, match=r"send one of post\.published, .*follow\.removed"):
        _intake.read_event({**PUBLISHED, "type": kind})


# Bodies


@given(st.dictionaries(st.text(), json_values))
def test_a_body_is_stored_as_it_is_or_refused(body: dict[str, Any]) -> None:
    try:
        text = _intake.body_text(body)
    except BadInput:
        return
    assert json.loads(text) == body
    assert len(text.encode()) <= contract.MAX_BODY_BYTES


def test_a_missing_body_is_empty_text_and_an_empty_body_is_json() -> None:
    assert _intake.body_text(None) == ""
    assert _intake.body_text({}) == "{}"


@pytest.mark.parametrize(("character", "size"), [("x", 1), ("é", 2), ("€", 3), ("👋", 4)])
def test_a_body_is_measured_in_bytes_of_utf_8(character: str, size: int) -> None:
    room = contract.MAX_BODY_BYTES - len('{"x":""}')
    assert _intake.body_text({"x": character * (room // size)})
    with pytest.raises(TooLarge, match="keep large content elsewhere"):
        _intake.body_text({"x": character * (room // size + 1)})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", ["\udfff"]])
def test_a_body_that_json_cannot_carry_is_refused(value: Any) -> None:
    with pytest.raises(BadInput, match="cannot carry"):
        _intake.body_text({"x": value})


@pytest.mark.parametrize("depth", [100, 300, 900, 2_000])
def test_a_deeply_nested_body_is_stored_or_refused(depth: int) -> None:
    raw = '{"body":' + '{"x":' * depth + "1" + "}" * depth + "}"
    try:
        assert _intake.body_text(_intake.read_publish_request(raw).body)
    except BadInput:
        assert depth > 100
