"""The oracle of follows and unfollows, held against every order of effects that there is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proof.simulation.oracle import follows as oracle
from proof.simulation.oracle.follows import (
    SHUT,
    Asked,
    RowChange,
    Sighting,
    contradictions,
    sightings_of,
    surely,
)

FOLLOW, UNFOLLOW = True, False


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


@pytest.mark.parametrize(("count", "is_accused"), [(2, True), (10, False)])
def test_a_search_with_too_many_orders_accuses_nobody(
    monkeypatch: pytest.MonkeyPatch, count: int, is_accused: bool
) -> None:
    monkeypatch.setattr(oracle, "MOST_STATES", 500)
    asked = [Asked(bool(n % 2), n, is_due=False) for n in range(count)]
    seen = Sighting(50.0, math.inf, False, throughout=True, among=frozenset({SHUT}))
    assert bool([*contradictions(asked, [seen], skew_ms=0)]) is is_accused
