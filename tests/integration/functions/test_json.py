"""Bodies as JSON text, through both doors to a page of a timeline."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.service import System

EVENT = '{"version":1,"type":"post.published","publisher_id":"ada","ref_id":"r",'
# Decimals of money, ids of more than 64 bits, what no double can hold.
NUMBERS = "[1.10,-0,1E5,1e-400,1e400,1234567890123456789012345,0.1234567890123456789012345,7,1.5]"


def by_http(system: System, rest: str) -> str:
    """Publish over HTTP with these members of the request; return how it is refused, if it is."""
    answer = system.http("api/publish_post", raw="{" + rest, headers={"idempotency-key": "post-1"})
    return "" if answer.status == 202 else str(answer.body["detail"])


def by_queue(system: System, rest: str) -> str:
    """The same by a message; return the reason of its dead letter, if it becomes one."""
    system.sqs.send_message(QueueUrl=system.url("Publish"), MessageBody=EVENT + rest)
    system.pump()
    rejected = system.rejected("Publish")
    assert [body for body, _ in rejected] == [EVENT + rest] * len(rejected)
    return "".join(reason for _, reason in rejected)


both = pytest.mark.parametrize("door", [by_http, by_queue])


@both
@pytest.mark.parametrize("numbers", [NUMBERS, "7" * 4_000], ids=["many", "4,000 digits"])
def test_numbers_are_shown_as_they_were_sent(
    system: System, door: Callable[[System, str], str], numbers: str
) -> None:
    system.follow("bob")
    assert door(system, f'"body": {{"n": {numbers}}} }}') == ""
    system.pump()
    for _ in range(2):  # the second page comes from the cache
        assert f'"body":{{"n":{numbers}}}}}' in system.timeline("bob").text


@both
@pytest.mark.parametrize(
    ("rest", "sentence"),
    [
        (r'"body":{"a":[{"b":1,"\u0062":2}]}}', "has two members named 'b' in one object"),
        ('"body":{"a":Infinity}}', "holds Infinity, which JSON does not know"),
        (f'"body":{{"a":{"7" * 5_000}}}}}', "'body' is 5006 bytes as compact JSON"),
        (r'"body":{"\ud800":1}}', "'body' holds half a surrogate pair"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_the_same_words(
    system: System, door: Callable[[System, str], str], rest: str, sentence: str
) -> None:
    assert sentence in door(system, rest)
    assert system.rows_of("Posts") == []


@pytest.mark.parametrize(("number", "other"), [("1.1", "1.10"), ("1.0", "1"), ("1e-400", "0.0")])
def test_under_one_key_a_number_that_is_written_otherwise_is_another_post(
    system: System, number: str, other: str
) -> None:
    """Readers see what is written, so the second one would be lost in silence."""
    assert by_http(system, f'"body":{{"a":{number},"b":2.50}}}}') == ""
    assert by_http(system, f'"body":{{"b": 2.50, "a": {number}}}}}') == "", "the same"
    assert "with another body" in by_http(system, f'"body":{{"a":{other},"b":2.50}}}}')
    assert system.post().body == f'{{"a":{number},"b":2.50}}'
