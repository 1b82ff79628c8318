"""Scopes of one user and one publisher: requests by HTTP and by message at once, and RELATE.

The checks know what was asked for and answered, and watch each change of the row.

* A request that was answered with success was the state at some time while it was answered.
* A message takes effect once; and never, once a request with a later stamp was answered.
* From the answer to a follow on there is its edge, until somebody asks to unfollow.
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


class Ask(NamedTuple):
    """A request or message to follow or unfollow, stamped `at` milliseconds after the start."""

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


# How far a request has come.
WAITS, UNDER_WAY, ANSWERED, UNANSWERED = range(4)


class Outcome(NamedTuple):
    """What became of a request so far."""

    phase: int = WAITS
    came_true: bool = False  # it was the state while it was under way
    changes: int = 0
    is_alone: bool = True  # no request to unfollow was under way since it began


class RelationScope(Scope):
    """The requests of one user about one publisher."""

    requests: tuple[Ask, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._active: dict[int, bool] = {}  # by the number of the table's content
        self._misshown: dict[tuple[int, int], str] = {}  # the same of two tables

    def ask(self, requests: Iterable[Ask], *, is_followed: bool, faults: int) -> None:
        """Let the requests begin at once."""
        self.requests = tuple(requests)
        if is_followed:
            at = START_MS - HOUR_MS
            event = http(contract.FOLLOW, USER, at=at, path={"publisher_id": PUBLISHER})
            assert not self.run("api", event, at=at).is_failure
        self.letters = [each.letter() for each in self.requests if each.by_message]
        self.ghost = tuple(
            self._begun(Outcome(), each) if each.by_message else Outcome() for each in self.requests
        )
        self.begin([each.program() for each in self.requests if not each.by_message], faults)

    def _begun(self, course: Outcome, request: Ask) -> Outcome:
        is_wanted = self.is_active(self.contents) is request.follows
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
        """Which request an invocation serves; None for RELATE."""
        for number, request in enumerate(self.requests):
            letter = happened.letter
            if request.by_message and letter is not None:
                if letter.body == request.letter().body and letter.queue == names.PUBLISH.name:
                    return number
            elif not request.by_message and happened.program.name == request.name:
                return number
        return None

    def remember(self, ghost: Hashable, happened: Happened) -> tuple[Hashable, str]:
        courses: list[Any] = list(ghost)  # type: ignore[call-overload]
        before, after = self.is_active(happened.before), self.is_active(happened.after)
        number = self._number(happened)
        broken = ""
        if number is not None and happened.is_first and courses[number].phase == WAITS:
            courses[number] = courses[number]._replace(phase=UNDER_WAY)
            if self.requests[number].follows:
                others = zip(self.requests, courses, strict=True)
                is_alone = not any(w.follows is False and c.phase == UNDER_WAY for w, c in others)
                courses[number] = courses[number]._replace(is_alone=is_alone)
            else:
                courses = [each._replace(is_alone=False) for each in courses]
        for each, request in enumerate(self.requests):
            if courses[each].phase == UNDER_WAY and request.follows in (before, after):
                courses[each] = courses[each]._replace(came_true=True)
        if before is not after:
            broken = self._changed(courses, number, after)
        if number is not None and (happened.end is not None or happened.died):
            broken = broken or self._ended(courses, number, happened)
        broken = broken or self.misshown(happened.after)
        if not broken and not self.has_edge(happened.after):
            for request, course in zip(self.requests, courses, strict=True):
                is_due = course.phase == ANSWERED and course.is_alone
                if is_due and request.follows and not request.by_message:
                    broken = f"{request.name} was answered, and has no edge"
        return tuple(courses), broken

    def _changed(self, courses: list[Outcome], number: int | None, follows: bool) -> str:
        if number is None:
            return "RELATE has changed a follow"
        request = self.requests[number]
        if request.follows is not follows:
            return f"{request.name} has done the opposite"
        courses[number] = courses[number]._replace(changes=courses[number].changes + 1)
        if courses[number].changes > 1:
            return f"{request.name} has taken effect twice"
        if request.by_message:
            for other, course in zip(self.requests, courses, strict=True):
                if not other.by_message and other.at > request.at and course.phase == ANSWERED:
                    return f"{request.name} came late, and has undone {other.name}"
        return ""

    def _ended(self, courses: list[Outcome], number: int, happened: Happened) -> str:
        request, course = self.requests[number], courses[number]
        if request.by_message:
            if not happened.is_acknowledged or course.phase == ANSWERED:
                return ""
            is_late = any(other.at >= request.at for other in self.requests if other is not request)
        else:
            is_late = False
            if happened.died or happened.end is None or happened.end.is_failure:
                courses[number] = course._replace(phase=UNANSWERED)
                return ""
        courses[number] = course._replace(phase=ANSWERED)
        if course.came_true or is_late:
            return ""
        return f"{request.name} was answered, and was never the state"

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


FOLLOW_FIRST = (Ask(True, 1), Ask(False, 3))
UNFOLLOW_FIRST = (Ask(True, 3), Ask(False, 1))


def _message(follows: bool, at: int) -> Ask:
    return Ask(follows, at, by_message=True)


# By name: the requests, and whether the user follows at first.
SCOPES: dict[str, tuple[tuple[Ask, ...], bool]] = {
    "follow, unfollow": (FOLLOW_FIRST, False),
    "unfollow, follow": (UNFOLLOW_FIRST, True),
    "follow and unfollow at once": ((Ask(True, 1), Ask(False, 1)), False),
    "message, follow, unfollow": ((_message(True, 0), *FOLLOW_FIRST), False),
    "follow, message, unfollow": ((_message(True, 2), *FOLLOW_FIRST), False),
    "follow, unfollow, message": ((_message(True, 4), *FOLLOW_FIRST), False),
    "message, unfollow, follow": ((_message(True, 0), *UNFOLLOW_FIRST), True),
    "unfollow, message, follow": ((_message(True, 2), *UNFOLLOW_FIRST), True),
    "unfollow, follow, message": ((_message(True, 4), *UNFOLLOW_FIRST), True),
    "follow, message to unfollow": ((Ask(True, 1), _message(False, 2)), False),
    "message to unfollow, follow": ((Ask(True, 2), _message(False, 1)), True),
    "two messages": ((_message(True, 1), _message(False, 2)), False),
}


def relation(name: str, *, faults: int = 0) -> RelationScope:
    """A scope of a relation; only inside `installed()`."""
    requests, is_followed = SCOPES[name]
    scope = RelationScope(name)
    scope.ask(requests, is_followed=is_followed, faults=faults)
    return scope
