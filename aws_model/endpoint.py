"""DynamoDB and SQS behind HTTP on loopback, with faults and latency.

What answers is handed in: the local engine by `forwarding_to`, the model by `answering_from`. It
runs on threads of this process, and so ends with it.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any, ClassVar

from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError, ParamValidationError
from botocore.httpsession import URLLib3Session

from aws_model.dynamodb import client as dynamodb
from aws_model.sqs import client as sqs

LOOPBACK = "127.0.0.1"
# Every worker opens a connection for each batch in flight, all at once.
BACKLOG = 256
# More than the caller waits.
TIMEOUT_SECONDS = 30
# How soon it sees that it is to end.
SHUTDOWN_POLL_SECONDS = 0.05
# Close at once with a reset, and throw away what was not sent (SO_LINGER, for no seconds).
RESET = struct.pack("ii", 1, 0)

JSON = "application/x-amz-json-1.0"
NAMESPACE = "com.amazonaws.dynamodb.v20120810"
SQS_NAMESPACE = "com.amazonaws.sqs"
# What stands before the operation in a call to SQS; any other is to DynamoDB.
SQS_TARGET = "AmazonSQS"
BATCH = "BatchWriteItem"
THROTTLED = {
    "__type": f"{NAMESPACE}#ProvisionedThroughputExceededException",
    "message": "The level of configured provisioned throughput for the table was exceeded.",
    "ThrottlingReasons": [
        {
            "reason": "TableWriteKeyRangeThroughputExceeded",
            "resource": "arn:aws:dynamodb:us-east-1:000000000000:table/faulty",
        }
    ],
}
BROKEN = {"__type": f"{NAMESPACE}#InternalServerError", "message": "Internal server error"}


@dataclass(frozen=True)
class Request:
    """A call as it came: what is to be done, with which headers and body."""

    operation: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What comes back."""

    status: int
    body: bytes
    kind: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


Backend = Callable[[Request], Answer]


class Lost(Exception):
    """The connection is reset in the place of an answer."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """How often a batch of writes, or another call, meets with which fault; at most one each."""

    partial: float = 0.0  # some of its requests are not carried out, and come back
    throttled: float = 0.0  # all of it, without effect
    broken: float = 0.0  # a 5xx, for one half of them after the effect
    reset: float = 0.0  # the connection ends, for one half of them after the effect
    others: float = 0.0  # any other call: each of these faults but the first, alike often


OTHERS = ("throttled", "broken before", "broken after", "reset before", "reset after")

# What a bad day of a table looks like, many times over.
BAD_DAY = Rates(partial=0.30, throttled=0.05, broken=0.03, reset=0.02)
NONE = Rates()


@dataclass
class FaultyBatches:
    """Carries out calls through `backend`, and lets batches of writes fail, from a seed.

    `counted` has how many requests of batches were asked for (`asked`), how many of them reached
    the backend (`written`), and the number of each fault; of `other` calls, their faults alone.
    """

    backend: Backend
    rates: Rates
    seed: int
    counted: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Answer:
        """Answer a call; raises `Lost` if it gets no answer."""
        if request.operation != BATCH:
            return self._other(request)
        asked = _requests(request)
        with self._lock:  # one random sequence, whichever thread comes next
            fault = self._draw(len(asked))
            left = self._choose(asked) if fault == "partial" else []
            self.counted.update({"batches": 1, "asked": len(asked)})
            if fault:
                self.counted[fault] += 1
        kept = [write for write in asked if write not in left]
        answer = self._suffer(fault, lambda: self._write(request, kept))
        return _with_unprocessed(answer, left) if left and answer.status == 200 else answer

    def _other(self, request: Request) -> Answer:
        fault = ""
        if self.rates.others:  # else nothing is drawn, and the batches of a seed stay the same
            with self._lock:
                if self._random.random() < self.rates.others:
                    fault = self._random.choice(OTHERS)
                    self.counted[f"other {fault}"] += 1
        return self._suffer(fault, lambda: self.backend(request))

    def _draw(self, asked: int) -> str:
        chance, late = self._random.random(), self._random.random() < 0.5
        for fault in ("partial", "throttled", "broken", "reset"):
            chance -= getattr(self.rates, fault)
            if chance < 0:
                break
        else:
            return ""
        if fault == "partial":
            # A batch of which nothing is written is refused as a whole, so one put cannot be left.
            return fault if asked > 1 else ""
        return fault if fault == "throttled" else f"{fault} {'after' if late else 'before'}"

    def _choose(self, asked: list[_Write]) -> list[_Write]:
        count = self._random.randint(1, len(asked) - 1)
        return self._random.sample(asked, count)  # in any order, as DynamoDB may

    def _suffer(self, fault: str, carry_out: Callable[[], Answer]) -> Answer:
        match fault:
            case "throttled":
                return Answer(400, json.dumps(THROTTLED).encode())
            case "broken before":
                return Answer(503, b"Service Unavailable", "text/plain")
            case "reset before":
                raise Lost
        answer = carry_out()
        match fault:
            case "broken after":
                return Answer(500, json.dumps(BROKEN).encode())
            case "reset after":
                raise Lost
        return answer

    def _write(self, request: Request, writes: list[_Write]) -> Answer:
        content = {**json.loads(request.body), "RequestItems": _by_table(writes)}
        with self._lock:
            self.counted["written"] += len(writes)
        return self.backend(
            Request(request.operation, request.headers, json.dumps(content).encode())
        )


_Write = tuple[str, dict[str, Any]]  # table and request


def _requests(request: Request) -> list[_Write]:
    tables = json.loads(request.body)["RequestItems"]
    return [(table, write) for table, writes in tables.items() for write in writes]


def _by_table(writes: list[_Write]) -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[dict[str, Any]]] = {}
    for table, write in writes:
        tables.setdefault(table, []).append(write)
    return tables


def _with_unprocessed(answer: Answer, left: list[_Write]) -> Answer:
    content = json.loads(answer.body)
    unprocessed = content.setdefault("UnprocessedItems", {})
    for table, writes in _by_table(left).items():
        unprocessed.setdefault(table, []).extend(writes)
    return Answer(answer.status, json.dumps(content).encode())


@contextmanager
def forwarding_to(endpoint: str) -> Iterator[Backend]:
    """A backend that passes every call on to the engine at `endpoint`."""
    session = URLLib3Session(timeout=TIMEOUT_SECONDS, max_pool_connections=BACKLOG)

    def forward(request: Request) -> Answer:
        call = AWSRequest("POST", endpoint, dict(request.headers), request.body)
        answer = session.send(call.prepare())
        # Not the checksum: an answer may be changed, and gets its own.
        kind = answer.headers.get("content-type", JSON)
        return Answer(answer.status_code, answer.content, kind)

    try:
        yield forward
    finally:
        session.close()


def answering_from(tables: dynamodb.Client, queues: sqs.Client | None = None) -> Backend:
    """A backend that asks the model, one call at a time: it knows no threads.

    Binary values are left out; the product has none.
    """
    lock = threading.Lock()

    def answer(request: Request) -> Answer:
        is_for_queues = request.headers["x-amz-target"].startswith(SQS_TARGET)
        model = queues if is_for_queues else tables
        assert model is not None, "There are no queues here."
        try:
            with lock:
                content = model.call(request.operation, json.loads(request.body))
        except ParamValidationError as error:
            refused = {"__type": f"{NAMESPACE}#SerializationException", "message": str(error)}
            return Answer(400, json.dumps(refused).encode())
        except ClientError as error:
            return _refusal(error, SQS_NAMESPACE if is_for_queues else NAMESPACE)
        del content["ResponseMetadata"]
        return Answer(200, json.dumps(content).encode())

    return answer


def _refusal(error: ClientError, namespace: str) -> Answer:
    response: dict[str, Any] = {**error.response}
    told, status = response.pop("Error"), response.pop("ResponseMetadata")["HTTPStatusCode"]
    code = told["Code"]
    name = told.get("QueryErrorCode", code)
    content = {"__type": f"{namespace}#{name}", "message": told["Message"], **response}
    # SQS's codes of old, which boto3 goes by.
    old = {} if name == code else {"x-amzn-query-error": f"{code};Sender"}
    return Answer(status, json.dumps(content).encode(), headers=old)


def late(backend: Backend, seconds: float) -> Backend:
    """The same backend, so much later."""

    def answer(request: Request) -> Answer:
        time.sleep(seconds)
        return backend(request)

    return answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Else the body waits for the headers' acknowledgement, 40 ms.
    disable_nagle_algorithm = True
    answer: ClassVar[Callable[[Request], Answer]]
    PASSED_ON = ("authorization", "content-type", "x-amz-date", "x-amz-target")

    def do_POST(self) -> None:
        """Answer one call; the connection stays open for the next."""
        length = int(self.headers.get("content-length", "0"))
        body = self.rfile.read(length)
        if len(body) < length:  # the caller was killed
            self.close_connection = True
            return
        headers = {name: self.headers[name] for name in self.PASSED_ON if name in self.headers}
        operation = headers.get("x-amz-target", "").rpartition(".")[2]
        try:
            answer = type(self).answer(Request(operation, headers, body))
        except Exception as error:  # noqa: BLE001 - what hit the backend hits the caller
            if not isinstance(error, Lost):
                self.log_error("%r", error)
            self._reset()
            return
        self.send_response(answer.status)
        self.send_header("content-type", answer.kind)
        self.send_header("content-length", str(len(answer.body)))
        self.send_header("x-amz-crc32", str(zlib.crc32(answer.body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.connection.close()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Stay silent."""


class _Server(ThreadingHTTPServer):
    request_queue_size = BACKLOG
    daemon_threads = True  # they wait for callers that may never come again
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: callers are killed in the middle of a call, and resets are ours."""


@contextmanager
def serving(answer: Callable[[Request], Answer]) -> Iterator[str]:
    """Serve calls on a port of its own, by `answer`; the URL."""
    handler = type("Handler", (_Handler,), {"answer": staticmethod(answer)})
    server = _Server((LOOPBACK, 0), handler)
    thread = threading.Thread(
        target=server.serve_forever, args=(SHUTDOWN_POLL_SECONDS,), name="endpoint", daemon=True
    )
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True)
class Front:
    """A faulty way to an engine: where it begins, and what was counted on it."""

    url: str
    counted: Counter[str]


@contextmanager
def faulty_way_to(engine: str, rates: Rates, seed: int) -> Iterator[Front]:
    """Serve in front of the engine at the URL `engine`."""
    with forwarding_to(engine) as backend:
        batches = FaultyBatches(backend, rates, seed)
        with serving(batches.answer) as url:
            yield Front(url, batches.counted)
