"""The verdict on what readers are shown and on rows of timelines, after a few requests each."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from fanfold.contract import MAX_UNREAD
from fanfold_cli.run.record import Key, Post, Record, Request, surely
from fanfold_cli.run.rows import Row
from fanfold_cli.run.verdict import Reading, Verdict, judge

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


def test_the_last_of_overlapping_requests_is_unknown() -> None:
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
def test_shown_posts_must_be_as_published(changed: dict[str, str]) -> None:
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


def test_a_reading_that_stopped_owes_only_what_is_above_its_last_entry() -> None:
    one, none = read(29, 29.5, NEW), read(29, 29.5)
    for each in (one, none):
        each.look_no_further()
    assert not complaints(one, none)


def wrong_about_unread(
    answer: Any, marker: Key | None, whole: Reading, *, hides_nothing: bool
) -> str | None:
    """What is wrong with an answer to `unread`, for a timeline that does not change.

    `unread` examines the newest 100 entries, hidden ones included. So it may count fewer than are
    shown above the marker, if it says that there are more.
    """
    above = sum(key > marker for key in whole.keys) if marker else len(whole.keys)
    unread, more = answer["unread"], answer["more"]
    if hides_nothing:
        is_right = (unread, more) == (min(above, MAX_UNREAD), above > MAX_UNREAD)
    elif more:
        is_right = unread <= min(above, MAX_UNREAD)
    else:
        is_right = unread == above
    return None if is_right else f"{whole.reader} is told {answer}, and {above} are above {marker}."


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


ROWS = [
    Row(user, f"{post.published_at}#{post.ref_id}", "bob")
    for post in (OLDER, NEWER)
    for user in ("ada", "eve")
]


def of_rows(
    *rows: Row, complete: float = 29, told: int | None = None, ours: str | None = ""
) -> Verdict:
    """The verdict on two posts to two followers, of whom one has left since."""
    posts = [replace(post, complete=complete, delivered=told) for post in (OLDER, NEWER)]
    record = Record(posts={post.ref_id: post for post in posts})
    record.follow_all({"bob": ["ada", "eve"]}, 10, 11)
    record.follows["ada", "bob"].append(UNFOLLOW)
    return judge(record, rows=rows, ours=ours)


def test_rows_as_published_are_right() -> None:
    verdict = of_rows(*ROWS, told=2)
    assert (verdict.right, verdict.expected, verdict.failures) == (4, 4, [])


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (ROWS[1:], "1 row is missing (its user followed when it was published): ada older"),
        ([*ROWS, ROWS[0]], "1 row is doubled"),
        ([*ROWS, ROWS[0]._replace(sort_key=f"{NEWER.published_at}#older")], "1 row is doubled"),
        ([*ROWS, ROWS[0]._replace(user="mallory")], "1 row is too many"),
        ([*ROWS, ROWS[0]._replace(sort_key="2026-11-20T17:00:00.123Z#x")], "1 row is of no known"),
        ([ROWS[0]._replace(publisher="eve"), *ROWS[1:]], "1 row is wrong"),
        ([ROWS[0]._replace(sort_key=f"{NEWER.published_at}#older"), *ROWS[1:]], "1 row is wrong"),
        ([], "4 rows are missing"),
    ],
)
def test_a_spoiled_table_fails_with_a_sentence(rows: list[Row], fault: str) -> None:
    (failure,) = of_rows(*rows).failures
    assert failure.startswith(fault)


@pytest.mark.parametrize(("told", "is_right"), [(None, True), (2, True), (1, False), (3, False)])
def test_a_count_that_lies_fails(told: int | None, is_right: bool) -> None:
    verdict = of_rows(*ROWS, told=told)
    assert verdict.is_right is is_right
    assert verdict.faults == ({} if is_right else {"miscounted": 2})


def test_a_row_of_a_delivery_that_is_not_complete_is_late_and_not_called_missing() -> None:
    assert of_rows(*ROWS[:3], complete=math.inf).faults == Counter(late=1)


def test_rows_of_a_user_who_follows_later_may_be_there() -> None:
    record = Record(posts={"older": OLDER})
    record.follows["ada", "bob"].append(AGAIN)
    for rows in (ROWS[:1], []):
        assert judge(record, rows=rows).failures == []


def test_posts_of_others_are_passed_over_where_they_may_be() -> None:
    other = ROWS[0]._replace(sort_key=f"{NEWER.published_at}#other")
    for ours, faults in (("", 1), ("ad", 1), ("v1-", 0), (None, 0)):
        assert of_rows(*ROWS, other, ours=ours).faults.total() == faults
    reading = read(29, 29.5, *BOTH, OLD | {"ref_id": "a-post"})
    record = Record(posts={"older": OLDER, "newer": NEWER})
    record.follows["ada", "bob"].append(FOLLOW)
    assert judge(record, [reading], ours=None).is_right
    assert not judge(record, [reading]).is_right


def test_a_sentence_has_at_most_five_examples() -> None:
    record = Record(posts={"older": OLDER})
    record.follow_all({"bob": [f"reader-{number}" for number in range(9)]}, 10, 11)
    (failure,) = judge(record, rows=()).failures
    assert failure.startswith("9 rows are missing")
    assert failure.count(" older") == 5


def test_a_body_must_be_as_sent_where_it_is_shown() -> None:
    for body, is_right in (("Hello", True), ("Bye", False)):
        record = Record(posts={"older": replace(OLDER, body="Hello")})
        record.follows["ada", "bob"].append(FOLLOW)
        reading = read(29, 29.5, OLD | {"body": body}, has_bodies=True)
        assert judge(record, [reading]).is_right is is_right
