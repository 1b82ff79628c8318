"""The commands of users: publish, edit, retract, follow, mute, and read a timeline."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fanfold import clock as product_clock
from fanfold.rates import Rate
from fanfold_cli import aws, terminal
from fanfold_cli.commands import timeline
from fanfold_cli.terminal import INTERRUPTED
from fanfold_cli.users.acting import TOKEN_SECONDS, Token
from fanfold_cli.users.sign_in import sign_in
from tests.commands import Gateway, Ran, Stack, use
from tests.service import AT, REGION, System


@pytest.fixture
def gateway(system: System) -> Gateway:
    return Gateway(system)


def ok(gateway: Gateway, *words: str, stdin: str = "") -> Ran:
    ran = use(gateway, *words, stdin=stdin)
    assert ran.exit_code == 0, ran.said
    return ran


def publish(gateway: Gateway, *words: str, user: str = "alice", stdin: str = "") -> Any:
    return ok(gateway, "publish", *words, "--user", user, "--json", stdin=stdin).json


def read(gateway: Gateway, *words: str) -> Any:
    gateway.pump("Publish", "Express", "Relation")
    return ok(gateway, "timeline", "--user", "bob", "--json", *words).json


def shown(gateway: Gateway, *words: str) -> list[Any]:
    return [entry["body"] for entry in read(gateway, *words)["entries"]]


def test_what_a_user_publishes_reaches_a_follower_with_its_numbers(gateway: Gateway) -> None:
    ok(gateway, "follow", "alice", "--user", "bob")
    accepted = publish(gateway, "Hello")
    assert accepted.keys() == {"ref_id", "published_at", "accepted_at", "key", "publisher_id"}
    assert accepted["publisher_id"] == "alice"
    publish(gateway, "--body", '{"price":1.10}')
    publish(gateway, "--body", "-", stdin='{"from":"stdin"}')
    assert {"text": "Hello"} in shown(gateway)
    assert {"from": "stdin"} in shown(gateway)
    assert '{"price":1.10}' in ok(gateway, "timeline", "--user", "bob", "--json").stdout
    feed = ok(gateway, "timeline", "--user", "bob", "--publisher", "alice", "--json").json
    assert len(feed["entries"]) == 3


def test_publishing_again_with_the_key_is_the_same_publish_or_refused_in_the_words_of_the_service(
    gateway: Gateway,
) -> None:
    first = publish(gateway, "Hello", "--key", "mine")
    assert publish(gateway, "Hello", "--key", "mine") == first
    assert first["key"] == "mine"
    assert publish(gateway, "Hello")["ref_id"] != first["ref_id"]
    at = "2026-11-19T20:00:00+02:00"
    assert publish(gateway, "Old", "--published-at", at)["published_at"].startswith("2026-11-19T18")
    ran = use(gateway, "publish", "Other", "--key", "mine", "--user", "alice")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.said.startswith(
        "The post was not published, with --key mine: 422 The Idempotency-Key stands for"
    )


def test_a_lost_answer_is_made_up_for_without_a_second_post(gateway: Gateway) -> None:
    ok(gateway, "follow", "alice", "--user", "bob")
    gateway.lost = 3
    ran = ok(gateway, "publish", "Hello", "--user", "alice")
    assert ran.said.count("No answer yet; trying again.") == 1
    assert gateway.lines.count("POST /v1/posts") == 4
    assert shown(gateway) == [{"text": "Hello"}]


def test_after_no_answer_at_all_the_key_is_said_that_publishes_it_once(gateway: Gateway) -> None:
    ok(gateway, "follow", "alice", "--user", "bob")
    gateway.lost = 1000
    ran = use(gateway, "publish", "Hello", "--user", "alice")
    assert ran.exit_code == 1
    assert "It is not known whether the post is published; run it again with --key " in ran.said
    key = ran.said.partition("--key ")[2].partition(",")[0]
    gateway.lost = 0
    publish(gateway, "Hello", "--key", key)
    assert shown(gateway) == [{"text": "Hello"}]


@pytest.mark.parametrize("at", ["POST /v1/posts", "GET /v1/posts/", "/delivery"])
def test_an_interrupted_publish_tells_what_became_of_it_and_its_key(
    gateway: Gateway, at: str
) -> None:
    gateway.interrupt = at
    ran = use(gateway, "publish", "Hello", "--user", "alice", "--key", "a key", "--wait")
    assert (ran.exit_code, ran.stdout) == (INTERRUPTED, "")
    gateway.interrupt = ""
    ref_id = publish(gateway, "Hello", "--key", "a key")["ref_id"]
    said = ran.said.partition("Interrupted: ")[2].strip()
    if at.startswith("POST"):
        assert said == (
            "the post may be published; run it again with --key 'a key', which publishes it once."
        )
    else:
        assert said == (
            f"the post is published as {ref_id}, with --key 'a key'. The delivery goes on; "
            f"`fanfold fanout watch {ref_id}` shows it."
        )


@pytest.mark.parametrize(
    "words",
    [
        *((verb,) for verb in ("follow", "unfollow", "mute", "unmute", "retract")),
        *((verb,) for verb in ("approve", "remove", "block", "unblock")),
        ("edit", "Hi"),
    ],
)
def test_an_interrupted_change_says_that_it_may_have_been_made(
    gateway: Gateway, words: tuple[str, ...]
) -> None:
    gateway.interrupt = "/"
    ran = use(gateway, words[0], "alice", *words[1:], "--user", "bob")
    assert (ran.exit_code, ran.stdout) == (INTERRUPTED, "")
    assert "Interrupted: the change may have been made; run it again." in ran.said


@pytest.mark.parametrize(("lost", "is_known"), [(0, True), (1, False)])
def test_a_refusal_after_a_lost_answer_is_no_proof_that_nothing_was_published(
    gateway: Gateway, lost: int, is_known: bool
) -> None:
    gateway.lost, gateway.refused = lost, 1000
    ran = use(gateway, "publish", "Hello", "--user", "alice", "--key", "a key")
    assert ran.exit_code == 1
    assert ("The post was not published" in ran.said) is is_known
    assert ("It is not known whether the post is published" in ran.said) is not is_known
    assert "--key 'a key'" in ran.said
    assert "403" in ran.said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Say what to post, in one way: a TEXT, or --body with a JSON object."),
        (("Hello", "--body", "{}"), "Say what to post, in one way: a TEXT, or --body"),
        (("--body", "hello"), "--body is not JSON; give one such as"),
        (("--body", "[1]"), "--body is not a JSON object"),
        (("--body", '{"a":1,"a":2}'), "--body has two members named 'a'"),
        ((" \n ",), "The post has no text"),
        (("\udcff",), "The post is not text in UTF-8"),
        (("--body", '{"a":"\udcff"}'), "The post is not text in UTF-8"),
        (("Hello", "--key", ""), "--key must have 1 to 256 characters of printable ASCII"),
        (("Hello", "--key", "a\nb"), "--key must have 1 to 256 characters of printable ASCII"),
    ],
)
def test_a_body_that_cannot_be_meant_is_refused_before_any_request(
    gateway: Gateway, words: tuple[str, ...], sentence: str
) -> None:
    ran = use(gateway, "publish", *words, "--user", "alice")
    assert ran.exit_code == 2 or sentence in ran.said
    assert sentence in " ".join(ran.said.replace("│", " ").split())
    assert gateway.lines == []


def test_an_id_that_an_address_cannot_hold_is_refused_before_any_request(gateway: Gateway) -> None:
    for given in (".", ".."):
        for words in (("follow",), ("retract",), ("timeline", "--publisher"), ("approve",)):
            assert "is not a valid id" in use(gateway, *words, given, "--user", "bob").said
    assert gateway.lines == []


def test_a_sign_in_that_another_command_overtook_is_repeated(gateway: Gateway) -> None:
    publish(gateway, "Hello")
    cognito = aws.client("cognito-idp", None, REGION)  # its own, because it is changed
    plain, overtaken = cognito.admin_initiate_auth, [2]

    def overtake(**request: Any) -> Any:
        if overtaken[0]:
            overtaken[0] -= 1
            request["AuthParameters"] = {**request["AuthParameters"], "PASSWORD": "Other-0815"}
        return plain(**request)

    cognito.admin_initiate_auth = overtake
    stack = Stack(REGION, None, gateway.outputs, {"cognito-idp": cognito})
    assert sign_in(stack, "alice").token
    overtaken[0] = 1000
    with pytest.raises(terminal.ExpectedError, match="keep replacing the password"):
        sign_in(stack, "alice")


@pytest.mark.parametrize(("rate", "waits"), [(Rate(1, 5_000), True), (Rate.a_day(1), False)])
def test_a_client_over_its_rate_gets_an_error_instead_of_waiting_for_hours(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, rate: Rate, waits: bool
) -> None:
    door = gateway.system.door("api")
    monkeypatch.setattr(door, "following", replace(door.following, rate=rate))
    ok(gateway, "follow", "alice", "--user", "bob")
    ran = use(gateway, "follow", "ada", "--user", "bob")
    assert ("The service asks to wait; trying again." in ran.said) is waits
    assert ("(24 h)" in ran.said) is not waits
    assert bool(ran.exit_code) is not waits


def test_an_engine_that_has_ended_is_told_at_once(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.lost = 1000
    monkeypatch.setattr(Stack, "has_ended", lambda _: True)
    ran = use(gateway, "timeline", "--user", "alice")
    assert (ran.exit_code, len(gateway.lines)) == (1, 1)
    assert "The local engine has ended: start it with `fanfold local up`." in ran.said


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("fan-out", "The delivery is complete: the post is in 1 timeline."),
        ("channel", "complete: the post is in the channel that about 9,000 followers read."),
    ],
)
def test_wait_shows_the_delivery_until_it_is_complete(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, by: str, said: str
) -> None:
    ok(gateway, "follow", "alice", "--user", "bob")
    gateway.pump("Relation")

    def deliver(_seconds: float) -> None:
        if by == "fan-out":
            gateway.pump("Publish", "Express")
        else:
            (ref_id,) = gateway.system.open_fanouts()
            gateway.system.fanouts.complete_in_channel(ref_id, followers=9_000, revision=1, now=AT)

    monkeypatch.setattr(product_clock, "sleep", deliver)
    ran = ok(gateway, "publish", "Hello", "--user", "alice", "--wait", "--json")
    assert ran.json["delivery"]["state"] == "complete"
    assert said in ran.said


def test_only_its_publisher_edits_and_retracts_a_post(gateway: Gateway) -> None:
    ok(gateway, "follow", "alice", "--user", "bob")
    ref_id = publish(gateway, "Hello")["ref_id"]
    gateway.system.clock.advance(10)
    edited = ok(gateway, "edit", ref_id, "Hello again", "--user", "alice", "--json").json
    assert edited["ref_id"] == ref_id
    assert shown(gateway) == [{"text": "Hello again"}]
    for words in (("edit", ref_id, "Mine"), ("retract", ref_id)):
        ran = use(gateway, *words, "--user", "mallory")
        assert (ran.exit_code, "404 No such post" in ran.said) == (1, True)
    for _ in range(2):
        retracted = ok(gateway, "retract", ref_id, "--user", "alice", "--json").json
        assert retracted == {"ref_id": ref_id, "retracted": True}
    gateway.system.clock.advance(10)
    assert shown(gateway) == []


def test_follow_and_mute_have_their_inverse(gateway: Gateway) -> None:
    publish(gateway, "Hello")
    gateway.pump("Publish", "Express")
    for words, number in (
        (("follow",), 1),
        (("mute",), 0),
        (("unmute",), 1),
        (("unfollow",), 0),
        (("follow",), 1),
    ):
        for _ in range(2):  # the second time changes nothing
            ran = ok(gateway, *words, "alice", "--user", "bob", "--json")
            assert (ran.json["user"], ran.json["publisher_id"]) == ("bob", "alice")
        assert len(read(gateway)["entries"]) == number
    said = [ok(gateway, word, "alice", "--user", "bob").said for word in ("unfollow", "follow")]
    assert "\nbob does not follow alice." in said[0]
    assert "\nbob follows alice since 2026" in said[1]


def test_a_private_publisher_is_asked_and_approves_removes_and_blocks(gateway: Gateway) -> None:
    publish(gateway, "Hello")
    gateway.pump("Publish", "Express")
    public = ok(gateway, "private", "--user", "alice")
    assert public.stdout == "alice is public: everybody may follow.\n"
    assert ok(gateway, "private", "on", "--user", "alice", "--json").json["private"]
    private = ok(gateway, "private", "--user", "alice")
    assert private.stdout.startswith("alice is private: who follows must be approved, from 2026")
    assert "Nobody asks to follow alice." in ok(gateway, "requests", "--user", "alice").said

    asked = ok(gateway, "follow", "alice", "--user", "bob", "--json").json
    assert (asked["state"], asked["follows"]) == ("requested", False)
    gateway.system.clock.advance(1)
    said = ok(gateway, "follow", "alice", "--user", "eve").said
    assert "eve has asked to follow alice: the request waits." in said
    listed = ok(gateway, "requests", "--user", "alice", "--limit", "1", "--json").json
    assert [each["user_id"] for each in listed["requests"]] == ["eve"]
    assert listed["more"]
    table = ok(gateway, "requests", "--user", "alice")
    assert all(part in table.stdout for part in ("eve", "bob", asked["requested_at"]))

    approved = ok(gateway, "approve", "bob", "--user", "alice", "--json").json
    assert (approved["user"], approved["user_id"], approved["follows"]) == ("alice", "bob", True)
    assert shown(gateway) == [{"text": "Hello"}]
    ok(gateway, "remove", "bob", "--user", "alice")
    assert shown(gateway) == []
    for _ in range(2):  # the second time changes nothing
        assert ok(gateway, "block", "eve", "--user", "alice", "--json").json["blocked"]
    ran = use(gateway, "approve", "eve", "--user", "alice")
    assert (ran.exit_code, "404 No such request to follow" in ran.said) == (1, True)
    ran = use(gateway, "block", "alice", "--user", "alice")
    assert (ran.exit_code, "That is your own id; name another user." in ran.said) == (1, True)
    assert "alice does not block eve" in ok(gateway, "unblock", "eve", "--user", "alice").said
    assert ok(gateway, "private", "off", "--user", "alice").stdout == public.stdout
    ran = use(gateway, "private", "maybe", "--user", "alice")
    assert (ran.exit_code, "on|off: 'maybe' is not one of 'on', 'off'." in ran.said) == (2, True)


def test_a_timeline_goes_on_below_and_what_is_unread_is_counted(gateway: Gateway) -> None:
    ok(gateway, "follow", "alice", "--user", "bob")
    posts = []
    for number in range(3):
        gateway.system.clock.advance(1)
        posts.append(publish(gateway, str(number))["ref_id"])
    page = read(gateway, "--limit", "2")
    assert [entry["ref_id"] for entry in page["entries"]] == [posts[2], posts[1]]
    rest = read(gateway, "--before", page["next"])
    assert [entry["ref_id"] for entry in rest["entries"]] == [posts[0]]
    ran = ok(gateway, "timeline", "--user", "bob", "--limit", "2")
    assert all(part in ran.stdout for part in ("The timeline of bob", posts[2], "alice"))
    assert f"--before {page['next']}" in ran.said
    assert ok(gateway, "unread", "--user", "bob").stdout == "3 unread entries\n"
    assert ok(gateway, "unread", "--user", "bob", "--json").json == {"unread": 3, "more": False}
    assert "There is nothing here." in ok(gateway, "timeline", "--user", "eve").said


class Watched:
    """What happens between the looks of one who watches; Ctrl-C when nothing is left."""

    def __init__(self, gateway: Gateway, *events: Any) -> None:
        self.gateway, self.events = gateway, list(events)

    def sleep(self, seconds: float) -> None:
        if seconds != timeline.POLL_SECONDS:
            self.gateway.system.clock.advance(seconds)  # between attempts
            return
        if not self.events:
            raise KeyboardInterrupt
        self.events.pop(0)()


def lines(ran: Ran) -> list[Any]:
    return [json.loads(line)["body"]["text"] for line in ran.stdout.splitlines()]


def test_follow_prints_what_is_new_once_oldest_first_and_ends_quietly(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok(gateway, "follow", "alice", "--user", "bob")

    def post(*texts: str) -> None:
        for text in texts:
            gateway.system.clock.advance(1)
            publish(gateway, text)
        gateway.pump("Relation", "Publish", "Express")

    def lose() -> None:
        gateway.lost = 1000

    def late() -> None:
        gateway.lost = 0
        publish(gateway, "late", "--published-at", "2026-11-20T17:00:00Z")
        gateway.pump("Publish", "Express")

    post("1", "2")
    events = (lambda: post("3"), lambda: None, lose, late, lambda: post("4", "5"))
    monkeypatch.setattr(product_clock, "sleep", Watched(gateway, *events).sleep)
    ran = use(gateway, "timeline", "--user", "bob", "--follow", "--json")
    assert ran.exit_code == terminal.INTERRUPTED
    assert lines(ran) == ["1", "2", "3", "late", "4", "5"]
    _, *said = ran.said.splitlines()
    assert [line.partition(";")[0] for line in said] == ["No answer yet", "There is no answer"]
    monkeypatch.setattr(product_clock, "sleep", Watched(gateway).sleep)
    plain = use(gateway, "timeline", "--user", "bob", "--follow").stdout.splitlines()
    assert plain[-1].endswith("  alice  5")


def test_follow_ends_with_a_sentence_when_it_is_refused(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product_clock, "sleep", Watched(gateway, lambda: None).sleep)
    plain = gateway.request

    def refuse(method: str, url: str, **options: Any) -> Any:
        return plain(method, url.replace("after=", "after=x"), **options)

    monkeypatch.setattr(gateway, "request", refuse)
    ran = use(gateway, "timeline", "--user", "bob", "--follow")
    assert ran.exit_code == 1
    assert ran.said.startswith("Nothing more can be read: 400 ")


def test_the_post_of_a_stranger_does_not_steer_the_terminal(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "a\x1b]0;owned\x07b\x9b2Jc\u202ed\x7fe\nf[bold]g"
    ok(gateway, "follow", "alice", "--user", "bob")
    publish(gateway, "--body", json.dumps({"text": text}))
    (posted,) = shown(gateway)
    assert posted == {"text": text}
    monkeypatch.setattr(product_clock, "sleep", Watched(gateway).sleep)
    for words in ((), ("--follow",), ("--json",), ("--follow", "--json")):
        out = use(gateway, "timeline", "--user", "bob", *words).stdout
        assert all(char.isprintable() for char in out.replace("\n", "")), words
        assert "owned" in out
        assert "[bold]g" in out


def test_a_token_is_renewed_before_it_ends(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def make(_stack: Any, user: str) -> str:
        made.append(user)
        return f"token-{len(made)}"

    monkeypatch.setattr(Stack, "token", make)
    token = Token(Stack(REGION, None, {}), "bob")
    assert [token(), token()] == ["token-1", "token-1"]
    system.clock.advance(TOKEN_SECONDS + 1)
    assert token() == "token-2"
