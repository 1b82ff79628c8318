"""What a sample proves: the formulas, against enumeration."""

from __future__ import annotations

from itertools import combinations, product
from random import Random

import pytest

from fanfold.audit import sampling
from fanfold.audit.sampling import (
    arc_around,
    chance_to_find,
    drawn,
    most_missing,
    pairs_for,
    places,
)
from fanfold.follows import ring


@pytest.mark.parametrize("bad", [0, 1, 3])
@pytest.mark.parametrize("sampled", [1, 2, 5, 6])
def test_a_sample_finds_a_bad_one_as_often_as_it_does_among_all_samples(
    bad: int, sampled: int
) -> None:
    samples = list(combinations(range(6), sampled))
    hits = sum(any(each < bad for each in sample) for sample in samples)
    assert chance_to_find(bad, 6, sampled) == pytest.approx(hits / len(samples))


def test_of_a_post_with_a_lost_segment_the_share_of_the_tried_ones_is_found() -> None:
    # Two of five posts have lost one of four segments; three posts are sampled, two segments each.
    hits = tried = 0
    for posts in combinations(range(5), 3):
        for segments in product(combinations(range(4), 2), repeat=3):
            tried += 1
            hits += any(post < 2 and 0 in some for post, some in zip(posts, segments, strict=True))
    assert chance_to_find(2, 5, 3, share=2 / 4) == pytest.approx(hits / tried)


@pytest.mark.parametrize(("share", "pairs"), [(0.001, 2_995), (0.0001, 29_956), (0.5, 5)])
def test_so_many_pairs_find_such_a_share_with_95_percent(share: float, pairs: int) -> None:
    assert pairs_for(share) == pairs
    assert 1 - (1 - share) ** pairs >= 0.95 > 1 - (1 - share) ** (pairs - 1)


@pytest.mark.parametrize("pairs", [100, 3_000, 30_000])
def test_nothing_found_in_n_pairs_bounds_the_missing_ones_by_3_in_n(pairs: int) -> None:
    assert (1 - most_missing(pairs)) ** pairs == pytest.approx(0.05)
    assert 2.9 / pairs < most_missing(pairs) < 3 / pairs
    assert most_missing(0) == 1


def test_numbers_are_drawn_once_each_in_any_order() -> None:
    orders = {tuple(drawn(3, Random(seed).random)) for seed in range(100)}
    assert len(orders) == 6
    assert all(sorted(order) == [0, 1, 2] for order in orders)


def test_there_is_a_place_in_each_arc_and_at_most_64() -> None:
    found = places(512, Random(1).random)
    assert len(found) == sampling.MOST_PLACES == 64
    assert [ring.shard_of(each, 6) for each in found] == list(range(64))
    assert len(places(0, Random(1).random)) == len(places(1, Random(1).random)) == 1
    assert len(places(512, Random(1).random, most=512)) == 512
    assert places(1, lambda: 1 - 2**-53)[0] < ring.END


def test_a_small_table_is_one_segment_and_a_large_one_a_million() -> None:
    assert [sampling.scan_segments(each) for each in (0, 39, 40, 10**9)] == [1, 1, 2, 10**6]


def test_a_place_lies_in_its_arc() -> None:
    for number, place in enumerate(found := places(4, Random(2).random)):
        low, high = arc_around(place, len(found))
        assert (low, high[:1]) == (f"{number * 4:x}".ljust(16, "0"), "48cg"[number])
