"""What an audit claims: each condition keeps a sound stage from a false alarm."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from fanfold import times
from fanfold.audit import rule
from fanfold.audit.rule import (
    MARGIN_MS,
    NO_ORDER_MS,
    Finding,
    Look,
    Shown,
    confirmed,
    judged,
    owner_of,
    wrong,
)
from fanfold.fanout.row import CHANNEL, COMPLETE, Fanout
from fanfold.follows.relation import FOLLOWED, REQUESTED, UNFOLLOWED, Follow
from fanfold.ids import sort_key
from fanfold.timeline.entries import Entry
from fanfold.timeline.posts import OUTLIVES_SECONDS, Post

NOW_MS = 1_800_000_000_000
ACCEPTED_MS = NOW_MS - 3_600_000
ACCEPTED_AT = times.to_text(ACCEPTED_MS)
EXPIRES_AT = NOW_MS // 1000 + 86_400
LONG_AGO_MS = ACCEPTED_MS - 40 * 86_400_000
# Just too late: an edge or a follow of this moment may have missed the post.
TOO_LATE_MS = ACCEPTED_MS - MARGIN_MS

FANOUT = Fanout(
    fanout_id="post",
    publisher_id="ada",
    sort_key=sort_key(ACCEPTED_AT, "post"),
    accepted_at=ACCEPTED_AT,
    expires_at=EXPIRES_AT,
    state=COMPLETE,
)
STORED = Post(
    ref_id="post",
    publisher_id="ada",
    published_at=ACCEPTED_AT,
    accepted_at=ACCEPTED_AT,
    expires_at=EXPIRES_AT + OUTLIVES_SECONDS,
)
FOLLOW = Follow(
    user_id="bob", publisher_id="ada", state=FOLLOWED, version=3, changed_at=LONG_AGO_MS
)
# Bob has followed ada for 40 days, and does not have her post.
MISSING = Look(
    fanout=FANOUT,
    is_there=False,
    row=FOLLOW,
    puts=[LONG_AGO_MS // 1000],
    post=STORED,
    now_ms=NOW_MS,
)


def look(**changed: Any) -> Look:
    return replace(MISSING, **changed)


def test_a_post_that_a_reader_is_owed_and_does_not_have_is_missing() -> None:
    assert judged(MISSING) is Finding.ENTRY_MISSING
    assert judged(look(is_there=True)) is None


@pytest.mark.parametrize("state", ["queued", "delivering", "stalled", "expired", "abandoned"])
def test_nothing_is_claimed_of_a_delivery_that_is_not_complete(state: str) -> None:
    assert judged(look(fanout=replace(FANOUT, state=state))) is None


def test_an_edge_that_was_put_about_when_the_post_was_accepted_may_have_missed_it() -> None:
    assert judged(look(puts=[TOO_LATE_MS // 1000])) is None
    assert judged(look(puts=[TOO_LATE_MS // 1000 - 1])) is Finding.ENTRY_MISSING


def test_the_oldest_edge_of_all_levels_decides() -> None:
    late, early = NOW_MS // 1000, LONG_AGO_MS // 1000
    assert judged(look(puts=[late, early])) is Finding.ENTRY_MISSING


def test_a_follow_that_began_again_after_the_post_is_owed_nothing() -> None:
    assert judged(look(row=replace(FOLLOW, changed_at=TOO_LATE_MS))) is None


@pytest.mark.parametrize("changed", [{"state": REQUESTED}, {"shut": True}, {"shuts": True}])
def test_who_waits_for_approval_or_is_blocked_is_owed_nothing(changed: Any) -> None:
    assert judged(look(row=replace(FOLLOW, **changed))) is None


def test_a_retracted_post_is_owed_to_nobody() -> None:
    assert judged(look(post=replace(STORED, deleted=True, published_at=""))) is None


def test_a_post_whose_entries_are_about_to_end_is_owed_to_nobody() -> None:
    end_ms = EXPIRES_AT * 1000 - MARGIN_MS
    assert judged(look(now_ms=end_ms)) is None
    assert judged(look(now_ms=end_ms - 1)) is Finding.ENTRY_MISSING


def test_a_post_in_a_channel_is_looked_for_there() -> None:
    assert owner_of(replace(FANOUT, by=CHANNEL), "bob") == "#ada"
    assert owner_of(FANOUT, "bob") == "bob"


def test_a_channel_that_the_readers_pages_leave_out_is_overlooked() -> None:
    assert judged(look(is_there=True, is_read=False)) is Finding.OVERLOOKED
    assert judged(look(is_there=True, is_read=False, puts=[NOW_MS // 1000])) is None


def test_what_is_missing_counts_if_a_second_look_misses_it_too() -> None:
    assert confirmed(MISSING, MISSING) is Finding.ENTRY_MISSING
    assert confirmed(MISSING, look(is_there=True)) is None


def test_a_follow_that_changes_between_the_looks_is_no_finding() -> None:
    assert confirmed(MISSING, look(row=replace(FOLLOW, version=4))) is None
    assert judged(look(row=replace(FOLLOW, state=UNFOLLOWED))) is None


@pytest.mark.parametrize("updated_ms", [TOO_LATE_MS, math.inf])
def test_what_an_older_version_wrote_counts_as_written_at_the_last_deploy(
    updated_ms: float,
) -> None:
    edge = look(puts=[None])
    row = look(row=replace(FOLLOW, changed_at=0))
    for old in (edge, row):
        assert judged(old, updated_ms=updated_ms) is None
        assert judged(old, updated_ms=TOO_LATE_MS - 1) is Finding.ENTRY_MISSING


def test_a_missing_edge_counts_once_no_order_can_bring_it() -> None:
    old = ACCEPTED_MS - NO_ORDER_MS
    young = look(puts=[], row=replace(FOLLOW, changed_at=old))
    assert judged(young) is Finding.UNSURE
    assert judged(look(puts=[], row=replace(FOLLOW, changed_at=old - 1))) is Finding.EDGE_MISSING
    assert judged(look(puts=[], row=replace(FOLLOW, changed_at=TOO_LATE_MS))) is None


@pytest.mark.parametrize(
    "post",
    [None, replace(STORED, publisher_id="eve"), replace(STORED, accepted_at="2027-01-01")],
    ids=["none", "another's", "a later one's"],
)
def test_a_delivered_post_whose_row_is_gone_is_missing_itself(post: Post | None) -> None:
    assert judged(look(post=post)) is Finding.POST_MISSING


# An entry that is there

SINCE = times.to_text(NOW_MS - 30 * 86_400_000)
ENDED = replace(FOLLOW, state=UNFOLLOWED)
UNFOLLOWED_ONE = Shown(
    entry=Entry(FANOUT.sort_key, "ada", EXPIRES_AT),
    post=STORED,
    row=ENDED,
    is_hidden=False,
    now_ms=NOW_MS,
)


def shown(**changed: Any) -> Shown:
    return replace(UNFOLLOWED_ONE, **changed)


def test_an_entry_that_is_shown_without_a_follow_is_wrong() -> None:
    assert wrong(UNFOLLOWED_ONE, since=SINCE) is Finding.UNFOLLOWED


@pytest.mark.parametrize(
    "changed",
    [
        {"row": FOLLOW},
        {"is_hidden": True},
        {"post": replace(STORED, deleted=True, published_at="")},
        {"entry": Entry(FANOUT.sort_key, "ada", NOW_MS // 1000 + rule.MARGIN_MS // 1000)},
    ],
    ids=["followed", "hidden", "retracted", "about to end"],
)
def test_an_entry_that_is_due_or_that_no_page_shows_is_right(changed: dict[str, Any]) -> None:
    assert wrong(shown(**changed), since=SINCE) is None


def test_an_entry_older_than_the_retention_is_not_shown() -> None:
    assert wrong(UNFOLLOWED_ONE, since=times.to_text(NOW_MS)) is None


def test_an_entry_of_no_post_or_of_anothers_is_wrong() -> None:
    followed = shown(row=FOLLOW)
    assert wrong(replace(followed, post=None), since=SINCE) is Finding.POST_MISSING
    others = replace(STORED, publisher_id="eve")
    assert wrong(replace(followed, post=others), since=SINCE) is Finding.ANOTHERS
