"""Two users who decide about each other by two clocks, with copies, against the oracle."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fanfold.errors import BlockedByYou
from fanfold.follows import relation
from fanfold.follows.relation import Follow, Privacy
from proof.simulation.oracle.audience import BY_DEFAULT, with_privacy
from proof.simulation.oracle.follows import (
    FOLLOWS,
    NONE,
    SHUT,
    SHUTS,
    WAITS,
    Asked,
    RowChange,
    Sighting,
    Verb,
    contradictions,
    sightings_of,
)

SKEW_MS = 3
PRIVATE, PUBLIC = "private", "public"
STAGES = {"followed": FOLLOWS, "requested": WAITS, "unfollowed": NONE}
HTTP_ALONE, MESSAGE_ALONE = (PRIVATE, PUBLIC), (Verb.APPROVED,)
VERBS = [each for each in Verb if each is not Verb.OPEN]


@dataclass(frozen=True)
class Try:
    """A request or message, and when the service reads and writes for it."""

    verb: str
    is_message: bool
    begun: int
    skew: int
    delays: tuple[int, ...]


delays = st.integers(0, 40) | st.integers(990, 1_070)


def tries(*verbs: str) -> st.SearchStrategy[Try]:
    return st.builds(
        lambda verb, is_message, **more: Try(
            verb, verb in MESSAGE_ALONE or (is_message and verb not in HTTP_ALONE), **more
        ),
        verb=st.sampled_from(verbs),
        is_message=st.booleans(),
        begun=st.integers(0, 30) | st.integers(990, 1_030),
        skew=st.integers(-SKEW_MS, SKEW_MS),
        delays=st.lists(delays, min_size=1, max_size=3).map(lambda d: tuple(sorted(d))),
    )


@dataclass
class Course:
    """What the product's rules make of requests: each reads and writes the rows at once.

    A row never forgets what was asked last, and who is blocked does not follow.
    """

    row: Follow = field(default_factory=lambda: Follow(user_id="u", publisher_id="p"))
    other: Follow = field(default_factory=lambda: Follow(user_id="p", publisher_id="u"))
    privacy: Privacy = field(default_factory=Privacy)
    changes: list[RowChange] = field(default_factory=list)

    def take(self, each: Try, at: int) -> bool | None:
        """Carry it out: whether it was done; None if it comes again."""
        stamp = each.begun + (0 if each.is_message else each.skew)
        asked = relation.Asked(stamp + 10, at + 10, each.is_message)
        before, now = self.row, self.privacy.version
        is_done: bool | None = True
        match each.verb:
            case Verb.FOLLOW | Verb.UNFOLLOW | Verb.APPROVED:
                approves = each.verb == Verb.APPROVED
                wanted = each.verb != Verb.UNFOLLOW
                try:
                    self.row = relation.granted(
                        before, wanted, asked, privacy=self.privacy, approves=approves
                    )
                except BlockedByYou:  # a message is dropped; a copy may come after the unblock
                    is_done = None if each.is_message else False
            case Verb.APPROVE:
                self.row = relation.approved(before, asked)
                is_over = before.has_place or before.shut or asked.is_late(before.left_at)
                if self.row is before and not before.is_active:
                    is_done = None if not is_over else each.is_message
            case Verb.REMOVE:
                self.row = relation.removed(before, asked, privacy=now)
            case Verb.BLOCK | Verb.UNBLOCK:
                decided = relation.blocked if each.verb == Verb.BLOCK else relation.unblocked
                self.row, self.other = decided(self.row, self.other, asked, privacy=now)
            case Verb.SHUT_OUT | Verb.LET_IN:
                decided = relation.blocked if each.verb == Verb.SHUT_OUT else relation.unblocked
                self.other, self.row = decided(self.other, self.row, asked, privacy=0)
            case _:
                self.privacy = relation.chosen(self.privacy, each.verb == PRIVATE, asked)
        self._note(at)
        return is_done

    def open(self, at: int) -> None:
        if not self.privacy.is_private:
            self.row = relation.opened(self.row, at + 10)
            self._note(at)

    def _note(self, at: int) -> None:
        assert self.row.shut is self.other.shuts
        assert not (self.row.is_active and self.row.shut)
        code = STAGES[self.row.state] | SHUT * self.row.shut | SHUTS * self.row.shuts
        if not self.changes or self.changes[-1].relation != code:
            self.changes.append(RowChange(at, self.row.is_active, relation=code))


def history(tried: list[Try]) -> tuple[Course, list[Asked], list[Asked]]:
    effects = [(each.begun + late, n) for n, each in enumerate(tried) for late in each.delays]
    course, ended = Course(), dict[int, tuple[int, bool]]()
    for at, number in sorted(effects):
        each = tried[number]
        if not each.is_message and number in ended:
            continue
        before = course.row
        done = course.take(each, at)
        assert course.row.asked_at >= before.asked_at
        if number in ended:
            assert (course.row.state, course.row.shut) == (before.state, before.shut), "a copy"
        if number not in ended and (done is not None or not each.is_message):
            ended[number] = at, bool(done)
        course.open(at)
    requests, choices = list[Asked](), list[Asked]()
    for number, each in enumerate(tried):
        at, is_due = ended.get(number, (each.begun + each.delays[-1], False))
        more: dict[str, Any] = {"ended": at, "is_due": is_due}
        if each.verb in HTTP_ALONE:
            choices.append(Asked(each.verb == PRIVATE, each.begun, **more))
        else:
            verb = Verb(each.verb)
            requests.append(Asked.of(verb, each.begun, is_message=each.is_message, **more))
    return course, requests, choices


def message(verb: str, at: int, *received: int) -> Try:
    return Try(verb, is_message=True, begun=at, skew=0, delays=received or (0,))


def request(verb: str, at: int, received: int = 0, *, skew: int = 0) -> Try:
    return Try(verb, is_message=False, begun=at, skew=skew, delays=(received,))


@given(
    st.lists(tries(*VERBS, PRIVATE, PUBLIC), max_size=7)
    | st.lists(tries(Verb.FOLLOW, Verb.UNFOLLOW), max_size=8)
)
@example([message(Verb.FOLLOW, 10, 0, 9), request(Verb.UNFOLLOW, 11, skew=-3)])
@example([message(Verb.FOLLOW, 10, 0, 9), request(Verb.UNFOLLOW, 10)])
@example([message(Verb.FOLLOW, 10, 0, 1), message(Verb.UNFOLLOW, 10)])
def test_what_two_users_ask_for_explains_what_becomes_of_their_relation(tried: list[Try]) -> None:
    course, requests, choices = history(tried)
    asked = with_privacy(requests, choices, skew_ms=SKEW_MS, of_reads=True)
    seen = [*sightings_of(course.changes)]
    assert not [*contradictions(asked, seen, skew_ms=SKEW_MS)]


# Each of these needs one of the rules, in fanfold/follows/relation.py.
COURSES = {
    "a removal makes what was sent before late": [
        message(Verb.FOLLOW, 0, 20),
        request(Verb.REMOVE, 9),
    ],
    "an approval leaves what the user has sent": [
        request(PRIVATE, 0),
        request(Verb.FOLLOW, 1),
        message(Verb.UNFOLLOW, 10, 20),
        request(Verb.APPROVE, 25),
    ],
    "a blocked user asks in vain": [
        request(Verb.BLOCK, 0),
        request(Verb.FOLLOW, 5),
        request(Verb.APPROVE, 9),
    ],
    "an unblock ends what was asked meanwhile": [
        request(Verb.BLOCK, 0),
        request(Verb.FOLLOW, 5),
        request(Verb.UNBLOCK, 9),
    ],
    "a removal gives way to a later approval": [
        request(PRIVATE, 0),
        request(Verb.FOLLOW, 1),
        message(Verb.REMOVE, 10, 30),
        request(Verb.APPROVE, 30),
    ],
    "an approval of a follow counts": [
        request(Verb.FOLLOW, 0),
        request(Verb.APPROVE, 30),
        message(Verb.REMOVE, 10, 30),
    ],
    "an approval gives way to a later end": [
        request(PRIVATE, 0),
        request(Verb.FOLLOW, 1),
        message(Verb.APPROVE, 5, 40),
        request(Verb.UNFOLLOW, 10),
        request(Verb.FOLLOW, 20),
    ],
    "a copy of an approval approves no other request": [
        request(PRIVATE, 0),
        request(Verb.FOLLOW, 1),
        message(Verb.APPROVE, 5, 0, 40),
        request(Verb.UNFOLLOW, 0, 10),
        request(Verb.FOLLOW, 20),
    ],
    "a repeated request shields nobody": [
        request(Verb.FOLLOW, 0),
        message(Verb.REMOVE, 10, 30),
        request(Verb.FOLLOW, 20),
    ],
    "a removal ends no later follow": [
        request(Verb.FOLLOW, 0),
        message(Verb.REMOVE, 10, 40),
        request(Verb.UNFOLLOW, 15),
        request(Verb.FOLLOW, 30),
    ],
    "a follow is of the time at which it was asked for": [
        message(Verb.APPROVED, 0, 100),
        message(Verb.REMOVE, 50, 100),
    ],
    "an unblock gives way to a later block": [
        message(Verb.UNBLOCK, 5, 40),
        request(Verb.BLOCK, 20),
    ],
    "a block of whom one blocks counts": [
        request(Verb.BLOCK, 0),
        message(Verb.UNBLOCK, 10, 40),
        request(Verb.BLOCK, 30),
    ],
    "no copy of a block blocks again": [
        message(Verb.BLOCK, 990, 0, 990),
        request(Verb.UNBLOCK, 0, 995),
    ],
    "a block that was undone before it came ends a follow": [
        request(Verb.FOLLOW, 0),
        message(Verb.BLOCK, 10, 40),
        request(Verb.UNBLOCK, 30),
    ],
    "a choice gives way to a later one": [
        request(PUBLIC, 0, 2_000),
        request(PRIVATE, 1_500),
        request(Verb.FOLLOW, 9_000),
    ],
    "a choice of what is so counts": [
        request(PRIVATE, 0),
        request(PUBLIC, 1_000, 3_000),
        request(PRIVATE, 3_000),
        request(Verb.FOLLOW, 12_000),
    ],
    "a follow gives way to a later unfollow": [
        request(Verb.FOLLOW, 0, 2_000),
        request(Verb.UNFOLLOW, 1_500),
    ],
    "no copy of a removal removes again": [
        request(Verb.FOLLOW, 0),
        message(Verb.REMOVE, 5, 0, 40),
        request(Verb.FOLLOW, 3, 17),
    ],
    "no copy of an approved follow asks again": [
        request(Verb.BLOCK, 0),
        request(Verb.FOLLOW, 997),
        message(Verb.APPROVED, 997, 0, 9),
        request(Verb.UNFOLLOW, 990, 12),
    ],
    "a removal that comes late counts": [
        request(PRIVATE, 0),
        request(Verb.FOLLOW, 34),
        message(Verb.REMOVE, 28, 12),
        message(Verb.APPROVED, 23, 40),
    ],
    "an approved follow of a follow counts": [
        request(Verb.FOLLOW, 0),
        message(Verb.APPROVED, 30),
        message(Verb.REMOVE, 10, 40),
    ],
    "an approved follow is late only after an end": [
        request(PRIVATE, 0),
        request(Verb.FOLLOW, 22),
        request(Verb.REMOVE, 5, 19),
        message(Verb.APPROVED, 22, 5),
    ],
}


@pytest.mark.parametrize("course", COURSES)
def test_each_rule_is_needed_by_a_course(course: str) -> None:
    done, requests, choices = history(COURSES[course])
    asked = with_privacy(requests, choices, skew_ms=SKEW_MS, of_reads=True)
    assert not [*contradictions(asked, [*sightings_of(done.changes)], skew_ms=SKEW_MS)]


@pytest.mark.parametrize(
    ("relations", "tried"),
    [
        # What a publisher has ended does not begin by an older message, nor by a copy.
        ([FOLLOWS], [message(Verb.FOLLOW, 0, 9), request(Verb.REMOVE, 3)]),
        ([SHUT | FOLLOWS], [request(Verb.BLOCK, 1), request(Verb.FOLLOW, 3)]),
        ([SHUT | NONE], [request(Verb.BLOCK, 1), request(Verb.FOLLOW, 3)]),
        # Nobody else follows a private publisher than whom it approves.
        ([FOLLOWS], [request(PRIVATE, 0), request(Verb.FOLLOW, 9_000)]),
        ([NONE], [request(PRIVATE, 0), request(Verb.FOLLOW, 9_000)]),
        ([WAITS], [request(PUBLIC, 0), request(Verb.FOLLOW, 9_000)]),
        ([WAITS, NONE], [request(PRIVATE, 0), request(Verb.FOLLOW, 9), request(Verb.APPROVE, 20)]),
        ([FOLLOWS], [request(Verb.FOLLOW, 0), request(Verb.REMOVE, 20)]),
        ([FOLLOWS], [request(Verb.FOLLOW, 0), request(Verb.SHUT_OUT, 20)]),
        ([SHUT], [request(Verb.BLOCK, 0), request(Verb.UNBLOCK, 20)]),
    ],
)
def test_the_oracle_says_what_nobody_has_asked_for(relations: list[int], tried: list[Try]) -> None:
    _, requests, choices = history(tried)
    asked = with_privacy(requests, choices, skew_ms=0, of_reads=True)
    last = max(each.ended for each in asked if each.ended < math.inf)
    seen = Sighting(last + 100, math.inf, False, throughout=True, among=frozenset(relations))
    assert [*contradictions(asked, [seen], skew_ms=0)] == [seen]


@pytest.mark.parametrize(("choices", "wrong"), [([], WAITS), ([BY_DEFAULT], FOLLOWS)])
def test_a_stage_has_chosen_for_publishers_who_have_not(choices: list[Asked], wrong: int) -> None:
    asked = with_privacy([Asked(True, 9e12, 9e12)], choices, skew_ms=SKEW_MS, of_reads=False)
    seen = Sighting(9e12 + 9, math.inf, False, throughout=True, among=frozenset({wrong}))
    assert [*contradictions(asked, [seen], skew_ms=SKEW_MS)] == [seen]
