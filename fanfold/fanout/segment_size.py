"""The segments of a delivery: their size, their number, and the part of the ring of each."""

from fanfold.follows.ring import END, RING_SIZE, RingRange

# About 1 s of writing for one worker: short enough to repeat after a crash, long enough that the
# ledger costs 0.03 % of the writes, if none is handed back.
SEGMENT_FOLLOWERS = 5_000
# The ledger's row lists the pending segments and how far each one is, and every update is billed
# for all of it. If all workers are at their slowest pace, they hand back after 2,400 entries at a
# write capacity of 1,200 or more, and the updates cost 0.8 % of the entries; with 2,048 segments,
# they would cost 2.9 %. Below that capacity, workers hand back after 975 entries, which costs up to
# 1.8 %. Above 2,560,000 followers, segments grow. The bulk lane has at most 64 workers: eight
# segments for each, so that all are busy nearly to the end.
MAX_SEGMENTS = 512


def count_for(followers: int) -> int:
    """Number of segments, a power of two of at least 1, for an estimated number of followers."""
    wanted = -(-followers // SEGMENT_FOLLOWERS)
    return min(MAX_SEGMENTS, 1 << max(0, wanted - 1).bit_length())


def segment_range(segment: int, segments: int) -> RingRange:
    """The part of the ring that segment `segment` of `segments` (a power of two) covers."""
    step = RING_SIZE // segments
    lo = f"{segment * step:016x}"
    return RingRange(lo, END if segment == segments - 1 else f"{(segment + 1) * step:016x}")
