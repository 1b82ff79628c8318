"""Two users who decide about each other by two clocks, with copies, against the oracle."""

from __future__ import annotations

import math
import re
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
                        before, wanted, asked, privacy_of=lambda _: self.privacy, approves=approves
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


TRY = re.compile(r"(\d+) ([a-z ]+?)( by message)?((?: \+\d+)*)")


def written(course: str) -> list[Try]:
    """The requests and messages of a course, as they are written in `COURSES`."""
    tried = []
    for each in course.split(", "):
        found = TRY.fullmatch(each)
        assert found, each
        at, verb, by_message, late = found.groups()
        delays = tuple(map(int, late.split(" +")[1:])) or (0,)
        tried.append(Try(verb, bool(by_message), int(at), 0, delays))
    return tried


@given(
    st.lists(tries(*VERBS, PRIVATE, PUBLIC), max_size=7)
    | st.lists(tries(Verb.FOLLOW, Verb.UNFOLLOW), max_size=8)
)
@example([*written("10 follow by message +0 +9"), Try(Verb.UNFOLLOW, False, 11, -3, (0,))])
@example(written("10 follow by message +0 +9, 10 unfollow"))
@example(written("10 follow by message +0 +1, 10 unfollow by message"))
def test_what_two_users_ask_for_explains_what_becomes_of_their_relation(tried: list[Try]) -> None:
    course, requests, choices = history(tried)
    asked = with_privacy(requests, choices, skew_ms=SKEW_MS, of_reads=True)
    seen = [*sightings_of(course.changes)]
    assert not [*contradictions(asked, seen, skew_ms=SKEW_MS)]


# Each of these needs one of the rules, in fanfold/follows/relation.py. A number is the millisecond
# of a request or message, and those after `+` are how late it and its copies come.
COURSES = {
    "a removal makes what was sent before late": "0 follow by message +20, 9 remove",
    "an approval leaves what the user has sent": (
        "0 private, 1 follow, 10 unfollow by message +20, 25 approve"
    ),
    "a blocked user asks in vain": "0 block, 5 follow, 9 approve",
    "an unblock ends what was asked meanwhile": "0 block, 5 follow, 9 unblock",
    "a removal gives way to a later approval": (
        "0 private, 1 follow, 10 remove by message +30, 30 approve"
    ),
    "an approval of a follow counts": "0 follow, 30 approve, 10 remove by message +30",
    "an approval gives way to a later end": (
        "0 private, 1 follow, 5 approve by message +40, 10 unfollow, 20 follow"
    ),
    "a copy of an approval approves no other request": (
        "0 private, 1 follow, 5 approve by message +0 +40, 0 unfollow +10, 20 follow"
    ),
    "a repeated request shields nobody": "0 follow, 10 remove by message +30, 20 follow",
    "a removal ends no later follow": "0 follow, 10 remove by message +40, 15 unfollow, 30 follow",
    "a follow is of the time at which it was asked for": (
        "0 follow with approval by message +100, 50 remove by message +100"
    ),
    "an unblock gives way to a later block": "5 unblock by message +40, 20 block",
    "a block of whom one blocks counts": "0 block, 10 unblock by message +40, 30 block",
    "no copy of a block blocks again": "990 block by message +0 +990, 0 unblock +995",
    "a block that was undone before it came ends a follow": (
        "0 follow, 10 block by message +40, 30 unblock"
    ),
    "a choice gives way to a later one": "0 public +2000, 1500 private, 9000 follow",
    "a choice of what is so counts": "0 private, 1000 public +3000, 3000 private, 12000 follow",
    "a follow gives way to a later unfollow": "0 follow +2000, 1500 unfollow",
    "no copy of a removal removes again": "0 follow, 5 remove by message +0 +40, 3 follow +17",
    "no copy of an approved follow asks again": (
        "0 block, 997 follow, 997 follow with approval by message +0 +9, 990 unfollow +12"
    ),
    "a removal that comes late counts": (
        "0 private, 34 follow, 28 remove by message +12, 23 follow with approval by message +40"
    ),
    "an approved follow of a follow counts": (
        "0 follow, 30 follow with approval by message, 10 remove by message +40"
    ),
    "an approved follow is late only after an end": (
        "0 private, 22 follow, 5 remove +19, 22 follow with approval by message +5"
    ),
}


@pytest.mark.parametrize("course", COURSES)
def test_each_rule_is_needed_by_a_course(course: str) -> None:
    done, requests, choices = history(written(COURSES[course]))
    asked = with_privacy(requests, choices, skew_ms=SKEW_MS, of_reads=True)
    assert not [*contradictions(asked, [*sightings_of(done.changes)], skew_ms=SKEW_MS)]


@pytest.mark.parametrize(
    ("relations", "course"),
    [
        # What a publisher has ended does not begin by an older message, nor by a copy.
        ([FOLLOWS], "0 follow by message +9, 3 remove"),
        ([SHUT | FOLLOWS], "1 block, 3 follow"),
        ([SHUT | NONE], "1 block, 3 follow"),
        # Nobody else follows a private publisher than whom it approves.
        ([FOLLOWS], "0 private, 9000 follow"),
        ([NONE], "0 private, 9000 follow"),
        ([WAITS], "0 public, 9000 follow"),
        ([WAITS, NONE], "0 private, 9 follow, 20 approve"),
        ([FOLLOWS], "0 follow, 20 remove"),
        ([FOLLOWS], "0 follow, 20 block the publisher"),
        ([SHUT], "0 block, 20 unblock"),
    ],
)
def test_the_oracle_says_what_nobody_has_asked_for(relations: list[int], course: str) -> None:
    _, requests, choices = history(written(course))
    asked = with_privacy(requests, choices, skew_ms=0, of_reads=True)
    last = max(each.ended for each in asked if each.ended < math.inf)
    seen = Sighting(last + 100, math.inf, False, throughout=True, among=frozenset(relations))
    assert [*contradictions(asked, [seen], skew_ms=0)] == [seen]


@pytest.mark.parametrize(("choices", "wrong"), [([], WAITS), ([BY_DEFAULT], FOLLOWS)])
def test_a_stage_has_chosen_for_publishers_who_have_not(choices: list[Asked], wrong: int) -> None:
    asked = with_privacy([Asked(True, 9e12, 9e12)], choices, skew_ms=SKEW_MS, of_reads=False)
    seen = Sighting(9e12 + 9, math.inf, False, throughout=True, among=frozenset({wrong}))
    assert [*contradictions(asked, [seen], skew_ms=SKEW_MS)] == [seen]
