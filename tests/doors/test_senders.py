"""A stage that binds the senders of the publish queue: what becomes of other messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from aws_model.sqs import client as sqs
from fanfold import contract, names
from fanfold.aws.dead_letters import DeadLetterQueue
from fanfold_cli.redriving import send_back
from tests.doors.service import BASE_URL, Doors, opened

NEWS, OPERATOR, STRANGER = "AROANEWSNEWSNEWS", "AROAOPERATOROPER", "AROASTRANGERSTRA"
PUBLISH = names.PUBLISH.name
URL = f"{BASE_URL}/{PUBLISH}"


@pytest.fixture(scope="module")
def bound() -> Iterator[Doors]:
    with opened(senders=f"{NEWS}=news-*,{OPERATOR}=*") as doors:
        yield doors


@pytest.fixture
def doors(bound: Doors) -> Doors:
    bound.reset()
    return bound


def message(kind: str, actor: str) -> str:
    """A message of each type, whose publisher (user, of a follow) is this one."""
    who = {"user_id": actor} if kind.startswith("follow") else {"ref_id": "post-1"}
    publisher = "ada" if kind.startswith("follow") else actor
    body: dict[str, Any] = {"body": {}} if kind == contract.POST_UPDATED else {}
    return json.dumps({"version": 1, "type": kind, "publisher_id": publisher, **who, **body})


def sent(doors: Doors, body: str, sender: str, **more: Any) -> list[str]:
    """Send a message and have it worked on; the reasons of the dead letters that there are now."""
    doors.send(PUBLISH, body, sender=f"{sender}:session", **more)
    doors.settle()
    return [carried["reason"] for _, carried in doors.letters(PUBLISH)]


@pytest.mark.parametrize("kind", contract.EVENTS)
def test_a_sender_acts_for_its_own_and_any_other_event_is_a_dead_letter_that_says_why(
    doors: Doors, kind: str
) -> None:
    before = doors.account.dump()
    (reason,) = sent(doors, message(kind, "ada"), NEWS)
    assert reason.startswith(f"Its sender '{NEWS}' may not act for 'ada'")
    assert doors.account.dump() == before
    assert doors.letters(PUBLISH)[0][1]["kind"] == "gave_up"  # once the stage names it, redrive it
    assert not doors.faults.found
    doors.reset()
    if kind == contract.POST_UPDATED:
        assert not sent(doors, message(contract.POST_PUBLISHED, "news-1"), NEWS)
    assert not sent(doors, message(kind, "news-1"), NEWS)
    assert doors.account.dump() != before


def test_a_strangers_message_holds_up_none_of_its_batch(doors: Doors) -> None:
    doors.send(PUBLISH, message(contract.FOLLOW_ADDED, "news-1"), sender=STRANGER)
    doors.send(PUBLISH, message(contract.FOLLOW_ADDED, "news-2"), sender=NEWS)
    assert doors.deliver(PUBLISH) == []
    assert len(doors.letters(PUBLISH)) == 1
    assert [json.loads(row)["user_id"]["S"] for row in doors.account.rows(names.FOLLOWING)] == [
        "news-2"
    ]


def test_orders_of_our_own_functions_need_no_rule(doors: Doors) -> None:
    """Whoever sends one gets a post planned that was accepted, which happens anyway."""
    answer = doors.http(contract.PUBLISH_POST, "ada", body='{"body":{}}')
    assert answer.status == 202
    doors.settle()
    assert not doors.letters(PUBLISH)


def redrive(doors: Doors, sender: str) -> None:
    """Move all letters back as `fanfold dlq redrive` does, with this sender's credentials."""
    client: Any = sqs.Client(doors.account.queues, validates=False)
    queue = doors.account.queues.queue(URL)
    dead = DeadLetterQueue(client, f"{URL}Dlq")
    for page in dead.pages((), hidden_seconds=60):
        dead.delete_page(send_back(client, URL, page))
    for each in queue.messages():
        each.sender = f"{sender}:operator"


def test_a_redrive_lends_a_refused_sender_no_right(doors: Doors) -> None:
    before = doors.account.dump()
    assert len(sent(doors, message(contract.FOLLOW_ADDED, "ada"), NEWS)) == 1
    for _ in range(3):
        redrive(doors, OPERATOR)
        doors.settle()
        ((_, carried),) = doors.letters(PUBLISH)
        assert carried["first_senders"] == f"{OPERATOR} {NEWS}"
        assert f"'{NEWS}' may not act for 'ada'" in carried["reason"]
    assert doors.account.dump() == before


def test_what_sqs_moved_itself_is_redriven_with_its_own_senders_rights(doors: Doors) -> None:
    """A message whose invocations crash is never judged before it is a dead letter."""
    for actor in ("ada", "news-1"):
        doors.send(PUBLISH, message(contract.FOLLOW_ADDED, actor), sender=f"{NEWS}:session")
    queue = doors.account.queues.queue(URL)
    for _ in range(names.PUBLISH.max_receives + 1):
        queue.receive(10)
        doors.account.clock.advance(400)
    assert len(doors.letters(PUBLISH)) == 2
    redrive(doors, OPERATOR)
    doors.settle()
    ((body, carried),) = doors.letters(PUBLISH)
    assert json.loads(body)["user_id"] == "ada"
    assert f"'{NEWS}' may not act for 'ada'" in carried["reason"]


def test_a_redrive_by_somebody_whom_the_stage_does_not_name_is_refused(doors: Doors) -> None:
    assert len(sent(doors, message(contract.FOLLOW_ADDED, "ada"), STRANGER)) == 1
    redrive(doors, STRANGER)
    doors.settle()
    ((_, carried),) = doors.letters(PUBLISH)
    assert f"'{STRANGER}' may not act" in carried["reason"]


def test_a_first_sender_that_a_stranger_names_is_not_believed(doors: Doors) -> None:
    forged = {"first_senders": {"DataType": "String", "StringValue": OPERATOR}}
    (reason,) = sent(doors, message(contract.FOLLOW_ADDED, "ada"), STRANGER, attributes=forged)
    assert f"'{STRANGER}' may not act" in reason
