"""The boto3 transport: a thread for every call in flight. Trusted everywhere, dear in CPU."""

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

    followers: EdgesTable
    timelines: Entries
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="deliver")
    )

    @contextmanager
    def calls(self, entry: Entry) -> Iterator[ThreadedCalls]:
        """To deliver `entry`; calls in flight at the end run on, and nobody hears of them."""
        yield ThreadedCalls(self, entry)


@dataclass(frozen=True)
class ThreadedCalls:
    """The calls of one delivery."""

    transport: Boto3Transport
    entry: Entry
    _ended: SimpleQueue[Finished] = field(default_factory=SimpleQueue)

    def start(self, action: Read | Send) -> None:
        """Begin a call, on a thread."""
        self.transport.threads.submit(self._run, action)

    def finished(self, seconds: float | None) -> Iterator[Finished]:
        """Wait for calls to end, at most so long, or until one does; those that have ended."""
        with suppress(Empty):
            yield self._ended.get(timeout=seconds)
            while True:
                yield self._ended.get_nowait()

    def _run(self, action: Read | Send) -> None:
        try:
            result = self._call(action)
        except Exception as error:  # noqa: BLE001 - the policy decides, and the use case raises it
            result = error
        self._ended.put(Finished(action, result))

    def _call(self, action: Read | Send) -> Page | Collection[str] | Exception:
        entry, to = self.entry, self.transport
        if isinstance(action, Read):
            return to.followers.page(entry.publisher_id, action)
        return to.timelines.push(entry, [ring.follower_of(edge) for edge in action.edges])
