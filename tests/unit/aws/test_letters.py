"""Dead letters: what can be told of one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from fanfold import times
from fanfold.aws import dead_letters
from fanfold.aws.dead_letters import (
    TOO_OLD_MARGIN_MS,
    DeadLetter,
    DeadLetterQueue,
    DeadLetterReports,
)
from fanfold.messages import MAX_FIRST_SENT_MS
from proof.model.clock import Clock
from proof.model.sqs.client import Client, Queues
from proof.model.sqs.queues import Hooks

SENT = 1_795_197_600_123
DAY = 24 * 60 * 60 * 1000
LETTER = DeadLetter(
    message_id="message-1",
    first_message_id="message-1",
    body="",
    sent_at=SENT,
    first_sent_at=SENT,
    receives=1,
    reason="",
    kind="",
    group="ada",
    receipt="receipt",
)


def letter(body: Any, **more: Any) -> DeadLetter:
    return replace(LETTER, body=body if isinstance(body, str) else json.dumps(body), **more)


def published(at: Any = None) -> DeadLetter:
    return letter({"type": "post.published", **({"published_at": at} if at else {})})


@pytest.mark.parametrize(
    ("body", "type_"),
    [
        ({"type": "follow.added"}, "follow.added"),
        ({"type": "segment.deliver"}, "segment.deliver"),
        ({"type": "follow.forgotten"}, ""),
        ({"type": ["follow.added"]}, ""),
        ({}, ""),
        ([{"type": "follow.added"}], ""),
        ("{", ""),
        ("[" * 100_000, ""),
    ],
)
def test_a_letter_is_of_a_known_type_or_of_none(body: Any, type_: str) -> None:
    assert letter(body).type == type_
    assert not letter(body).is_expired(now=SENT + DAY - 1, retention_days=1)


def test_only_a_post_expires_with_its_entries() -> None:
    for each in (letter({"type": "follow.added"}), letter({"type": "fanout.plan"}), letter("{")):
        assert not each.is_expired(now=SENT + 99 * DAY, retention_days=1)


@pytest.mark.parametrize(
    ("at", "counts_from"),
    [
        (None, SENT),
        (times.to_text(SENT - 5_000), SENT - 5_000),
        (times.to_text(SENT + 5_000), SENT),
        ("yesterday", SENT),
        (7, SENT),
    ],
)
def test_a_post_counts_from_its_own_time_and_never_from_after_it_was_sent(
    at: Any, counts_from: int
) -> None:
    assert not published(at).is_expired(now=counts_from + DAY - 1, retention_days=1)
    assert published(at).is_expired(now=counts_from + DAY, retention_days=1)


def test_an_event_is_too_old_an_hour_before_workers_would_take_it_for_a_new_one() -> None:
    last = SENT + MAX_FIRST_SENT_MS - TOO_OLD_MARGIN_MS
    event, order = letter({"type": "follow.added"}), letter({"type": "segment.deliver"})
    assert not event.is_too_old(now=last - 1)
    assert event.is_too_old(now=last)
    assert not order.is_too_old(now=last), "orders say nothing of when they were sent"


def test_a_letter_that_is_sent_and_received_is_traced_to_its_first_message() -> None:
    clock = Clock()
    queues = Queues(clock, Hooks())
    _, dlq_url = queues.create_with_dlq("Publish", max_receives=1)
    client: Any = Client(queues)
    dead = DeadLetterQueue(client, dlq_url)
    first_ms = clock.now_ms() - DAY
    about: dict[str, Any] = {"reason": "No.", "kind": "contract", "first_message_id": "m"}
    dead.add("{}", **about, first_sent_at=first_ms, senders="AIDAFIRST", group="ada")
    dead.add("{}", **about, first_sent_at=5, senders="", group="")
    old, found = sorted(dead.peek(), key=lambda letter: letter.group)
    assert (found.first_message_id, found.first_sent_at) == ("m", first_ms)
    assert (old.first_message_id, old.first_sent_at) == ("m", old.sent_at), "it is 28 days ago"
    assert found.message_id != "m"
    assert found.kept_until == found.sent_at + 14 * DAY
    assert found.sha256 == hashlib.sha256(b"{}").hexdigest()


def test_a_process_remembers_as_many_reports_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "MAX_REPORTED", 2)
    reports = DeadLetterReports({})

    def new(ids: str, reason: str = "") -> str:
        found = [("Publish", replace(LETTER, message_id=each, reason=reason)) for each in ids]
        return "".join(letter.message_id for _, letter in reports.new(found))

    assert new("0", reason="too long") == ""
    assert (new("12"), new("12"), new("3")) == ("12", "", "3")
    assert new("21") == "1", "the oldest is forgotten first"


class Bare:
    """A dead-letter queue's client, which tells of a message no more than it must."""

    def receive_message(self, **_request: Any) -> Any:
        return {"Messages": [{"MessageId": "m", "Body": "b", "ReceiptHandle": "r"}]}


def test_what_is_not_known_of_a_letter_is_empty() -> None:
    client: Any = Bare()
    (found,) = DeadLetterQueue(client, "url").peek()
    assert (found.receives, found.sent_at) == (0, 0)
    assert (found.reason, found.kind, found.group) == ("", "", "")
