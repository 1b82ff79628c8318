"""Backfill: a new follow brings the publisher's newest posts into the follower's timeline.

A fan-out delivers a post to every edge that was put before the post was accepted. It may miss an
edge put later; but the outbox shows the post a moment after its acceptance. So RELATE makes two
passes over the outbox: one at once, so that a reader need not wait, and one when that moment has
surely passed. A pass uses a cached page of the outbox only if it was read a second after the edge
was put; the second pass makes up for a page that was read now.

Times are epoch milliseconds; those of SQS and of the workers differ by a few.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cachetools import TTLCache

from fanfold import clock, names, times
from fanfold.aws.items import MAX_PUTS
from fanfold.aws.retries import STEP, is_throttle, is_transient
from fanfold.errors import TryLater
from fanfold.follows.relation import Follow
from fanfold.ids import split_sort_key
from fanfold.timeline.entries import Entries, Entry, entries_expire_at
from fanfold.timeline.outbox import Outbox
from fanfold.timeline.page_reads import Range
from fanfold.timeline.visibility import shown_since

if TYPE_CHECKING:
    from fanfold.channels.known_head import KnownHead

# The outbox follows its table within moments, mostly a fraction of a second.
OUTBOX_LAG_MS = 1_000
# If a message has waited longer, RELATE is behind, as in a rush of follows. Then a follow brings
# ten posts, the beginning of a page, in a third of the time.
LATE_MS = 60_000
POSTS_WHEN_LATE = 10
# The shortest delay of a message to reconcile a relation.
SETTLE_MS = names.API.settled_seconds * 1000
# How long a page is cached: so it brings few posts that were retracted meanwhile, also to readers
# who do not hydrate. In a rush of follows, that is one read for hundreds.
PAGE_SECONDS = 5
# Publishers whose pages one container remembers; at 10 KB each, 2 MB.
PAGES = 200


class WritePace(Protocol):
    """How fast entries may be written, as for deliveries (`fanout/pacing.py`)."""

    def may_send_at(self, entries: int, now: float) -> float: ...

    def spend(self, entries: int) -> None: ...

    def answered(self, entries: int, throttled: int, now: float) -> None: ...


class Pass(NamedTuple):
    """One pass over a publisher's newest posts."""

    posts: int
    # A cached page is used if it was read at this time or later.
    remembered_from: int
    # Whether the timeline may hold some of the posts. Then it is read first, because a write costs
    # ten times as much.
    reads_first: bool


def first_pass(
    posts: int, *, sent_at: int, now: int, version: int, redelivered: bool = False
) -> Pass:
    """The pass for a message to backfill, which is sent as soon as the edge is put.

    `version` is that of the follow: nobody has entries of a publisher that they never followed.
    But if the message has waited, the second pass may have come first.
    """
    reads_first = redelivered or version > 1 or now - sent_at >= SETTLE_MS
    wanted = _posts(posts, is_late=now > sent_at + LATE_MS)
    return Pass(wanted, sent_at + OUTBOX_LAG_MS, reads_first)


def second_pass(posts: int, *, sent_at: int, now: int) -> Pass:
    """The pass for a message to reconcile, which was sent before the edge was put.

    The message does not tell its delay. PLAN puts an edge last. But the pass is late as soon as it
    would be with the shortest delay; otherwise it would write what a late first pass has left out.
    """
    edge_by = sent_at + names.PLAN.settled_seconds * 1000
    wanted = _posts(posts, is_late=now > sent_at + SETTLE_MS + LATE_MS)
    return Pass(wanted, edge_by + OUTBOX_LAG_MS, reads_first=True)


def _posts(posts: int, *, is_late: bool) -> int:
    return min(posts, POSTS_WHEN_LATE) if is_late else posts


@dataclass(frozen=True)
class BackfillChannels:
    """The channels of a stage, as backfills see them."""

    heads: KnownHead
    entries: Entries

    def held(self, publisher_id: str, posts: Sequence[Entry]) -> set[str]:
        """Which of up to 100 posts, by sort key, the publisher's channel holds for all followers.

        They need no entry of their own: all followers read a channel in the head, and it leaves the
        head only after all its entries have expired. If a post is missed, because of an old head or
        a throttled table, it gets an entry, and a page still shows it once.
        """
        from fanfold.channels.head import partition_of

        try:
            if not posts or not self.heads.get().of(publisher_id):
                return set()
            keys = [post.sort_key for post in posts]
            return self.entries.held(partition_of(publisher_id), keys)
        except Exception as error:
            if not is_transient(error):
                raise
            return set()


@dataclass(frozen=True)
class NewestPosts:
    """The newest posts of publishers, as entries, cached in a warm container."""

    outbox: Outbox
    retention_days: int
    most: int
    channels: BackfillChannels | None = None
    _pages: MutableMapping[str, tuple[int, Sequence[Entry]]] = field(
        default_factory=lambda: TTLCache(PAGES, PAGE_SECONDS, timer=clock.Lasting())
    )
    _lock: Lock = field(default_factory=Lock)

    def forget(self) -> None:
        """Empty the cache, as after a cold start."""
        with self._lock:
            self._pages.clear()

    def of(self, publisher_id: str, *, remembered_from: int) -> Sequence[Entry]:
        """At most `most` posts, newest first, from a page read at that epoch millisecond or later.

        Left out are retracted posts, which are not in the outbox, posts beyond the retention, and
        posts in the publisher's channel.
        """
        with self._lock:
            known = self._pages.get(publisher_id)
        if known and known[0] >= remembered_from:
            return known[1]
        now, within = clock.now_ms(), Range(shown_since(self.retention_days))
        posts, _ = self.outbox.newest(publisher_id, within, before=None, limit=self.most)
        held = self.channels.held(publisher_id, posts) if self.channels else ()
        page = [self._entry(post) for post in posts if post.sort_key not in held]
        with self._lock:
            self._pages[publisher_id] = now, page
        return page

    def _entry(self, post: Entry) -> Entry:
        published_ms = times.to_ms(split_sort_key(post.sort_key)[0])
        return post._replace(expires_at=entries_expire_at(published_ms, self.retention_days))


@dataclass(frozen=True)
class Backfilling:
    """The use case behind RELATE's passes over an outbox.

    The client of `entries` must not retry. An unfollow meanwhile undoes nothing: it only hides.
    """

    newest: NewestPosts
    entries: Entries
    _one_at_a_time: Lock = field(default_factory=Lock)  # a pace is not for threads

    def forget(self) -> None:
        """Empty the cache, as after a cold start."""
        self.newest.forget()

    def first(
        self, follow: Follow, *, sent_at: int, redelivered: bool, pace: WritePace, stop_at: float
    ) -> int:
        """Backfill a relation just read, by a message sent at this epoch millisecond.

        Returns how many entries it has put. `pace` is the worker's. Raises `TryLater` if the table
        takes them too slowly, or once `stop_at` of the monotonic clock is reached.
        """
        todo = first_pass(
            self.newest.most,
            sent_at=sent_at,
            now=clock.now_ms(),
            version=follow.version,
            redelivered=redelivered,
        )
        return self._carry_out(todo, follow, pace, stop_at)

    def second(self, follow: Follow, *, sent_at: int, pace: WritePace, stop_at: float) -> int:
        """The same for a message to reconcile, once the edge is there."""
        todo = second_pass(self.newest.most, sent_at=sent_at, now=clock.now_ms())
        return self._carry_out(todo, follow, pace, stop_at)

    def _carry_out(self, todo: Pass, follow: Follow, pace: WritePace, stop_at: float) -> int:
        if not (follow.is_active and todo.posts):
            return 0
        _check(stop_at)
        page = self.newest.of(follow.publisher_id, remembered_from=todo.remembered_from)
        wanted = page[: todo.posts]
        if todo.reads_first and wanted:
            _check(stop_at)
            held = self._held(follow.user_id, wanted)
            wanted = [entry for entry in wanted if entry.sort_key not in held]
        left = wanted
        for _ in clock.tries(*STEP):  # rounds over what is not yet written
            left = list(self._unwritten(follow.user_id, left, pace, stop_at))
            if not left:
                return len(wanted)
        raise _too_slow()

    def _held(self, user_id: str, entries: Sequence[Entry]) -> set[str]:
        try:
            return self.entries.held(user_id, [entry.sort_key for entry in entries])
        except Exception as error:
            if not is_transient(error):
                raise
            return set()  # writing them again changes nothing

    def _unwritten(
        self, user_id: str, entries: Sequence[Entry], pace: WritePace, stop_at: float
    ) -> Iterator[Entry]:
        """Put the entries, newest first, a batch at a time; yields those that are not written."""
        for start in range(0, len(entries), MAX_PUTS):
            batch = entries[start : start + MAX_PUTS]
            self._wait_for(len(batch), pace, stop_at)
            try:
                left = set(self.entries.put(user_id, batch))
                throttled = len(left)
            except Exception as error:
                if not is_transient(error):
                    raise
                left = {entry.sort_key for entry in batch}
                throttled = len(batch) if is_throttle(error) else 0
            with self._one_at_a_time:
                pace.answered(len(batch), throttled, clock.monotonic())
            yield from (entry for entry in batch if entry.sort_key in left)

    def _wait_for(self, entries: int, pace: WritePace, stop_at: float) -> None:
        """Wait until the pace lets this many entries go."""
        with self._one_at_a_time:
            now = clock.monotonic()
            at = pace.may_send_at(entries, now)
            if at >= stop_at:
                raise _too_slow()
            pace.spend(entries)
        if at > now:
            clock.sleep(at - now)


def _check(stop_at: float) -> None:
    if clock.monotonic() >= stop_at:
        raise _too_slow()


def _too_slow() -> TryLater:
    return TryLater("The timelines table takes this backfill too slowly; it comes again.")
