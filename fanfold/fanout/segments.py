"""The segments of a fan-out: how many there are, fixed once, and how far each is delivered."""

from __future__ import annotations

from dataclasses import dataclass

# About 1 s of writing for one worker: short enough to repeat after a crash, long enough that the
# ledger costs 0.02 % of the writes.
SEGMENT_FOLLOWERS = 5_000
# The ledger row lists the pending segments: 4,096 numbers are about 16 KB, far below 400 KB.
MAX_SEGMENTS = 4_096
# Followers that are read to estimate how many there are; see ring.estimate.
SAMPLE_EDGES = 1_000
# More entries than any segment has; fixed, so that text sorts as the numbers do.
_WRITTEN_DIGITS = 10


def count_for(followers: int) -> int:
    """Number of segments, a power of two of at least 1, for an estimated number of followers."""
    wanted = -(-followers // SEGMENT_FOLLOWERS)
    return min(MAX_SEGMENTS, 1 << max(0, wanted - 1).bit_length())


@dataclass(frozen=True)
class Resume:
    """Where the next worker of a segment begins, and how many entries are written before that.

    `stragglers` are earlier positions whose followers still lack the entry.
    """

    position: str
    written: int
    stragglers: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Fixed-width position, then the count: of two resumes, the one further on sorts later."""
        return ".".join((self.position, f"{self.written:0{_WRITTEN_DIGITS}}", *self.stragglers))

    @staticmethod
    def from_text(value: str) -> Resume:
        position, written, *stragglers = value.split(".")
        return Resume(position, int(written), tuple(stragglers))
