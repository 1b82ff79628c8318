"""Connections to AWS's JSON services through libcurl, many calls at once.

They stay open between invocations. libcurl repeats a call whose connection turned out to be dead,
even if the server has carried it out, so every call must be safe to repeat.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fanfold import clock
from fanfold.aws import retries
from fanfold.aws.environment import OF_LIBRARIES, Credentials, ca_bundle, endpoint, region
from fanfold.aws.json_protocol import Lost, refused

# libcurl and OpenSSL read these when they are loaded, whatever their callers set.
for _name in OF_LIBRARIES:
    os.environ.pop(_name, None)
import pycurl  # noqa: E402

# A connection that was idle for longer is not used again: while Lambda had frozen the process, the
# server or a middlebox may have dropped it unnoticed.
IDLE_SECONDS = 30
OK = 200


class Service(NamedTuple):
    name: str  # in its address and in signatures
    # The prefix of its operations in the header X-Amz-Target. Without one, an operation is the path
    # of a GET.
    target: str


DYNAMODB = Service("dynamodb", "DynamoDB_20120810")
SQS = Service("sqs", "AmazonSQS")
LAMBDA = Service("lambda", "")


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
        body, headers = b"".join(self.body), b"".join(self.headers)
        checksum = _value(headers, b"x-amz-crc32")
        if checksum is not None and checksum != b"%d" % zlib.crc32(body):
            return Lost(f"{self.operation}: the answer's checksum is wrong.")
        status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        if status == OK:
            return body
        kind = _value(headers, b"x-amzn-errortype") or b""
        return refused(self.operation, status, body, kind.decode("latin-1"))


def _value(headers: bytes, name: bytes) -> bytes | None:
    """The value of the header with this name in lower case, or None."""
    start = b"\r\n%b:" % name
    begin = headers.lower().find(start)
    if begin < 0:
        return None
    return headers[begin + len(start) :].partition(b"\r\n")[0].strip()


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
        if self.service.target:
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
        """Make calls at the same time, `AT_A_TIME` at most; wait for each answer or error."""
        self.renew()
        results: dict[int, bytes | Exception] = {}
        started = 0
        try:
            while len(results) < len(calls):
                while started < min(len(calls), len(results) + retries.AT_A_TIME):
                    self.start(*calls[started], started, fresh=fresh)
                    started += 1
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
            # It bounds the whole call, which must end before DELIVER gives up waiting for it.
            pycurl.TIMEOUT: retries.READ_TIMEOUT_SECONDS,
            pycurl.MAXAGE_CONN: IDLE_SECONDS,
            pycurl.NOSIGNAL: 1,
            # No proxy, not even one from the environment.
            pycurl.PROXY: "",
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
        headers = ["Accept:", "Expect:"]  # removes libcurl's own
        if self.service.target:
            headers.append("Content-Type: application/x-amz-json-1.0")
            headers.append(f"X-Amz-Target: {self.service.target}.{operation}")
        else:
            call.curl.setopt(pycurl.URL, self._url + operation)
        if self._credentials.token:
            headers.append(f"X-Amz-Security-Token: {self._credentials.token}")
        call.curl.setopt(pycurl.HTTPHEADER, headers)
        call.curl.setopt(pycurl.USERNAME, self._credentials.access_key)
        call.curl.setopt(pycurl.PASSWORD, self._credentials.secret_key)


class OfThreads(threading.local):
    """Connections for calls of many threads: each thread has its own."""

    def __init__(self, service: Service, env: Mapping[str, str] = os.environ) -> None:
        self.own = Connections(service, env)  # run in each thread at its first call

    def call(
        self, calls: Sequence[tuple[str, bytes]], *, fresh: bool = False
    ) -> list[bytes | Exception]:
        return self.own.call(calls, fresh=fresh)
