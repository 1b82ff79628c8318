"""The ring and its segments."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.fanout.segment_size import count_for, segment_range
from fanfold.follows import ring

POWERS = [2**power for power in range(13)]
positions = st.integers(0, ring.RING_SIZE - 1).map(lambda number: f"{number:016x}")


@pytest.mark.parametrize("count", POWERS)
def test_segments_lie_end_to_end_around_the_whole_ring(count: int) -> None:
    parts = [segment_range(number, count) for number in range(count)]
    assert parts[0].lo == ring.START
    assert parts[-1].hi == ring.END
    for one, other in itertools.pairwise(parts):
        assert one.lo < one.hi == other.lo
        assert len(one.hi) == ring.POSITION_DIGITS


@given(positions, st.sampled_from(POWERS), st.text(min_size=1, max_size=5))
def test_no_edge_of_a_segment_lies_behind_behind_all(
    position: str, count: int, follower: str
) -> None:
    part = segment_range(int(position, 16) * count // ring.RING_SIZE, count)
    behind = ring.behind_all(part.hi)
    assert len(behind) == ring.POSITION_DIGITS  # the ledger compares positions as text
    assert f"{position}#{follower}" < behind
    assert behind >= part.hi, "a read from there finds nothing"


def test_a_position_is_64_bits_of_blake2b() -> None:
    # Stored keys depend on it.
    assert ring.edge("ada") == "15b0da4321160527#ada"


@given(positions, st.integers(0, 12))
def test_a_shard_is_the_segment_of_the_same_count(position: str, level: int) -> None:
    shard = ring.shard_of(position, level)
    part = segment_range(shard, 2**level)
    assert part.lo <= f"{position}#x" < part.hi


@pytest.mark.parametrize(
    ("followers", "count"),
    [
        (0, 1),
        (5_000, 1),
        (5_001, 2),
        (220_000, 64),
        (5_000 * 512, 512),
        (5_000 * 512 + 1, 512),
        (ring.RING_SIZE, 512),
    ],
)
def test_a_segment_has_at_most_5000_followers_until_there_are_512_of_them(
    followers: int, count: int
) -> None:
    assert count_for(followers) == count


@given(st.integers(1, 5_000 * 512))
def test_a_fanout_has_no_more_segments_than_needed(followers: int) -> None:
    count = count_for(followers)
    assert count & (count - 1) == 0
    assert followers <= count * 5_000
    assert count == 1 or followers > count // 2 * 5_000
