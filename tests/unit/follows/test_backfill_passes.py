"""What RELATE looks for when it backfills: how many posts, on which page, and what it asks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold import names, times
from fanfold.follows.backfill import LATE_MS, POSTS_WHEN_LATE, first_pass, second_pass
from fanfold.follows.relation import FOLLOWED, Follow, may_be_new

SENT = 1_795_000_000_000
MOST = 30
# The longest time after its order was sent that an edge of a door lands.
DOORS_MS = 1000 * max(names.API.settled_seconds, names.PLAN.settled_seconds)
# The shortest delay of an order to settle.
DELAY_MS = 1000 * names.API.settled_seconds


@pytest.mark.parametrize("waited", [0, 1, 10_000, LATE_MS])
def test_an_order_that_comes_in_time_brings_all_posts_of_the_stage(waited: int) -> None:
    assert first_pass(MOST, sent_at=SENT, now=SENT + waited, version=1).posts == MOST
    assert second_pass(MOST, sent_at=SENT, now=SENT + DELAY_MS + waited).posts == MOST


@pytest.mark.parametrize(("stage", "posts"), [(30, 10), (11, 10), (10, 10), (3, 3), (0, 0)])
def test_one_that_has_waited_a_minute_brings_ten_at_most(stage: int, posts: int) -> None:
    late = SENT + LATE_MS + 1
    assert POSTS_WHEN_LATE == 10
    assert first_pass(stage, sent_at=SENT, now=late, version=1).posts == posts
    assert second_pass(stage, sent_at=SENT, now=late + DELAY_MS).posts == posts


@given(st.integers(0, MOST), st.integers(-10_000, 10**9))
def test_a_remembered_page_was_read_a_second_or_more_after_the_edge_was_put(
    posts: int, waited: int
) -> None:
    first = first_pass(posts, sent_at=SENT, now=SENT + waited, version=1)
    assert first.remembered_from >= SENT + 1_000, "sent once the edge was put"
    second = second_pass(posts, sent_at=SENT, now=SENT + waited)
    assert second.remembered_from >= SENT + DOORS_MS + 1_000, "sent before"


def test_only_the_first_pass_of_a_first_follow_writes_without_reading() -> None:
    assert not first_pass(MOST, sent_at=SENT, now=SENT, version=1).reads_first
    assert first_pass(MOST, sent_at=SENT, now=SENT, version=2).reads_first
    assert first_pass(MOST, sent_at=SENT, now=SENT, version=1, redelivered=True).reads_first
    assert second_pass(MOST, sent_at=SENT, now=SENT).reads_first


def test_a_first_pass_that_the_second_may_have_overtaken_reads_as_well() -> None:
    assert not first_pass(MOST, sent_at=SENT, now=SENT + DELAY_MS - 1, version=1).reads_first
    assert first_pass(MOST, sent_at=SENT, now=SENT + DELAY_MS, version=1).reads_first


MINUTE_MS = 60_000


@pytest.mark.parametrize(
    ("followed", "asked", "sent", "expected"),
    [
        (0, 0, 0, True),
        (0, 0, 3 * MINUTE_MS, False),  # approved again, which leaves the time of the request
        (0, 5 * MINUTE_MS, 0, True),  # the order of the follow itself, which has waited
        (0, MINUTE_MS, MINUTE_MS, True),  # asked again within moments
        (0, 3 * MINUTE_MS, 3 * MINUTE_MS, False),
    ],
)
def test_a_follow_requested_again_later_has_no_new_edge(
    followed: int, asked: int, sent: int, expected: bool
) -> None:
    row = Follow(
        user_id="bob",
        publisher_id="ada",
        state=FOLLOWED,
        version=2,
        followed_at=times.to_text(SENT + followed),
        asked_at=SENT + asked,
    )
    assert may_be_new(row, SENT + sent) is expected
