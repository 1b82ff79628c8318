"""Faults on the way to DynamoDB, from a seed: partial batches, throttles, 5xx, resets."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from proof.model.endpoint import NAMESPACE, Answer, Backend, Lost, Request, forwarding_to, serving

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


@dataclass(frozen=True, kw_only=True)
class Rates:
    """The share of write batches with each fault; a call has at most one."""

    partial: float = 0.0  # some of its puts come back unprocessed
    throttled: float = 0.0  # the whole batch, without effect
    broken: float = 0.0  # a 5xx, half of the time after the effect
    reset: float = 0.0  # the connection ends, half of the time after the effect
    others: float = 0.0  # the share of all other calls that meet one of `OTHERS`


OTHERS = ("throttled", "broken before", "broken after", "reset before", "reset after")

# Many times the rates of a real table on a bad day.
BAD_DAY = Rates(partial=0.30, throttled=0.05, broken=0.03, reset=0.02)
NONE = Rates()


@dataclass
class FaultyBatches:
    """A backend in front of `backend` that makes calls fail, from a seed.

    `counted` has the numbers of `batches`, of their puts and deletes (`asked`), of those that
    reached the backend (`written`), and of each fault; other calls are counted only as faults.
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
        with self._lock:  # threads share one random sequence
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
        if self.rates.others:  # draws nothing otherwise, so that a seed's batches stay the same
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
            # DynamoDB refuses a batch if it can write nothing, so a single put is never left.
            return fault if asked > 1 else ""
        return fault if fault == "throttled" else f"{fault} {'after' if late else 'before'}"

    def _choose(self, asked: list[_Write]) -> list[_Write]:
        count = self._random.randint(1, len(asked) - 1)
        return self._random.sample(asked, count)  # in any order, as DynamoDB may

    def _suffer(self, fault: str, run: Callable[[], Answer]) -> Answer:
        match fault:
            case "throttled":
                return Answer(400, json.dumps(THROTTLED).encode())
            case "broken before":
                return Answer(503, b"Service Unavailable", "text/plain")
            case "reset before":
                raise Lost
        answer = run()
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


@dataclass(frozen=True)
class Front:
    """The URL of a faulty way to an engine, and its counts."""

    url: str
    counted: Counter[str]


@contextmanager
def faulty_way_to(engine: str, rates: Rates, seed: int) -> Iterator[Front]:
    """Serve in front of the engine at the URL `engine`, with faults."""
    with forwarding_to(engine) as backend:
        batches = FaultyBatches(backend, rates, seed)
        with serving(batches.answer) as url:
            yield Front(url, batches.counted)
