"""Follows and unfollows by two clocks, with copies: the rule for them, held against an oracle."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fanfold.follows.wishes import Follow, granted
from simulation.wishes import Change, Wish, unexplained

SKEW_MS = 3


@dataclass(frozen=True)
class Try:
    """A wish and the times at which the service reads and writes the row for it, in units."""

    follows: bool
    is_message: bool
    begun: int
    skew: int  # of the clock that stamps requests
    delays: tuple[int, ...]  # of a request, only the first counts


tries = st.builds(
    Try,
    follows=st.booleans(),
    is_message=st.booleans(),
    begun=st.integers(0, 30),
    skew=st.integers(-SKEW_MS, SKEW_MS),
    delays=st.lists(st.integers(0, 40), min_size=1, max_size=3).map(lambda d: tuple(sorted(d))),
)


def history(tried: list[Try]) -> tuple[list[Change], list[Wish]]:
    """What the product's rule makes of these: each effect reads and writes the row at once."""
    effects, wishes = [], []
    for number, each in enumerate(tried):
        times = [each.begun + delay for delay in each.delays]
        if not each.is_message:
            times = times[:1]
        end = float("inf") if each.is_message else times[0]
        wishes.append(Wish(each.follows, each.begun, end, is_message=each.is_message))
        effects += [(at, number) for at in times]
    row, changes = Follow(user_id="u", publisher_id="p"), []
    for at, number in sorted(effects):
        each = tried[number]
        stamp = each.begun if each.is_message else each.begun + each.skew
        # Epoch milliseconds, of which none is before 1970.
        after = granted(row, each.follows, asked_at=stamp + 10, by_message=each.is_message)
        if after.is_active is not row.is_active:
            changes.append((float(at), after.is_active))
        row = after
    return changes, wishes


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
    changes, wishes = history(tried)
    # Each change moves `asked_at` on by a millisecond; more than one may fall into one here.
    assert not [*unexplained(changes, wishes, skew_ms=SKEW_MS + len(tried))]


# The oracle itself

FOLLOW, UNFOLLOW = True, False


@pytest.mark.parametrize(
    ("changes", "wishes", "says"),
    [
        ([(5, FOLLOW)], [], "No wish explains the follow at 5"),
        ([(5, FOLLOW)], [Wish(FOLLOW, 6, 7)], "No wish explains the follow at 5"),
        ([(5, FOLLOW)], [Wish(UNFOLLOW, 4, 7)], "No wish explains the follow at 5"),
        ([], [Wish(FOLLOW, 4, 7)], "Nothing came of the request to follow [4, 7]"),
        ([], [Wish(FOLLOW, 4, is_message=True)], "Nothing came of the message to follow"),
        (  # a copy undoes what was answered
            [(4, FOLLOW), (6, UNFOLLOW), (8, FOLLOW)],
            [Wish(FOLLOW, 3, is_message=True), Wish(UNFOLLOW, 5, 7)],
            "No wish explains the follow at 8",
        ),
        (  # an older message undoes what was answered
            [(1, FOLLOW), (9, UNFOLLOW)],
            [Wish(FOLLOW, 0, 1), Wish(UNFOLLOW, 2, is_message=True), Wish(FOLLOW, 6, 7)],
            "No wish explains the unfollow at 9",
        ),
    ],
)
def test_the_oracle_says_what_contradicts_the_rules(
    changes: list[Change], wishes: list[Wish], says: str
) -> None:
    (sentence,) = unexplained(changes, wishes, skew_ms=2)
    assert says in sentence


@pytest.mark.parametrize(
    ("changes", "wishes"),
    [
        ([], [Wish(FOLLOW, 4, 7, is_due=False)]),
        ([(5, FOLLOW)], [Wish(FOLLOW, 4, 7, is_due=False)]),
        # The message is late, or comes between the two.
        ([(6, FOLLOW)], [Wish(UNFOLLOW, 4, is_message=True), Wish(FOLLOW, 5, 7)]),
        (
            [(6, FOLLOW), (7, UNFOLLOW)],
            [Wish(UNFOLLOW, 4, is_message=True), Wish(FOLLOW, 5, 6)],
        ),
        # The first follow has to be the request's, so that the message explains the second.
        (
            [(4, FOLLOW), (6, UNFOLLOW), (8, FOLLOW)],
            [Wish(FOLLOW, 3, is_message=True), Wish(FOLLOW, 4, 5), Wish(UNFOLLOW, 5, 7)],
        ),
    ],
)
def test_the_oracle_leaves_what_the_rules_allow(changes: list[Change], wishes: list[Wish]) -> None:
    assert not [*unexplained(changes, wishes, skew_ms=2)]
