"""What RELATE looks for when it backfills: how many posts, on which page, and what it asks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold import names
from fanfold.follows.looks import LATE_MS, POSTS_WHEN_LATE, first_look, second_look

SENT = 1_795_000_000_000
MOST = 30
# The longest time after its order was sent that a door puts an edge.
DOORS_MS = 1000 * max(names.API.seconds, names.PLAN.seconds)


@pytest.mark.parametrize("waited", [0, 1, 10_000, LATE_MS])
def test_an_order_that_comes_in_time_brings_all_posts_of_the_stage(waited: int) -> None:
    assert first_look(MOST, sent_at=SENT, now=SENT + waited, version=1).posts == MOST
    assert second_look(MOST, sent_at=SENT, now=SENT + DOORS_MS + waited).posts == MOST


@pytest.mark.parametrize(("stage", "posts"), [(30, 10), (11, 10), (10, 10), (3, 3), (0, 0)])
def test_one_that_has_waited_a_minute_brings_ten_at_most(stage: int, posts: int) -> None:
    late = SENT + LATE_MS + 1
    assert POSTS_WHEN_LATE == 10
    assert first_look(stage, sent_at=SENT, now=late, version=1).posts == posts
    assert second_look(stage, sent_at=SENT, now=late + DOORS_MS).posts == posts


@given(st.integers(0, MOST), st.integers(-10_000, 10**9))
def test_a_remembered_page_was_read_a_second_or_more_after_the_edge_was_put(
    posts: int, waited: int
) -> None:
    first = first_look(posts, sent_at=SENT, now=SENT + waited, version=1)
    assert first.remembered_from >= SENT + 1_000, "sent once the edge was put"
    second = second_look(posts, sent_at=SENT, now=SENT + waited)
    assert second.remembered_from >= SENT + DOORS_MS + 1_000, "sent before"


def test_only_the_first_look_of_a_first_follow_writes_without_reading() -> None:
    assert not first_look(MOST, sent_at=SENT, now=SENT, version=1).asks_first
    assert first_look(MOST, sent_at=SENT, now=SENT, version=2).asks_first
    assert first_look(MOST, sent_at=SENT, now=SENT, version=1, redelivered=True).asks_first
    assert second_look(MOST, sent_at=SENT, now=SENT).asks_first
