"""The head of the channels compared with what the ledger and the readers know of it. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from fanfold.channels.head import Channel, Head
from fanfold.fanout.row import Fanout


@dataclass
class Known:
    """What the head must have had at some time."""

    # Posts that are complete in a channel, and shown, by publisher. The channel leaves the head
    # only after all of these, and each of them has raised its `seq`.
    posts: Counter[str] = field(default_factory=Counter)
    followers: dict[str, int] = field(default_factory=dict)  # estimated, by publisher
    version: int = 0  # the highest up to which a reader's row is complete
    revision: int = 0  # the highest of a head that told of a post

    def add(self, fanouts: Iterable[Fanout]) -> None:
        for each in fanouts:
            self.posts[each.publisher_id] += 1
            most = max(each.followers, self.followers.get(each.publisher_id, 0))
            self.followers[each.publisher_id] = most
            self.revision = max(self.revision, each.head_revision)


def not_in_head(head: Head, known: Known) -> list[str]:
    """The publishers whose channel is not in the head, although it is in use."""
    return sorted(each for each in known.posts if not head.of(each))


def is_outdated(head: Head, known: Known) -> bool:
    """Whether the head is older than what is known of it."""
    seqs = ((head.of(each), posts) for each, posts in known.posts.items())
    return (
        head.version < known.version
        or head.revision < known.revision
        or any(channel is not None and channel.seq < posts for channel, posts in seqs)
    )


def rebuilt(head: Head, known: Known, *, now_ms: int) -> Head:
    """The head with every channel that is in use, later than all that anybody knows of it.

    Each channel gets a version above every reader's row, so that pages look up once whom their
    readers follow, and functions read the channels again. The revision, a count of changes,
    becomes the time: functions that cached a head before it was lost then take this one. A channel
    that was not in the head takes posts: that is one entry a post, and a person may demote it. Only
    here, there may be more than `MOST` channels; otherwise some posts would not be shown.
    """
    version = max(head.version + 1, known.version + 1, now_ms)
    listed = [
        each._replace(version=version, seq=max(each.seq, known.posts[each.publisher_id]))
        for each in head.channels.values()
    ]
    lost = [
        Channel(each, version, seq=known.posts[each], followers=known.followers[each])
        for each in not_in_head(head, known)
    ]
    return Head(
        version=version,
        revision=max(head.revision + 1, known.revision + 1, now_ms),
        channels={each.key: each for each in (*listed, *lost)},
    )
