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

Publishers decide, too. A follow of a private one is a request, which waits for the approval, or for
the publisher to go public. A removal ends both, and a block keeps both from being seen until it is
undone. Of two people, each one's requests give way only to some of the other's (`_LATE_BY`).

A history is allowed if some order of effects fits all observations (`Sighting`). The search follows
all such orders from one event to the next: at most a few requests are open at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import Any, NamedTuple

# The clocks that stamp requests differ by less than this (docs/api.md).
OVERTAKEN_MS = 1_000

_State = tuple[int, int, int]  # the relation; what is in effect, and sightings explained, as bits

# A relation: its stage; whether the publisher blocks the user (`SHUT`), or is blocked (`SHUTS`).
NONE, WAITS, FOLLOWS = range(3)
SHUT, SHUTS = 4, 8
RELATIONS = frozenset(stage | flags for stage in range(3) for flags in (0, 4, 8, 12))
FOLLOWED = frozenset({FOLLOWS})
# The publisher sees the request only if it does not block the user.
LISTED = frozenset({WAITS, WAITS | SHUTS})
REQUESTED = frozenset(each for each in RELATIONS if each % 4 == WAITS)


class Verb(StrEnum):
    """What is asked for; the last two are a user's about a publisher."""

    FOLLOW = "follow"
    UNFOLLOW = "unfollow"
    APPROVE = "approve"
    APPROVED = "follow with approval"  # by a message
    OPEN = "open"  # what waits, as long as the publisher may be public
    REMOVE = "remove"
    BLOCK = "block"
    UNBLOCK = "unblock"
    SHUT_OUT = "block the publisher"
    LET_IN = "unblock the publisher"


BEGINS = {Verb.FOLLOW, Verb.APPROVE, Verb.APPROVED, Verb.OPEN}


@dataclass(eq=False)
class Asked:
    """A request or message about a relation; without an answer, it ends at infinity."""

    follows: bool
    begun: float  # received, or sent
    ended: float = math.inf  # answered or abandoned; or the message left its queue for good
    is_message: bool = False
    is_due: bool = True  # false for a request without an answer, and for a dead letter
    is_import: bool = False  # it changes no existing follow, and does not override earlier messages
    stamp: float = math.nan  # when a message that was moved was first sent; else `begun`
    seen_by: float = math.nan  # when deliveries surely respect it, if later than `ended`
    verb: Verb = Verb.FOLLOW  # or, by default, `UNFOLLOW`
    is_private: bool | None = False  # the publisher, as a follow may know; None if it may be both

    def __post_init__(self) -> None:
        if math.isnan(self.stamp):
            self.stamp = self.begun
        if self.verb is Verb.FOLLOW and not self.follows:
            self.verb = Verb.UNFOLLOW

    @classmethod
    def of(cls, verb: Verb, begun: float, **more: Any) -> Asked:
        return cls(verb in BEGINS, begun, verb=verb, **more)

    @property
    def heeded_ms(self) -> float:
        """When deliveries surely respect it."""
        return self.ended if math.isnan(self.seen_by) else self.seen_by

    def __str__(self) -> str:
        kind = "message" if self.is_message else "request" if self.is_due else "open request"
        return f"{kind} to {self.verb} [{self.begun}, {self.ended}]"


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
    among: frozenset[int] = frozenset()  # or the relation was one of these

    @property
    def relations(self) -> frozenset[int]:
        return self.among or (FOLLOWED if self.follows else RELATIONS - FOLLOWED)

    def __str__(self) -> str:
        when = "throughout" if self.throughout else "some time in"
        state = "followed" if self.follows else "not followed"
        if self.among:
            state = f"one of {sorted(self.among)}"
        return f"{state} {when} [{self.begun}, {self.ended}]"


def surely(requests: Sequence[Asked], begun: float, ended: float, *, skew_ms: float) -> bool | None:
    """Whether the user surely follows throughout an interval; False if surely never, else None."""
    others = _others(requests, skew_ms)
    for follows in (True, False):
        against, is_explained = Sighting(begun, ended, follows=not follows), True
        search = _Search(others)
        for phase, number, what in _course(requests, [against]):
            is_explained = search.passes(phase, number, what)
            if what is against and phase == _END:
                break  # nothing later tells more of it
        if not is_explained:
            return follows
    return None


def contradictions(
    requests: Sequence[Asked], sightings: Sequence[Sighting], *, skew_ms: float
) -> Iterator[Asked | Sighting]:
    """Everything that no order of effects explains together with what came before.

    A yielded request should have taken effect. What is yielded is ignored from then on.
    """
    search = _Search(_others(requests, skew_ms))
    for phase, number, what in _course(requests, sightings):
        if not search.passes(phase, number, what):
            yield what


# Some twenty open requests of a relation may have any order. This number of states takes a second
# and 100 MB; one run in ten thousand would have more, and take all memory.
MOST_STATES = 100_000

# The phases of one instant. Intervals are closed, except for those `throughout`.
_LIFT, _BEGIN, _END, _PIN = range(4)


def _course(
    requests: Sequence[Asked], sightings: Sequence[Sighting]
) -> list[tuple[int, int, Asked | Sighting]]:
    events = sorted(_events(requests, sightings), key=itemgetter(0, 1, 2))
    return [event[1:] for event in events]


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


# What a request leaves in a relation that makes others late: that it took place at all, its time in
# each of these matters, and that the relation began with it.
_MARKS = _TOOK_PLACE, _OF_USER, _ENDS, _APPROVES, _BLOCKS, _OWN_BLOCKS, _BEGAN = range(7)
_WIDTH = len(_MARKS)
# What later requests each one gives way to.
_LATE_BY: dict[Verb, tuple[int, ...]] = {
    Verb.FOLLOW: (_OF_USER,),
    Verb.UNFOLLOW: (_OF_USER,),
    Verb.APPROVE: (_ENDS,),
    Verb.APPROVED: (_ENDS, _APPROVES),
    Verb.REMOVE: (_APPROVES,),
    Verb.BLOCK: (_BLOCKS,),
    Verb.UNBLOCK: (_BLOCKS,),
    Verb.SHUT_OUT: (_OWN_BLOCKS,),
    Verb.LET_IN: (_OWN_BLOCKS,),
    Verb.OPEN: (),
}
_Effect = tuple[int, tuple[int, ...]]  # the relation then, and the marks that it leaves


def _effects(request: Asked, relation: int) -> Iterator[_Effect]:
    """What may become of a relation if the request is not late."""
    stage, flags = relation % 4, relation - relation % 4
    ended = _TOOK_PLACE, _OF_USER, _ENDS
    match request.verb:
        case Verb.FOLLOW if request.is_import and (flags or stage == WAITS):
            yield relation, (_TOOK_PLACE,)
        case Verb.FOLLOW | Verb.APPROVED if flags & SHUTS:
            yield relation, (_TOOK_PLACE,)  # refused, or dropped
        case Verb.FOLLOW:
            marks = _TOOK_PLACE, _OF_USER, *(() if stage else (_BEGAN,))
            if stage == FOLLOWS or (request.is_private is not True and not flags & SHUT):
                yield FOLLOWS | flags, marks
            if stage != FOLLOWS and (request.is_private is not False or flags & SHUT):
                yield WAITS | flags, marks
        case Verb.APPROVED:
            marks = _TOOK_PLACE, _OF_USER, _APPROVES, *(() if stage else (_BEGAN,))
            yield (WAITS if flags & SHUT else FOLLOWS) | flags, marks
        case Verb.APPROVE if stage == NONE or flags & SHUT:
            yield relation, (_TOOK_PLACE,)  # not found
        case Verb.APPROVE:
            yield FOLLOWS | flags, (_TOOK_PLACE, _APPROVES)
        case Verb.OPEN if relation in LISTED:
            yield FOLLOWS | flags, ()
        case Verb.UNFOLLOW | Verb.REMOVE:
            yield flags, ended
        case Verb.BLOCK | Verb.UNBLOCK:
            is_so = bool(flags & SHUT) is (request.verb is Verb.BLOCK)
            yield (relation, (_TOOK_PLACE, _BLOCKS)) if is_so else (flags ^ SHUT, (*ended, _BLOCKS))
        case Verb.SHUT_OUT | Verb.LET_IN:
            is_so = bool(flags & SHUTS) is (request.verb is Verb.SHUT_OUT)
            marks = _TOOK_PLACE, _OWN_BLOCKS
            yield (relation, marks) if is_so else (flags ^ SHUTS, (*ended, _OWN_BLOCKS))


class _Others:
    """The marks of other requests, as bits, that make one late for sure, and those that may."""

    def __init__(self, number: int, requests: Sequence[Asked], skew_ms: float) -> None:
        request = requests[number]
        ids = range(len(requests))
        # Each change sets the row's time at least a millisecond later than all before.
        later = [
            other
            for other in ids
            if other != number and _is_after(requests[other], request, skew_ms)
        ]
        perhaps = [
            other
            for other in ids
            if other != number
            and requests[other].stamp
            >= request.stamp
            + _overtaken_ms(request)
            - _skew_ms(requests[other], request, skew_ms)
            - len(requests)
        ]
        late_by = _LATE_BY[request.verb]
        self.after, self.excuses = _bits(later, late_by), _bits(perhaps, late_by)
        # A message to remove ends no relation that began later.
        is_removal = request.verb in (Verb.REMOVE, Verb.BLOCK) and request.is_message
        self.begun_after = _bits(later, (_BEGAN,)) if is_removal else 0
        self.begun_perhaps = _bits(perhaps, (_BEGAN, _ENDS)) if is_removal else 0
        self.own = _bits([number], _MARKS)
        # A block that comes late is a removal.
        is_block = request.verb is Verb.BLOCK
        self.wanted = _bits([number], (_TOOK_PLACE,)) | (
            _bits(perhaps, (_APPROVES,)) if is_block else self.excuses
        )
        self.all = self.own | self.after | self.excuses | self.wanted | self.begun_perhaps


def _others(requests: Sequence[Asked], skew_ms: float) -> dict[int, _Others]:
    return {number: _Others(number, requests, skew_ms) for number in range(len(requests))}


class _Search:
    """All states that the history may have reached."""

    def __init__(self, others: Mapping[int, _Others]) -> None:
        self.states: set[_State] = {(NONE, 0, 0)}
        self.is_given_up = False
        self.pinned: dict[int, frozenset[int]] = {}  # by open sighting `throughout`
        self.watched: dict[int, int] = dict.fromkeys(RELATIONS, 0)  # bits of the open sightings
        self.open: dict[int, Asked] = {}
        # For each request that has not ended: the bits that still matter.
        self.others = dict(others)
        self.began = _bits(others, (_BEGAN,))

    def passes(self, phase: int, number: int, what: Asked | Sighting) -> bool:
        """Advance to an event; False if no state fits. Too many states end the search."""
        if self.is_given_up:
            return True
        if isinstance(what, Asked) and phase == _BEGIN:
            self.open[number] = what
            return True
        self._spread()
        if self.is_given_up:
            return True
        if isinstance(what, Asked):
            return self._ends(number, what)
        if phase == _PIN:
            self.pinned[number] = what.relations
            kept = {state for state in self.states if state[0] in what.relations}
            self.states = kept or {
                (relation, done, seen)
                for relation in what.relations
                for _, done, seen in self.states
            }
            return bool(kept)
        if phase == _LIFT:
            del self.pinned[number]
            return True
        bit = 1 << number
        if phase == _BEGIN:
            for relation in what.relations:
                self.watched[relation] |= bit
            self.states = {
                (relation, done, seen | bit if relation in what.relations else seen)
                for relation, done, seen in self.states
            }
            return True
        for relation in what.relations:
            self.watched[relation] &= ~bit
        kept = {state for state in self.states if state[2] & bit}
        self.states = {
            (relation, done, seen & ~bit) for relation, done, seen in kept or self.states
        }
        return bool(kept)

    def _ends(self, number: int, request: Asked) -> bool:
        kept = self.states
        if request.is_due:
            wanted = self.others[number].wanted
            kept = {state for state in kept if state[1] & wanted}
        del self.open[number], self.others[number]
        needed = 0
        for each in self.others.values():
            needed |= each.all
        self.states = {
            (relation, done & needed, seen) for relation, done, seen in kept or self.states
        }
        return bool(kept)

    def _spread(self) -> None:
        """Let any of the open requests take effect now, in any order."""
        if not self.open:
            return
        # If two states differ only in their sightings, the one with more explains all that the
        # other does. Keeping both would double the states with each sighting.
        best: dict[tuple[int, int], list[int]] = {}
        left = [state for state in self.states if _is_best(best, state)]
        while left:
            relation, done, seen = left.pop()
            for number, request in self.open.items():
                others = self.others[number]
                if done & 1 << number * _WIDTH:
                    continue
                for after, marks in self._effects(request, others, relation, done):
                    if any(after not in each for each in self.pinned.values()):
                        continue
                    kept = done if after % 4 else done & ~self.began
                    for mark in marks:
                        kept |= 1 << number * _WIDTH + mark
                    state = after, kept, seen | self.watched[after]
                    if _is_best(best, state):
                        left.append(state)
            if len(best) > MOST_STATES:
                self.is_given_up = True
                return
        self.states = {(*begin, seen) for begin, seens in best.items() for seen in seens}

    def _effects(
        self, request: Asked, others: _Others, relation: int, done: int
    ) -> Iterator[_Effect]:
        is_late = bool(done & others.after)
        may_be_late = is_late or bool(done & others.excuses)
        is_block = request.verb is Verb.BLOCK
        if not is_late and (is_block or not done & others.begun_after):
            yield from _effects(request, relation)
        if is_block and may_be_late and relation & SHUT:
            yield relation, (_TOOK_PLACE,)
        elif is_block and may_be_late:  # it is a removal
            yield relation - relation % SHUT, (_TOOK_PLACE, _OF_USER, _ENDS)
        if done & others.begun_perhaps and (may_be_late or not is_block):
            yield relation, (_TOOK_PLACE, _ENDS)  # of an earlier relation: it is noted


def _is_best(best: dict[tuple[int, int], list[int]], state: _State) -> bool:
    """Keep a state instead of those with fewer sightings; False if one has as many."""
    relation, done, seen = state
    known = best.setdefault((relation, done), [])
    if any(not seen & ~each for each in known):
        return False
    known[:] = [each for each in known if each & ~seen]
    known.append(seen)
    return True


def _bits(numbers: Iterable[int], marks: Iterable[int]) -> int:
    return sum(1 << number * _WIDTH + mark for number in numbers for mark in marks)


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

    Or the whole `relation` since. The items of a transaction may become visible one by one
    (docs/reliability.md): for `unseen_ms`, others may still have read the old row.
    """

    at: float
    follows: bool
    unseen_ms: float = 0
    relation: int | None = None


def sightings_of(changes: Sequence[RowChange]) -> Iterator[Sighting]:
    """The sightings of a relation whose changes are all known."""
    ends = [*(change.at for change in changes), math.inf]
    begun, follows, among = -math.inf, False, frozenset[int]()
    for number, ended in enumerate(ends):
        yield Sighting(begun, ended, follows, throughout=True, among=among)
        if number < len(changes):
            change = changes[number]
            begun, follows = change.at + change.unseen_ms, change.follows
            among = frozenset() if change.relation is None else frozenset({change.relation})
