"""Into how many segments a fan-out is cut. Fixed once, in the ledger."""

# About 1 s of writing for one worker: short enough to repeat after a crash, long enough that the
# ledger costs 0.02 % of the writes.
SEGMENT_FOLLOWERS = 5_000
# The ledger row lists the pending segments; 4,096 numbers are about 16 KB, far below 400 KB.
MAX_SEGMENTS = 4_096
# Followers that are read to estimate how many there are; see ring.estimate.
SAMPLE_EDGES = 1_000


def count_for(followers: int) -> int:
    """Number of segments, a power of two of at least 1, for an estimated number of followers."""
    wanted = -(-followers // SEGMENT_FOLLOWERS)
    return min(MAX_SEGMENTS, 1 << max(0, wanted - 1).bit_length())
