"""`python -m proof.simulation.exhaustive`: every order of calls in small scopes, and each fault."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
from collections.abc import Iterator
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

from proof.simulation.exhaustive import deliveries, posts, relations
from proof.simulation.exhaustive.doors import Sizes, installed
from proof.simulation.exhaustive.scopes import Scope
from proof.simulation.exhaustive.search import SearchResult, follow, numbered, search
from proof.simulation.exhaustive.states import Fate, Happened, Step

SHOWN_CHARS = 120  # of a request or an answer


class ScopeSize(IntEnum):
    """How many states a scope has, and so when it is explored."""

    SMALL = 0  # hundreds to thousands; with a fault up to a million
    MEDIUM = 1  # a hundred thousand or more, and only without faults
    LARGE = 2  # about a million


class Named(NamedTuple):
    """A scope by its name."""

    name: str
    size: ScopeSize
    sizes: Sizes = Sizes()

    def make(self, faults: int) -> Scope:
        """Make it; only inside `installed()`."""
        if self.name in deliveries.SCOPES:
            return deliveries.delivery(self.name, faults=faults)
        if self.name in posts.SCOPES:
            return posts.post(self.name, faults=faults)
        return relations.relation(self.name, faults=faults)


MEDIUM = (
    "two sweeps",
    "two segments",
    "follow, message, unfollow",
    "unfollow, message, follow",
)


def _named(name: str, sizes: Sizes, *, is_large: bool = False) -> Named:
    size = ScopeSize.MEDIUM if name in MEDIUM else ScopeSize.LARGE if is_large else ScopeSize.SMALL
    return Named(name, size, sizes)


SCOPES = (
    *(_named(name, sizes) for name, (_, sizes, _) in deliveries.SCOPES.items()),
    *(
        _named(name, Sizes(), is_large=len(requests) > 2)
        for name, (requests, _) in relations.SCOPES.items()
    ),
    *(_named(name, Sizes()) for name in posts.SCOPES),
)


class ScopeResult(NamedTuple):
    named: Named
    found: SearchResult
    seconds: float  # of CPU
    path: tuple[int, ...] = ()  # to the first violation
    trace: tuple[str, ...] = ()


def explore(named: Named, *, faults: int, is_reduced: bool = True) -> ScopeResult:
    """Explore one scope."""
    gc.disable()  # millions of tuples, of which none is garbage before the end
    began = time.process_time()
    with installed(named.sizes):
        scope = named.make(faults)
        scope.steps.is_reduced = is_reduced
        found = search(scope)
        seconds = time.process_time() - began
        path = numbered(scope, found.path)
        result = ScopeResult(named, found, seconds, path, tuple(_trace(scope, path)))
    gc.enable()
    return result


def replay(named: Named, path: tuple[int, ...], *, faults: int) -> Iterator[str]:
    """The steps of a path, as text."""
    with installed(named.sizes):
        yield from _trace(named.make(faults), path)


def _trace(scope: Scope, path: tuple[int, ...]) -> Iterator[str]:
    for number, (step, happened) in enumerate(follow(scope, path), 1):
        yield f"{number:3} {_told(scope, step, happened)}"


def _told(scope: Scope, step: Step, happened: Happened) -> str:
    call = scope.programs.places[step.task.place].call
    request = {
        name: value
        for name, value in (call.request if call else {}).items()
        if name not in ("ExpressionAttributeNames", "QueueUrl", "ReturnValues", "ConsistentRead")
    }
    seen = {name: value for name, value in happened.answer.items() if name != "ResponseMetadata"}
    end = ""
    if happened.end is not None:
        end = " and fails" if happened.end.is_failure else " and ends"
    fault = f" [{step.kind.value}]" if step.kind is not Fate.DONE else ""
    change = "" if happened.before == happened.after else " *"
    return (
        f"{happened.program.name:24} {call.operation if call else 'nothing'}{change}{fault}{end}  "
        f"{_short(request)} -> {_short(seen)}"
    )


def _short(content: Any) -> str:
    text = str(content).replace("'", "")
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def main() -> int:
    """Explore the chosen scopes; exit status 1 if any has a violation."""
    parser = argparse.ArgumentParser(
        prog="python -m proof.simulation.exhaustive", description=__doc__
    )
    parser.add_argument("--faults", type=int, default=0, help="how many may strike a schedule")
    parser.add_argument("--only", default="", help="only scopes with this text in their name")
    parser.add_argument("--all", action="store_true", help="also those that take minutes")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--whole", action="store_true", help="also the orders of quiet calls")
    parser.add_argument("--replay", default="", help="show one schedule of the scope of --only")
    chosen = parser.parse_args()
    wanted = _chosen(chosen.only, faults=chosen.faults, is_all=chosen.all)
    if chosen.replay:
        (named,) = wanted
        path = tuple(map(int, chosen.replay.split(".")))
        print(*replay(named, path, faults=chosen.faults), sep="\n")
        return 0
    run = partial(explore, faults=chosen.faults, is_reduced=not chosen.whole)
    done = schedules = states = broken = 0
    with multiprocessing.get_context("fork").Pool(chosen.jobs, maxtasksperchild=1) as pool:
        for result in pool.imap(run, wanted):
            print(f"{result.named.name}: {result.found}, {result.seconds:.1f} s", flush=True)
            done += 1
            schedules += result.found.schedules
            states += result.found.states
            if result.found.broken:
                broken += 1
                _report(result, chosen.faults)
    faults = f"{chosen.faults} fault(s) at any step" if chosen.faults else "no faults"
    print(
        f"exhaustive: {done} of {len(wanted)} scopes, {faults}, {schedules:,} schedules through "
        f"{states:,} states, {broken} violations"
    )
    return 1 if broken or done < len(wanted) else 0


def _chosen(only: str, *, faults: int, is_all: bool) -> list[Named]:
    """The scope of this name, or those with this text in their names."""
    if exact := [each for each in SCOPES if each.name == only]:
        return exact
    size = ScopeSize.LARGE if is_all or only else ScopeSize.SMALL if faults else ScopeSize.MEDIUM
    return [each for each in SCOPES if only in each.name and each.size <= size]


def _report(result: ScopeResult, faults: int) -> None:
    print(*result.trace, sep="\n")
    print(f"{result.named.name}: {result.found.broken}.")
    path = ".".join(map(str, result.path))
    print(
        "To see it again: python -m proof.simulation.exhaustive "
        f'--only "{result.named.name}" --faults {faults} --replay {path}'
    )


if __name__ == "__main__":
    sys.exit(main())
