"""The boto3 transport: one thread per call in flight. Well proven, but costly in CPU."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from fanfold.fanout.policy import Send
from fanfold.fanout.transport import CONNECTIONS, Finished
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.ring_reader import Page, Read
from fanfold.timeline.entries import Entries, Entry


@dataclass(frozen=True)
class Boto3Transport:
    """Makes calls through boto3 clients that do not retry by themselves."""

    edges_table: EdgesTable
    entries: Entries
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="deliver")
    )

    @contextmanager
    def calls(self, entry: Entry) -> Iterator[ThreadedCalls]:
        """The calls that deliver `entry`; on exit, calls in flight run on, without a listener."""
        yield ThreadedCalls(self, entry)


@dataclass(frozen=True)
class ThreadedCalls:
    transport: Boto3Transport
    entry: Entry
    _ended: SimpleQueue[Finished] = field(default_factory=SimpleQueue)

    def start(self, action: Read | Send) -> None:
        self.transport.threads.submit(self._run, action)

    def finished(self, seconds: float | None) -> Iterator[Finished]:
        with suppress(Empty):
            yield self._ended.get(timeout=seconds)
            while True:
                yield self._ended.get_nowait()

    def _run(self, action: Read | Send) -> None:
        try:
            result = self._call(action)
        except Exception as error:  # noqa: BLE001 - the policy decides, the use case raises
            result = error
        self._ended.put(Finished(action, result))

    def _call(self, action: Read | Send) -> Page | Collection[str] | Exception:
        entry, to = self.entry, self.transport
        if isinstance(action, Read):
            return to.edges_table.page(entry.publisher_id, action)
        return to.entries.push(entry, [ring.follower_of(edge) for edge in action.edges])
