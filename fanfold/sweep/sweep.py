"""SWEEP: every minute, send again what was accepted and then lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from fanfold import clock, times
from fanfold.aws.event_sources import EventSourceMappings
from fanfold.aws.items import MAX_KEYS, Item
from fanfold.aws.queues import MAX_BATCH, WorkQueue
from fanfold.aws.retries import AT_A_TIME, for_each
from fanfold.errors import TryLater
from fanfold.fanout.lanes import Lanes, commands
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.row import Fanout, check, from_item
from fanfold.messages import Message, PlanFanout
from fanfold.names import BULK, EXPRESS, PUBLISH
from fanfold.sweep import run_limits
from fanfold.sweep.oldest import Oldest, oldest
from fanfold.sweep.open_fanouts import Memory, OpenFanouts
from fanfold.sweep.run_limits import Due, Key
from fanfold.sweep.silence import PLAN_SILENCE_SECONDS, QUESTION_SEGMENTS, Remedy, remedy_for

if TYPE_CHECKING:
    from concurrent.futures import Executor

# Rows are read, and remedies applied, in steps: between them, a run checks its time.
ROWS_A_STEP = AT_A_TIME * MAX_KEYS
REMEDIES_A_STEP = 500

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Swept:
    """What SWEEP did with one fan-out."""

    fanout_id: str
    what: str
    seconds: float | None = None  # from acceptance to complete, if SWEEP completed it


Report = Callable[[Swept], None]


@dataclass(frozen=True)
class Sweeping:
    """The use case behind the schedule; `threads` make calls in parallel."""

    fanouts: OpenFanouts
    ledger: Ledger
    publish_queue: WorkQueue
    lanes: Lanes
    mappings: EventSourceMappings
    threads: Executor | None = None

    def sweep(self, *, stop_at: float, report: Report) -> Oldest:
        """Examine the open fan-outs in turn, and mend those that need it; returns the oldest.

        A stalled one ends when nobody would see its entries any more.

        It ends by about `stop_at` of the monotonic clock, and the next run goes on from there. Two
        runs at once do no harm. An error with one fan-out does not stop the others: the first error
        is raised at the end.
        """
        errors: list[Exception] = []
        now_ms = clock.now_ms()
        memory = self._with_pauses(self.fanouts.memory(), now_ms, errors)
        keys = self._keys((clock.monotonic() + stop_at) / 2, errors)
        before = times.to_text(now_ms - PLAN_SILENCE_SECONDS * 1000)
        ids = run_limits.next_ids(keys, after=memory.position, accepted_before=before)
        # Half of the time left: if reading were slow, no time would remain for remedies.
        rows = self._rows(ids, (clock.monotonic() + stop_at) / 2, errors)
        stalled = list(_each(None, self._stalled_ids, [run_limits.MAX_STALLED], errors))
        given_up = self._rows([*chain(*stalled)], (clock.monotonic() + stop_at) / 2, errors)

        def due(row: Fanout) -> Due:
            paused_ms = memory.paused.get(_lane(row), 0)
            return remedy_for(row, now_ms=now_ms, paused_ms=paused_ms), row

        seen = filter(None, chain(rows.values(), given_up.values()))
        all_due = list(_each(None, due, seen, errors))
        for step in _cut(run_limits.within_caps(all_due), REMEDIES_A_STEP):
            if clock.monotonic() < stop_at:
                self._apply(step, report, errors)
        if rows:
            self.fanouts.stand_at(list(rows)[-1])
        if errors:
            raise errors[0]
        return oldest(keys, rows, now_ms=now_ms)

    def _with_pauses(self, memory: Memory, now_ms: int, errors: list[Exception]) -> Memory:
        """Note which queues are paused now: silence is counted from when they last were.

        If a queue's mapping cannot be read, the state of the last run counts.
        """
        queues = {PUBLISH.name: self.publish_queue, EXPRESS.name: self.lanes.express}
        queues[BULK.name] = self.lanes.bulk
        read = dict(_each(None, self._is_paused, queues.items(), errors))
        held = frozenset(name for name in queues if read.get(name, name in memory.held))
        if held or memory.held:
            paused = {**memory.paused, **dict.fromkeys(sorted(held), now_ms)}
            memory = replace(memory, paused=paused, held=held)
            self.fanouts.remember(memory)
        return memory

    def _is_paused(self, named: tuple[str, WorkQueue]) -> tuple[str, bool]:
        name, queue = named
        return name, self.mappings.is_paused(queue.url)

    def _stalled_ids(self, count: int) -> list[str]:
        return list(islice(self.ledger.stalled_ids(), count))

    def _keys(self, stop_at: float, errors: list[Exception]) -> list[Key]:
        keys: list[Key] = []
        for page in self.fanouts.key_pages():
            keys += page
            if clock.monotonic() > stop_at:
                late = f"More than {len(keys)} fan-outs are open: too many for one run to list."
                errors.append(TryLater(late))
                break
        return keys

    def _rows(
        self, ids: Sequence[str], stop_at: float, errors: list[Exception]
    ) -> dict[str, Fanout | None]:
        """What the ledger says of each fan-out, or of as many of them as there is time for."""
        rows: dict[str, Fanout | None] = {}
        for step in _cut(ids, ROWS_A_STEP):
            if clock.monotonic() < stop_at:
                for found in self._each(self.fanouts.items, _cut(step, MAX_KEYS), errors):
                    rows |= _each(None, _parsed, found.items(), errors)
        return rows

    def _apply(self, step: Sequence[Due], report: Report, errors: list[Exception]) -> None:
        """Note each remedy in its row, and then send its commands.

        A run that dies between the two has asked nothing, but the next question follows. In the
        opposite order, runs that die there would go on sending without bound.
        """
        done = [due for due in self._each(self._noted, step, errors) if due]
        for queue, messages in self._commands(done):
            send = partial(_send, queue)
            for _ in self._each(send, _cut(messages, MAX_BATCH), errors):
                pass
        for remedy, row in done:
            seconds = row.lag_seconds(row.completed_at) if row.completed_at else None
            report(Swept(row.fanout_id, remedy.value, seconds))

    def _noted(self, due: Due) -> Due | None:
        """Note a remedy; None if the fan-out has moved since it was read."""
        remedy, row = due
        now_ms = clock.now_ms()
        match remedy:
            case Remedy.COMPLETE:
                row = replace(row, completed_at=times.to_text(now_ms))
                is_done = self.ledger.complete_if_delivered(row.fanout_id, now=row.completed_at)
            case Remedy.EXPIRE:
                is_done = self.ledger.expire(row, now=times.to_text(now_ms))
            case Remedy.STALL:
                is_done = self.fanouts.give_up(row, now_ms=now_ms)
            case Remedy.ROUND:
                is_done = self.fanouts.note_round(row, now_ms=now_ms)
            case _:
                is_done = self.fanouts.note_question(row, now_ms=now_ms)
        return (remedy, row) if is_done else None

    def _commands(self, done: Sequence[Due]) -> Iterator[tuple[WorkQueue, list[Message]]]:
        """The messages of many fan-outs, by queue; each keeps the group of its fan-out."""
        plan: list[Message] = []
        express: list[Message] = []
        bulk: list[Message] = []
        for remedy, row in done:
            lane = bulk if row.is_bulk else express
            match remedy:
                case Remedy.ASK_PLAN:
                    command = PlanFanout(fanout_id=row.fanout_id)
                    plan.append(command.message(group=row.publisher_id))
                case Remedy.ASK:
                    lane += islice(commands(row), QUESTION_SEGMENTS)
                case Remedy.ROUND:
                    lane += commands(row)
                case _:
                    pass
        yield self.publish_queue, plan
        yield self.lanes.express, express
        yield self.lanes.bulk, bulk

    def _each(
        self, call: Callable[[T], R], items: Iterable[T], errors: list[Exception]
    ) -> Iterator[R]:
        """The results of the calls that succeed, in order; the errors of the others are kept."""
        return _each(self.threads, call, items, errors)


def _each(
    threads: Executor | None, call: Callable[[T], R], items: Iterable[T], errors: list[Exception]
) -> Iterator[R]:
    def attempt(item: T) -> list[R]:
        try:
            return [call(item)]
        except Exception as error:  # noqa: BLE001 - it is raised at the end of the run
            errors.append(error)
            return []

    return chain.from_iterable(for_each(threads, attempt, items))


def _parsed(found: tuple[str, Item | None]) -> tuple[str, Fanout | None]:
    fanout_id, item = found
    if not item:
        return fanout_id, None
    row = from_item(item)
    check(row, now_ms=clock.now_ms())
    return fanout_id, row


def _lane(row: Fanout) -> str:
    """The name of the queue in which its commands wait."""
    if row.awaits_plan:
        return PUBLISH.name
    return BULK.name if row.is_bulk else EXPRESS.name


def _send(queue: WorkQueue, messages: Sequence[Message]) -> None:
    queue.send(*messages)


def _cut(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
