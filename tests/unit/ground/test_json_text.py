"""JSON as both doors read it: numbers keep their text, and what would lose something is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold import json_text
from fanfold.errors import BadInput
from fanfold.json_text import Verbatim
from fanfold.messages import DeliverSegment, parse
from functions._intake import PostPublished, body_text, read_event, read_publish_request

EVENT = '{"version":1,"type":"post.published","publisher_id":"ada","ref_id":"r",'


def by_http(rest: str) -> str:
    """The body that is stored of a request with these members."""
    return body_text(read_publish_request("{" + rest).body)


def by_queue(rest: str) -> str:
    """The same of a message."""
    published = read_event(parse(EVENT + rest))
    assert isinstance(published, PostPublished)
    return body_text(published.body)


both = pytest.mark.parametrize("door", [by_http, by_queue])

# As other languages write them: decimals of money, ids of 64 bits and more, exponents, underflow.
NUMBERS = {
    "plain": "7",
    "1.10": "1.10",
    "25 digits": "1234567890123456789012345",
    "too small for a double": "1e-400",
    "too large for a double": "1e400",
    "minus zero": "-0",
    "capital": "1E5",
    "plus": "1e+5",
    "4,000 digits": "7" * 4_000,
}


@both
@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
def test_a_number_is_kept_as_it_was_sent(door: Callable[[str], str], number: str) -> None:
    body = f'{{"n":{number}}}'
    assert door(f'"body": {body} }}') == body


@both
def test_all_but_white_space_and_the_spelling_of_strings_is_kept(
    door: Callable[[str], str],
) -> None:
    body = r'{ "b" : [ 1.50 , -0, true,null ] , "a" : { "\u00e9\u0041\/" : "\ud83d\ude00 \" \n" } }'
    kept = '{"b":[1.50,-0,true,null],"a":{"\u00e9A/":"\N{GRINNING FACE} \\" \\n"}}'
    assert door(f'"body": {body}}}') == kept


DEEP = '{"a":[' * 51 + "1" + "]}" * 51
NESTED = "is nested more than 100 levels deep; flatten it."
HALF = "holds half a surrogate pair; send whole characters."
TWICE = "has two members named '%s' in one object; send one of them."
NO_NUMBER = "holds %s, which JSON does not know; send null, or leave it out."
# Members of a request or message, and how both doors refuse them.
REFUSED = {
    "twice": ('"body":{},"body":{"a":1}}', TWICE % "body"),
    "twice in a body": ('"body":{"a":[{"b":1,"c":2,"b":1}]}}', TWICE % "b"),
    "twice in two spellings": (r'"body":{"é":1,"\u00e9":2}}', TWICE % r"\xe9"),
    "half a surrogate pair twice": (r'"body":{"\ud800":1,"\ud800":2}}', TWICE % r"\ud800"),
    "a long name twice": (f'"{"x" * 500}":1,"{"x" * 500}":2}}', TWICE % ("x" * 40)),
    "NaN": ('"body":{"a":NaN}}', NO_NUMBER % "NaN"),
    "half a surrogate pair": (r'"body":{"a":"\ud800"}}', f"'body' {HALF}"),
    "half a surrogate pair as a field": (r'"\ud800":1}', r"Unknown field '\ud800'; the known"),
    "5,000 digits": (f'"body":{{"a":{"7" * 5_000}}}}}', "'body' is 5006 bytes as compact JSON"),
    "5,000 digits elsewhere": (f'"published_at":{"7" * 5_000}}}', "'published_at' is not a string"),
    "102 levels": (f'"body":{DEEP}}}', f"'body' {NESTED}"),
    "2,000 levels of objects": ('"body":' + '{"":' * 2_000 + "1" + "}" * 2_001, NESTED),
    "not JSON": ('"body":{"a":01}}', "is not JSON"),
}


@both
@pytest.mark.parametrize(("rest", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_kept_is_refused_in_the_same_words(
    door: Callable[[str], str], rest: str, sentence: str
) -> None:
    with pytest.raises(BadInput) as refused:
        door(rest)
    assert sentence in refused.value.sentence
    assert refused.value.sentence.isascii()
    assert len(refused.value.sentence) < 200


numbers = st.from_regex(
    r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,5})?", fullmatch=True
)
values = st.recursive(
    st.none() | st.booleans() | numbers.map(Verbatim) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), values))
def test_what_is_written_is_read_and_written_as_it_was(content: dict[str, Any]) -> None:
    text = json_text.write(content)
    assert json_text.write(json_text.read(text, what="It")) == text
    assert json.loads(text).keys() == content.keys()


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_that_python_writes_so_is_that_number(number: float) -> None:
    found = json_text.read(json.dumps({"a": number}), what="It")["a"]
    if isinstance(found, Verbatim):
        assert (len(found.text) >= 20, found.text) == (isinstance(number, int), str(number))
    else:
        assert (type(found), repr(found)) == (type(number), repr(number))


def test_a_number_that_keeps_its_text_is_no_string_and_no_whole_number() -> None:
    order = {"version": 1, "type": "segment.deliver", "fanout_id": "r", "position": "", "hops": 0}
    for field, number in (("segment", "-0"), ("segments", "9" * 5_000), ("position", "1.10")):
        content = {**order, "segment": 0, "segments": 1, field: "HERE"}
        raw = json.dumps(content).replace('"HERE"', number)
        with pytest.raises(BadInput, match=f"'{field}' is not a"):
            DeliverSegment.from_content(parse(raw))
    for version in ("1.10", "-0", "9" * 5_000, "1e0"):
        with pytest.raises(BadInput, match="send 'version': 1"):
            parse(f'{{"version":{version}}}')


def test_texts_with_sorted_members_are_equal_whatever_their_order() -> None:
    one, other = (
        '{"a":{"c":1.0,"b":[{"y":1,"x":2}]},"é":1}',
        '{"é":1,"a":{"b":[{"x":2,"y":1}],"c":1.0}}',
    )
    written = {
        json_text.write(json_text.read(each, what="It"), sort_keys=True) for each in (one, other)
    }
    assert written == {'{"a":{"b":[{"x":2,"y":1}],"c":1.0},"é":1}'}
