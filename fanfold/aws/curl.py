"""AWS's JSON services through libcurl: the few calls of DELIVER and QUERY.

A `Client` has methods of boto3's client, takes the same requests, gives the same answers and raises
errors of the same form, so the stores cannot tell them apart. It leaves out everything else, and
with it most of a cold start and nearly all CPU of a call (figures in bench/). Connections stay open
between invocations. libcurl repeats a call whose connection turned out to be dead, so every call
must be idempotent.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pycurl

from fanfold import clock
from fanfold.aws import retries
from fanfold.aws.answers import Exceptions, Lost, decode, encode, refused
from fanfold.aws.environment import Credentials, ca_bundle, endpoint, region

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

# Between two attempts of a call.
BACKOFF_SECONDS = 0.1
# A connection that was idle for longer is not used again: while Lambda had frozen the process, the
# server or a middlebox may have dropped it unnoticed.
IDLE_SECONDS = 30
CHECKSUM = b"\r\nx-amz-crc32:"
OK = 200


class Service(NamedTuple):
    name: str  # in its address and in signatures
    target: str  # the prefix of its operations in the header X-Amz-Target


DYNAMODB = Service("dynamodb", "DynamoDB_20120810")
SQS = Service("sqs", "AmazonSQS")


class Ended(NamedTuple):
    """A call that has ended, with the body of its answer or its error; `tag` is the caller's."""

    tag: Any
    result: bytes | Exception


class _Call:
    """A handle of libcurl, used for one call after the other."""

    def __init__(self) -> None:
        self.tag: Any = None
        self.operation = ""
        self.credentials: Credentials | None = None  # those set on the handle
        self.is_fresh = False
        self.curl = pycurl.Curl()
        self.body: list[bytes] = []
        self.headers: list[bytes] = []

    def result(self) -> bytes | Exception:
        """The body of a good answer, or its error."""
        body = b"".join(self.body)
        _, has_checksum, rest = b"".join(self.headers).lower().partition(CHECKSUM)
        if has_checksum and rest.partition(b"\r\n")[0].strip() != b"%d" % zlib.crc32(body):
            return Lost(f"{self.operation}: the answer's checksum is wrong.")
        status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        return body if status == OK else refused(self.operation, status, body)


class Connections:
    """Concurrent calls to one service over connections that stay open. Not thread-safe."""

    def __init__(self, service: Service, env: Mapping[str, str] = os.environ) -> None:
        self.service = service
        self._env = env
        self._multi = pycurl.CurlMulti()
        self._idle: list[_Call] = []
        self._in_flight: dict[pycurl.Curl, _Call] = {}
        self._credentials: Credentials | None = None
        self._url = endpoint(service.name, env)
        self._ca_bundle = ca_bundle(env) if self._url.startswith("https:") else ""

    def renew(self) -> None:
        """Read the credentials again, at the beginning of an invocation."""
        found = Credentials.from_env(self._env)
        if found != self._credentials:
            self._credentials = found

    def start(self, operation: str, body: bytes, tag: Any, *, fresh: bool = False) -> None:
        """Begin a call; a `fresh` one gets a new connection."""
        call = self._idle.pop() if self._idle else self._new()
        if call.operation != operation or call.credentials is not self._credentials:
            self._prepare(call, operation)
        call.tag = tag
        call.curl.setopt(pycurl.POSTFIELDS, body)
        if fresh is not call.is_fresh:
            call.curl.setopt(pycurl.FRESH_CONNECT, int(fresh))
            call.is_fresh = fresh
        self._in_flight[call.curl] = call
        self._multi.add_handle(call.curl)

    def finished(self, seconds: float | None) -> list[Ended]:
        """The calls that have ended; waits until one does, but no longer than `seconds`."""
        if not self._in_flight:
            clock.sleep(seconds or 0)
            return []
        until = None if seconds is None else clock.monotonic() + seconds
        while True:
            self._multi.perform()
            if ended := self._ended():
                return ended
            left = 1.0 if until is None else until - clock.monotonic()
            if left <= 0:
                return []
            due = self._multi.timeout()  # milliseconds until libcurl must run again, or -1
            left = min(1.0, left, due / 1000 if due >= 0 else 1.0)
            if self._multi.select(left) == -1:  # no socket yet: a name is being resolved
                clock.sleep(0.001)

    def call(
        self, calls: Sequence[tuple[str, bytes]], *, fresh: bool = False
    ) -> list[bytes | Exception]:
        """Make calls at the same time, and wait for the answer or the error of each."""
        self.renew()
        results: dict[int, bytes | Exception] = {}
        try:
            for number, (operation, body) in enumerate(calls):
                self.start(operation, body, number, fresh=fresh)
            while len(results) < len(calls):
                results |= {ended.tag: ended.result for ended in self.finished(None)}
        finally:
            self.forget()  # after an interrupt, the next call must not get this one's answer
        return [results[number] for number in range(len(calls))]

    def forget(self) -> None:
        """Abort the calls in flight; AWS may still apply them."""
        for call in self._in_flight.values():
            self._multi.remove_handle(call.curl)
            call.curl.close()
        self._in_flight.clear()

    def _ended(self) -> list[Ended]:
        ended = []
        more = 1
        while more:
            more, good, bad = self._multi.info_read()
            ended += [self._end(curl, None) for curl in good]
            ended += [self._end(curl, f"{message} ({number}).") for curl, number, message in bad]
        return ended

    def _end(self, curl: pycurl.Curl, failure: str | None) -> Ended:
        """End a call and keep its handle for another."""
        call = self._in_flight.pop(curl)
        result = Lost(f"{call.operation}: {failure}") if failure else call.result()
        ended = Ended(call.tag, result)
        self._multi.remove_handle(curl)
        call.body.clear()
        call.headers.clear()
        call.tag = None
        self._idle.append(call)
        return ended

    def _new(self) -> _Call:
        call = _Call()
        options = {
            pycurl.URL: self._url,
            pycurl.WRITEFUNCTION: call.body.append,
            pycurl.HEADERFUNCTION: call.headers.append,
            pycurl.CONNECTTIMEOUT: retries.CONNECT_TIMEOUT_SECONDS,
            # Of the whole call: it must end before DELIVER gives up waiting for it.
            pycurl.TIMEOUT: retries.READ_TIMEOUT_SECONDS,
            pycurl.MAXAGE_CONN: IDLE_SECONDS,
            pycurl.NOSIGNAL: 1,
            pycurl.HTTP_VERSION: pycurl.CURL_HTTP_VERSION_1_1,
            pycurl.AWS_SIGV4: f"aws:amz:{region(self._env)}:{self.service.name}",
        }
        if self._ca_bundle:
            options[pycurl.CAINFO] = self._ca_bundle
        for option, value in options.items():
            call.curl.setopt(option, value)
        return call

    def _prepare(self, call: _Call, operation: str) -> None:
        """Set the operation and the credentials of the handle's next calls."""
        assert self._credentials is not None
        call.operation, call.credentials = operation, self._credentials
        headers = [
            "Content-Type: application/x-amz-json-1.0",
            f"X-Amz-Target: {self.service.target}.{operation}",
            "Accept:",  # removes libcurl's own header
            "Expect:",
        ]
        if self._credentials.token:
            headers.append(f"X-Amz-Security-Token: {self._credentials.token}")
        call.curl.setopt(pycurl.HTTPHEADER, headers)
        call.curl.setopt(pycurl.USERNAME, self._credentials.access_key)
        call.curl.setopt(pycurl.PASSWORD, self._credentials.secret_key)


@dataclass(frozen=True)
class Client:
    """The methods of boto3's DynamoDB and SQS clients that DELIVER and QUERY call."""

    connections: Connections
    attempts: int = retries.ATTEMPTS
    exceptions: Exceptions = field(default_factory=Exceptions)

    def get_item(self, **request: Any) -> dict[str, Any]:
        return self.together(("GetItem", request))[0]

    def update_item(self, **request: Any) -> dict[str, Any]:
        return self.together(("UpdateItem", request))[0]

    def query(self, **request: Any) -> dict[str, Any]:
        return self.together(("Query", request))[0]

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        return self.together(("BatchGetItem", request))[0]

    def send_message(self, **request: Any) -> dict[str, Any]:
        return self.together(("SendMessage", request))[0]

    def send_message_batch(self, **request: Any) -> dict[str, Any]:
        return self.together(("SendMessageBatch", request))[0]

    def together(self, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """The answers to calls, such as `Query`, that are made at the same time."""
        bodies = [(operation, encode(request)) for operation, request in calls]
        answers: dict[int, dict[str, Any]] = {}
        for attempt in clock.tries(self.attempts, BACKOFF_SECONDS):
            left = [number for number in range(len(calls)) if number not in answers]
            # What broke one connection may have broken the other open ones.
            results = self.connections.call([bodies[each] for each in left], fresh=attempt > 0)
            for number, result in zip(left, results, strict=True):
                try:
                    if isinstance(result, Exception):
                        raise result
                    answers[number] = decode(bodies[number][0], result)
                except Exception as error:
                    if attempt == self.attempts - 1 or not retries.is_transient(error):
                        raise
            if len(answers) == len(calls):
                break
        return [answers[number] for number in range(len(calls))]


@cache
def connections(service: Service) -> Connections:
    return Connections(service)


@cache
def dynamodb() -> DynamoDBClient:
    return cast("DynamoDBClient", Client(connections(DYNAMODB)))


@cache
def sqs() -> SQSClient:
    return cast("SQSClient", Client(connections(SQS)))
