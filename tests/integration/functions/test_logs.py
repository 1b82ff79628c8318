"""Logs hold no secret, whatever is sent, and whatever fails: no token, post, cursor or reader."""

from __future__ import annotations

import copy
import importlib
import io
import json
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from types import ModuleType
from typing import Any
from unittest.mock import Mock, patch

import pytest
from botocore.exceptions import ClientError, ParamValidationError, ReadTimeoutError

from fanfold import names
from fanfold.aws.json_protocol import Lost, refused
from fanfold.errors import BadInput
from functions._logs import new_logger, print_line, shown
from functions._reports import count as emit
from proof.simulation.world.function_modules import imported_anew
from tests.service import (
    EVENTS,
    HANDLERS,
    REQUESTS,
    Json,
    System,
    around_calls,
    event,
    through_lanes,
)

SECRET = "eyJhbGciOiJSUzI1NiJ9-not-for-any-log"
READER = "a-reader-whom-no-log-names"
DOORS = sorted(
    {*REQUESTS, *(f"{path.parent.name}/{path.stem}" for path in EVENTS.glob("*/*.json"))}
)
OF_HTTP = [name for name in DOORS if name.startswith(("api/", "timeline/"))]
OF_QUEUES = [name for name in DOORS if name not in OF_HTTP and not name.startswith("schedule/")]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the functions write, line by line as it is formatted; it holds no secret."""
    written = io.StringIO()
    for handler in logging.getLogger("fanfold").handlers:
        monkeypatch.setattr(handler, "stream", written, raising=False)
    yield written
    text = written.getvalue()
    assert text
    for secret in (SECRET, READER, "Bearer", "uthorization"):
        assert secret not in text, text


class Slow(io.StringIO):
    """A log that lets other threads write after each write."""

    def write(self, text: str) -> int:
        written = super().write(text)
        time.sleep(0.0005)
        return written


def test_no_line_of_the_log_begins_in_that_of_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, logger = Slow(), new_logger()
    monkeypatch.setattr("sys.stdout", log)
    monkeypatch.setattr(logger.registered_handler, "stream", log)
    ways = (lambda: logger.info("x"), lambda: emit("x", 1), lambda: print_line("{}"))
    with ThreadPoolExecutor(3 * len(ways)) as threads:
        for way in 20 * ways:
            threads.submit(way)
    lines = log.getvalue().splitlines()
    assert [type(json.loads(line)) for line in lines] == [dict] * len(20 * ways)


def invoke(system: System, name: str, content: Json) -> None:
    """Hand an event of events/ to its function, which may answer or fail as it likes."""
    if "Records" in content:
        queue = content["Records"][0]["eventSourceARN"].rpartition(":")[2]
        system.door(HANDLERS[queue]).handler(content, system.context)
    elif name.startswith("schedule/"):
        system.door("sweep").handler(content, system.context)
    else:
        door = "timeline" if name.startswith("timeline/") else "api"
        system.door(door).handler(content, system.context)


def with_token(name: str) -> Json:
    """The event with a token, a reader, and a post's body."""
    content = event(name)
    if "headers" in content:
        content["headers"] = {**content["headers"], "authorization": f"Bearer {SECRET}"}
        context = content["requestContext"]
        claims = {"sub": READER, "origin_jti": SECRET}
        context.setdefault("authorizer", {"jwt": {"claims": {}}})["jwt"]["claims"].update(claims)
    for record in content.get("Records", ()):
        try:
            body = json.loads(record["body"])
        except ValueError:  # a broken one among good ones
            continue
        if "user_id" in body:
            body["user_id"] = READER
        if "body" in body:
            body["body"] = {"title": SECRET}
        record["body"] = json.dumps(body)
    return content


def spoilt(content: Json) -> Iterator[Json]:
    """Events like this one, each with the secret in another place."""
    if "Records" in content:
        for body in (
            SECRET,
            json.dumps(SECRET),
            f'{{"version": 1, "type": "{SECRET}"}}',
            f'{{"{SECRET}": 1, "{SECRET}": 2}}',
            f'{{"version": "{SECRET}"}}',
        ):
            yield _with_body(content, body)
        sent = next(json.loads(each["body"]) for each in content["Records"] if "{" in each["body"])
        yield _with_body(content, json.dumps({**sent, SECRET: 1}))
        for field in sent:
            for value in (f"{SECRET}#", [SECRET], {SECRET: SECRET}):
                yield _with_body(content, json.dumps({**sent, field: value}))
        return
    for part in ("pathParameters", "queryStringParameters"):
        for name in (*(content.get(part) or {}), SECRET):
            yield {**content, part: {**(content.get(part) or {}), name: f"{SECRET}#"}}
    for name in ("limit", "cursor", "before", "after", "since", "hydrate"):
        yield {**content, "queryStringParameters": {name: SECRET}}
    for body in (
        SECRET,
        f'{{"{SECRET}": 1}}',
        f'{{"body": "{SECRET}"}}',
        f'{{"body": {{"a": {SECRET}',
    ):
        yield {**content, "body": body}
    yield {**content, "headers": {**content["headers"], "idempotency-key": f"{SECRET}\x00"}}
    yield {**content, "routeKey": f"GET /{SECRET}", "rawPath": f"/{SECRET}"}
    claims = copy.deepcopy(content)
    claims["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = f"{SECRET}#"
    yield claims


def _with_body(content: Json, body: str) -> Json:
    changed = copy.deepcopy(content)
    changed["Records"] = [changed["Records"][0]]
    changed["Records"][0]["body"] = body
    return changed


@pytest.mark.parametrize("name", OF_HTTP + OF_QUEUES)
def test_a_refused_request_or_message_leaves_no_secret(
    system: System, log: io.StringIO, name: str
) -> None:
    for content in spoilt(with_token(name)):
        invoke(system, name, content)


def refusal(code: str) -> Callable[[str, Json], Exception]:
    """An error of AWS that quotes all of the request."""

    def error(operation: str, request: Json) -> Exception:
        message = f"Value '{request}' is not valid; the header was x-amz-security-token:{SECRET}"
        response: Any = {"Error": {"Code": code, "Message": message}}
        return ClientError(response, operation)

    return error


FAULTS: dict[str, Callable[[str, Json], Exception]] = {
    **{
        code: refusal(code)
        for code in ("ValidationException", "InvalidParameterValue", "InvalidSignatureException")
    },
    "of the shape": lambda _operation, request: ParamValidationError(report=f"{request} {SECRET}"),
    "of ours": lambda _operation, request: KeyError(f"{request} {SECRET}"),
    "of ours, after another": lambda _operation, request: _after(ValueError(f"{request} {SECRET}")),
    "with notes": lambda _operation, _request: _noted(ValueError(SECRET)),
}


def _after(cause: Exception) -> Exception:
    error = RuntimeError(SECRET)
    error.__cause__ = cause
    return error


def _noted(error: Exception) -> Exception:
    error.add_note(SECRET)
    return error


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_leaves_no_secret(system: System, log: io.StringIO, fault: str) -> None:
    def fail(operation: str, request: Json, _make: Callable[[], Any]) -> Any:
        raise FAULTS[fault](operation, {**request, "reader": READER})

    with around_calls(fail):
        for name in (*OF_HTTP, *OF_QUEUES):
            content = with_token(name)
            for record in content.get("Records", ()):
                record["attributes"]["ApproximateReceiveCount"] = "10"  # the last one
            invoke(system, name, content)
    assert "Traceback" not in log.getvalue()  # that is logging's own, with all texts
    assert ", in " in log.getvalue()


def loaded_anew(name: str) -> ModuleType:
    """A function's module as after a cold start; others keep theirs."""
    with imported_anew():
        return importlib.import_module(f"functions.{name}")


def test_whole_events_are_not_logged_whatever_the_environment_says(
    system: System, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_LOGGER_LOG_EVENT", "true")
    anew = {each.name: loaded_anew(each.name) for each in names.FUNCTIONS}
    monkeypatch.setattr(system, "door", anew.__getitem__)
    for name in DOORS:
        invoke(system, name, with_token(name))


def test_no_delivery_names_its_readers(system: System, log: io.StringIO) -> None:
    readers = [f"{READER}-{number}" for number in range(3)]
    for reader in readers:
        system.follow(reader)
    with through_lanes():
        system.publish("lanes", body={"title": SECRET})
        system.pump()
    system.publish("one-hop", body={"title": SECRET})
    system.pump()
    for reader in readers:
        assert len(system.timeline(reader).body["entries"]) == 2
        system.unfollow(reader)
    system.pump()
    system.sweep()


def test_no_follow_that_fails_names_its_reader(
    system: System, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, relate = system.door("plan"), system.door("relate")
    monkeypatch.setattr(plan, "following", replace(plan.following, max_follows=0))
    invoke(system, "publish_queue/follow_added", with_token("publish_queue/follow_added"))
    # The row changes each time that it is looked at.
    versions = count(1)
    row = plan.following.follows.get(READER, "ada")
    changing = replace(relate.following, follows=Mock())
    changing.follows.get = lambda *_ids: replace(row, version=next(versions))
    monkeypatch.setattr(relate, "following", changing)
    invoke(system, "relation_queue/relation_settle", with_token("relation_queue/relation_settle"))
    for sentence in ("may follow at most", "changed too often"):
        assert sentence in log.getvalue()


def test_plain_sentences_of_aws_are_kept() -> None:
    denied = ClientError(
        {"Error": {"Code": "AccessDeniedException", "Message": "may not Query posts"}}, "Query"
    )
    assert shown(denied) == "AccessDeniedException: may not Query posts"
    assert "https://table" in shown(ReadTimeoutError(endpoint_url="https://table"))
    assert shown(BadInput("Unknown field 'x'; send y.", quoted="'x'")) == "Unknown field …; send y."
    assert shown(ValueError(SECRET)) == "ValueError"


def test_of_libcurls_errors_the_same_is_kept() -> None:
    quoting = b'{"__type": "aws#ValidationException", "message": "Value \'secret\' is not valid"}'
    assert shown(refused("Query", 400, quoting)) == "ValidationException"
    denied = b'{"__type": "aws#AccessDeniedException", "message": "may not Query posts"}'
    assert shown(refused("Query", 400, denied)) == "AccessDeniedException: may not Query posts"
    assert shown(Lost("Query: the connection was reset.")) == "Query: the connection was reset."


def test_a_traceback_says_where_and_by_which_errors() -> None:
    written = io.StringIO()
    logger = new_logger()
    handler = logger.registered_handler
    with patch.object(handler, "stream", written):
        try:
            try:
                raise KeyError(SECRET)
            except KeyError as cause:
                raise RuntimeError(SECRET) from cause
        except RuntimeError:
            logger.exception("A fault.")
    line = json.loads(written.getvalue())
    assert line["exception_name"] == "RuntimeError"
    assert line["exception"].count("test_a_traceback_says_where") == 2
    assert line["exception"].index("RuntimeError") < line["exception"].index("KeyError")
    assert SECRET not in written.getvalue()
