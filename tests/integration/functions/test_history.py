"""A stage with `history=true` logs what outsiders need to judge it, and no other stage does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fanfold import contract, times
from fanfold.history import doors
from fanfold.history.doors import History
from fanfold.history.lines import hashed
from fanfold.ids import ref_id_for
from fanfold.settings import Settings
from fanfold_cli.cost import month
from functions import _wiring
from proof.history.judge import Judged, judge
from proof.history.told import read
from tests.service import AT_MS, System, around_calls, own_functions, through_lanes

READER, PUBLISHER = "somebody-who-reads", "somebody-who-posts"
POST = ref_id_for(PUBLISHER, "post-1")
SENT = "something-sent"


def told(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def kinds(lines: list[str]) -> list[str]:
    """The kind of each line; with dots if it has no end."""
    return [f"{each['kind']}{'' if 'end' in each else '...'}" for each in told(lines)]


def judged(lines: list[str]) -> Judged:
    return judge(read([("the log", "\n".join(lines))]), is_whole=True)


def send(system: System, type_: str, **fields: Any) -> None:
    message = {"version": contract.VERSION, "type": type_, **fields}
    system.sqs.send_message(QueueUrl=system.url("Publish"), MessageBody=json.dumps(message))
    system.pump()


def do_everything(system: System) -> None:
    """Every request and message that a history tells of, some seconds apart."""
    path = {"publisher_id": PUBLISHER}
    relation = {"user_id": READER, **path}
    steps: tuple[Callable[[], object], ...] = (
        lambda: system.follow(READER, PUBLISHER),
        lambda: system.publish(user=PUBLISHER),
        system.pump,
        lambda: system.timeline(READER),
        lambda: system.http("api/mute", user=READER, path=path),
        lambda: system.timeline(READER),
        lambda: system.http("api/unmute", user=READER, path=path),
        lambda: system.http("api/retract_post", user=PUBLISHER, path={"ref_id": POST}),
        lambda: system.unfollow(READER, PUBLISHER),
        lambda: send(system, contract.FOLLOW_ADDED, **relation),
        lambda: send(system, contract.POST_PUBLISHED, ref_id=SENT, **path),
        lambda: system.timeline(READER, hydrate="false"),
        lambda: send(system, contract.POST_DELETED, ref_id=SENT, **path),
        lambda: send(system, contract.FOLLOW_REMOVED, **relation),
    )
    for step in steps:
        step()
        system.clock.advance(30)


def test_each_change_each_delivery_and_each_page_is_a_line(
    system: System, written: list[str]
) -> None:
    do_everything(system)
    twice = ["follow...", "follow"], ["mute...", "mute"], ["unmute...", "unmute"]
    removed = ["retract...", "retract"], ["unfollow...", "unfollow"]
    assert kinds(written) == [
        *(*twice[0], "publish", "complete", "page", *twice[1], "page", *twice[2]),
        *(*removed[0], *removed[1], *twice[0], "publish", "complete", "page"),
        *(*removed[0], *removed[1]),
    ]
    assert judged(written).findings == []
    assert judged(written).counts["owed"] > 0


def test_a_request_and_what_its_publisher_decides_are_lines(
    system: System, written: list[str]
) -> None:
    path, relation = {"user_id": READER}, {"user_id": READER, "publisher_id": PUBLISHER}
    system.http("api/choose_privacy", user=PUBLISHER, body={"private": True})

    def post(number: int) -> None:
        system.publish(f"post-{number}", user=PUBLISHER)
        system.pump()

    for step in (
        lambda: system.follow(READER, PUBLISHER),
        lambda: post(1),
        lambda: system.timeline(READER),
        lambda: send(system, contract.FOLLOW_ADDED, **relation),
        lambda: system.http("api/approve", user=PUBLISHER, path=path),
        lambda: post(2),
        lambda: system.timeline(READER),
        lambda: system.http("api/remove", user=PUBLISHER, path=path),
        lambda: system.timeline(READER),
        lambda: send(system, contract.FOLLOW_ADDED, approved=True, **relation),
        lambda: system.http("api/block", user=PUBLISHER, path=path),
        lambda: system.timeline(READER),
        lambda: system.follow(READER, PUBLISHER),
        lambda: send(system, contract.FOLLOWER_APPROVED, **relation),
        lambda: system.http("api/unblock", user=PUBLISHER, path=path),
        lambda: system.timeline(READER),
    ):
        step()
        system.clock.advance(30)
    post_and_page = ["publish", "complete", "page"]
    assert kinds(written) == [
        *("follow...", "request", *post_and_page, "follow...", "request"),
        *("approve...", "approve", *post_and_page, "remove...", "remove", "page"),
        *("follow...", "follow", "block...", "block...", "block", "block", "page"),
        *("follow...", "request", "approve...", "unblock...", "unblock", "page"),
    ]
    assert judged(written).findings == []
    assert (judged(written).counts["owed"], judged(written).counts["hidden"]) == (1, 4)


def test_without_the_setting_nothing_is_written(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    do_everything(system)
    assert "history" not in capsys.readouterr().out
    assert _wiring.history(system.settings) is None
    assert "HISTORY" not in system.settings.to_env()


@pytest.mark.parametrize("wanted", [True, False])
def test_the_setting_comes_through_the_environment(system: System, wanted: bool) -> None:
    chosen = replace(system.settings, history=wanted)
    assert Settings.from_env(chosen.to_env()) == chosen


def test_a_line_holds_no_id_and_no_content(system: System, written: list[str]) -> None:
    do_everything(system)
    text = "\n".join(written)
    for secret in (READER, PUBLISHER, POST, SENT, "title", system.settings.timelines_table):
        assert secret not in text
    stage = system.settings.timelines_table
    follow = told(written)[1]
    assert (follow["user"], follow["publisher"]) == (
        hashed(stage, READER),
        hashed(stage, PUBLISHER),
    )
    assert hashed("another stage", READER) != follow["user"]


def test_a_line_goes_to_the_log_in_one_piece(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    with own_functions(replace(system.settings, history=True)):
        system.follow(READER, PUBLISHER)
    begun, answered = capsys.readouterr().out.splitlines()
    assert begun.startswith('{"history":1,"kind":"follow","user":')
    assert json.loads(answered) == {**json.loads(begun), "end": AT_MS}


def test_a_refused_or_failed_change_has_begun_and_a_refused_page_was_none(
    system: System, written: list[str]
) -> None:
    assert system.http("api/retract_post", user=READER, path={"ref_id": POST}).status == 404
    assert system.timeline(READER, limit="0").status == 400
    assert system.publish(user=PUBLISHER, ref_id="mine").status == 400
    assert kinds(written) == ["retract..."]


def test_a_message_is_told_with_the_time_of_its_sending(system: System, written: list[str]) -> None:
    message = {"version": contract.VERSION, "type": contract.FOLLOW_ADDED}
    body = json.dumps({**message, "user_id": READER, "publisher_id": PUBLISHER})
    system.sqs.send_message(QueueUrl=system.url("Publish"), MessageBody=body)
    system.clock.advance(5)
    system.pump("Publish")
    (_, follow) = told(written)
    assert (follow["begin"], follow["end"], follow["queue"]) == (AT_MS, AT_MS + 5_000, True)


def test_a_repeated_publish_is_the_post_that_was_accepted_first(
    system: System, written: list[str]
) -> None:
    system.publish(user=PUBLISHER)
    system.clock.advance(60)
    system.publish(user=PUBLISHER)
    first, again = told(written)
    assert (first["begin"], first["at"]) == (again["begin"], again["at"]) == (AT_MS, AT_MS)
    assert again["end"] == AT_MS + 60_000


def test_a_history_makes_no_call_that_a_delivery_could_fail_with(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    def calls(*, history: bool) -> Counter[str]:
        made: Counter[str] = Counter()

        def count(operation: str, _request: Any, make: Callable[[], Any]) -> Any:
            made[operation] += 1
            return make()

        monkeypatch.setattr(doors, "History", lambda settings, _: History(settings, lambda _: None))
        with own_functions(replace(system.settings, history=history)), around_calls(count):
            publisher = f"{PUBLISHER}-{history}"
            system.follow(READER, publisher)
            system.publish(user=publisher)
            with through_lanes():
                system.pump()
            system.publish("at-once", user=publisher)
            system.pump()
        return made

    assert calls(history=True) == calls(history=False)


def test_a_delivery_of_several_segments_is_complete_with_the_last(
    system: System, written: list[str]
) -> None:
    system.follow(READER, PUBLISHER)
    with through_lanes():
        system.publish(user=PUBLISHER)
        system.pump("Publish")
        assert "complete" not in kinds(written)
        system.clock.advance(7)
        system.pump()
    done = told(written)[-1]
    completed_at = times.to_ms(system.ledger(POST).completed_at)
    assert (done["kind"], done["begin"]) == ("complete", completed_at)


def test_a_page_tells_which_times_it_shows(system: System, written: list[str]) -> None:
    system.follow(READER, PUBLISHER)
    posted = []
    for number in range(3):
        posted.append(system.publish(f"post-{number}", user=PUBLISHER).body["published_at"])
        system.pump()
        system.clock.advance(10)
    first = system.timeline(READER, limit="2").body
    system.timeline(READER, before=first["next"])
    system.timeline(READER, **{"from": posted[1], "to": posted[2]})
    system.timeline(READER, after=first["previous"])
    newest, rest, between, upwards = (each for each in told(written) if each["kind"] == "page")
    _, second, third = map(times.to_ms, posted)
    assert (newest["from"], newest.get("to"), newest["more"]) == (second, None, True)
    assert (len(newest["posts"]), newest["limit"]) == (2, 2)
    assert (rest["from"], rest["to"]) == (system.clock.ms - 30 * doors.DAY_MS, second)
    assert (between["from"], between["to"], len(between["posts"])) == (second, third, 1)
    assert "from" not in upwards


def test_a_line_is_as_long_as_it_is_priced(system: System, written: list[str]) -> None:
    do_everything(system)
    pages = [each for each in told(written) if each["kind"] == "page"]
    full = {**pages[0], "posts": pages[0]["posts"] * month.PAGE_ENTRIES}
    bytes_of_page = len(json.dumps(full, separators=(",", ":")))
    assert 0.8 < (bytes_of_page + month.LOG_EVENT_BYTES) / month.HISTORY_PAGE_BYTES <= 1
    others = [len(line) for line in written if '"page"' not in line]
    assert 0.8 < (max(others) + month.LOG_EVENT_BYTES) / month.HISTORY_LINE_BYTES <= 1
