"""What a `ref_id` may stand for over weeks, by requests and answers: an oracle.

It is based on the documents, not the product: an id is its first publisher's until the retention
and 14 days after the post's `published_at`, or after a deletion by queue. Then it is free, whatever
rows DynamoDB has deleted. The time of the request counts, or that of the message's sending;
when a late message arrives, the row may be gone.

Times are epoch milliseconds of the true clock. Nothing here reads a table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from fanfold import contract, times

SECOND, DAY = 1_000, 24 * 60 * 60 * 1_000
OUTLIVES = 14 * DAY
ACCEPTED, EXPIRED, NOT_FOUND, TAKEN, RETRACTED, OTHER = 202, 400, 404, 409, 410, 422

_TYPES = {"send": contract.POST_PUBLISHED, "unsend": contract.POST_DELETED}


@dataclass(frozen=True)
class Between:
    """A time between two known ones, both included."""

    lo: float
    hi: float

    def __add__(self, later: float) -> Between:
        return Between(self.lo + later, self.hi + later)

    def has(self, at: float) -> bool:
        return self.lo <= at <= self.hi


@dataclass(frozen=True)
class WantedPost:
    """The content of a publish; equal ones are the same publish."""

    publisher: str
    title: str
    published_at: str | None = None


@dataclass(frozen=True)
class Holder:
    """What an id stands for until `ends`: a post, or a tombstone without a wanted post."""

    publisher: str
    ends: Between
    wanted: WantedPost | None = None
    published: Between = Between(0, 0)
    entries_end: Between = Between(0, 0)
    accepted: Between = Between(0, 0)
    is_promised: bool = False  # by an answer, or silently by a message
    handled: float = field(default=0.0, compare=False)  # when the publish had surely been handled


@dataclass(eq=False)
class IdAttempt:
    """A request or message about an id: `kind` is publish, send, retract or unsend."""

    kind: str
    publisher: str
    ref_id: str
    judged: Between  # when it was received, or first sent
    sent: float = 0.0  # of a message: when it was last sent
    done: float = 0.0  # when it had surely been handled
    is_copy: bool = False  # it may be handled now; some copy surely is, or was before
    wanted: WantedPost | None = None
    status: int = 0  # with 0 or a 5xx, it may have taken effect
    times: tuple[str, str] | None = None  # as answered: published_at, accepted_at
    is_certain: bool = True  # of a message: that it was handled at all
    retention_ms: int = 0  # at that time
    # The shortest retention since the message was sent: it may have been handled before.
    shortest_ms: float = math.inf

    @property
    def is_message(self) -> bool:
        return self.kind in ("send", "unsend")

    def is_in(self, content: dict[str, Any]) -> bool:
        """Whether this may be the attempt's message."""
        told = content.get("type"), content.get("ref_id"), content.get("publisher_id")
        if told != (_TYPES.get(self.kind), self.ref_id, self.publisher):
            return False
        return self.wanted is None or content.get("body") == body_of(self.wanted)

    def __str__(self) -> str:
        return f"{self.kind} of {self.ref_id} by {self.publisher} at {self.judged.lo:.0f}"


@dataclass
class Id:
    """All that one id may stand for now."""

    states: list[Holder | None] = field(default_factory=lambda: [None])

    def settle(self, attempt: IdAttempt) -> Iterator[str]:
        """Apply an attempt; yield a sentence if nothing explains its answer."""
        found = list(self.states) if attempt.is_copy else []
        for state in self.states:
            for after, status in _outcomes(state, attempt):
                if _agrees(attempt, after, status) and after not in found:
                    found.append(after)
            is_open = not attempt.is_certain if attempt.is_message else not _is_definite(attempt)
            if is_open and state not in found:
                found.append(state)
        if not found:
            yield f"The {attempt} was answered {attempt.status}: nothing explains that."
            return
        self.states = found


def _is_definite(attempt: IdAttempt) -> bool:
    return 0 < attempt.status < 500


def _agrees(attempt: IdAttempt, after: Holder | None, status: int) -> bool:
    if attempt.is_message or not _is_definite(attempt):
        return True
    if attempt.status != status:
        return False
    if attempt.times is None or after is None:
        return True
    published, accepted = map(times.to_ms, attempt.times)
    return after.published.has(published) and after.accepted.has(accepted)


def _outcomes(state: Holder | None, attempt: IdAttempt) -> Iterator[tuple[Holder | None, int]]:
    """The possible next states, each with the status of the answer."""
    if attempt.wanted and attempt.wanted.published_at is not None:
        published_ms = min(times.to_ms(attempt.wanted.published_at), attempt.judged.lo)
        until = published_ms + attempt.retention_ms
        if attempt.judged.hi + SECOND >= min(until, published_ms + attempt.shortest_ms):
            yield state, EXPIRED
        if attempt.judged.lo >= until + SECOND:
            return
    if state is None:
        yield _taken(state, attempt)
        return
    # DynamoDB compares whole seconds, and cannot refuse because of a deleted row.
    is_gone = attempt.is_message and attempt.done >= state.ends.lo
    if attempt.judged.hi + SECOND >= state.ends.lo or is_gone:
        yield _taken(state, attempt)
    if attempt.judged.lo < state.ends.hi + SECOND:
        yield from _refused(state, attempt)


def _taken(state: Holder | None, attempt: IdAttempt) -> tuple[Holder | None, int]:
    """The next state of a free id, if the post is not too old."""
    keeps = attempt.retention_ms
    if attempt.kind == "retract":
        return state, NOT_FOUND
    if attempt.kind == "unsend":
        # A tombstone's time begins when it is left.
        left = Between(attempt.judged.lo, attempt.done)
        return Holder(attempt.publisher, left + keeps + OUTLIVES), ACCEPTED
    assert attempt.wanted
    published = attempt.judged
    if attempt.wanted.published_at is not None:
        at = times.to_ms(attempt.wanted.published_at)
        published = Between(min(at, published.lo), min(at, published.hi))  # never in the future
    holder = Holder(
        attempt.publisher,
        published + keeps + OUTLIVES,
        attempt.wanted,
        published,
        published + keeps,
        attempt.judged,
        attempt.times is not None or attempt.is_message,
        attempt.done,
    )
    if attempt.times is not None:  # the answer says when exactly
        published_ms, accepted_ms = map(times.to_ms, attempt.times)
        is_possible = published.has(published_ms) and attempt.judged.has(accepted_ms)
        exact = Between(published_ms, published_ms)
        holder = replace(
            holder,
            published=exact,
            accepted=Between(accepted_ms, accepted_ms),
            entries_end=exact + keeps,
            ends=exact + keeps + OUTLIVES,
        )
        if not is_possible:
            return holder, OTHER  # no answer to a publish under a free id: nothing explains it
    return holder, ACCEPTED


def _refused(state: Holder, attempt: IdAttempt) -> Iterator[tuple[Holder | None, int]]:
    """The next states of an id that is not free."""
    is_own = state.publisher == attempt.publisher
    match attempt.kind:
        case "retract":
            yield (replace(state, wanted=None), 204) if is_own else (state, NOT_FOUND)
        case "unsend":
            if is_own and state.wanted:
                yield _taken(None, attempt)[0], ACCEPTED
            else:
                yield state, ACCEPTED
        case _ if not is_own:
            yield state, TAKEN
        case _ if state.wanted is None:
            yield state, RETRACTED
        case _:
            visible = min(state.entries_end.hi, state.published.hi + attempt.retention_ms)
            if attempt.judged.hi + SECOND >= visible:
                yield state, EXPIRED
            if attempt.judged.lo < visible + SECOND:
                is_same = attempt.is_message or state.wanted == attempt.wanted
                is_told = is_same and (attempt.times is not None or attempt.is_message)
                after = replace(state, is_promised=True) if is_told else state
                yield after, ACCEPTED if is_same else OTHER


def body_of(wanted: WantedPost) -> dict[str, Any]:
    """The body of the post that is wanted."""
    return {"title": wanted.title}
