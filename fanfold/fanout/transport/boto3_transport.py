"""The boto3 transport: one thread per call in flight. Well proven, but costly in CPU."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from fanfold.fanout.transport.loop import CONNECTIONS, Call, Finished
from fanfold.fanout.worker_steps import Send
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.ring_reader import EdgePage
from fanfold.timeline.entries import Entries


@dataclass(frozen=True)
class Boto3Transport:
    """Makes calls through boto3 clients that do not retry by themselves."""

    edges_table: EdgesTable
    entries: Entries
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="deliver")
    )

    @contextmanager
    def calls(self) -> Iterator[ThreadedCalls]:
        """The calls of deliveries; on exit, calls in flight run on, without a listener."""
        yield ThreadedCalls(self)


@dataclass(frozen=True)
class ThreadedCalls:
    transport: Boto3Transport
    _ended: SimpleQueue[Finished] = field(default_factory=SimpleQueue)

    def start(self, call: Call) -> None:
        self.transport.threads.submit(self._run, call)

    def finished(self, seconds: float | None) -> Iterator[Finished]:
        with suppress(Empty):
            yield self._ended.get(timeout=seconds)
            while True:
                yield self._ended.get_nowait()

    def _run(self, call: Call) -> None:
        result: EdgePage | Collection[str] | Exception
        try:
            result = self._result(call)
        except Exception as error:  # noqa: BLE001 - the policy decides, the use case raises
            result = error
        self._ended.put(Finished(call, result))

    def _result(self, call: Call) -> EdgePage | Collection[str]:
        entry, to = call.job.entry, self.transport
        if isinstance(call.action, Send):
            return to.entries.push(entry, [ring.follower_of(edge) for edge in call.action.edges])
        return to.edges_table.page(entry.publisher_id, call.action)
