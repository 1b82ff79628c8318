"""Follows and unfollows by two clocks, with copies: the rule for them, held against an oracle.

And the oracle, held against every order of effects that there is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fanfold.follows import relation
from fanfold.follows.relation import Follow, granted
from proof.simulation.oracle.follows import (
    MOST_STATES,
    Asked,
    RowChange,
    Sighting,
    contradictions,
    sightings_of,
    surely,
)

SKEW_MS = 3
FOLLOW, UNFOLLOW = True, False


@dataclass(frozen=True)
class Try:
    """A request and the times at which the service reads and writes the row for it, in units."""

    follows: bool
    is_message: bool
    begun: int
    skew: int  # of the clock that stamps requests
    delays: tuple[int, ...]  # of a request, only the first counts


delays = st.integers(0, 40) | st.integers(990, 1_070)
tries = st.builds(
    Try,
    follows=st.booleans(),
    is_message=st.booleans(),
    begun=st.integers(0, 30) | st.integers(990, 1_030),
    skew=st.integers(-SKEW_MS, SKEW_MS),
    delays=st.lists(delays, min_size=1, max_size=3).map(lambda d: tuple(sorted(d))),
)


def history(tried: list[Try]) -> tuple[list[RowChange], list[Asked]]:
    """What the product's rule makes of these: each effect reads and writes the row at once."""
    effects, requests = [], []
    for number, each in enumerate(tried):
        times = [each.begun + delay for delay in each.delays]
        if not each.is_message:
            times = times[:1]
        # A message is taken out of the queue when it was handled; a copy may come later.
        requests.append(Asked(each.follows, each.begun, times[0], is_message=each.is_message))
        effects += [(at, number) for at in times]
    row, changes = Follow(user_id="u", publisher_id="p"), []
    for at, number in sorted(effects):
        each = tried[number]
        stamp = each.begun if each.is_message else each.begun + each.skew
        # Epoch milliseconds, of which none is before 1970.
        asked_at, by_message = stamp + 10, each.is_message
        after = granted(row, each.follows, relation.Asked(asked_at, at + 10, by_message))
        if after.is_active is not row.is_active:
            changes.append(RowChange(at, after.is_active))
        row = after
    return changes, requests


def message(*, follows: bool, at: int, received: tuple[int, ...] = (0,)) -> Try:
    return Try(follows, is_message=True, begun=at, skew=0, delays=received)


def request(*, follows: bool, at: int, skew: int = 0) -> Try:
    return Try(follows, is_message=False, begun=at, skew=skew, delays=(0,))


@given(st.lists(tries, max_size=8))
@example([message(follows=True, at=10, received=(0, 9)), request(follows=False, at=11, skew=-3)])
@example([message(follows=True, at=10, received=(0, 9)), request(follows=False, at=10)])
@example([message(follows=True, at=10, received=(0, 1)), message(follows=False, at=10)])
def test_requests_are_linearizable_and_a_message_takes_effect_once_or_never(
    tried: list[Try],
) -> None:
    changes, requests = history(tried)
    assert not [*contradictions(requests, [*sightings_of(changes)], skew_ms=SKEW_MS)]


# The oracle, against all orders of effects

moments = st.integers(0, 5)
spans = st.tuples(moments, moments).map(sorted)
a_request = st.builds(
    lambda span, **said: Asked(begun=span[0], ended=span[1], **said),
    spans,
    follows=st.booleans(),
    is_message=st.booleans(),
    is_due=st.booleans(),
)
a_sighting = st.builds(
    lambda span, **said: Sighting(span[0], span[1], **said),
    spans,
    follows=st.booleans(),
    throughout=st.booleans(),
)


def lives(requests: Sequence[Asked], skew_ms: float) -> Iterator[list[tuple[float, bool]]]:
    """Every order and time of effects that the rules allow, in halves of a moment.

    Between two of them nothing is to be told apart.
    """
    for count in range(len(requests) + 1):
        for order in itertools.permutations(requests, count):
            if keeps_the_rules(order, requests, skew_ms):
                for times in itertools.combinations_with_replacement(range(11), count):
                    at = [half / 2 for half in times]
                    is_in_time = all(
                        request.begun <= when <= request.ended
                        for request, when in zip(order, at, strict=True)
                    )
                    if is_in_time and all(
                        is_excused(each, order, at, requests, skew_ms) for each in requests
                    ):
                        yield [(t, w.follows) for t, w in zip(at, order, strict=True)]


def keeps_the_rules(order: Sequence[Asked], requests: Sequence[Asked], skew_ms: float) -> bool:
    for first, second in itertools.combinations(order, 2):
        if first.begun > second.ended:
            return False
        if second.is_message:
            margin = 0 if first.is_message else skew_ms
            if first.begun > second.begun + margin:
                return False
    return True


def is_excused(
    request: Asked,
    order: Sequence[Asked],
    at: Sequence[float],
    requests: Sequence[Asked],
    skew_ms: float,
) -> bool:
    """Whether a request took effect, or need not."""
    if request in order or not request.is_due:
        return True
    margin = skew_ms + len(requests)
    return request.is_message and any(
        other.begun >= request.begun - margin and when <= request.ended
        for other, when in zip(order, at, strict=True)
    )


def shows(life: list[tuple[float, bool]], sighting: Sighting) -> bool:
    states = []
    follows, left = False, list(life)
    for half in range(-2, 13):
        now, here = half / 2, [follows]
        while left and left[0][0] == now:
            follows = left.pop(0)[1]
            here.append(follows)
        inside = sighting.begun <= now <= sighting.ended
        if sighting.throughout:
            inside = sighting.begun < now < sighting.ended
        if inside:
            states += here
    if sighting.throughout:
        return all(state is sighting.follows for state in states)
    return sighting.follows in states


@given(st.lists(a_request, max_size=3), st.lists(a_sighting, max_size=3), st.integers(0, 2))
def test_the_oracle_allows_exactly_what_some_order_of_effects_shows(
    requests: list[Asked], sightings: list[Sighting], skew_ms: int
) -> None:
    is_allowed = any(
        all(shows(life, sighting) for sighting in sightings) for life in lives(requests, skew_ms)
    )
    assert is_allowed is (not [*contradictions(requests, sightings, skew_ms=skew_ms)])


@given(st.lists(a_request.filter(lambda request: not request.is_message), max_size=3), spans)
def test_surely_means_in_every_order_of_effects(requests: list[Asked], span: list[int]) -> None:
    begun, ended = span
    seen = {
        follows
        for life in lives(requests, 0)
        for follows in (True, False)
        if shows(life, Sighting(begun, ended, follows))
    }
    wanted = seen.pop() if len(seen) == 1 else None
    assert surely(requests, begun, ended, skew_ms=0) is wanted


# The oracle itself


@pytest.mark.parametrize(
    ("changes", "requests", "says"),
    [
        ([(5, FOLLOW)], [], "followed throughout [5, inf]"),
        ([], [Asked(FOLLOW, 4, 7)], "request to follow [4, 7]"),
        ([], [Asked(FOLLOW, 4, is_message=True)], "message to follow [4, inf]"),
        (  # an older message undoes what was answered
            [(1, FOLLOW), (9, UNFOLLOW)],
            [Asked(FOLLOW, 0, 1), Asked(UNFOLLOW, 2, is_message=True), Asked(FOLLOW, 6, 7)],
            "not followed throughout [9, inf]",
        ),
        (  # a request that gives way undoes what was answered
            [(3_000, FOLLOW)],
            [Asked(FOLLOW, 0, 4_000), Asked(UNFOLLOW, 1_500, 1_600)],
            "followed throughout [3000, inf]",
        ),
        (  # an import does so after its end
            [(5_000, FOLLOW)],
            [Asked(FOLLOW, 0, 4_000, is_due=False, is_import=True), Asked(UNFOLLOW, 1_500, 1_600)],
            "followed throughout [5000, inf]",
        ),
        (  # an import gives way
            [],
            [Asked(FOLLOW, 0, 4_000, is_import=True), Asked(UNFOLLOW, 1_500, 1_600)],
            "request to follow [0, 4000]",
        ),
    ],
)
def test_the_oracle_says_what_contradicts_the_rules(
    changes: list[tuple[float, bool]], requests: list[Asked], says: str
) -> None:
    seen = sightings_of([RowChange(*each) for each in changes])
    (found,) = contradictions(requests, [*seen], skew_ms=2)
    assert str(found) == says


@pytest.mark.parametrize(
    ("requests", "follows"),
    [
        # A message that has ended excuses nothing any more, nor does one that must be late.
        ([Asked(FOLLOW, 1, 2, is_message=True)], True),
        ([Asked(FOLLOW, 1, 12, is_message=True)], None),
        ([Asked(UNFOLLOW, 1, 30, is_message=True), Asked(FOLLOW, 8, 9)], True),
        # What was asked for is done, but deliveries may heed it later.
        ([Asked(FOLLOW, 1, 2, is_due=False, seen_by=12), Asked(UNFOLLOW, 3, 4)], False),
        ([Asked(FOLLOW, 1, 2), Asked(UNFOLLOW, 3, 4, is_message=True, seen_by=12)], None),
    ],
)
def test_messages_and_late_deliveries_leave_open_who_surely_follows(
    requests: list[Asked], follows: bool | None
) -> None:
    assert surely(requests, 10, 20, skew_ms=2) is follows


def test_a_search_with_too_many_orders_accuses_nobody() -> None:
    asked = [Asked(bool(n % 2), n, is_due=False) for n in range(MOST_STATES.bit_length())]
    for follows in (FOLLOW, UNFOLLOW):
        seen = Sighting(50.0, math.inf, follows, throughout=True)
        assert not [*contradictions(asked, [seen], skew_ms=0)]
