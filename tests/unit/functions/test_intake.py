"""Validation of HTTP bodies and messages, and the sentences that senders get."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fanfold import contract
from fanfold.errors import BadInput, TooLarge
from functions import _intake
from functions._intake import PostPublished

PUBLISHED: dict[str, Any] = {
    "version": 1,
    "type": "post.published",
    "publisher_id": "ada",
    "ref_id": "post-1",
}
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def sentence_of(raw: str) -> str:
    with pytest.raises(BadInput) as refused:
        _intake.read_publish_request(raw)
    return refused.value.sentence


@pytest.mark.parametrize("raw", ["{}", '{"published_at":null,"body":null}'])
def test_every_field_of_a_request_is_optional_and_null_is_left_out(raw: str) -> None:
    wish = _intake.read_publish_request(raw)
    assert (wish.published_at, wish.body) == (None, None)


NO_REF_ID = (
    "'ref_id' cannot be chosen over HTTP; leave it out, and send an Idempotency-Key header to have "
    "the same ref_id each time. Applications with ids of their own publish by the queue."
)


SENTENCES = {
    "{": 'The request body is not JSON; send an object such as {"body": {"title": "Hello"}}.',
    "[]": (
        "The request body is not a JSON object; "
        'send an object such as {"body": {"title": "Hello"}}.'
    ),
    '{"ref": 1}': "Unknown field 'ref'; the known ones are published_at, body.",
    '{"ref": null}': "Unknown field 'ref'; the known ones are published_at, body.",
    '{"x\\n\\u2028": 1}': "Unknown field 'x\\n\\u2028'; the known ones are published_at, body.",
    '{"ref_id": "post-1"}': NO_REF_ID,
    '{"ref_id": null}': NO_REF_ID,
    '{"published_at": 5}': "'published_at' is not a string; send one.",
    '{"body": [1]}': '\'body\' is not a JSON object; send one such as {"title": "Hello"}.',
    '{"published_at": "now"}': (
        "'published_at' is not a time of RFC 3339; "
        "write it like 2026-11-20T18:00:00.123Z or 2026-11-20T20:00:00+02:00."
    ),
}


@pytest.mark.parametrize(("raw", "sentence"), SENTENCES.items())
def test_the_first_error_is_reported_with_what_to_change(raw: str, sentence: str) -> None:
    assert sentence_of(raw) == sentence


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


@pytest.mark.parametrize("name", ["publisher_id", "ref_id"])
def test_a_field_that_is_missing_or_null_is_named(name: str) -> None:
    content = {key: value for key, value in PUBLISHED.items() if key != name}
    for each in (content, {**content, name: None}):
        with pytest.raises(BadInput, match=f"'{name}' is missing; send it."):
            _intake.read_event(each)


@pytest.mark.parametrize(
    ("ref_id", "says"),
    [
        ("", "is not a valid id; use 1 to 128 characters"),
        ("a b", "is not a valid id; use 1 to 128 characters"),
        (5, "is not a string; send one.$"),
        (True, "is not a string; send one.$"),
        ("\ud800", "holds half a surrogate pair; send whole characters.$"),
    ],
)
def test_an_id_that_is_none_is_named(ref_id: Any, says: str) -> None:
    with pytest.raises(BadInput, match=f"^'ref_id' {says}"):
        _intake.read_event({**PUBLISHED, "ref_id": ref_id})


def test_a_message_may_leave_out_time_and_body_or_send_null() -> None:
    left_out: tuple[dict[str, Any], ...] = ({}, {"published_at": None, "body": None})
    for more in left_out:
        event = _intake.read_event({**PUBLISHED, **more})
        assert isinstance(event, PostPublished)
        assert (event.published_at, event.body) == (None, None)


@pytest.mark.parametrize("kind", [None, 1, [], {}, "post.liked", "fanout.plan", "segment.deliver"])
def test_an_unknown_type_is_refused_with_the_known_ones(kind: Any) -> None:
    with pytest.raises(BadInput, match=r"send one of post\.published, .*follow\.removed"):
        _intake.read_event({**PUBLISHED, "type": kind})


def test_a_type_that_python_could_not_write_is_refused_too() -> None:
    """JSON's reader of Python 3.14 takes objects that are nested deeper than `str` can go."""
    kind: dict[str, Any] = {}
    for _ in range(200_000):
        kind = {"": kind}
    with pytest.raises(BadInput, match="type is not known"):
        _intake.read_event({"version": 1, "type": kind})


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


def nested(depth: int) -> str:
    """A request whose body has this many levels, of objects and lists in turn."""
    pairs, one = divmod(depth, 2)
    return '{"body":' + '{"x":[' * pairs + '{"x":' * one + "1" + "}" * one + "]}" * pairs + "}"


@pytest.mark.parametrize("depth", [101, 256, 900])
def test_a_body_may_be_nested_at_most_a_hundred_levels_deep(depth: int) -> None:
    body = _intake.read_publish_request(nested(100)).body
    assert json.loads(_intake.body_text(body)) == body
    with pytest.raises(BadInput, match="'body' is nested more than 100 levels deep; flatten"):
        _intake.body_text(_intake.read_publish_request(nested(depth)).body)
