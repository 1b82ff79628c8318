"""The steps from one state of a scope to the next: one call of one invocation, or a fault."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fanfold import names
from proof.model.clock import START_MS
from proof.model.lambda_events import sqs_event
from proof.simulation.exhaustive.calls import AwsCall, CallAnswer
from proof.simulation.exhaustive.doors import Program, Programs
from proof.simulation.exhaustive.states import (
    FREE,
    LOST,
    Fate,
    Happened,
    Letter,
    State,
    Step,
    Task,
    throttled,
    unprocessed,
)
from proof.simulation.exhaustive.store import Contents, Sent, Store, touched

READS = ("get", "batch_get", "query", "scan", "receive")
QUEUES = {queue.name: queue for queue in names.QUEUES}
TIMEOUTS = {function.name: function.seconds for function in names.FUNCTIONS}
# Workers of one queue at a time.
WORKERS = 2


@dataclass
class Steps:
    """The rules by which states follow each other."""

    programs: Programs
    store: Store
    now_ms: int = START_MS
    seconds_a_call: float = 0.0
    deliver_seconds: float = 60.0
    seconds_a_call_of_plan: float = 0.0
    letters: dict[int, Letter] = field(default_factory=dict)
    stale: Contents = ()  # what an index may still show
    is_reduced: bool = True
    # Places of the contents that some invocation of the scope writes to, as far as it is known.
    written: set[int] = field(default_factory=set)
    put_off: int = 0  # how often the call of another invocation had to wait for a quiet one
    is_surprised: bool = False  # something was written of which that was not known
    _private: dict[int, bool] = field(default_factory=dict)
    _workers: dict[tuple[int, int], Task] = field(default_factory=dict)

    def keep(self, letter: Letter) -> int:
        number = letter.number
        self.letters[number] = letter
        return number

    def possible(self, state: State) -> Iterator[Step]:
        """Every step from a state, in an order that its content determines."""
        busy: dict[str, int] = {}
        for task in state.tasks:
            if task.letter:
                queue = self.letters[task.letter].queue
                busy[queue] = busy.get(queue, 0) + 1
        for task in state.tasks if self.is_reduced else ():
            if self._is_quiet(task, state):
                self.put_off += len(state.tasks) - 1
                yield from self._of(task, state, begins=False)
                return
        for task in state.tasks:
            yield from self._of(task, state, begins=False)
        for number in sorted(set(state.letters)):
            letter = self.letters[number]
            is_visible = letter.queue in QUEUES and not letter.held_by
            if is_visible and busy.get(letter.queue, 0) < WORKERS:
                yield from self._of(self._taken(number), state, begins=True)

    def _of(self, task: Task, state: State, *, begins: bool) -> Iterator[Step]:
        call = self.programs.places[task.place].call
        yield Step(task, Fate.DONE, begins)
        if call is None:  # a worker that ends without any
            return
        if "IndexName" in call.request and self._is_stale(state, call):
            yield Step(task, Fate.STALE, begins)
        if state.faults:
            for kind in (Fate.DIES_BEFORE, Fate.DIES_AFTER, Fate.LOST, Fate.THROTTLED):
                yield Step(task, kind, begins)
            if call.service != "lambda":
                yield Step(task, Fate.TWICE, begins)
            if "batch" in call.operation:
                yield Step(task, Fate.UNPROCESSED, begins)
            if begins:
                yield Step(task, Fate.COPIED, begins)

    def _is_quiet(self, task: Task, state: State) -> bool:
        """Whether the next call concerns nobody else, so that it may as well come first.

        It reads what nobody writes, or sends what nobody receives while its sender runs. Nor is it
        the first call of a client, nor can it be the last one, as checks look at these. That its
        invocation may die of it is no objection: what others can do then, they can do earlier.
        """
        place = self.programs.places[task.place]
        call = place.call
        assert call is not None
        if call.number not in self._private:
            self._private[call.number] = _is_private(call, place.program)
        if not place.answers or not self._private[call.number]:
            return False
        if call.service == "dynamodb" and not self.written.isdisjoint(touched(call)):
            return False
        answer = self.store.apply(state.contents, call).answer
        return self.programs.after(place, answer).call is not None

    def _is_stale(self, state: State, call: AwsCall) -> bool:
        now = self.store.apply(state.contents, call).answer
        return self.store.apply(self.stale, call).answer.number != now.number

    def _taken(self, number: int) -> Task:
        """The worker that takes a letter, before its first call."""
        found = self._workers.get((number, self.now_ms))
        if found is None:
            place = self.programs.begin(self.program(self.letters[number]))
            found = self._workers[number, self.now_ms] = Task(place.number, number)
        return found

    def program(self, letter: Letter) -> Program:
        consumer = QUEUES[letter.queue].consumer
        message: Any = {
            "MessageId": f"{letter.number:016x}",
            "Body": letter.body,
            "Attributes": {
                "ApproximateReceiveCount": str(letter.receives + 1),
                "SentTimestamp": str(letter.sent_at),
                "MessageGroupId": letter.group,
            },
        }
        is_deliver = consumer == names.DELIVER
        is_plan = consumer == names.PLAN
        name = f"{consumer.name} {letter.number % 4096:03x}"
        return Program(
            name if letter.receives == 0 else f"{name}, receive {letter.receives + 1}",
            consumer.name,
            json.dumps(sqs_event(letter.queue, [message])),
            self.now_ms,
            self.deliver_seconds if is_deliver else consumer.seconds,
            self.seconds_a_call_of_plan * is_plan + self.seconds_a_call * is_deliver,
        )

    def take(self, state: State, step: Step) -> tuple[State, Happened]:
        """The state after a step."""
        task, kind = step.task, step.kind
        place = self.programs.places[task.place]
        program, call = place.program, place.call
        letters, tasks = list(state.letters), list(state.tasks)
        letter = self.letters.get(task.letter)
        if step.begins:
            letters.remove(task.letter)
            if kind is Fate.COPIED:
                assert letter is not None
                letters.append(self.keep(letter._replace(copy=letter.copy + 1)))
        else:
            tasks.remove(task)
        contents, answer = state.contents, None
        if call and kind not in (Fate.DIES_BEFORE, Fate.THROTTLED, Fate.UNPROCESSED):
            for _ in range(2 if kind is Fate.TWICE else 1):
                effect = self.store.apply(contents, call)
                if effect.contents != contents:
                    self._note_written(contents, effect.contents)
                contents, answer = effect.contents, effect.answer
                letters += (self._sent(sent, program) for sent in effect.sent)
        if call:
            answer = self._answer(call, kind) or answer
        died = kind in (Fate.DIES_BEFORE, Fate.DIES_AFTER)
        end, is_acknowledged = None, False
        if not died:
            after = self.programs.after(place, answer) if answer else place
            if after.call is not None:
                tasks.append(Task(after.number, task.letter))
            else:
                end = after
        if died or end:
            is_acknowledged = end is not None and not end.is_failure
            if letter is not None and not is_acknowledged:
                letters.append(self.keep(_again(letter)))
            letters = [self._let_go(number, program.name) for number in letters]
        happened = Happened(
            program,
            not place.answers,
            end,
            died,
            letter,
            is_acknowledged,
            state.contents,
            contents,
            answer.content if answer and isinstance(answer.content, dict) else {},
        )
        after_step = State(
            contents,
            tuple(sorted(tasks)),
            tuple(sorted(letters)),
            state.ghost,
            state.faults - (kind not in FREE),
        )
        return after_step, happened

    def _answer(self, call: AwsCall, kind: Fate) -> CallAnswer | None:
        """What the caller hears, if that is not the service's answer."""
        match kind:
            case Fate.THROTTLED:
                return throttled(call)
            case Fate.UNPROCESSED:
                return unprocessed(call)
            case Fate.LOST:
                return LOST
            case Fate.STALE:
                return self.store.apply(self.stale, call).answer
        return None

    def _note_written(self, before: Contents, after: Contents) -> None:
        changed = {place for place, number in enumerate(before) if after[place] != number}
        if not changed <= self.written:
            self.written |= changed
            self.is_surprised = True

    def _sent(self, sent: Sent, sender: Program) -> int:
        outlives = sent.delay_seconds >= TIMEOUTS[sender.function]
        letter = Letter(sent.queue, sent.body, sent.group, sender.now_ms)
        return self.keep(letter._replace(held_by=sender.name) if outlives else letter)

    def _let_go(self, number: int, ended: str) -> int:
        letter = self.letters[number]
        return self.keep(letter._replace(held_by="")) if letter.held_by == ended else number


def _is_private(call: AwsCall, sender: Program) -> bool:
    """Whether a call only reads, or sends only what waits until its sender has ended."""
    if call.service == "sqs" and call.operation.startswith("send"):
        delays = [
            entry.get("DelaySeconds", 0) for entry in call.request.get("Entries", [call.request])
        ]
        return all(delay >= TIMEOUTS[sender.function] for delay in delays)
    return call.operation.startswith(READS)


def _again(letter: Letter) -> Letter:
    """The letter after a receive that has failed."""
    receives = letter.receives + 1
    if receives < QUEUES[letter.queue].max_receives:
        return letter._replace(receives=receives)
    return letter._replace(queue=f"{letter.queue}Dlq", receives=receives)
