"""The search: from the first state of a scope to all that any schedule comes to, each once.

Two reductions leave nothing out. Schedules that come to the same state have the same future, which
is explored once for all of them; so is their number known without going through them. And a call
that concerns nobody else is made at once (`Steps.possible`), as in every order that it could be
made in, everything else would be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proof.simulation.exhaustive.scopes import Scope
from proof.simulation.exhaustive.states import Happened, State, Step


@dataclass
class SearchResult:
    """What a search has found; `broken` and `path` belong to the first violation, if any."""

    states: int = 0
    steps: int = 0  # from a state to another
    schedules: int = 0
    put_off: int = 0  # calls that waited for a quiet one
    ends: set[State] = field(default_factory=set)
    broken: str = ""
    path: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return (
            f"{self.schedules:,} schedules through {self.states:,} states by {self.steps:,} steps, "
            f"of which {self.steps - self.states + 1:,} led to a state known already; "
            f"{self.put_off:,} calls put off; {len(self.ends):,} ends"
        )


def search(scope: Scope) -> SearchResult:
    """Explore the scope breadth first, so that the path to a violation is a shortest one."""
    while True:
        scope.steps.is_surprised, scope.steps.put_off = False, 0
        found = _search(scope)
        # Otherwise steps were held to be of no concern to others that were.
        if not scope.steps.is_surprised:
            return found


def _search(scope: Scope) -> SearchResult:
    first = scope.first
    numbers = {first: 0}
    came_by: list[tuple[int, Step | None]] = [(0, None)]  # the state before, and the step from it
    next_states: list[list[int]] = []
    found = SearchResult()
    waiting: list[State] = [first]
    while waiting:
        later: list[State] = []
        for state in waiting:
            here = numbers[state]
            branches: list[int] = []
            for step in scope.steps.possible(state):
                after, broken = advance(scope, state, step)
                if scope.steps.is_surprised:
                    return found
                found.steps += 1
                there = numbers.get(after)
                if there is None:
                    there = numbers[after] = len(came_by)
                    came_by.append((here, step))
                    later.append(after)
                    broken = broken or scope.broken(after)
                if broken:
                    found.states, found.broken = len(came_by), broken
                    found.path = (*_path(came_by, here), step)
                    return found
                branches.append(there)
            next_states.append(branches)
            if not branches:
                found.ends.add(state)
                if broken := scope.broken_at_end(state):
                    found.states, found.broken = len(came_by), broken
                    found.path = _path(came_by, here)
                    return found
        waiting = later
    found.states = len(came_by)
    found.put_off = scope.steps.put_off
    found.schedules, circle = _paths(next_states)
    if circle is not None:
        found.broken, found.path = "some schedule never ends", _path(came_by, circle)
    return found


def one_by_one(scope: Scope) -> SearchResult:
    """The same without any reduction: schedule by schedule, each from the first state."""
    found = SearchResult()

    def go_on(state: State) -> None:
        found.states += 1
        is_end = True
        for step in scope.steps.possible(state):
            is_end = False
            found.steps += 1
            go_on(advance(scope, state, step)[0])
        if is_end:
            found.schedules += 1
            found.ends.add(state)

    go_on(scope.first)
    return found


def advance(scope: Scope, state: State, step: Step) -> tuple[State, str]:
    """Take a step; the state after it, and what is broken by it."""
    after, happened = scope.steps.take(state, step)
    ghost, broken = scope.remember(state.ghost, happened)
    return after._replace(ghost=ghost), broken


def numbered(scope: Scope, path: Sequence[Step]) -> tuple[int, ...]:
    """The number of each step of a path among all that were possible then."""
    scope.steps.is_reduced = False
    state, numbers = scope.first, []
    for step in path:
        numbers.append(list(scope.steps.possible(state)).index(step))
        state, _ = advance(scope, state, step)
    return tuple(numbers)


def follow(scope: Scope, numbers: Sequence[int]) -> Iterator[tuple[Step, Happened]]:
    """The steps of a path by their numbers, and what happened."""
    scope.steps.is_reduced = False
    state = scope.first
    for number in numbers:
        step = list(scope.steps.possible(state))[number]
        yield step, scope.steps.take(state, step)[1]
        state, _ = advance(scope, state, step)


def _path(came_by: Sequence[tuple[int, Step | None]], here: int) -> tuple[Step, ...]:
    path: list[Step] = []
    while True:
        here, step = came_by[here]
        if step is None:
            return tuple(reversed(path))
        path.append(step)


def _paths(next_states: Sequence[Sequence[int]]) -> tuple[int, int | None]:
    """How many paths lead from the first state to an end; and a state on a circle, if any is."""
    before = [0] * len(next_states)
    for branches in next_states:
        for there in branches:
            before[there] += 1
    ways = [0] * len(next_states)
    ways[0] = 1
    ready, paths = [0], 0
    while ready:
        here = ready.pop()
        if not next_states[here]:
            paths += ways[here]
        for there in next_states[here]:
            ways[there] += ways[here]
            before[there] -= 1
            if not before[there]:
                ready.append(there)
    circle = next((here for here, left in enumerate(before) if left), None)
    return paths, circle
