"""What may be between two users, by what they have sent and were answered: an oracle. Pure.

It knows nothing of the product. Often several states are possible, and it keeps them all:

* Of requests made at the same time, either may come first, and the earlier may yield to the later.
* A message takes effect once until all is at rest. If anything was asked of the same two users
  after it, it may yield to that; a block that yields may still end the follow.
* When a publisher goes public, requests that wait become follows at some time until all is at rest.
* Going private is known to all from the answer's `enforced_from` on, and going public as soon; who
  was removed, blocked or unblocked after it knows it at once (docs/api.md).

Times are epoch seconds of one clock.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from threading import Lock
from typing import NamedTuple, TypeAlias

from fanfold_cli.run.record import Pair, Record

# A relation of a user to another.
NO, ASKED, YES = "no", "requested", "followed"
# What a user does about another.
FOLLOW, UNFOLLOW, APPROVE, REMOVE = "follow", "unfollow", "approve", "remove"
BLOCK, UNBLOCK = "block", "unblock"
ADMIT = "admit"  # follow, by a message that has the publisher's approval
SHOW, SHOW_BLOCKED = "show", "show blocked"  # looks, which change nothing
DONE, REFUSED = "done", "refused"
# A request yields to another that was made so much later (docs/api.md).
OVERTAKEN_SECONDS = 1.0


class State(NamedTuple):
    """Of two users: the relation of each to the other, and whether it blocks the other."""

    relations: tuple[str, str] = (NO, NO)
    blocks: tuple[bool, bool] = (False, False)

    def related(self, who: int, relation: str) -> State:
        other = self.relations[1 - who]
        return self._replace(relations=(other, relation) if who else (relation, other))

    def blocking(self, who: int, blocks: bool) -> State:
        other = self.blocks[1 - who]
        return State(blocks=(other, blocks) if who else (blocks, other))


class Call(NamedTuple):
    """What one of two users did about the other, and was answered; a message has no answer."""

    verb: str
    who: int
    answer: str = ""


Branch: TypeAlias = tuple[State, frozenset[int]]  # with the messages that are under way


def after(state: State, verb: str, who: int, *, private: bool) -> State:
    """The state after this; `private` is the other's privacy."""
    other = 1 - who
    if verb in (FOLLOW, ADMIT) and not state.blocks[who] and state.relations[who] != YES:
        waits = state.blocks[other] or (private and verb == FOLLOW)
        return state.related(who, ASKED if waits else YES)
    if verb == UNFOLLOW:
        return state.related(who, NO)
    if verb == APPROVE and is_listed(state, other):
        return state.related(other, YES)
    if verb == REMOVE:
        return state.related(other, NO)
    if verb == BLOCK or (verb == UNBLOCK and state.blocks[who]):
        is_same = state.blocks[who] is (verb == BLOCK)
        return state if is_same else state.blocking(who, verb == BLOCK)
    return state


def answered(state: State, verb: str, who: int) -> str:
    """The answer to a request after which this is the state."""
    if verb == FOLLOW and state.blocks[who]:
        return REFUSED
    if verb in (FOLLOW, SHOW):
        return state.relations[who]
    if verb == APPROVE:
        return YES if state.relations[1 - who] == YES else NO
    return str(state.blocks[who]) if verb == SHOW_BLOCKED else DONE


def is_listed(state: State, who: int) -> bool:
    """Whether the other sees that this user asks to follow."""
    return state.relations[who] == ASKED and not state.blocks[1 - who]


@dataclass
class Choice:
    """A publisher went private or public."""

    private: bool
    begun: float
    ended: float = math.inf
    known: float = math.inf  # to everybody


class Privacies(defaultdict[str, list[Choice]]):
    """What publishers have chosen, one after the other."""

    def possible(
        self, user: str, begun: float, ended: float, *, fresh: float = math.inf
    ) -> set[bool]:
        """Whether the publisher may count as private, or public, at some time of an interval.

        It counts as what it chose before `fresh`, if not as what it chose since.
        """
        choices = [Choice(False, -math.inf), *self[user]]
        found = set()
        for number, each in enumerate(choices):
            until = math.inf
            for over in choices[number + 1 : number + 2]:
                until = over.ended if over.ended < fresh else over.known
            if each.begun <= ended and until >= begun:
                found.add(each.private)
        return found

    def is_public(self, user: str, begun: float, ended: float) -> bool | None:
        """Whether it is public throughout an interval, or never; None if unknown."""
        found = self.possible(user, begun, ended)
        return not found.pop() if len(found) == 1 else None


@dataclass(eq=False)
class Between:
    """What may be between two users, and may have been."""

    users: Pair
    privacies: Privacies
    branches: set[Branch] = field(default_factory=lambda: {(State(), frozenset())})
    spans: list[tuple[float, frozenset[State]]] = field(
        default_factory=lambda: [(-math.inf, frozenset({State()}))]
    )
    messages: list[Call] = field(default_factory=list)
    sent_at: list[float] = field(default_factory=list)
    last_asked: float = -math.inf
    # Since when each one's choices count at once for the other.
    fresh: list[float] = field(default_factory=lambda: [-math.inf, -math.inf])
    busy: Lock = field(default_factory=Lock)  # one act at a time

    @property
    def states(self) -> set[State]:
        """The possible states now, apart from what becomes of requests that wait."""
        return {state for state, _ in self.branches}

    @property
    def is_settled(self) -> bool:
        return all(not left for _, left in self.branches)

    def act(
        self, calls: Sequence[Call], begun: float, ended: float, *, together: bool = False
    ) -> str | None:
        """Requests that were made one after the other, or `together`; a complaint if none fits."""
        before = self._spread(self.branches, ended)
        ways = [*permutations(calls)] if together else [tuple(calls)]
        if together and ended - begun > OVERTAKEN_SECONDS:
            ways += [(each,) for each in calls]
        seen, found = self._through(before, ways, begun, ended)
        complaint = None
        if not found:
            known = "; ".join(map(str, sorted(self.states)))
            chosen = {user: self.privacies[user][-2:] for user in self.users}
            complaint = f"{self.users} {calls} fits none of {known}, with {chosen}."
            blind = [tuple(each._replace(answer="") for each in way) for way in ways]
            seen, found = self._through(before, blind, begun, ended)
        self._remember(calls, before, begun, ended)
        found = self._spread(found, ended)
        self._note(begun, ended, seen | found, found)
        return complaint

    def send(self, call: Call, at: float) -> None:
        """A message, which takes effect at some time from now on."""
        number = len(self.messages)
        self.messages.append(call)
        self.sent_at.append(at)
        self.last_asked = at
        found = self._spread({(state, left | {number}) for state, left in self.branches}, at)
        self._note(at, at, found, found)

    def rest(self, begun: float, ended: float) -> None:
        """All messages were handled, and RELATE has opened all requests of public publishers."""
        before, found = self._spread(self.branches, ended), set[Branch]()
        for state, left in before:
            if any(self.sent_at[each] >= self.last_asked for each in left):
                continue
            for who in (0, 1):
                if is_listed(state, who) and self._is_public(1 - who, begun, ended):
                    state = state.related(who, YES)
            found.add((state, frozenset[int]()))
        self.messages.clear()
        self.sent_at.clear()
        self._note(begun, ended, before | found, found)

    def follows(self, who: int, begun: float, ended: float) -> bool | None:
        found = {state.relations[who] == YES for state in self.possible(begun, ended)}
        return found.pop() if len(found) == 1 else None

    def may_see(self, who: int, begun: float, ended: float) -> set[bool]:
        """Whether the user may see the other's feed and posts, beside timelines."""
        found = set()
        for state in self.possible(begun, ended):
            if state.relations[who] == YES or state.blocks[1 - who]:
                found.add(state.relations[who] == YES)
            else:
                found |= {not each for each in self._private(1 - who, begun, ended)}
        return found

    def possible(self, begun: float, ended: float) -> Iterator[State]:
        """The states at some time of an interval."""
        ends = [at for at, _ in self.spans[1:]] + [math.inf]
        for (at, states), until in zip(self.spans, ends, strict=True):
            if at <= ended and until >= begun:
                for state in states:
                    yield from self._opened(state, at, min(until, ended))

    # The steps

    def _through(
        self, before: set[Branch], ways: Iterable[Sequence[Call]], begun: float, ended: float
    ) -> tuple[set[Branch], set[Branch]]:
        """All branches on these ways, and those at their ends."""
        seen, found = set(before), set[Branch]()
        for way in ways:
            branches = before
            for call in way:
                branches = self._spread(self._stepped(branches, call, begun, ended), ended)
                seen |= branches
            found |= branches
        return seen, found

    def _stepped(
        self, branches: set[Branch], call: Call, begun: float, ended: float
    ) -> set[Branch]:
        return {
            (new, left - self._late(state, left, call))
            for state, left in branches
            for private in self._private(1 - call.who, begun, ended)
            for new in [after(state, call.verb, call.who, private=private)]
            if not call.answer or call.answer == answered(new, call.verb, call.who)
        }

    def _late(self, state: State, left: frozenset[int], call: Call) -> set[int]:
        """The messages that begin nothing after this request, which ends it."""
        ends = {UNFOLLOW: {call.who}, REMOVE: {1 - call.who}}.get(call.verb, set[int]())
        if call.verb in (BLOCK, UNBLOCK) and state.blocks[call.who] is (call.verb == UNBLOCK):
            ends = {0, 1}
        begins = {FOLLOW: 0, ADMIT: 0, APPROVE: 1}  # whose relation: the sender's, or the other's
        return {
            number
            for number in left
            for message in [self.messages[number]]
            if call.answer and message.verb in begins
            if abs(message.who - begins[message.verb]) in ends
        }

    def _remember(
        self, calls: Sequence[Call], before: set[Branch], begun: float, ended: float
    ) -> None:
        if any(call.verb not in (SHOW, SHOW_BLOCKED) for call in calls):
            self.last_asked = ended
        if len(calls) > 1:
            return
        (call,) = calls
        was_blocked = all(state.blocks[call.who] for state, _ in before)
        if call.verb in (REMOVE, BLOCK) or (call.verb == UNBLOCK and was_blocked):
            self.fresh[call.who] = begun

    def _spread(self, branches: set[Branch], ended: float) -> set[Branch]:
        """With everything that messages and publishers who go public may do by then."""
        found, todo = set[Branch](), [*branches]
        while todo:
            branch = todo.pop()
            if branch in found:
                continue
            found.add(branch)
            state, left = branch
            since = self.spans[-1][0]
            todo += [(each, left) for each in self._opened(state, since, ended)]
            for number in left:
                call, sent_at = self.messages[number], self.sent_at[number]
                rest = left - {number}
                todo += self._stepped({(state, rest)}, call, sent_at, ended)
                if sent_at < self.last_asked:
                    todo.append((state, rest))
                    if call.verb == BLOCK:
                        todo.append((state.related(1 - call.who, NO), rest))
        return found

    def _opened(self, state: State, begun: float, ended: float) -> Iterator[State]:
        yield state
        for who in (0, 1):
            if is_listed(state, who) and self._is_public(1 - who, begun, ended) is not False:
                yield state.related(who, YES)

    def _is_public(self, who: int, begun: float, ended: float) -> bool | None:
        choices = self.privacies.possible(self.users[who], begun, ended, fresh=math.inf)
        return not choices.pop() if len(choices) == 1 else None

    def _private(self, who: int, begun: float, ended: float) -> set[bool]:
        fresh = self.fresh[who]
        return self.privacies.possible(self.users[who], begun, ended, fresh=fresh)

    def _note(
        self, begun: float, ended: float, during: Iterable[Branch], then: set[Branch]
    ) -> None:
        self.branches = then
        self.spans.append((begun, frozenset(state for state, _ in during)))
        self.spans.append((ended, frozenset(state for state, _ in then)))


class Relations(Record):
    """The record of a run whose users approve, remove and block each other."""

    def __init__(self) -> None:
        super().__init__()
        self.privacies = Privacies(list)
        self.betweens: dict[Pair, Between] = {}

    def between(self, user: str, other: str) -> tuple[Between, int]:
        """What is between two users, and which of them the first is."""
        users = min(user, other), max(user, other)
        return self.betweens[users], users.index(user)

    def meet(self, user: str, other: str) -> None:
        users = min(user, other), max(user, other)
        self.betweens.setdefault(users, Between(users, self.privacies))

    def is_followed(self, pair: Pair, begun: float, ended: float) -> bool | None:
        if (min(pair), max(pair)) not in self.betweens:
            return False
        between, who = self.between(*pair)
        return between.follows(who, begun, ended)
