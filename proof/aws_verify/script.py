"""What a run does, and its own record of it: nothing here is read from the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

# Followers of the publishers. The large one is the largest follow graph of our tests.
SIZES = (100, 10_000)
LARGE = 220_000
# The local engine handles one batch of messages at a time, so 10,000 follows would take minutes.
LOCAL_SIZES = (100, 1_000)
MOST = 1_000_000

# The first followers of all publishers can sign in: they follow, unfollow and read over HTTP.
READERS = 4
# Publishes beside which something is switched off or throttled are not for more than so many.
MOST_TROUBLED = 10_000

HTTP = "HTTP"
QUEUE = "queue"
DOORS = (HTTP, QUEUE)


@dataclass(frozen=True)
class Post:
    """A post that this run has published, and who followed its publisher then."""

    ref_id: str
    publisher: str
    published_at: str
    title: str
    door: str
    followers: frozenset[str]


@dataclass
class Record:
    """Who follows whom and what was published, by this run's own account.

    Every id begins with `tag`, so that a run can be told from everything else in the same tables.
    """

    tag: str
    sizes: Sequence[int]
    follows: dict[str, frozenset[str]] = field(default_factory=dict)  # by publisher, as of now
    posts: dict[str, Post] = field(default_factory=dict)  # by ref_id

    @property
    def prefix(self) -> str:
        return f"{self.tag}-"

    def publisher(self, size: int) -> str:
        return f"{self.prefix}publisher-of-{size}"

    def user(self, number: int) -> str:
        return f"{self.prefix}user-{number:06d}"

    @property
    def readers(self) -> list[str]:
        """The users that can sign in."""
        return [self.user(number) for number in range(min(READERS, *self.sizes))]

    @property
    def troubled(self) -> list[int]:
        """The sizes of the publishers that post while something is in trouble."""
        small = [size for size in self.sizes if size <= MOST_TROUBLED]
        return sorted({min(small), max(small)}) if small else [min(self.sizes)]

    def wanted(self) -> dict[str, frozenset[str]]:
        """Who is to follow each publisher before the first post."""
        return {
            self.publisher(size): frozenset(self.user(number) for number in range(size))
            for size in self.sizes
        }

    def unfollow(self, user: str, publisher: str) -> None:
        self.follows[publisher] -= {user}

    def publish(self, post: Post) -> Post:
        self.posts[post.ref_id] = post
        return post

    def timeline(self, user: str) -> list[Post]:
        """The posts that the user must see, newest first: none of whom the user has left."""
        mine = [
            post
            for post in self.posts.values()
            if user in post.followers and user in self.follows[post.publisher]
        ]
        return sorted(mine, key=lambda post: (post.published_at, post.ref_id), reverse=True)
