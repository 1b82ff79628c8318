"""A stage that binds the senders of the publish queue: what becomes of other messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fanfold import contract, names
from fanfold.aws.dead_letters import DeadLetterQueue
from fanfold.ids import ref_id_for
from fanfold_cli.dlq.redriving import send_back
from proof.model.sqs import client as sqs
from tests.doors.service import QUEUES_URL, Doors, opened

NEWS, OPERATOR, STRANGER = "AROANEWSNEWSNEWS", "AROAOPERATOROPER", "AROASTRANGERSTRA"
SHOP = "AROASHOPSHOPSHOP"
PUBLISH = names.PUBLISH.name
URL = f"{QUEUES_URL}/{PUBLISH}"


@pytest.fixture(scope="module")
def bound() -> Iterator[Doors]:
    with opened(senders=f"{NEWS}=news-*,{OPERATOR}=*,{SHOP}=shop alice/shop:*") as doors:
        yield doors


@pytest.fixture
def doors(bound: Doors) -> Doors:
    bound.reset()
    return bound


def message(kind: str, actor: str, ref_id: str = "post-1") -> str:
    """A message of each type, whose publisher (user, of a follow) is this one."""
    content: dict[str, Any] = {"version": 1, "type": kind, "publisher_id": actor}
    if kind in (contract.FOLLOW_ADDED, contract.FOLLOW_REMOVED):
        content |= {"user_id": actor, "publisher_id": "ada"}
    else:
        content |= {"ref_id": ref_id} if kind.startswith("post") else {"user_id": "news-2"}
    return json.dumps({**content, **({"body": {}} if kind == contract.POST_UPDATED else {})})


def follow(user: str, publisher: str, **more: Any) -> str:
    ids = {"user_id": user, "publisher_id": publisher}
    return json.dumps({"version": 1, "type": contract.FOLLOW_ADDED, **ids, **more})


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
    if kind == contract.FOLLOWER_APPROVED:
        assert not sent(doors, follow("news-2", "news-1"), NEWS)
    before = doors.account.dump()
    assert not sent(doors, message(kind, "news-1"), NEWS)
    assert doors.account.dump() != before


@pytest.mark.parametrize("pair", [("news-1", "ada"), ("ada", "news-1")])
def test_an_approved_follow_is_of_a_sender_that_acts_for_both(
    doors: Doors, pair: tuple[str, str]
) -> None:
    (reason,) = sent(doors, follow(*pair, approved=True), NEWS)
    assert reason.startswith(f"Its sender '{NEWS}' may not act for 'ada'")
    doors.reset()
    assert not sent(doors, follow("news-2", "news-1", approved=True), NEWS)


KEY = "key-1"


def published(doors: Doors) -> str:
    """Alice publishes with her key; the answered `ref_id`."""
    answer = doors.http(
        contract.PUBLISH_POST, "alice", body='{"body":{}}', headers={"idempotency-key": KEY}
    )
    assert answer.status == 202
    doors.settle()
    return str(answer.body["ref_id"])


@pytest.mark.parametrize("kind", [contract.POST_PUBLISHED, contract.POST_DELETED])
def test_no_sender_takes_the_id_of_a_user_s_key_before_the_user_does(
    doors: Doors, kind: str
) -> None:
    before = doors.account.dump()
    taken = message(kind, "news-1", ref_id_for("alice", KEY))
    (reason,) = sent(doors, taken, NEWS)
    assert reason.startswith(f"Its sender '{NEWS}' may not take the ref_id")
    assert doors.letters(PUBLISH)[0][1]["kind"] == "gave_up"
    assert doors.account.dump() == before
    assert published(doors) == ref_id_for("alice", KEY)


@pytest.mark.parametrize("kind", [contract.POST_PUBLISHED, contract.POST_DELETED])
def test_a_sender_with_reserved_ids_may_use_no_other(doors: Doors, kind: str) -> None:
    before = doors.account.dump()
    (reason,) = sent(doors, message(kind, "shop", "news:1"), SHOP)
    assert reason.startswith(f"Its sender '{SHOP}' may not take the ref_id 'news:1' for 'shop'")
    assert doors.account.dump() == before


@pytest.mark.parametrize(
    "kind", [contract.POST_PUBLISHED, contract.POST_UPDATED, contract.POST_DELETED]
)
def test_no_sender_takes_an_id_that_the_rule_of_another_names(doors: Doors, kind: str) -> None:
    before = doors.account.dump()
    doors.send(PUBLISH, message(kind, "news-1", "shop:4711"), sender=NEWS)
    doors.deliver(PUBLISH)  # an edit takes nothing, and waits for its post
    assert doors.account.dump() == before
    (reason,) = sent(doors, message(contract.POST_PUBLISHED, "shop", "shop:4711"), SHOP)
    assert (f"'{NEWS}' may not take the ref_id" in reason) == (kind != contract.POST_UPDATED)
    assert doors.letters(PUBLISH)[0][0] == message(kind, "news-1", "shop:4711")
    (row,) = doors.account.rows(names.POSTS)
    assert json.loads(row)["publisher_id"]["S"] == "shop"


def test_a_service_edits_and_retracts_what_its_user_has_published_over_http(doors: Doors) -> None:
    ref_id = published(doors)
    assert not sent(doors, message(contract.POST_UPDATED, "alice", ref_id), SHOP)
    for _ in range(2):  # the message comes twice
        assert not sent(doors, message(contract.POST_DELETED, "alice", ref_id), SHOP)
    answer = doors.http(
        contract.PUBLISH_POST, "alice", body='{"body":{}}', headers={"idempotency-key": KEY}
    )
    assert answer.status == 410


def redrive(doors: Doors, sender: str) -> None:
    """Move all letters back as `fanfold dlq redrive` does, with this sender's credentials."""
    client: Any = sqs.Client(doors.account.queues, validates=False)
    queue = doors.account.queues.queue(URL)
    dead = DeadLetterQueue(client, f"{URL}Dlq")
    for page in dead.pages((), hidden_seconds=60):
        dead.delete_page(send_back(client, URL, page))
    for each in queue.messages():
        each.sender = f"{sender}:operator"


@pytest.mark.parametrize(("operator", "refused"), [(OPERATOR, NEWS), (STRANGER, STRANGER)])
def test_a_redrive_lends_a_refused_sender_no_right(
    doors: Doors, operator: str, refused: str
) -> None:
    before = doors.account.dump()
    assert len(sent(doors, message(contract.FOLLOW_ADDED, "ada"), NEWS)) == 1
    for _ in range(3):
        redrive(doors, operator)
        doors.settle()
        ((_, carried),) = doors.letters(PUBLISH)
        assert carried["first_senders"] == f"{operator} {NEWS}"
        assert f"'{refused}' may not act for 'ada'" in carried["reason"]
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


def test_a_first_sender_that_a_stranger_names_is_not_believed(doors: Doors) -> None:
    forged = {"first_senders": {"DataType": "String", "StringValue": OPERATOR}}
    (reason,) = sent(doors, message(contract.FOLLOW_ADDED, "ada"), STRANGER, attributes=forged)
    assert f"'{STRANGER}' may not act" in reason
