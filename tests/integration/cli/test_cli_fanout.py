"""`fanfold fanout`: show, list, watch, resend and abandon deliveries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import boto3
import pytest

from fanfold import times
from fanfold.aws.queues import WorkQueue
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.publishing.publish import NewPost
from fanfold.fanout.row import Fanout
from fanfold.stores import Stores
from fanfold.sweep.open_fanouts import OpenFanouts
from fanfold.sweep.run_limits import Key
from fanfold.sweep.silence import SILENCE_SECONDS
from tests.commands import Patched, run, throttled
from tests.service import AT, AT_MS, POST, REGION, System, error


def accept(system: System, ref_id: str, publisher: str = "ada") -> None:
    """Accept a post with an id of the sender's choice, and send PLAN its command."""
    door = system.door("plan")
    new = NewPost(publisher_id=publisher, ref_id=ref_id)
    queue = WorkQueue(system.sqs, system.url("Publish"))
    door.publishing.publish(new, accepted_at=system.clock.ms, plan_queue=queue)


@pytest.fixture
def lost(system: System, lost: list[str]) -> list[str]:
    """It is stalled."""
    system.give_up()
    return lost


def test_show_prints_the_state_in_the_ledger_and_calls_no_rest_of_an_estimate_lost(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.give_followers(3)
    system.publish()
    system.pump()
    shown = run("fanout", "show", POST, "--json").json
    assert (shown["state"], shown["delivered"], shown["completed_at"]) == ("complete", 3, AT)
    table = run("fanout", "show", POST).stdout
    assert "complete" in table
    assert "followers_estimated" in table
    assert "forecast" not in table
    five = replace(system.ledger(), followers=5)
    monkeypatch.setattr(Ledger, "get", lambda *_which: five)
    assert "5 (a forecast; every follower has the post)" in run("fanout", "show", POST).stdout
    assert run("fanout", "show", POST, "--json").json["followers_estimated"] == 5


@pytest.mark.parametrize("command", ["show", "watch"])
def test_a_post_in_a_channel_says_so_and_who_reads_it(system: System, command: str) -> None:
    system.publish()
    ledger = Stores(system.dynamodb, system.settings).ledger
    assert ledger.complete_in_channel(POST, followers=9_000_000, revision=1, now=AT)
    ran = run("fanout", command, POST)
    assert "in the channel of ada, read by about 9,000,000 followers" in ran.stdout
    assert "forecast" not in ran.stdout
    shown = run("fanout", command, POST, "--json").json
    assert (shown["state"], shown["by"]) == ("complete", "channel")
    assert shown["followers_estimated"] == 9_000_000


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("what", [("show",), ("watch",), ("resend",), ("abandon", "--yes")])
def test_an_unknown_or_invalid_ref_id_is_answered_with_a_sentence(what: tuple[str, ...]) -> None:
    ran = run("fanout", *what, "nothing")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "knows no fan-out 'nothing'" in ran.said
    assert "'a b' is not a valid id" in run("fanout", *what, "a b").said


@pytest.mark.usefixtures("through_lanes")
def test_watch_ends_with_exit_code_0_when_the_delivery_is_complete(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.give_followers(3)
    system.publish()
    states: list[str] = []

    def work(_seconds: float) -> None:
        states.append(system.ledger().state)
        system.pump_once(["Publish", "Express"][len(states) - 1])

    monkeypatch.setattr("fanfold.clock.sleep", work)
    watched = run("fanout", "watch", POST)
    assert (watched.exit_code, states) == (0, ["queued", "delivering"])
    assert "complete" in watched.stdout
    assert "3/3" in watched.said, "the bar ends full"


def test_a_stalled_delivery_is_listed_with_how_far_it_is_and_watch_says_what_to_do(
    system: System, lost: list[str]
) -> None:
    (row,) = run("fanout", "list", "--stalled", "--json").json["fanouts"]
    assert (row["segments_pending"], row["segments"]) == (2, 4)
    assert (row["delivered"], row["followers_estimated"]) == (len(system.reached()), len(lost))
    assert "2 of 4" in run("fanout", "list").stdout
    watched = run("fanout", "watch", POST)
    assert (watched.exit_code, "has stalled" in watched.said) == (1, True)
    assert "fanfold dlq redrive" in watched.said


def test_watch_gives_up_after_its_timeout(system: System) -> None:
    system.publish()
    watched = run("fanout", "watch", POST, "--timeout", "0")
    assert (watched.exit_code, "not complete within 0 s" in watched.said) == (1, True)
    assert system.waiting("Publish") == 1


def test_resend_completes_a_stalled_delivery_and_sweep_one_whose_messages_are_lost_again(
    system: System, lost: list[str]
) -> None:
    system.clock.advance(60)
    sent = run("fanout", "resend", POST, "--json")
    assert sent.json == {"fanouts": {POST: 2}, "sent": 2, "not_found": []}
    row = system.ledger()
    assert (row.state, row.sent_at) == ("delivering", system.clock.ms)
    assert list(system.fanouts.stalled_ids()) == []
    (again, _) = system.bodies("Bulk")  # lost, but for one
    system.sqs.send_message(QueueUrl=system.url("Bulk"), MessageBody=json.dumps(again))
    system.pump()
    assert system.ledger().state == "delivering"
    system.clock.advance(SILENCE_SECONDS)
    system.sweep()
    system.pump()
    assert system.reached() == lost
    assert system.ledger().state == "complete"


@pytest.mark.usefixtures("through_lanes")
def test_resend_opens_no_delivery_that_was_planned_meanwhile(system: System) -> None:
    system.give_followers(2)
    system.publish()
    unplanned = system.ledger()
    system.pump("Publish")
    assert system.fanouts.reopen(unplanned, now=AT) is None
    assert system.ledger().state == "delivering"


def test_resend_of_an_unplanned_delivery_sends_the_command_to_plan(system: System) -> None:
    users = system.give_followers(2)
    system.publish()
    system.bodies("Publish")
    system.give_up()
    assert "Sent 1 message for" in run("fanout", "resend", POST).stdout
    assert system.ledger().state == "queued"
    system.pump()
    assert system.reached() == users


# many


@pytest.fixture
def many(system: System) -> dict[str, list[str]]:
    """Three open deliveries and two stalled ones, a minute apart; the ids by state."""
    system.give_followers(3)
    ids: dict[str, list[str]] = {"open": [], "stalled": []}
    for number, state in enumerate(("open", "stalled", "open", "stalled", "open")):
        ref_id = f"post-{9 - number}"
        accept(system, ref_id)
        if state == "stalled":
            system.bodies("Publish")
            system.give_up(ref_id)
        ids[state].append(ref_id)
        system.clock.advance(60)
    return ids


def test_list_shows_open_and_stalled_deliveries_the_oldest_first(
    many: dict[str, list[str]],
) -> None:
    for option in ("open", "stalled"):
        found = run("fanout", "list", f"--{option}", "--json").json
        assert [row["ref_id"] for row in found["fanouts"]] == many[option]
        assert found["counts"] == {option: len(many[option])}
    found = run("fanout", "list", "--json").json
    assert [row["ref_id"] for row in found["fanouts"]] == many["stalled"] + many["open"]
    assert found["counts"] == {"open": 3, "stalled": 2}
    assert found["fanouts"][0] == {
        "ref_id": "post-8",
        "publisher_id": "ada",
        "state": "stalled",
        "age_seconds": 240,
        "delivered": 0,
        "followers_estimated": None,
        "segments_pending": 0,
        "segments": 0,
        "rounds": 0,
    }
    table = run("fanout", "list", "--stalled")
    assert all(ref_id in table.stdout for ref_id in many["stalled"])
    assert "4 min 0 s" in table.stdout
    assert "0 of ?" in table.stdout
    assert "2 deliveries stalled." in table.said


def test_list_reads_more_than_one_page_and_keeps_to_its_limit(
    system: System, fail_first: Any
) -> None:
    for number in range(230):
        row = Fanout(
            fanout_id=f"post-{number}",
            publisher_id="ada",
            sort_key="",
            accepted_at=times.to_text(AT_MS - number),
            expires_at=2_000_000_000,
        )
        system.fanouts.open(row)
    client = Patched()
    calls = fail_first(client.client, "batch_get_item", [])
    ran = run("fanout", "list", "--open", "--limit", "210", "--json", dynamodb=client)
    oldest_first = [f"post-{number}" for number in range(229, 19, -1)]
    assert [row["ref_id"] for row in ran.json["fanouts"]] == oldest_first
    assert ran.json["counts"] == {"open": 230}
    assert [len(call["RequestItems"]["Fanouts"]["Keys"]) for call in calls] == [100, 100, 10]
    said = run("fanout", "list", "--open", "--limit", "210").said
    assert "230 deliveries open, of which 210 are listed" in said


def test_list_leaves_out_what_has_ended_and_is_still_in_the_index(
    system: System, many: dict[str, list[str]]
) -> None:
    def batch_get_item(**request: Any) -> Any:
        system.fanouts.complete_at_once(many["open"][2], followers=0, now=AT)
        return client.client.batch_get_item(**request)

    client = Patched(batch_get_item=batch_get_item)
    found = run("fanout", "list", "--open", "--json", dynamodb=client).json
    assert [row["ref_id"] for row in found["fanouts"]] == many["open"][:2]


def test_list_names_once_what_moves_in_the_index_while_it_is_read(
    system: System, many: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = OpenFanouts.key_pages

    def moved(self: OpenFanouts) -> Iterator[list[Key]]:
        pages = list(plain(self))
        yield from pages
        yield [key._replace(is_large=True) for page in pages for key in page]

    monkeypatch.setattr(OpenFanouts, "key_pages", moved)
    found = run("fanout", "list", "--open", "--json", dynamodb=Patched()).json
    assert [row["ref_id"] for row in found["fanouts"]] == many["open"]
    assert found["counts"] == {"open": len(many["open"])}


def test_of_a_complete_delivery_nothing_is_listed_and_nothing_resent(system: System) -> None:
    system.publish()
    system.pump()
    ran = run("fanout", "list")
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert "0 deliveries stalled.\n0 deliveries open." in ran.said
    assert run("fanout", "resend", POST, "--json").json["sent"] == 0
    assert f"'{POST}' has ended already: complete." in run("fanout", "resend", POST).said
    assert system.waiting("Express") == 0


def test_resend_of_all_that_stalled_leaves_the_open_ones_alone(
    system: System, many: dict[str, list[str]]
) -> None:
    system.bodies("Publish")
    before = {ref_id: system.ledger(ref_id) for ref_id in many["open"]}
    sent = run("fanout", "resend", "--stalled", "--json")
    assert sent.json["fanouts"] == dict.fromkeys(many["stalled"], 1)
    assert {ref_id: system.ledger(ref_id) for ref_id in many["open"]} == before
    system.pump()
    assert {system.ledger(ref_id).state for ref_id in many["stalled"]} == {"complete"}
    assert "2/2" in sent.said, "the bar ends full"
    again = run("fanout", "resend", "--stalled")
    assert again.stdout == "Sent 0 messages for 0 deliveries.\n"


def test_resend_of_many_names_the_ids_that_the_ledger_does_not_know(
    system: System, many: dict[str, list[str]]
) -> None:
    system.bodies("Publish")
    sent = run("fanout", "resend", *many["stalled"], "nothing", many["stalled"][0], "--json")
    assert sent.exit_code == 1
    assert sent.json["fanouts"] == dict.fromkeys(many["stalled"], 1)
    assert sent.json["not_found"] == ["nothing"]
    assert "knows no fan-out 'nothing'" in sent.said
    assert system.waiting("Publish") == 2


def test_a_resend_that_stops_half_way_may_be_run_again(
    system: System, many: dict[str, list[str]], fail_first: Any
) -> None:
    system.bodies("Publish")
    sqs = boto3.client("sqs", REGION)
    fail_first(sqs, "send_message_batch", [error("ServiceUnavailable", 503)])
    ran = run("fanout", "resend", *many["stalled"], sqs=sqs)
    assert (ran.exit_code, "Not all messages were sent; run it again" in ran.said) == (1, True)
    assert run("fanout", "resend", *many["stalled"], sqs=sqs).exit_code == 0
    system.pump()
    assert {system.ledger(ref_id).state for ref_id in many["stalled"]} == {"complete"}


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("arguments", [("resend",), ("resend", POST, "--stalled"), ("abandon",)])
def test_a_command_without_named_deliveries_is_refused(arguments: tuple[str, ...]) -> None:
    ran = run("fanout", *arguments)
    assert ran.exit_code == 2
    assert "Name REF_IDs" in ran.said


# abandon


def counted_metric() -> list[Any]:
    """The dimensions of the metric that CloudWatch holds."""
    client = boto3.client("cloudwatch", REGION)
    found = client.list_metrics(Namespace="Fanfold", MetricName="FanoutsAbandoned")["Metrics"]
    return [each["Dimensions"] for each in found]


def test_abandon_ends_deliveries_counts_them_and_can_be_repeated(
    system: System, lost: list[str]
) -> None:
    accept(system, "post-2", "grace")
    before = system.reached()
    ran = run("fanout", "abandon", POST, "post-2", "--yes")
    assert (ran.exit_code, len(lost)) == (0, 40)
    assert "Abandoned 2 deliveries." in ran.stdout
    assert "Nothing reopens this." in ran.said
    assert [system.ledger(ref_id).state for ref_id in (POST, "post-2")] == ["abandoned"] * 2
    assert counted_metric() == [[{"Name": "FanoutsTable", "Value": "Fanouts"}]]
    system.pump()
    assert system.reached() == before
    again = run("fanout", "abandon", POST, "--yes", "--json")
    assert (again.exit_code, again.json) == (0, {"abandoned": [], "not_found": []})
    assert f"'{POST}' has ended already: abandoned." in again.said
    shown = run("fanout", "show", POST, "--json").json
    assert (shown["state"], shown["completed_at"]) == ("abandoned", None)
    assert run("fanout", "resend", POST, "--json").json["sent"] == 0


@pytest.mark.usefixtures("lost")
def test_neither_a_repeated_publish_nor_sweep_reopens_an_abandoned_delivery(system: System) -> None:
    assert run("fanout", "abandon", POST, "--yes").exit_code == 0
    before = system.ledger()
    assert system.publish().status == 202
    system.pump()
    system.clock.advance(3600)
    system.sweep()
    assert system.ledger() == before
    assert system.waiting("Bulk") == system.waiting("Publish") == 0


def test_abandon_recognises_its_own_change_when_the_answer_was_lost(system: System) -> None:
    system.publish()

    def lose(**request: Any) -> Any:
        client = Patched().client
        client.update_item(**request)
        return client.update_item(**request)  # boto3's second attempt

    ran = run("fanout", "abandon", POST, "--yes", "--json", dynamodb=Patched(update_item=lose))
    assert ran.json["abandoned"] == [POST]


def test_abandon_that_stops_half_way_is_counted_and_may_be_run_again(system: System) -> None:
    plain, calls = Patched().client.update_item, list[str]()
    for ref_id in (POST, "post-2"):
        accept(system, ref_id)

    def stop(**request: Any) -> Any:
        calls.append(request["Key"]["fanout_id"]["S"])
        return plain(**request) if len(calls) == 1 else throttled()

    both = ("fanout", "abandon", POST, "post-2", "--yes")
    ran = run(*both, dynamodb=Patched(update_item=stop))
    assert (ran.exit_code, "Not all were abandoned; run it again" in ran.said) == (1, True)
    assert len(counted_metric()) == 1
    assert run(*both, "--json").json["abandoned"] == ["post-2"]


def test_neither_an_unknown_id_nor_a_metric_that_cannot_be_counted_keeps_a_delivery_open(
    system: System,
) -> None:
    system.publish()
    denied = Mock(**{"put_metric_data.side_effect": error("AccessDenied", 403)})
    ran = run("fanout", "abandon", "nothing", POST, "--yes", "--json", cloudwatch=denied)
    assert (ran.exit_code, system.ledger().state) == (1, "abandoned")
    assert ran.json == {"abandoned": [POST], "not_found": ["nothing"]}
    assert "not counted in the metric FanoutsAbandoned" in ran.said
