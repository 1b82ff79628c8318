"""The judge of what readers are shown, on a few requests each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.recorded import Post, Reading, Record, Request, surely, wrong_about_unread

ADA = "ada", "bob"  # a reader and a publisher
POST = Post("post", "bob", "2026-11-20T18:00:00.123Z", begun=20, complete=25)
ENTRY = {"ref_id": "post", "publisher_id": "bob", "published_at": POST.published_at}


def record(
    *follows: Request, mutes: tuple[Request, ...] = (), readings: tuple[Reading, ...] = ()
) -> Record:
    found = Record(posts={"post": POST}, readings=list(readings))
    found.follows[ADA] += follows
    found.mutes[ADA] += mutes
    return found


def read(begun: float, ended: float, *entries: dict[str, Any]) -> Reading:
    return Reading("ada", begun, ended, entries, is_whole=True)


FOLLOW, UNFOLLOW = Request(True, 10, 11), Request(False, 30, 31)
MUTE = Request(True, 30, 31)


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


@pytest.mark.parametrize(
    ("reading", "complaints"),
    [
        (read(26, 27, ENTRY), 0),
        (read(26, 27, ENTRY, ENTRY), 1),
        (read(26, 27), 1),
        (read(24, 27), 0),  # not yet delivered
        (read(31, 32), 0),
        (read(31, 32, ENTRY), 0),  # the unfollow was not yet answered
        (read(32, 33, ENTRY), 1),
        (read(26, 27, ENTRY | {"publisher_id": "eve"}), 2),  # whom nobody follows
    ],
)
def test_readings_are_held_to_follows(reading: Reading, complaints: int) -> None:
    judged = record(FOLLOW, UNFOLLOW, readings=(reading,)).judged()
    assert len(judged.complaints) == complaints, judged.complaints


@pytest.mark.parametrize(
    ("reading", "complaints"), [(read(32, 33), 0), (read(31, 33), 0), (read(32, 33, ENTRY), 1)]
)
def test_readings_are_held_to_mutes(reading: Reading, complaints: int) -> None:
    judged = record(FOLLOW, mutes=(MUTE,), readings=(reading,)).judged()
    assert len(judged.complaints) == complaints, judged.complaints


def test_a_follow_after_the_post_is_owed_only_what_was_seen() -> None:
    late, again = Request(True, 22, 23), Request(True, 40, 41)
    assert not record(late, readings=(read(26, 27),)).judged().complaints
    changes = late, UNFOLLOW, again
    seen, lost = read(26, 27, ENTRY), read(42, 43)
    assert len(record(*changes, readings=(seen, lost)).judged().complaints) == 1


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
    older = ENTRY | {"ref_id": "older"}
    answer = {"unread": unread, "more": more}
    marker = POST.published_at, "older"
    whole = read(26, 27, ENTRY, older)
    complaint = wrong_about_unread(answer, marker, whole, hides_nothing=hides_nothing)
    assert (complaint is None) is is_right
