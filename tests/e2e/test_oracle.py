"""The judge of scrolls through timelines with channels, on a few requests each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.oracle import Scroll, judge
from tests.e2e.recorded import Post, Record, Request

FOLLOW, UNFOLLOW, AGAIN = Request(True, 10, 11), Request(False, 30, 31), Request(True, 40, 41)
OLDER = Post("older", "bob", "2026-11-20T17:00:00.000Z", begun=20, complete=25)
NEWER = Post("newer", "bob", "2026-11-20T18:00:00.000Z", begun=21, complete=28)


def entry(post: Post, **changed: str) -> dict[str, Any]:
    shown = {"ref_id": post.ref_id, "publisher_id": "bob", "published_at": post.published_at}
    return {**shown, **changed}


BOTH = [entry(NEWER), entry(OLDER)]


def judged(
    entries: list[dict[str, Any]],
    *,
    begun: float = 29,
    ended: float = 29.5,
    follows: tuple[Request, ...] = (FOLLOW,),
    **scroll: Any,
) -> list[str]:
    record = Record(posts={"older": OLDER, "newer": NEWER})
    record.follows["ada", "bob"] += follows
    given = {"since": begun, **scroll}
    one = Scroll("ada", "a scroll", begun, ended=ended, entries=entries, **given)
    return judge(record, [one]).complaints


def test_what_is_owed_is_shown_once_and_in_order() -> None:
    assert not judged(BOTH)
    assert judged(BOTH[:1]) == ["a scroll of ada does not show older"]
    assert judged([*BOTH, BOTH[1]], is_ordered=False) == ["a scroll of ada repeats older"]
    assert judged(BOTH[::-1]) == ["a scroll of ada has in the wrong place newer"]
    assert not judged(BOTH[::-1], is_ordered=False)


def test_nothing_is_owed_before_it_is_delivered_nor_below_where_a_scroll_began() -> None:
    assert not judged([], begun=24, ended=24.5)
    assert not judged(BOTH, begun=24, ended=24.5)
    assert len(judged([], begun=26, ended=27)) == 1
    assert len(judged([], begun=24, ended=29, since=28.5)) == 2
    assert not judged(BOTH[:1], above=f"{OLDER.published_at}#older")


def test_who_follows_while_a_post_is_sent_may_see_it() -> None:
    for shown in (BOTH, []):
        assert not judged(shown, follows=(Request(True, 19, 22),))


@pytest.mark.parametrize("changed", [{"publisher_id": "eve"}, {"ref_id": "x"}])
def test_nobody_sees_what_was_not_published_so(changed: dict[str, str]) -> None:
    complaints = judged([entry(NEWER, **changed), BOTH[1]])
    assert f"a scroll of ada must not show {changed.get('ref_id', 'newer')}" in complaints


def test_nothing_is_shown_after_an_acknowledged_unfollow() -> None:
    changes = FOLLOW, UNFOLLOW
    for shown in (BOTH, []):
        assert not judged(shown, follows=changes, begun=30.5, ended=33)
    assert not judged([], follows=changes, begun=32, ended=33)
    assert len(judged(BOTH, follows=changes, begun=32, ended=33)) == 2
    for shown in (BOTH, []):  # which are older than the follow
        assert not judged(shown, follows=(*changes, AGAIN), begun=42, ended=43)
