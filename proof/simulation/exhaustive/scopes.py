"""What a scope is: a first state, and what must hold on the way and at the end."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from fanfold import contract, names
from proof.model.clock import START_MS
from proof.simulation.exhaustive.calls import number_of
from proof.simulation.exhaustive.doors import Program, Programs, Sizes
from proof.simulation.exhaustive.states import Fate, Happened, Letter, State, Step, Task
from proof.simulation.exhaustive.steps import QUEUES, Steps
from proof.simulation.exhaustive.store import Contents, Store

# When what is left is delivered in the end, SWEEP runs at this interval: longer than it ever waits
# after as few questions as a scope can have asked.
SWEEP_EVERY_MS = 60 * 60 * 1000
# Messages and runs of SWEEP; a scope that needs more does not come to rest.
MAX_SETTLING = 100


@dataclass
class Scope(ABC):
    """Invocations that run at once, from a state that the real functions have made."""

    name: str
    sizes: Sizes = field(default_factory=Sizes)
    programs: Programs = field(default_factory=Programs)
    store: Store = field(default_factory=Store)

    def __post_init__(self) -> None:
        self.steps = Steps(self.programs, self.store)
        self.contents: Contents = self.store.empty
        self.letters: list[Letter] = []
        self._ends: dict[State, str] = {}

    # What each kind of scope says

    ghost: Hashable = None

    def remember(self, ghost: Hashable, happened: Happened) -> tuple[Hashable, str]:
        """What the checks remember after a step, and what the step has broken, if anything."""
        return ghost, ""

    def broken(self, state: State) -> str:
        """What does not hold in a state on the way."""
        return ""

    def act_at_last(self, ghost: Hashable) -> tuple[int, Hashable]:
        """What somebody does after all others have ended: the time then, and what is remembered."""
        return START_MS, ghost

    @abstractmethod
    def broken_when_quiet(
        self, contents: Contents, letters: Iterable[Letter], ghost: Hashable
    ) -> str:
        """What does not hold after the last message."""

    def is_open(self, contents: Contents) -> bool:
        """Whether SWEEP still has something to do."""
        return False

    # To make the first state

    def run(self, function: str, event: Any = None, *, at: int = START_MS) -> Any:
        """Run an invocation alone, from its start to its end; what it answers."""
        seconds = next(each.seconds for each in names.FUNCTIONS if each.name == function)
        text = json.dumps(event)
        # A name of its own, as its transactions have tokens of their own.
        name = f"{function} {number_of(text, at) % 4096:03x}"
        return self._run(Program(name, function, text, at, seconds), 0)

    def receive(self, letter: Letter, *, at: int = START_MS) -> None:
        """Let a worker handle a letter alone."""
        self.letters.remove(letter)
        self.steps.now_ms = at
        self.steps.keep(letter)
        self._run(self.steps.program(letter), letter.number)
        self.steps.now_ms = START_MS

    def _run(self, program: Program, letter: int) -> Any:
        place = self.programs.begin(program)
        state = self._state([Task(place.number, letter)])
        end: Any = None
        while state.tasks:
            state, happened = self.steps.take(state, Step(state.tasks[0], Fate.DONE, begins=False))
            end = happened.end
        self.contents = state.contents
        self.letters = [self.steps.letters[number] for number in state.letters]
        return end

    def _state(self, tasks: Iterable[Task], faults: int = 0) -> State:
        letters = tuple(sorted(map(self.steps.keep, self.letters)))
        return State(self.contents, tuple(sorted(tasks)), letters, self.ghost, faults)

    def begin(self, programs: Iterable[Program], faults: int) -> None:
        """Let these invocations begin beside what the letters start."""
        tasks = [Task(self.programs.begin(each).number, 0) for each in programs]
        self.first = self._state(tasks, faults)
        self.steps.stale = self.contents
        self.steps.written.clear()

    def broken_at_end(self, state: State) -> str:
        """What does not hold in the end, after SWEEP has looked after what is still open."""
        key = state._replace(faults=0)
        if key not in self._ends:
            self._ends[key] = self._broken_at_end(state)
        return self._ends[key]

    def _broken_at_end(self, state: State) -> str:
        self.contents = state.contents
        self.letters = [self.steps.letters[number] for number in state.letters]
        now, ghost = self.act_at_last(state.ghost)
        for _ in range(MAX_SETTLING):
            if waiting := [each for each in self.letters if each.queue in QUEUES]:
                self.receive(waiting[0], at=now)
            elif self.is_open(self.contents):
                now += SWEEP_EVERY_MS
                self.run(names.SWEEP.name, at=now)
            else:
                break
        return self.broken_when_quiet(self.contents, self.letters, ghost)


def http(route: contract.Route, user: str, *, at: int, path: Any = None, body: Any = None) -> Any:
    """The event of a request, as API Gateway sends it."""
    return {
        "version": "2.0",
        "routeKey": route.key,
        "headers": {"idempotency-key": "k"},
        "pathParameters": path or {},
        "queryStringParameters": {},
        "requestContext": {
            "authorizer": {"jwt": {"claims": {"sub": user}}},
            "requestId": "explored",
            "timeEpoch": at,
        },
        "body": None if body is None else json.dumps(body),
        "isBase64Encoded": False,
    }


def sweep(number: int = 1) -> Program:
    return Program(f"sweep {number}", names.SWEEP.name, "{}", seconds=names.SWEEP.seconds)
