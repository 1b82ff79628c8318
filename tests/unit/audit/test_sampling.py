"""What a sample proves: the formulas, against enumeration."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from fanfold.audit import sampling
from fanfold.audit.sampling import arcs, chance_to_find, drawn, most_missing
from fanfold.follows import ring


@pytest.mark.parametrize("bad", [0, 1, 3])
@pytest.mark.parametrize("sampled", [1, 2, 5, 6])
def test_a_sample_finds_a_bad_one_as_often_as_it_does_among_all_samples(
    bad: int, sampled: int
) -> None:
    samples = list(combinations(range(6), sampled))
    hits = sum(any(each < bad for each in sample) for sample in samples)
    assert chance_to_find(bad, 6, sampled) == pytest.approx(hits / len(samples))


@pytest.mark.parametrize("pairs", [100, 3_000, 30_000])
def test_nothing_found_in_n_pairs_bounds_the_missing_ones_by_3_in_n(pairs: int) -> None:
    assert (1 - most_missing(pairs)) ** pairs == pytest.approx(0.05)
    assert 2.9 / pairs < most_missing(pairs) < 3 / pairs
    assert most_missing(0) == 1


def test_numbers_are_drawn_once_each_in_any_order() -> None:
    orders = {tuple(drawn(3, Random(seed).random)) for seed in range(100)}
    assert len(orders) == 6
    assert all(sorted(order) == [0, 1, 2] for order in orders)


def test_an_arc_of_each_segment_has_a_place_in_it_and_arcs_are_at_most_64() -> None:
    found = arcs(512, Random(1).random)
    assert len(found) == sampling.MOST_PLACES == 64
    assert [ring.shard_of(arc.place, 6) for arc in found] == list(range(64))
    assert all(arc.low <= arc.place < arc.high for arc in found)
    assert [arc.low for arc in found[1:]] == [arc.high for arc in found[:-1]]
    assert (found[0].low, found[-1].high) == (ring.START, ring.END)
    assert len(arcs(0, Random(1).random)) == len(arcs(1, Random(1).random)) == 1
    assert len(arcs(512, Random(1).random, most=512)) == 512
    assert arcs(1, lambda: 1 - 2**-53)[0].place < ring.END


def test_a_small_table_is_one_segment_and_a_large_one_a_million() -> None:
    assert [sampling.scan_segments(each) for each in (0, 39, 40, 10**9)] == [1, 1, 2, 10**6]
