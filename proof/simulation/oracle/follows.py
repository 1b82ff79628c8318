"""Who follows whom, by the requests alone: an oracle for one user and one publisher.

It is pure, and knows nothing of the product. Times are epoch milliseconds of one true clock; the
stamps of requests may be off by a known skew.

* A request takes effect once, before its answer or while it continues unheard. Without an answer,
  it may have no effect if a request or message more than a second later has taken effect.
* A message takes effect once between its sending and its end. It may have no effect if a later
  request has taken effect by then, or if it is a dead letter. It ends when a copy of it has been
  handled, or else with its last copy.
* A message or an earlier request takes no effect after a request that is surely later, nor a
  message after one that was sent later, nor a request after one made more than a second later.
* An import with `--again` "asks for each follow as it writes it, and gives way to nobody"
  (docs/api.md): it takes effect at any time while it runs, in spite of other requests. One without
  may have no effect on a relation for which an unfollow was requested.

A history is allowed if some order of effects fits all observations (`Sighting`). The search follows
all such orders from one event to the next: at most a few requests are open at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# The clocks that stamp requests differ by less than this (docs/api.md).
OVERTAKEN_MS = 1_000

_State = tuple[bool, int, int]  # follows; requests in effect, and sightings explained, as bits


@dataclass(eq=False)
class Asked:
    """A request or message to follow or unfollow; without an answer, it ends at infinity."""

    follows: bool
    begun: float  # received, or sent
    ended: float = math.inf  # answered or abandoned; or the message left its queue for good
    is_message: bool = False
    is_due: bool = True  # false for a request without an answer, and for a dead letter
    is_import: bool = False  # it changes no existing follow, and does not override earlier messages
    stamp: float = math.nan  # when a message that was moved was first sent; else `begun`
    seen_by: float = math.nan  # when deliveries surely respect it, if later than `ended`

    def __post_init__(self) -> None:
        if math.isnan(self.stamp):
            self.stamp = self.begun

    @property
    def heeded_ms(self) -> float:
        """When deliveries surely respect it."""
        return self.ended if math.isnan(self.seen_by) else self.seen_by

    def __str__(self) -> str:
        kind = "message" if self.is_message else "request" if self.is_due else "open request"
        return f"{kind} to {'follow' if self.follows else 'unfollow'} [{self.begun}, {self.ended}]"


@dataclass(frozen=True, eq=False)
class Sighting:
    """The user followed the publisher, or did not, at some time of an interval or throughout.

    With `throughout`, the interval is open: changes may happen at its ends.
    """

    begun: float
    ended: float
    follows: bool
    throughout: bool = False
    what: str = ""

    def __str__(self) -> str:
        when = "throughout" if self.throughout else "some time in"
        state = "followed" if self.follows else "not followed"
        return f"{state} {when} [{self.begun}, {self.ended}]"


def surely(requests: Sequence[Asked], begun: float, ended: float, *, skew_ms: float) -> bool | None:
    """Whether the user surely follows throughout an interval; False if surely never, else None."""
    for follows in (True, False):
        against = Sighting(begun, ended, follows=not follows)
        if against in contradictions(requests, [against], skew_ms=skew_ms):
            return follows
    return None


def contradictions(
    requests: Sequence[Asked], sightings: Sequence[Sighting], *, skew_ms: float
) -> Iterator[Asked | Sighting]:
    """Everything that no order of effects explains together with what came before.

    A yielded request should have taken effect. What is yielded is ignored from then on.
    """
    search = _Search(requests, skew_ms)
    for _, phase, number, what in sorted(_events(requests, sightings), key=lambda event: event[:3]):
        if not search.passes(phase, number, what):
            yield what


# Some twenty open requests of a relation may have any order. This number of states takes a second
# and 100 MB; one run in ten thousand would have more, and take all memory.
MOST_STATES = 100_000

# The phases of one instant. Intervals are closed, except for those `throughout`.
_LIFT, _BEGIN, _END, _PIN = range(4)


def _events(
    requests: Sequence[Asked], sightings: Sequence[Sighting]
) -> Iterator[tuple[float, int, int, Asked | Sighting]]:
    for number, request in enumerate(requests):
        yield request.begun, _BEGIN, number, request
        yield request.heeded_ms, _END, number, request
    for number, each in enumerate(sightings):
        if not each.throughout:
            yield each.begun, _BEGIN, number, each
            yield each.ended, _END, number, each
        elif each.begun < each.ended:
            yield each.begun, _PIN, number, each
            if each.ended < math.inf:
                yield each.ended, _LIFT, number, each


class _Search:
    """All states that the history may have reached."""

    def __init__(self, requests: Sequence[Asked], skew_ms: float) -> None:
        self.states: set[_State] = {(False, 0, 0)}
        self.is_given_up = False
        self.pinned: dict[int, bool] = {}  # by open sighting `throughout`, its state
        self.watched = {True: 0, False: 0}  # bits of the open sightings of this state
        self.open: dict[int, tuple[int, bool, int]] = {}  # by number: its bit, state, what is after
        # The bits of the requests that come after each one, and of those that excuse it.
        self.after = [_bits(_is_after(each, one, skew_ms) for each in requests) for one in requests]
        # Each change sets the row's time at least a millisecond later than all before.
        self.excuses = [
            _bits(
                each is not request and each.stamp >= request.stamp + least_ms - len(requests)
                for each in requests
                for least_ms in [_overtaken_ms(request) - _skew_ms(each, request, skew_ms)]
            )
            for request in requests
        ]
        # For each request that has not ended: the bits that still matter.
        self.needs = {
            number: 1 << number | self.after[number] | self.excuses[number]
            for number in range(len(requests))
        }

    def passes(self, phase: int, number: int, what: Asked | Sighting) -> bool:
        """Advance to an event; False if no state fits. Too many states end the search."""
        if self.is_given_up:
            return True
        if isinstance(what, Asked) and phase == _BEGIN:
            self.open[number] = 1 << number, what.follows, self.after[number]
            return True
        self._spread()
        if self.is_given_up:
            return True
        if isinstance(what, Asked):
            return self._ends(number, what)
        if phase == _PIN:
            self.pinned[number] = what.follows
            kept = {state for state in self.states if state[0] is what.follows}
            self.states = kept or {(what.follows, done, seen) for _, done, seen in self.states}
            return bool(kept)
        if phase == _LIFT:
            del self.pinned[number]
            return True
        bit = 1 << number
        if phase == _BEGIN:
            self.watched[what.follows] |= bit
            self.states = {
                (follows, done, seen | bit if follows is what.follows else seen)
                for follows, done, seen in self.states
            }
            return True
        self.watched[what.follows] &= ~bit
        kept = {state for state in self.states if state[2] & bit}
        self.states = {(follows, done, seen & ~bit) for follows, done, seen in kept or self.states}
        return bool(kept)

    def _ends(self, number: int, request: Asked) -> bool:
        kept = self.states
        if request.is_due:
            wanted = 1 << number | self.excuses[number]
            kept = {state for state in kept if state[1] & wanted}
        del self.open[number], self.needs[number]
        needed = 0
        for bits in self.needs.values():
            needed |= bits
        self.states = {
            (follows, done & needed, seen) for follows, done, seen in kept or self.states
        }
        return bool(kept)

    def _spread(self) -> None:
        """Let any of the open requests take effect now, in any order."""
        if not self.open:
            return
        pinned = set(self.pinned.values())
        # If two states differ only in their sightings, the one with more explains all that the
        # other does. Keeping both would double the states with each sighting.
        best: dict[tuple[bool, int], list[int]] = {}
        left = [state for state in self.states if _is_best(best, state)]
        while left:
            _, done, seen = left.pop()
            for bit, follows, after in self.open.values():
                if done & (bit | after) or (pinned and not pinned <= {follows}):
                    continue
                state = follows, done | bit, seen | self.watched[follows]
                if _is_best(best, state):
                    left.append(state)
            if len(best) > MOST_STATES:
                self.is_given_up = True
                return
        self.states = {(*begin, seen) for begin, seens in best.items() for seen in seens}


def _is_best(best: dict[tuple[bool, int], list[int]], state: _State) -> bool:
    """Keep a state instead of those with fewer sightings; False if one has as many."""
    follows, done, seen = state
    known = best.setdefault((follows, done), [])
    if any(not seen & ~each for each in known):
        return False
    known[:] = [each for each in known if each & ~seen]
    known.append(seen)
    return True


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << number for number, flag in enumerate(flags) if flag)


def _is_after(later: Asked, request: Asked, skew_ms: float) -> bool:
    """Whether an effect of one request surely comes after that of another, if both have one."""
    if later.begun > request.ended:
        return True
    if later.is_import:
        return False
    return later.stamp > request.stamp + _overtaken_ms(request) + _skew_ms(later, request, skew_ms)


def _overtaken_ms(request: Asked) -> float:
    """How much later a request must be made to override this one."""
    if request.is_import:
        return math.inf
    return 0 if request.is_message else OVERTAKEN_MS


def _skew_ms(one: Asked, other: Asked, skew_ms: float) -> float:
    """How far the stamps of two requests may be off; those of messages are true."""
    return skew_ms * [one.is_message, other.is_message].count(False)


class RowChange(NamedTuple):
    """A change of a row: when, and whether the user follows the publisher since.

    The items of a transaction may become visible one by one (docs/reliability.md): for `unseen_ms`,
    others may still have read the old row.
    """

    at: float
    follows: bool
    unseen_ms: float = 0


def sightings_of(changes: Sequence[RowChange]) -> Iterator[Sighting]:
    """The sightings of a relation whose changes are all known."""
    ends = [*(change.at for change in changes), math.inf]
    begun, follows = -math.inf, False
    for number, ended in enumerate(ends):
        yield Sighting(begun, ended, follows, throughout=True)
        if number < len(changes):
            change = changes[number]
            begun, follows = change.at + change.unseen_ms, change.follows
