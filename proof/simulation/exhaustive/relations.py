"""Scopes of one user and one publisher: wishes by HTTP and by message at once, and RELATE.

The checks know what was wished and answered, and watch each change of the row.

* A request that was answered with success was the state at some time while it was answered.
* A message takes effect once; and never, once a request with a later stamp was answered.
* From the answer to a follow on there is its edge, until somebody wishes to unfollow.
* At each step the publisher is marked as hidden if the follow has ended, and not while it lasts.
* In the end the edges agree with the row, and the user's count of follows is exact.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from fanfold import contract, names
from fanfold.timeline.marks import hash_of
from proof.model.clock import START_MS
from proof.simulation.exhaustive.doors import Program
from proof.simulation.exhaustive.scopes import Scope, http
from proof.simulation.exhaustive.states import Happened, Letter
from proof.simulation.exhaustive.store import TABLES, Contents

USER, PUBLISHER = "u", "p"
HOUR_MS = 60 * 60 * 1000
ROUTES = {True: contract.FOLLOW, False: contract.UNFOLLOW}
TYPES = {True: contract.FOLLOW_ADDED, False: contract.FOLLOW_REMOVED}


class Wish(NamedTuple):
    """To follow or to unfollow; `at` is its stamp in milliseconds after the start."""

    follows: bool
    at: int
    by_message: bool = False

    @property
    def name(self) -> str:
        return f"{'follow' if self.follows else 'unfollow'} at {self.at}"

    def program(self) -> Program:
        at = START_MS + self.at
        event = http(ROUTES[self.follows], USER, at=at, path={"publisher_id": PUBLISHER})
        # By one clock all RELATE's orders are sent at once, and so they are alike.
        return Program(self.name, names.API.name, json.dumps(event), seconds=names.API.seconds)

    def letter(self) -> Letter:
        content = {"type": TYPES[self.follows], "user_id": USER, "publisher_id": PUBLISHER}
        body = json.dumps({"version": contract.VERSION, **content})
        return Letter(names.PUBLISH.name, body, USER, START_MS + self.at)


# How far a wish has come.
WAITS, UNDER_WAY, ANSWERED, UNANSWERED = range(4)


class Course(NamedTuple):
    """What became of a wish so far."""

    phase: int = WAITS
    came_true: bool = False  # it was the state while it was under way
    changes: int = 0
    is_alone: bool = True  # no wish to unfollow was under way since it began


class Relation(Scope):
    """The wishes of one user about one publisher."""

    wishes: tuple[Wish, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._active: dict[int, bool] = {}  # by the number of the table's content
        self._misshown: dict[tuple[int, int], str] = {}  # likewise, of two tables

    def wish(self, wishes: Iterable[Wish], *, is_followed: bool, faults: int) -> None:
        """Let the wishes begin at once."""
        self.wishes = tuple(wishes)
        if is_followed:
            at = START_MS - HOUR_MS
            event = http(contract.FOLLOW, USER, at=at, path={"publisher_id": PUBLISHER})
            assert not self.run("api", event, at=at).is_failure
        self.letters = [wish.letter() for wish in self.wishes if wish.by_message]
        self.ghost = tuple(
            self._begun(Course(), wish) if wish.by_message else Course() for wish in self.wishes
        )
        self.begin([wish.program() for wish in self.wishes if not wish.by_message], faults)

    def _begun(self, course: Course, wish: Wish) -> Course:
        is_wanted = self.is_active(self.contents) is wish.follows
        return course._replace(phase=UNDER_WAY, came_true=is_wanted)

    def is_active(self, contents: Contents) -> bool:
        number = contents[TABLES[names.FOLLOWING.name]]
        if number not in self._active:
            rows = self.store.items[number]
            self._active[number] = any(row["state"]["S"] == "followed" for row in rows)
        return self._active[number]

    def misshown(self, contents: Contents) -> str:
        """What is wrong with the mark that hides the publisher; empty if nothing is."""
        key = contents[TABLES[names.FOLLOWING.name]], contents[TABLES[names.READERS.name]]
        if key not in self._misshown:
            self._misshown[key] = self._judged(contents)
        return self._misshown[key]

    def _judged(self, contents: Contents) -> str:
        rows = self.store.rows(contents, names.FOLLOWING)
        marks = [
            mark
            for row in self.store.rows(contents, names.READERS)
            for name, value in row.items()
            if name.startswith("hidden_")
            for mark in value["BS"]
        ]
        was_followed = any("followed_at" in row for row in rows)
        wanted = [hash_of(PUBLISHER)] if was_followed and not self.is_active(contents) else []
        return "" if marks == wanted else f"with the rows {rows}, the marks are {marks}"

    def has_edge(self, contents: Contents) -> bool:
        place = TABLES[names.FOLLOWERS.name]
        return contents[place] != self.store.empty[place]

    def _number(self, happened: Happened) -> int | None:
        """Which wish an invocation serves; None for RELATE."""
        for number, wish in enumerate(self.wishes):
            letter = happened.letter
            if wish.by_message and letter is not None:
                if letter.body == wish.letter().body and letter.queue == names.PUBLISH.name:
                    return number
            elif not wish.by_message and happened.program.name == wish.name:
                return number
        return None

    def remember(self, ghost: Hashable, happened: Happened) -> tuple[Hashable, str]:
        courses: list[Any] = list(ghost)  # type: ignore[call-overload]
        before, after = self.is_active(happened.before), self.is_active(happened.after)
        number = self._number(happened)
        broken = ""
        if number is not None and happened.is_first and courses[number].phase == WAITS:
            courses[number] = courses[number]._replace(phase=UNDER_WAY)
            if self.wishes[number].follows:
                others = zip(self.wishes, courses, strict=True)
                is_alone = not any(w.follows is False and c.phase == UNDER_WAY for w, c in others)
                courses[number] = courses[number]._replace(is_alone=is_alone)
            else:
                courses = [each._replace(is_alone=False) for each in courses]
        for each, wish in enumerate(self.wishes):
            if courses[each].phase == UNDER_WAY and wish.follows in (before, after):
                courses[each] = courses[each]._replace(came_true=True)
        if before is not after:
            broken = self._changed(courses, number, after)
        if number is not None and (happened.end is not None or happened.died):
            broken = broken or self._ended(courses, number, happened)
        broken = broken or self.misshown(happened.after)
        if not broken and not self.has_edge(happened.after):
            for wish, course in zip(self.wishes, courses, strict=True):
                is_due = course.phase == ANSWERED and course.is_alone
                if is_due and wish.follows and not wish.by_message:
                    broken = f"{wish.name} was answered, and has no edge"
        return tuple(courses), broken

    def _changed(self, courses: list[Course], number: int | None, follows: bool) -> str:
        if number is None:
            return "RELATE has changed a follow"
        wish = self.wishes[number]
        if wish.follows is not follows:
            return f"{wish.name} has done the opposite"
        courses[number] = courses[number]._replace(changes=courses[number].changes + 1)
        if courses[number].changes > 1:
            return f"{wish.name} has taken effect twice"
        if wish.by_message:
            for other, course in zip(self.wishes, courses, strict=True):
                if not other.by_message and other.at > wish.at and course.phase == ANSWERED:
                    return f"{wish.name} came late, and has undone {other.name}"
        return ""

    def _ended(self, courses: list[Course], number: int, happened: Happened) -> str:
        wish, course = self.wishes[number], courses[number]
        if wish.by_message:
            if not happened.is_acknowledged or course.phase == ANSWERED:
                return ""
            is_late = any(other.at >= wish.at for other in self.wishes if other is not wish)
        else:
            is_late = False
            if happened.died or happened.end is None or happened.end.is_failure:
                courses[number] = course._replace(phase=UNANSWERED)
                return ""
        courses[number] = course._replace(phase=ANSWERED)
        if course.came_true or is_late:
            return ""
        return f"{wish.name} was answered, and was never the state"

    def broken_when_quiet(
        self, contents: Contents, letters: Iterable[Letter], ghost: Hashable
    ) -> str:
        if letters := list(letters):
            return f"in the end there are dead letters: {letters}"
        is_active = self.is_active(contents)
        edges = self.store.rows(contents, names.FOLLOWERS)
        if len(edges) != int(is_active):
            return f"in the end the row says {is_active}, and the edges are {edges}"
        rows = self.store.rows(contents, names.READERS)
        # A row that only counts a tombstone against the rate has no number of follows.
        counts = [int(row["follows"]["N"]) for row in rows if "follows" in row]
        if sum(counts) != int(is_active):
            return f"in the end the row says {is_active}, and the count is {counts}"
        return ""


FOLLOW_FIRST = (Wish(True, 1), Wish(False, 3))
UNFOLLOW_FIRST = (Wish(True, 3), Wish(False, 1))


def _message(follows: bool, at: int) -> Wish:
    return Wish(follows, at, by_message=True)


# By name: the wishes, and whether the user follows at first.
SCOPES: dict[str, tuple[tuple[Wish, ...], bool]] = {
    "follow, unfollow": (FOLLOW_FIRST, False),
    "unfollow, follow": (UNFOLLOW_FIRST, True),
    "follow and unfollow at once": ((Wish(True, 1), Wish(False, 1)), False),
    "message, follow, unfollow": ((_message(True, 0), *FOLLOW_FIRST), False),
    "follow, message, unfollow": ((_message(True, 2), *FOLLOW_FIRST), False),
    "follow, unfollow, message": ((_message(True, 4), *FOLLOW_FIRST), False),
    "message, unfollow, follow": ((_message(True, 0), *UNFOLLOW_FIRST), True),
    "unfollow, message, follow": ((_message(True, 2), *UNFOLLOW_FIRST), True),
    "unfollow, follow, message": ((_message(True, 4), *UNFOLLOW_FIRST), True),
    "follow, message to unfollow": ((Wish(True, 1), _message(False, 2)), False),
    "message to unfollow, follow": ((Wish(True, 2), _message(False, 1)), True),
    "two messages": ((_message(True, 1), _message(False, 2)), False),
}


def relation(name: str, *, faults: int = 0) -> Relation:
    """A scope of a relation; only inside `installed()`."""
    wishes, is_followed = SCOPES[name]
    scope = Relation(name)
    scope.wish(wishes, is_followed=is_followed, faults=faults)
    return scope
