"""The Python client, against a server on loopback that answers by a script."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import urllib3

import fanfold_client.client
from fanfold import clock, contract, json_text
from fanfold_client import Failed, Fanfold, NoAnswer, Refused
from fanfold_client.retries import ANSWER_SECONDS, CONNECT_SECONDS
from tests.wire.server import CLOSE, Call, Reply, Server, reply, serving

pytestmark = pytest.mark.network

TOKEN = "a.b.c"
ACCEPTED = {"ref_id": "r1", "published_at": "2026-11-20T18:00:00.123Z", "accepted_at": "…"}
PROBLEM = {
    "type": f"{contract.PROBLEMS_PAGE}#no-post",
    "title": "No such post",
    "status": 404,
    "detail": "There is no post 'r1'.",
}
NOW_MS = 1_795_506_420_000  # 2026-11-24T07:47:00Z
LOST = 0  # the status of an answer that never comes: the connection is closed


@dataclass
class Script:
    """Answers the requests one after the other, and the last answer again and again."""

    server: Server
    replies: list[Reply] = field(default_factory=list)

    def answers(self, status: int, content: Any = None, **headers: str) -> Script:
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = reply(b"" if status == 204 else raw, f"{status} Said", headers=named)
        self.replies.append(Reply(b"", CLOSE) if status == LOST else answer)
        return self

    def answer(self, _call: Call) -> Reply:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    @property
    def requests(self) -> list[Call]:
        return self.server.calls

    @property
    def url(self) -> str:
        return f"{self.server.url}/prefix"

    @property
    def lines(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.requests]


@pytest.fixture
def server() -> Iterator[Script]:
    with serving() as listening:
        script = Script(listening)
        listening.answer = script.answer
        yield script


Connect = Callable[..., Fanfold]


@pytest.fixture
def connect(server: Script) -> Iterator[Connect]:
    """Clients of the server, whose connections are closed after the test."""
    made: list[Fanfold] = []

    def connect(token: Any = TOKEN, **options: Any) -> Fanfold:
        made.append(Fanfold(server.url, token, **options))
        return made[-1]

    yield connect
    for each in made:
        each._sender.pool.clear()


@pytest.fixture
def api(connect: Connect) -> Fanfold:
    return connect()


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, for which only a clock of the test waits."""
    made: list[float] = []
    monkeypatch.setattr(clock, "monotonic", lambda: sum(made))
    monkeypatch.setattr(clock, "now_ms", lambda: NOW_MS + int(1000 * sum(made)))
    monkeypatch.setattr(clock, "sleep", made.append)
    monkeypatch.setattr(clock, "chance", lambda: 0.5)
    return made


# What a call sends: its line, and its content. tests/e2e/deliveries/test_main_job.py makes each.
PAGE: dict[str, Any] = {"entries": [], "next": None, "previous": "p"}
CALLS: list[tuple[Callable[[Fanfold], Any], str, Any, Any]] = [
    (lambda api: api.publish({"a": 1}), "POST /v1/posts", {"body": {"a": 1}}, ACCEPTED),
    (lambda api: api.retract("r1"), "DELETE /v1/posts/r1", None, None),
    (lambda api: api.follow("a|b"), "PUT /v1/following/a%7Cb", None, {"publisher_id": "a|b"}),
    (lambda api: api.set_private(False), "PUT /v1/me", {"private": False}, {"private": False}),
    (lambda api: api.remove("a|b"), "DELETE /v1/followers/a%7Cb", None, None),
    (
        lambda api: api.move_marker("2026-11-20T18:00:00Z", "r1"),
        "PUT /v1/timeline/marker",
        {"published_at": "2026-11-20T18:00:00Z", "ref_id": "r1"},
        {"ref_id": "r1"},
    ),
    (lambda api: api.timeline.page(), "GET /v1/timeline?limit=50", None, PAGE),
    (
        lambda api: api.feed("ada").page(limit=3, since="2026-01-01", hydrate=False),
        "GET /v1/publishers/ada/posts?limit=3&from=2026-01-01&hydrate=false",
        None,
        PAGE,
    ),
]


@pytest.mark.parametrize(("call", "line", "sent", "content"), CALLS, ids=[c[1] for c in CALLS])
def test_each_method_is_one_request_of_its_route(
    server: Script, api: Fanfold, call: Callable[[Fanfold], Any], line: str, sent: Any, content: Any
) -> None:
    server.answers(204 if content is None else 200, content)
    assert call(api) == content
    assert server.lines == [line.replace(" ", " /prefix", 1)]
    (request,) = server.requests
    assert request.header("authorization") == f"Bearer {TOKEN}"
    assert request.header("user-agent").startswith("fanfold-python/0.")
    given = request.content if request.body else None
    assert given == (sent | {"published_at": None} if line.startswith("POST") else sent)


def test_there_is_a_method_for_every_route() -> None:
    source = Path(fanfold_client.client.__file__).read_text()
    routes = [name for name, value in vars(contract).items() if value in contract.ROUTES]
    assert len(routes) == len(contract.ROUTES)
    assert [name for name in routes if f"contract.{name}" not in source] == []


def test_a_publish_whose_answer_was_lost_is_sent_again_with_its_key(
    server: Script, api: Fanfold, pauses: list[float]
) -> None:
    server.answers(LOST).answers(LOST).answers(202, ACCEPTED)
    assert api.publish({"title": "Hello"}) == ACCEPTED
    keys = [request.header("idempotency-key") for request in server.requests]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert len({request.body for request in server.requests}) == 1
    assert pauses == [0.75, 1.5]
    api.publish()
    assert server.requests[-1].header("idempotency-key") not in keys
    api.publish(key="mine")
    assert server.requests[-1].header("idempotency-key") == "mine"


def test_a_function_may_take_as_long_as_a_gateway_waits(
    server: Script, api: Fanfold, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[urllib3.Timeout] = []
    request = api._sender.pool.request

    def noting(*args: Any, **options: Any) -> Any:
        given.append(options["timeout"])
        return request(*args, **options)

    monkeypatch.setattr(api._sender.pool, "request", noting)
    server.answers(202, ACCEPTED)
    api.publish()
    lasts = urllib3.Timeout(connect=CONNECT_SECONDS, read=ANSWER_SECONDS)
    assert [str(each) for each in given] == [str(lasts)]


@pytest.mark.parametrize(
    ("retry_after", "pause"),
    [
        ("7", 7.25),
        ("soon", 0.75),
        ("Tue, 24 Nov 2026 07:47:20 GMT", 20.25),
        ("Tue, 24 Nov 2026 07:46:00 GMT", 0.75),  # it is over
    ],
)
def test_at_least_the_time_of_retry_after_is_waited_with_jitter_if_there_is_so_much(
    server: Script, api: Fanfold, pauses: list[float], retry_after: str, pause: float
) -> None:
    server.answers(503, {}, retry_after=retry_after).answers(202, ACCEPTED)
    assert api.publish() == ACCEPTED
    assert pauses == [pause]
    server.replies.clear()
    server.answers(429, {}, retry_after="86400")
    with pytest.raises(Refused) as refused:
        api.unread()
    assert (refused.value.retry_after, pauses, len(server.requests)) == (86400, [pause], 3)


@pytest.mark.parametrize("status", [LOST, 429, 502, 503, 504])
def test_what_may_pass_is_tried_again_until_the_deadline(
    server: Script, connect: Connect, pauses: list[float], status: int
) -> None:
    server.answers(status, {})
    retried: list[Failed] = []
    api = connect(seconds=360, on_retry=retried.append)
    with pytest.raises(Failed) as failed:
        api.publish()
    assert failed.value.may_pass
    assert api.seconds - 24 <= sum(pauses) < api.seconds
    assert max(pauses) == 12  # three quarters of sixteen seconds
    assert len(server.requests) - 1 == len(retried) == len(pauses)


@pytest.mark.parametrize(
    ("statuses", "may_be_done"),
    [([404], False), ([LOST, 403], True), ([503, 404], True), ([500], True), ([LOST], True)],
)
def test_a_failed_publish_tells_its_key_and_whether_it_may_have_been_carried_out(
    server: Script, api: Fanfold, statuses: list[int], may_be_done: bool
) -> None:
    for status in statuses:
        server.answers(status, PROBLEM)
    with pytest.raises(Failed) as failed:
        api.publish({"title": "Hello"})
    assert failed.value.may_be_done is may_be_done
    sent = {request.header("idempotency-key") for request in server.requests}
    assert sent == {failed.value.key}
    with pytest.raises(Failed) as failed:
        api.unread()
    assert failed.value.key == ""


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_token_function_that_fails_is_a_failure_with_the_key_of_the_publish(
    server: Script, connect: Connect, is_lost: bool
) -> None:
    tokens = iter([TOKEN] * is_lost)
    api = connect(lambda _: next(tokens))
    server.answers(LOST)
    with pytest.raises(NoAnswer, match="for want of a token") as failed:
        api.publish({"title": "Hello"}, key="mine")
    assert (failed.value.key, failed.value.may_be_done) == ("mine", is_lost)
    assert isinstance(failed.value.__cause__, StopIteration)
    assert len(server.requests) == is_lost


def test_a_repeated_edit_or_choice_tells_how_long_ago_it_was_asked_for(
    server: Script, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = connect()
    server.answers(LOST).answers(503, {}).answers(200, {"ref_id": "r1"})
    api.edit("r1", {})
    ages = [request.header("request-age") for request in server.requests]
    assert ages == ["0", "750", "2250"]
    api.retract("r1")
    assert not server.requests[-1].header("request-age")
    server.answers(LOST).answers(200, {"private": False})
    del server.replies[0]
    api.set_private(private=False)
    assert [each.header("request-age") for each in server.requests[-2:]] == ["0", "750"]
    # A machine that sleeps between two attempts stops one of its clocks.
    asleep = iter([0, 0, 4_000_000])
    monkeypatch.setattr(clock, "now_ms", lambda: NOW_MS + next(asleep, 4_000_000))
    monkeypatch.setattr(clock, "monotonic", lambda: 0.0)
    server.answers(LOST).answers(200, {"ref_id": "r1"})
    del server.replies[0]
    connect(seconds=10_000).edit("r1", {})
    assert server.requests[-1].header("request-age") == str(contract.MAX_REQUEST_AGE_MS)


def test_a_problem_document_is_an_error_that_is_not_sent_again(
    server: Script, api: Fanfold
) -> None:
    server.answers(404, PROBLEM, apigw_requestid="JKJaXmPLvHcESHA=")
    with pytest.raises(Refused) as refused:
        api.post("r1")
    assert len(server.requests) == 1
    # It survives its way from another process.
    for error in (refused.value, pickle.loads(pickle.dumps(refused.value))):
        assert (error.status, error.type, error.request_id) == (404, "no-post", "JKJaXmPLvHcESHA=")
        assert (error.title, error.detail) == (PROBLEM["title"], PROBLEM["detail"])
        assert str(error) == "404 No such post: There is no post 'r1'."
        assert vars(error) == vars(refused.value)


@pytest.mark.parametrize(
    ("status", "content", "detail"),
    [
        (401, {"message": "Unauthorized"}, "Unauthorized"),
        (413, b"<html>too much</html>", "<html>too much</html>"),
        (418, ["a", "list"], '["a", "list"]'),
        (302, b"", ""),
    ],
)
def test_the_answer_of_a_gateway_has_no_type_and_its_words_as_detail(
    server: Script, api: Fanfold, status: int, content: Any, detail: str
) -> None:
    server.answers(status, content)
    with pytest.raises(Refused) as refused:
        api.unread()
    error = refused.value
    assert (error.status, error.type, error.detail, error.may_pass) == (status, "", detail, False)


def test_a_500_of_a_gateway_is_tried_again_and_that_of_the_api_is_not(
    server: Script, api: Fanfold
) -> None:
    server.answers(500, {"message": "Internal Server Error"}).answers(200, {"unread": 0})
    assert api.unread() == {"unread": 0}
    server.replies.clear()
    server.answers(500, {**PROBLEM, "type": f"{contract.PROBLEMS_PAGE}#internal"})
    with pytest.raises(Refused):
        api.unread()
    assert len(server.requests) == 3


@pytest.mark.parametrize("content", [b"<html>Sign in to this network</html>", b"", b"\xff"])
def test_an_answer_that_is_not_json_is_not_the_apis_and_is_retried(
    server: Script, api: Fanfold, content: bytes
) -> None:
    server.answers(200, content).answers(200, {"unread": 3})
    assert api.unread() == {"unread": 3}
    server.replies.clear()
    server.answers(200, content)
    with pytest.raises(NoAnswer, match="and no JSON, so not by the API"):
        api.unread()


@pytest.mark.parametrize("content", [{}, [], None, {"entries": []}])
def test_an_answer_without_required_fields_is_not_the_apis(
    server: Script, api: Fanfold, content: Any
) -> None:
    server.answers(200, content)
    calls: list[Callable[[], Any]] = [
        api.publish,
        api.timeline.page,
        lambda: list(api.following()),
        lambda: api.delivery("r1"),
    ]
    for call in calls:
        with pytest.raises(NoAnswer, match="without what is due, so not by the API"):
            call()
    server.replies.clear()
    server.answers(204)
    with pytest.raises(NoAnswer, match="without what is due"):
        api.unread()


HALF = "\udcff"
MISTAKES: list[tuple[Callable[[Fanfold], Any], str]] = [
    (lambda api: api.publish(key=""), "key must have 1 to 256 characters of printable ASCII"),
    (lambda api: api.publish(key="a\nb"), "key must have 1 to 256 characters of printable ASCII"),
    (lambda api: api.publish({"text": HALF}), "half of a surrogate pair"),
    (lambda api: api.timeline.page(before=HALF), "before holds half of a surrogate pair"),
    (lambda api: api.follow(HALF), "publisher_id holds half of a surrogate pair"),
    (lambda api: api.follow(""), "publisher_id cannot be ''"),
    (lambda api: api.follow(None), "publisher_id cannot be None"),  # type: ignore[arg-type]
    (lambda api: list(api.feed("..").older()), r"publisher_id cannot be '\.\.'"),
]


def test_what_cannot_be_sent_is_a_value_error_of_one_sentence(server: Script, api: Fanfold) -> None:
    for call, sentence in MISTAKES:
        with pytest.raises(ValueError, match=sentence) as mistake:
            call(api)
        assert type(mistake.value) is ValueError
    wrong: list[Any] = ["", "a\nb", "a b", "é", HALF, None]
    for token in wrong:
        for given in (token or "", lambda _, token=token: token):
            with pytest.raises(ValueError, match="must be printable ASCII") as mistake:
                Fanfold(server.url, given).unread()
            assert not token or token not in str(mistake.value)
    for seconds in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="seconds must be more than 0"):
            Fanfold(server.url, TOKEN, seconds=seconds)
    assert server.lines == []


IN_CLEAR = (
    "",
    "abc.execute-api.eu-west-1.amazonaws.com",
    "localhost:4566",
    "http://api.example.com",
    "http://127.0.0.1.example.com",
    "http://api.example.com\\@localhost",  # where a browser's rules and Python's differ
    "http://[nowhere",
    # Routes would be appended to these.
    "https://api.example.com?a=b",
    "https://api.example.com#a",
)


def test_an_address_that_would_send_the_token_in_clear_beyond_this_machine_is_refused() -> None:
    for url in IN_CLEAR:
        with pytest.raises(ValueError, match="is no address of the API: give the stack's") as no:
            Fanfold(url, TOKEN)
        assert type(no.value) is ValueError
    for host in ("127.0.0.1", "localhost", "[::1]"):
        Fanfold(f"http://{host}:4566/prefix/", TOKEN)
    Fanfold("HTTPS://api.example.com", TOKEN, pool=fanfold_client.pool_for("http://a"))


def test_a_token_function_that_takes_all_the_time_leaves_none_to_send(
    server: Script, connect: Connect, pauses: list[float]
) -> None:
    api = connect(lambda _: pauses.append(60) or TOKEN)  # type: ignore[func-returns-value]
    with pytest.raises(NoAnswer, match="was not sent: its time was over"):
        api.unread()
    assert server.lines == []


def test_each_attempt_asks_for_a_token_and_after_a_401_it_is_asked_for_another_one(
    server: Script, connect: Connect
) -> None:
    refused: list[str | None] = []
    tokens = iter(["old", "new", "newer"])

    def token(rejected: str | None) -> str:
        refused.append(rejected)
        return next(tokens)

    server.answers(503, {}).answers(401, {"message": "Unauthorized"}).answers(200, {"unread": 0})
    connect(token).unread()
    assert refused == [None, None, "new"]
    sent = [request.header("authorization") for request in server.requests]
    assert sent == ["Bearer old", "Bearer new", "Bearer newer"]
    assert "secret" not in repr(Fanfold(server.url, "secret"))


def test_a_second_401_is_told_and_so_is_the_first_of_a_token_that_stays(
    server: Script, connect: Connect
) -> None:
    server.answers(401, {"message": "Unauthorized"})
    asked: list[str | None] = []
    asking = connect(lambda refused: asked.append(refused) or "same")  # type: ignore[func-returns-value]
    for _ in range(2):
        with pytest.raises(Refused, match="401"):
            asking.unread()
    assert asked == [None, "same", None, "same"]
    assert len(server.requests) == 4
    with pytest.raises(Refused, match="401"):
        connect().unread()
    assert len(server.requests) == 5


def test_threads_whose_token_was_refused_share_the_renewed_one(
    server: Script, connect: Connect
) -> None:
    together = threading.Barrier(8)
    asked: list[str] = []

    def token(refused: str | None) -> str:
        if refused is None:
            return "old"
        asked.append(refused)
        return "new"

    server.answers(401, {"message": "Unauthorized"}).answers(200, {"unread": 0})
    refusal, renewed = server.replies

    def answer(request: Call) -> Reply:
        if request.header("authorization") == "Bearer new":
            return renewed
        together.wait()
        return refusal

    server.server.answer = answer
    api = connect(token)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: api.unread(), range(8))) == [{"unread": 0}] * 8
    assert asked == ["old"]


def test_older_goes_down_to_the_end_within_its_bounds_and_keeps_members_it_does_not_know(
    server: Script, api: Fanfold
) -> None:
    server.answers(200, {"entries": entries("c"), "next": "n", "previous": "p", "partial": True})
    last = [{"ref_id": "a", "new": 1}]
    server.answers(200, {"entries": last, "next": None, "previous": "p", "newer": {}})
    assert list(api.timeline.older(limit=2, until="2026-11-20")) == [*entries("c"), *last]
    queries = [line.partition("?")[2] for line in server.lines]
    assert queries == ["limit=2&to=2026-11-20", "limit=2&before=n&to=2026-11-20"]


def test_a_body_keeps_all_digits_when_sent_and_read(server: Script, connect: Connect) -> None:
    api = connect(loads=partial(json.loads, parse_float=Decimal))
    server.answers(200, b'{"body": {"price": 1.10}}')
    price = api.edit("r1", json_text.read('{"price":1.10}', what="It"))["body"]["price"]  # type: ignore[typeddict-item]
    assert str(price) == "1.10"
    api.edit("r1", {"price": price, "others": [Decimal("1E+2"), {"is": Decimal(0)}]})
    assert [request.body for request in server.requests] == [
        b'{"body":{"price":1.10}}',
        b'{"body":{"price":1.10,"others":[1E+2,{"is":0}]}}',
    ]
    with pytest.raises(ValueError, match="JSON knows no number NaN"):
        api.edit("r1", {"price": Decimal("NaN")})


def test_lists_continue_past_an_empty_page(server: Script, api: Fanfold) -> None:
    server.answers(200, {"followers": [{"user_id": "a"}], "next": "c 1"})
    server.answers(200, {"followers": [], "next": "c2"})
    server.answers(200, {"followers": [{"user_id": "b"}], "next": None})
    assert [follower["user_id"] for follower in api.followers("ada")] == ["a", "b"]
    queries = [line.partition("?")[2] for line in server.lines]
    assert queries == ["limit=100", "limit=100&cursor=c+1", "limit=100&cursor=c2"]


def test_only_the_users_own_requests_are_listed_on_every_page(server: Script, api: Fanfold) -> None:
    server.answers(200, {"following": [{"publisher_id": "a"}], "next": "c"})
    server.answers(200, {"following": [], "next": None})
    assert list(api.sent_requests()) == [{"publisher_id": "a"}]
    queries = [line.partition("?")[2] for line in server.lines]
    assert queries == ["limit=100&state=requested", "limit=100&state=requested&cursor=c"]


def entries(*ref_ids: str) -> list[dict[str, str]]:
    return [{"ref_id": ref_id} for ref_id in ref_ids]


def test_newer_goes_up_while_there_is_more_shows_late_entries_once_and_loses_no_page_by_a_failure(
    server: Script, api: Fanfold
) -> None:
    first = {"entries": entries("d", "late", "had"), "next": "n", "previous": "p1", "more": True}
    second = {"entries": entries("e", "late"), "next": "n", "previous": "p2", "more": True}
    server.answers(200, first).answers(200, second).answers(404, PROBLEM)
    pages = api.timeline.newer("p0", have={"had"})
    found = [next(pages), next(pages)]
    assert [page["entries"] for page in found] == [entries("d", "late"), entries("e")]
    assert [page["previous"] for page in found] == ["p1", "p2"]
    with pytest.raises(Refused):
        next(pages)
    queries = [line.partition("?")[2] for line in server.lines]
    assert queries == ["limit=100&after=p0", "limit=100&after=p1", "limit=100&after=p2"]


def test_the_client_is_typed() -> None:
    # Results are of `fanfold.answers`, which is Any to whom one of the two is missing.
    for module in (fanfold_client, contract):
        assert (Path(module.__file__ or "").parent / "py.typed").is_file()
