"""The judge of what readers are shown, on a few requests each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.oracle import Reading, judge, wrong_about_unread
from tests.e2e.recorded import Post, Record, Request, surely

OLDER = Post("older", "bob", "2026-11-20T17:00:00.123Z", begun=20, complete=25)
NEWER = Post("newer", "bob", "2026-11-20T18:00:00.123Z", begun=21, complete=28)
OLD, NEW = (
    {"ref_id": post.ref_id, "publisher_id": "bob", "published_at": post.published_at}
    for post in (OLDER, NEWER)
)
BOTH = [NEW, OLD]
FOLLOW, UNFOLLOW, AGAIN = Request(True, 10, 11), Request(False, 30, 31), Request(True, 40, 41)
MUTE = Request(True, 30, 31)
WITH_OR_WITHOUT = pytest.mark.parametrize("has_channels", [False, True])


def read(begun: float, ended: float, *entries: dict[str, Any], **more: Any) -> Reading:
    return Reading("ada", begun, ended, **{"since": begun, "entries": [*entries], **more})


def complaints(
    *readings: Reading,
    follows: tuple[Request, ...] = (FOLLOW, UNFOLLOW),
    mutes: tuple[Request, ...] = (),
    has_channels: bool = False,
) -> list[str]:
    record = Record(posts={"older": OLDER, "newer": NEWER})
    record.follows["ada", "bob"] += follows
    record.mutes["ada", "bob"] += mutes
    return judge(record, readings, has_channels=has_channels).complaints


@pytest.mark.parametrize(
    ("begun", "ended", "expected"),
    [(0, 9, False), (9, 10, None), (12, 29, True), (12, 30, None), (32, 33, False)],
)
def test_what_overlaps_a_request_is_unknown(
    begun: float, ended: float, expected: bool | None
) -> None:
    assert surely([FOLLOW, UNFOLLOW], begun, ended) is expected


def test_of_requests_that_overlapped_nobody_knows_the_last() -> None:
    twice = [Request(True, 10, 12), Request(False, 11, 13)]
    assert surely(twice, 20, 21) is None
    assert surely([*twice, Request(True, 14, 15)], 20, 21) is True


@WITH_OR_WITHOUT
@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (read(29, 29.5, *BOTH), []),
        (read(29, 29.5, NEW), ["does not show older of bob, which is there"]),
        (read(29, 29.5, *BOTH, OLD), ["repeats older"]),
        (read(29, 29.5, OLD, NEW), ["is out of order"]),
        (read(29, 29.5, OLD, NEW, is_ordered=False), []),
        (read(15, 16, OLD), ["shows older before it was sent"]),
        # Not yet delivered, but perhaps on the page that it ends with; or below where it ends.
        (read(24, 24.5), []),
        (read(24, 24.5, *BOTH), []),
        (read(26, 27), ["does not show older of bob, which is there"]),
        (read(24, 29, OLD, since=28.5), ["does not show newer of bob, which is there"]),
        (read(29, 29.5, NEW, above=OLDER.key), []),
        # The unfollow was not yet answered; then it was.
        (read(30.5, 33), []),
        (read(30.5, 33, *BOTH), []),
        (read(32, 33), []),
        (read(32, 33, NEW), ["shows newer of bob, who is muted or not followed"]),
    ],
)
def test_what_is_owed_is_shown_once_and_in_order_and_nothing_else(
    reading: Reading, expected: list[str], has_channels: bool
) -> None:
    found = complaints(reading, has_channels=has_channels)
    assert found == [f"a reading of ada {each}" for each in expected]


@pytest.mark.parametrize("changed", [{"publisher_id": "eve"}, {"ref_id": "x"}])
def test_nobody_sees_what_was_not_published_so(changed: dict[str, str]) -> None:
    found = complaints(read(29, 29.5, NEW | changed, OLD))
    assert "which nobody published so" in found[0]


@WITH_OR_WITHOUT
def test_who_follows_while_a_post_is_sent_may_see_it(has_channels: bool) -> None:
    for shown in (BOTH, []):
        reading = read(29, 29.5, *shown)
        assert not complaints(reading, follows=(Request(True, 19, 22),), has_channels=has_channels)


@pytest.mark.parametrize(
    ("reading", "is_right"),
    [(read(32, 33), True), (read(31, 33), True), (read(32, 33, NEW), False)],
)
def test_readings_are_held_to_mutes(reading: Reading, is_right: bool) -> None:
    assert bool(complaints(reading, follows=(FOLLOW,), mutes=(MUTE,))) is not is_right


def test_who_follows_again_is_owed_what_was_delivered_or_seen_before_but_for_channels() -> None:
    late, lost = Request(True, 22, 23), read(42, 43)
    assert len(complaints(lost, follows=(FOLLOW, UNFOLLOW, AGAIN))) == 2
    changes = late, UNFOLLOW, AGAIN
    assert not complaints(lost, follows=changes)
    assert len(complaints(read(29, 29.5, NEW), lost, follows=changes)) == 1
    for shown in (BOTH, []):
        reading = read(42, 43, *shown)
        assert not complaints(reading, follows=(FOLLOW, UNFOLLOW, AGAIN), has_channels=True)
    early, at_once = read(24, 24.2, OLD), read(24.5, 24.7)
    assert not complaints(early, at_once, has_channels=True)
    assert len(complaints(early, at_once)) == 1


def test_of_what_it_has_looked_at_a_reading_owes_everything() -> None:
    one, none = read(29, 29.5, NEW), read(29, 29.5)
    for each in (one, none):
        each.look_no_further()
    assert not complaints(one, none)


@pytest.mark.parametrize(
    ("unread", "more", "hides_nothing", "is_right"),
    [
        (1, False, True, True),
        (1, False, False, True),
        (0, False, False, False),
        (0, True, False, True),
        (0, True, True, False),
        (2, True, False, False),
    ],
)
def test_unread_is_what_is_shown_above_the_marker(
    unread: int, more: bool, hides_nothing: bool, is_right: bool
) -> None:
    answer, whole = {"unread": unread, "more": more}, read(26, 27, *BOTH)
    complaint = wrong_about_unread(answer, OLDER.key, whole, hides_nothing=hides_nothing)
    assert (complaint is None) is is_right
