"""An HTTP endpoint of DynamoDB and SQS on loopback, in threads of this process.

Its answers come from a backend: `forwarding_to` is another endpoint, `answering_from` the model.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError, ParamValidationError
from botocore.httpsession import URLLib3Session

from proof.model.dynamodb import client as dynamodb
from proof.model.sqs import client as sqs

LOOPBACK = "127.0.0.1"
# Callers open a connection for each batch in flight, all at the same time.
BACKLOG = 256
# Longer than any caller waits.
TIMEOUT_SECONDS = 30
# How often the server checks whether it must end.
SHUTDOWN_POLL_SECONDS = 0.05
# SO_LINGER for 0 seconds: close with a reset, and drop what was not sent.
RESET = struct.pack("ii", 1, 0)

JSON = "application/x-amz-json-1.0"
NAMESPACE = "com.amazonaws.dynamodb.v20120810"
SQS_NAMESPACE = "com.amazonaws.sqs"
# Targets of calls to SQS begin with this; all others are of DynamoDB.
SQS_TARGET = "AmazonSQS"


@dataclass(frozen=True)
class Request:
    """A received call; `operation` is, for example, `PutItem`."""

    operation: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    kind: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


Backend = Callable[[Request], Answer]


class Lost(Exception):
    """There is no answer; the connection is reset."""


@contextmanager
def forwarding_to(endpoint: str) -> Iterator[Backend]:
    """A backend that passes every call on to the engine at the URL `endpoint`."""
    session = URLLib3Session(timeout=TIMEOUT_SECONDS, max_pool_connections=BACKLOG)

    def forward(request: Request) -> Answer:
        call = AWSRequest("POST", endpoint, dict(request.headers), request.body)
        answer = session.send(call.prepare())
        # Without the checksum, because the answer may be changed and gets a new one.
        kind = answer.headers.get("content-type", JSON)
        return Answer(answer.status_code, answer.content, kind)

    try:
        yield forward
    finally:
        session.close()


def answering_from(tables: dynamodb.Client, queues: sqs.Client | None = None) -> Backend:
    """A backend that calls the model, one call at a time because the model has no locks."""
    lock = threading.Lock()

    def answer(request: Request) -> Answer:
        is_for_queues = request.headers["x-amz-target"].startswith(SQS_TARGET)
        model = queues if is_for_queues else tables
        assert model is not None, "There are no queues here."
        try:
            with lock:
                content = model.call(request.operation, read_request(request.body))
        except ParamValidationError as error:
            refused = {"__type": f"{NAMESPACE}#SerializationException", "message": str(error)}
            return Answer(400, json.dumps(refused).encode())
        except ClientError as error:
            return _refusal(error, SQS_NAMESPACE if is_for_queues else NAMESPACE)
        del content["ResponseMetadata"]
        return Answer(200, json.dumps(content, default=_base64).encode())

    return answer


def read_request(body: bytes) -> Any:
    """Parse a request; binary values are base64 on the wire."""
    return _decoder.decode(body.decode())


def _with_binaries(value: dict[str, Any]) -> dict[str, Any]:
    if len(value) != 1 or not ("B" in value or "BS" in value):
        return value
    match value:
        case {"B": str(text)}:
            return {"B": b64decode(text)}
        case {"BS": [*texts]}:
            return {"BS": [b64decode(text) for text in texts]}
    return value


# `json.loads` would create a decoder for each call.
_decoder = json.JSONDecoder(object_hook=_with_binaries)


def _base64(binary: bytes) -> str:
    return b64encode(binary).decode()


def _refusal(error: ClientError, namespace: str) -> Answer:
    response: dict[str, Any] = {**error.response}
    reason, status = response.pop("Error"), response.pop("ResponseMetadata")["HTTPStatusCode"]
    code = reason["Code"]
    name = reason.get("QueryErrorCode", code)
    content = {"__type": f"{namespace}#{name}", "message": reason["Message"], **response}
    # The code of SQS's query protocol, which boto3 shows.
    old = {} if name == code else {"x-amzn-query-error": f"{code};Sender"}
    return Answer(status, json.dumps(content, default=_base64).encode(), headers=old)


def late(backend: Backend, seconds: float) -> Backend:
    """The same backend, answering `seconds` later."""

    def answer(request: Request) -> Answer:
        time.sleep(seconds)
        return backend(request)

    return answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # With Nagle's algorithm, the body waits 40 ms for the headers' acknowledgement.
    disable_nagle_algorithm = True
    answer: ClassVar[Callable[[Request], Answer]]
    PASSED_ON = ("authorization", "content-type", "x-amz-date", "x-amz-target")

    def do_POST(self) -> None:
        """Answer one call, and keep the connection open."""
        length = int(self.headers.get("content-length", "0"))
        body = self.rfile.read(length)
        if len(body) < length:  # the caller was killed
            self.close_connection = True
            return
        headers = {name: self.headers[name] for name in self.PASSED_ON if name in self.headers}
        operation = headers.get("x-amz-target", "").rpartition(".")[2]
        try:
            answer = type(self).answer(Request(operation, headers, body))
        except Exception as error:  # noqa: BLE001 - the caller has to see any failure
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
    daemon_threads = True  # each waits for a caller that may never call again
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: callers are killed in the middle of a call, and resets are intended."""


@contextmanager
def serving(answer: Callable[[Request], Answer]) -> Iterator[str]:
    """Serve calls with `answer` on a free port; yields the URL."""
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
