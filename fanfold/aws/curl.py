"""AWS's JSON services through libcurl, which signs: the few calls that DELIVER and QUERY make.

A `Client` has the methods of boto3's client, takes the same requests, gives the same answers and
raises errors of the same form; the stores cannot tell them apart. What it lacks is all the rest,
and with it most of the time of a cold start and nearly all of the CPU of a call. (The figures are
in bench/.) Connections stay open from one invocation to the next; a call on one that was dead
already is made again by libcurl itself, so calls must bear being made twice.

Nothing here is for threads: one `Connections` belongs to one.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pycurl

from fanfold import clock
from fanfold.aws.retries import (
    ATTEMPTS,
    CONNECT_TIMEOUT_SECONDS,
    READ_TIMEOUT_SECONDS,
    is_transient,
)
from fanfold.errors import Unanswered

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

# Between two attempts of the same call.
BACKOFF_SECONDS = 0.1
# Names of regions that do not lie under amazonaws.com.
SUFFIXES = {"cn-": "amazonaws.com.cn", "eusc-": "amazonaws.eu"}
# What boto3 would obey and this does not; better not to start than to go another way unseen.
NOT_OBEYED = (
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
)
# Regions of partitions whose addresses nobody here knows.
ELSEWHERE = ("us-iso", "eu-iso")
# A connection that was idle for so long is not used again: its other end, or something between, may
# have dropped it without a word while Lambda had frozen us.
IDLE_SECONDS = 30
CHECKSUM = b"\r\nx-amz-crc32:"
OK = 200


class Lost(Unanswered):
    """The connection failed, or the answer was cut short or garbled."""


class Unconfigured(Exception):
    """The environment lacks what a call needs, or asks for what is not done here."""


class Refused(Exception):
    """The service refused a call; `response` is what it said, in the form of botocore's errors.

    There is one subclass for each code of AWS, at `Client.exceptions`.
    """

    def __init__(self, response: dict[str, Any], operation: str) -> None:
        error = response["Error"]
        super().__init__(f"{operation} was refused: {error['Code']}: {error['Message']}")
        self.response = response


@cache
def refusal(code: str) -> type[Refused]:
    """The error type of one of AWS's codes."""
    return type(code, (Refused,), {})


class Exceptions:
    """`exceptions.SomeCode` is the error type of that code, as a boto3 client has them."""

    def __getattr__(self, code: str) -> type[Refused]:
        return refusal(code)


@dataclass(frozen=True)
class Service:
    """What tells one service from another on the wire."""

    name: str  # in its address, and in signatures
    target: str  # before the operation


DYNAMODB = Service("dynamodb", "DynamoDB_20120810")
SQS = Service("sqs", "AmazonSQS")


@dataclass(frozen=True)
class Credentials:
    """Whom a call is signed for. A Lambda role's are in the environment, and have a token."""

    access_key: str
    secret_key: str
    token: str = ""

    @staticmethod
    def found(env: Mapping[str, str]) -> Credentials:
        """Those of the environment; raises `Unconfigured` if it has none."""
        key, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
        if not (key and secret):
            raise Unconfigured(
                "There are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, as "
                "Lambda does."
            )
        return Credentials(key, secret, env.get("AWS_SESSION_TOKEN", ""))


def region(env: Mapping[str, str]) -> str:
    """The region that Lambda, or a developer, sets; raises `Unconfigured` if there is none."""
    found = env.get("AWS_DEFAULT_REGION") or env.get("AWS_REGION")
    if not found:
        raise Unconfigured("There is no region: set AWS_REGION, as Lambda does.")
    return found


def endpoint(service: Service, env: Mapping[str, str]) -> str:
    """Where the service is: at the address that the environment names, or the region's own.

    Raises `Unconfigured` if the environment asks for another kind of address.
    """
    for name in NOT_OBEYED:
        if env.get(name, "").lower() == "true":
            raise Unconfigured(f"{name} is not obeyed here; deploy with -c transport=boto3.")
    own = env.get(f"AWS_ENDPOINT_URL_{service.name.upper()}") or env.get("AWS_ENDPOINT_URL")
    if own:
        return own
    where = region(env)
    if where.startswith(ELSEWHERE):
        raise Unconfigured(f"The addresses of {where} are not known here; use transport=boto3.")
    suffix = next((s for prefix, s in SUFFIXES.items() if where.startswith(prefix)), None)
    return f"https://{service.name}.{where}.{suffix or 'amazonaws.com'}"


def authorities(env: Mapping[str, str]) -> str:
    """The file of certificates that servers are checked against."""
    if own := env.get("AWS_CA_BUNDLE"):
        return own
    # Next to the module, which is not imported for its name: that would cost 8 ms of a cold start.
    spec = find_spec("certifi")
    assert spec is not None
    assert spec.origin is not None
    return os.path.join(os.path.dirname(spec.origin), "cacert.pem")  # noqa: PTH118, PTH120


class Ended(NamedTuple):
    """A call that has ended: with the answer's body, or failed. `tag` is the caller's own."""

    tag: Any
    result: bytes | Exception


class _Call:
    """A handle of libcurl's, for one call after the other."""

    def __init__(self) -> None:
        self.tag: Any = None
        self.operation = ""
        self.credentials: Credentials | None = None  # that the handle was told
        self.is_fresh = False
        self.curl = pycurl.Curl()
        self.body: list[bytes] = []
        self.headers: list[bytes] = []

    def ended(self) -> bytes | Exception:
        """The body of a good answer, or what is wrong with it."""
        body = b"".join(self.body)
        _, is_told, told = b"".join(self.headers).lower().partition(CHECKSUM)
        if is_told and told.partition(b"\r\n")[0].strip() != b"%d" % zlib.crc32(body):
            return Lost(f"{self.operation}: the answer's checksum is wrong.")
        status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        return body if status == OK else refused(self.operation, status, body)


def refused(operation: str, status: int, body: bytes) -> Refused:
    """The error that an answer tells of; one that is no JSON, as of a proxy, goes by its status."""
    try:
        content = json.loads(body)
        code = content.pop("__type").rpartition("#")[2]
        if not code.isidentifier():  # what no service sends can name no type
            raise ValueError
    except (ValueError, KeyError, AttributeError, TypeError):
        content, code = {}, str(status)
    message = content.pop("message", content.pop("Message", None))
    response = {
        **content,
        "Error": {"Code": code, "Message": message or ""},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return refusal(code)(response, operation)


class Connections:
    """Calls to one service from one thread, many at a time, over connections that stay open."""

    def __init__(self, service: Service, env: Mapping[str, str] = os.environ) -> None:
        self.service = service
        self._env = env
        self._multi = pycurl.CurlMulti()
        self._idle: list[_Call] = []
        self._in_flight: dict[pycurl.Curl, _Call] = {}
        self._credentials: Credentials | None = None
        self._url = endpoint(service, env)
        self._authorities = authorities(env) if self._url.startswith("https:") else ""

    def renew(self) -> None:
        """Look which credentials hold now; at the beginning of an invocation."""
        found = Credentials.found(self._env)
        if found != self._credentials:
            self._credentials = found

    def start(self, operation: str, body: bytes, tag: Any, *, fresh: bool = False) -> None:
        """Begin a call; a `fresh` one on a connection of its own."""
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
        """Wait for calls to end, at most so long, or until one does; those that have ended."""
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
            due = self._multi.timeout()  # when libcurl gives a call up, in milliseconds, or -1
            left = min(1.0, left, due / 1000 if due >= 0 else 1.0)
            if self._multi.select(left) == -1:  # nothing to wait for yet: a look-up
                clock.sleep(0.001)

    def call(self, operation: str, body: bytes, *, fresh: bool = False) -> bytes:
        """Make one call, and wait for it; its answer, or its error raised."""
        self.renew()
        self.start(operation, body, None, fresh=fresh)
        try:
            while not (ended := self.finished(None)):
                pass
        finally:
            self.forget()  # if this is interrupted, the next call must not get its answer
        result = ended[0].result
        if isinstance(result, Exception):
            raise result
        return result

    def forget(self) -> None:
        """Break off the calls in flight; they may take effect."""
        for call in self._in_flight.values():
            self._multi.remove_handle(call.curl)
            call.curl.close()
        self._in_flight.clear()

    def _ended(self) -> list[Ended]:
        ended = []
        more = 1
        while more:
            more, good, bad = self._multi.info_read()
            for curl in good:
                call = self._in_flight.pop(curl)
                ended.append(Ended(call.tag, call.ended()))
                self._put_back(call)
            for curl, number, message in bad:
                call = self._in_flight.pop(curl)
                ended.append(Ended(call.tag, Lost(f"{call.operation}: {message} ({number}).")))
                self._put_back(call)
        return ended

    def _put_back(self, call: _Call) -> None:
        self._multi.remove_handle(call.curl)
        call.body.clear()
        call.headers.clear()
        call.tag = None
        self._idle.append(call)

    def _new(self) -> _Call:
        call = _Call()
        curl = call.curl
        curl.setopt(pycurl.URL, self._url)
        curl.setopt(pycurl.WRITEFUNCTION, call.body.append)
        curl.setopt(pycurl.HEADERFUNCTION, call.headers.append)
        curl.setopt(pycurl.CONNECTTIMEOUT, CONNECT_TIMEOUT_SECONDS)
        # In all: a call that nobody answers has ended before DELIVER's patience has.
        curl.setopt(pycurl.TIMEOUT, READ_TIMEOUT_SECONDS)
        curl.setopt(pycurl.MAXAGE_CONN, IDLE_SECONDS)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        where = region(self._env)
        curl.setopt(pycurl.AWS_SIGV4, f"aws:amz:{where}:{self.service.name}")
        if self._authorities:
            curl.setopt(pycurl.CAINFO, self._authorities)
        return call

    def _prepare(self, call: _Call, operation: str) -> None:
        """Tell the handle what its next calls are, and who makes them."""
        assert self._credentials is not None
        call.operation, call.credentials = operation, self._credentials
        headers = [
            "Content-Type: application/x-amz-json-1.0",
            f"X-Amz-Target: {self.service.target}.{operation}",
            "Accept:",  # libcurl's own headers, left out
            "Expect:",
        ]
        if self._credentials.token:
            headers.append(f"X-Amz-Security-Token: {self._credentials.token}")
        call.curl.setopt(pycurl.HTTPHEADER, headers)
        call.curl.setopt(pycurl.USERNAME, self._credentials.access_key)
        call.curl.setopt(pycurl.PASSWORD, self._credentials.secret_key)


def encode(request: Mapping[str, Any]) -> bytes:
    """A request as it goes over the wire."""
    return json.dumps(request, separators=(",", ":")).encode()


def decode(operation: str, body: bytes) -> dict[str, Any]:
    """An answer read back; raises `Lost` if it is none, as when its headers were cut short."""
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise Lost(f"{operation}: the answer is no JSON object.")
    return content


@dataclass(frozen=True)
class Client:
    """A client of one service, with the methods of boto3's that are needed here."""

    connections: Connections
    attempts: int = ATTEMPTS
    exceptions: Exceptions = field(default_factory=Exceptions)

    def get_item(self, **request: Any) -> dict[str, Any]:
        """DynamoDB's GetItem."""
        return self._call("GetItem", request)

    def update_item(self, **request: Any) -> dict[str, Any]:
        """DynamoDB's UpdateItem."""
        return self._call("UpdateItem", request)

    def query(self, **request: Any) -> dict[str, Any]:
        """DynamoDB's Query."""
        return self._call("Query", request)

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        """DynamoDB's BatchGetItem."""
        return self._call("BatchGetItem", request)

    def send_message(self, **request: Any) -> dict[str, Any]:
        """SendMessage of SQS."""
        return self._call("SendMessage", request)

    def send_message_batch(self, **request: Any) -> dict[str, Any]:
        """SendMessageBatch of SQS."""
        return self._call("SendMessageBatch", request)

    def _call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        body = encode(request)
        for attempt in clock.tries(self.attempts, BACKOFF_SECONDS):
            try:
                # Whatever ended one connection may have ended those beside it.
                answer = self.connections.call(operation, body, fresh=attempt > 0)
                return decode(operation, answer)
            except Exception as error:
                if attempt == self.attempts - 1 or not is_transient(error):
                    raise
        raise AssertionError("There is at least one attempt.")


@cache
def connections(service: Service) -> Connections:
    """The connections of this process to a service."""
    return Connections(service)


@cache
def dynamodb() -> DynamoDBClient:
    """The DynamoDB client of this process."""
    return cast("DynamoDBClient", Client(connections(DYNAMODB)))


@cache
def sqs() -> SQSClient:
    """The SQS client of this process."""
    return cast("SQSClient", Client(connections(SQS)))
