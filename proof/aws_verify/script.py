"""What a run does: its publishers by size, its readers, and who follows whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Followers of the publishers. The large one is the largest follow graph of our tests.
SIZES = (100, 10_000)
LARGE = 220_000
# The local engine handles one batch of messages at a time, so 10,000 follows would take minutes.
LOCAL_SIZES = (100, 1_000)
MOST = 1_000_000

# The first followers of all publishers can sign in: they follow, unfollow and read over HTTP.
READERS = 4
# Publishers with more followers do not publish during a trouble.
MOST_TROUBLED = 10_000

HTTP = "HTTP"
QUEUE = "queue"
DOORS = (HTTP, QUEUE)


@dataclass(frozen=True)
class Script:
    """Every id begins with `tag`, which distinguishes the run from all else in the tables."""

    tag: str
    sizes: Sequence[int]

    @property
    def prefix(self) -> str:
        return f"{self.tag}-"

    def publisher(self, size: int) -> str:
        return f"{self.prefix}publisher-of-{size}"

    def user(self, number: int) -> str:
        return f"{self.prefix}user-{number:06d}"

    @property
    def readers(self) -> list[str]:
        """The users who can sign in."""
        return [self.user(number) for number in range(min(READERS, *self.sizes))]

    @property
    def leavers(self) -> tuple[str, str]:
        """Who unfollows everybody, over HTTP and by the queue; perhaps one user does both."""
        return self.readers[-1], self.user(min(self.sizes) - 1)

    @property
    def troubled(self) -> list[int]:
        """The sizes of the publishers that post during each trouble."""
        small = [size for size in self.sizes if size <= MOST_TROUBLED]
        return sorted({min(small), max(small)}) if small else [min(self.sizes)]

    def followers(self) -> dict[str, frozenset[str]]:
        """Who follows each publisher before the first post."""
        return {
            self.publisher(size): frozenset(self.user(number) for number in range(size))
            for size in self.sizes
        }
