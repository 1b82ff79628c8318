"""Publish, edit and retract: a post is stored durably before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fanfold import clock, times
from fanfold.aws.queues import WorkQueue
from fanfold.aws.retries import is_transient
from fanfold.errors import (
    BadInput,
    FanfoldError,
    KeyReused,
    PostRetracted,
    RefIdTaken,
    TooOften,
    TryLater,
)
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.publishing import post_time
from fanfold.fanout.publishing.post_rate import PostCounts
from fanfold.fanout.row import ABANDONED, VOID, Fanout
from fanfold.ids import split_sort_key
from fanfold.json_text import NO_BODY, Body
from fanfold.messages import PlanFanout
from fanfold.names import BULK
from fanfold.rates import spoken
from fanfold.timeline.entries import entries_expire_at
from fanfold.timeline.posts import OUTLIVES_SECONDS, Post, Posts, no_post, taken

# A repeat stores the post of a row younger than this without changing the row: its opener may be
# about to store it, too. Far below `VOID_MS`, as PLAN may take a minute more.
JOINED_MS = 30_000
# A door stores no post under an older row: it was frozen meanwhile, and PLAN may have ended the
# row, as it does from `VOID_MS` on, by its own clock.
FROZEN_MS = 60_000
# A repeat sends PLAN's command again if the row has awaited its plan for this long: longer than the
# door lives that should have sent it, and far shorter than SWEEP waits.
SILENT_MS = 10_000


@dataclass(frozen=True, kw_only=True)
class NewPost:
    """A valid request to publish, from either door."""

    publisher_id: str
    ref_id: str
    published_at: str | None = None
    body: Body = NO_BODY


@dataclass(frozen=True)
class Published:
    """An accepted post, and whether PLAN's command was sent; if not, SWEEP will send it."""

    post: Post
    command_sent: bool


@dataclass(frozen=True)
class Publishing:
    """The use case behind the HTTP route and the publish queue.

    Without `counts`, a publisher may publish as often as it likes.
    """

    posts: Posts
    ledger: Ledger
    retention_days: int
    counts: PostCounts | None = None

    def publish(self, new: NewPost, *, accepted_at: int, plan_queue: WorkQueue) -> Published:
        """Accept a user's post, as `accept` does, and send PLAN its command.

        A user's `ref_id` stands for an Idempotency-Key, if it is not random. Raises `KeyReused` if
        the stored post is another one, and `TooOften` over the publisher's rate, unless the post is
        stored already. It is counted before it is stored: a refused one leaves nothing.
        """
        wanted = self._wanted(new, accepted_at)
        if wait_ms := self._count(wanted, accepted_at):
            self._refuse_if_new(wanted, accepted_at, wait_ms)
        post, is_owed_command = self._take(wanted, accepted_at, keyed=new)
        _check_key(new, post)
        if not is_owed_command:
            return Published(post, command_sent=True)
        try:
            plan_queue.send(PlanFanout(fanout_id=post.ref_id).message(group=post.publisher_id))
        except Exception as error:
            if not is_transient(error):
                raise
            return Published(post, command_sent=False)
        return Published(post, command_sent=True)

    def accept(self, new: NewPost, *, accepted_at: int, sent_at: int | None = None) -> Post:
        """Store the post and open its ledger row; from then on its delivery is promised.

        `accepted_at` is the epoch millisecond at which the request or message arrived; a later
        `published_at` is clamped to it. A repeated `ref_id` returns the stored post. Raises
        `BadInput` for a post older than the retention, and for the `ref_id` of one that has become
        older, `RefIdTaken` and `PostRetracted`.

        Over the publisher's rate, its delivery takes the bulk lane. It must be over the rate at
        `sent_at`, in epoch milliseconds, since waiting made no message faster; and now, since a
        message that was overtaken finds later ones counted.
        """
        wanted = self._wanted(new, accepted_at)
        sent_at = accepted_at if sent_at is None else sent_at
        is_over = self._is_over(wanted, sent_at)
        return self._take(wanted, accepted_at, lane=BULK.lane if is_over else "")[0]

    def _is_over(self, post: Post, sent_at: int) -> bool:
        """Whether a message is over the rate both when it was sent and now.

        In a flood, the first count also answers for now, without another update.
        """
        wait_ms = self._count(post, sent_at)
        late_ms = max(0, clock.now_ms() - sent_at)
        if wait_ms > late_ms:
            return True
        return wait_ms > 0 and self._count(post, sent_at + late_ms) > 0

    def _count(self, post: Post, at_ms: int) -> int:
        """Count a post; how long to wait if it is over the rate.

        It fails open: if the row is throttled, perhaps for a neighbour of its partition, the post
        is not counted, and neither refused nor delayed.
        """
        if self.counts is None:
            return 0
        try:
            return self.counts.count(post.publisher_id, post.ref_id, now_ms=at_ms)
        except Exception as error:
            if is_transient(error):
                return 0
            raise

    def _refuse_if_new(self, wanted: Post, accepted_at: int, wait_ms: int) -> None:
        stored = self.posts.one(wanted.ref_id)
        if stored is None or stored.has_ended(accepted_at):
            raise TooOften(
                "You publish faster than one publisher may; wait as long as Retry-After says "
                f"({spoken(wait_ms)}), then send the same request again.",
                wait_ms=wait_ms,
            )

    def _wanted(self, new: NewPost, accepted_at: int) -> Post:
        """The post to be stored if its `ref_id` is free; raises `BadInput`."""
        published_at = post_time.stored_ms(new.published_at, accepted_at)
        expires_at = entries_expire_at(published_at, self.retention_days)
        post_time.check_is_kept(expires_at, accepted_at, self.retention_days)
        return Post(
            ref_id=new.ref_id,
            publisher_id=new.publisher_id,
            published_at=times.to_text(published_at),
            accepted_at=times.to_text(accepted_at),
            expires_at=expires_at + OUTLIVES_SECONDS,
            body=new.body.text,
            first_body_hash=new.body.digest,
        )

    def _take(
        self, wanted: Post, accepted_at: int, lane: str = "", keyed: NewPost | None = None
    ) -> tuple[Post, bool]:
        """Open the row of the ledger, then store the post; and whether PLAN is owed a command.

        In that order, nobody sees a post whose delivery is not promised. A crash between the two
        leaves a row without a post: PLAN ends it as void, or a repeat takes it up. For a request
        with a key, `keyed`, only what it sent itself is stored.
        Only one request can store the post, and that one owes the command: copies of a publish that
        come together may open the row together, and a repeat may be the first to store.
        """
        row = _row(wanted, lane)
        seen = self.ledger.open(row)
        post = self.posts.one(wanted.ref_id) if seen else None
        if post is None or post.has_ended(accepted_at):
            if seen:
                wanted, row = self._take_up(seen, wanted, lane, keyed)
            # The row stays as it is: a repeat may have joined it, and stored the post.
            if row.awaits_plan and clock.now_ms() - row.changed_ms >= FROZEN_MS:
                raise TryLater("Storing the post took too long; send the same again.")
            try:
                post = self._checked(self.posts.add(wanted, now=accepted_at // 1000), wanted)
            except FanfoldError:
                if not seen:
                    self.ledger.void(row, now=row.changed_at)
                raise
        elif seen:
            post, row = self._checked(post, wanted), seen
        is_its_row = (row.sort_key, row.accepted_at) == (post.sort_key, post.accepted_at)
        if not is_its_row or row.state == VOID:  # the ledger has lost the post's own
            other = self.ledger.open(_row(post, lane), over=row)
            if other and (other.sort_key, other.accepted_at) != (post.sort_key, post.accepted_at):
                raise _contended()
            return post, True
        is_silent = row.awaits_plan and clock.now_ms() - row.changed_ms >= SILENT_MS
        return post, post is wanted or is_silent

    def _take_up(
        self, seen: Fanout, wanted: Post, lane: str, keyed: NewPost | None
    ) -> tuple[Post, Fanout]:
        """What may be stored under a row that has no post, and the row as it is then.

        While another request may still store the post, it must be the same post: that of the row's
        times. Raises `KeyReused` if they are not those of `keyed`, and `TryLater` if nobody can say
        which post it is.
        """
        now_ms = clock.now_ms()
        is_ours = seen.publisher_id == wanted.publisher_id
        # An operator ended it, and it stays so: the post is stored, and not sent.
        has_ended = is_ours and seen.state == ABANDONED and not seen.has_expired(now_ms)
        if has_ended or seen.may_be_stored(now_ms):
            if not is_ours:
                raise _contended()
            wanted = replace(
                wanted,
                published_at=split_sort_key(seen.sort_key)[0],
                accepted_at=seen.accepted_at,
                expires_at=seen.expires_at + OUTLIVES_SECONDS,
            )
            if keyed:
                _check_key(keyed, wanted)
            if has_ended or now_ms - seen.changed_ms < JOINED_MS:
                return wanted, seen
        row = _row(wanted, lane)
        other = self.ledger.open(row, over=seen)
        if other is None:
            return wanted, row
        if other.may_be_stored(now_ms) and now_ms - other.changed_ms < JOINED_MS:
            return self._take_up(other, wanted, lane, keyed)  # another repeat was faster
        raise _contended()

    def _checked(self, post: Post, wanted: Post) -> Post:
        """The stored post, if it is `wanted` or may be returned in its place."""
        if post.publisher_id != wanted.publisher_id:
            raise taken(post.ref_id)
        if post.deleted:
            raise PostRetracted(
                f"The post '{post.ref_id}' was retracted; publish it under another Idempotency-Key."
            )
        # By both retentions, if it was changed: nobody would see the entries, or they are gone.
        visible_until = entries_expire_at(times.to_ms(post.published_at), self.retention_days)
        if min(visible_until, post.entries_expire_at) * 1000 <= times.to_ms(wanted.accepted_at):
            raise BadInput(
                f"The post '{post.ref_id}' has expired, and its ref_id is not free again before "
                f"{times.to_text(post.expires_at * 1000)}; publish with another ref_id or "
                "Idempotency-Key."
            )
        return post

    def edit(self, ref_id: str, *, publisher_id: str, body: str, edited_at: int) -> str:
        """Show another body with the post from now on; entries hold ids, so none is written again.

        `edited_at` is the epoch millisecond at which the request or message was first sent; the
        later of two edits stays. Returns the time of the stored edit. Raises `NoPost`, also
        before the post is published, `RefIdTaken`, `PostRetracted` and `EditOvertaken`.
        """
        return self.posts.edit(ref_id, publisher_id, body=body, edited_at=edited_at)

    def edit_own(self, ref_id: str, *, publisher_id: str, body: str, edited_at: int) -> str:
        """The same for a user, who is not told whether somebody else has such a post."""
        try:
            return self.edit(ref_id, publisher_id=publisher_id, body=body, edited_at=edited_at)
        except RefIdTaken:
            raise no_post(ref_id) from None

    def retract(self, ref_id: str, *, publisher_id: str, retracted_at: int) -> None:
        """Show the post to nobody from now on, and stop delivering it.

        If it has not been published yet, a tombstone makes its publish fail with `PostRetracted`.
        """
        self.posts.retract(
            ref_id,
            publisher_id,
            retracted_at=retracted_at,
            # From now, not from the message's time: the post may have been published after that.
            expires_at=entries_expire_at(clock.now_ms(), self.retention_days) + OUTLIVES_SECONDS,
        )

    def retract_own(self, ref_id: str, *, publisher_id: str, retracted_at: int) -> None:
        """The same for a post that its publisher has published; raises `NoPost` for any other."""
        self.posts.retract_own(ref_id, publisher_id, now_ms=retracted_at)


def _row(post: Post, lane: str) -> Fanout:
    return Fanout(
        fanout_id=post.ref_id,
        publisher_id=post.publisher_id,
        sort_key=post.sort_key,
        accepted_at=post.accepted_at,
        expires_at=post.entries_expire_at,
        lane=lane,
        changed_at=times.to_text(clock.now_ms()),
    )


def _contended() -> TryLater:
    return TryLater(
        "Another attempt to publish this is under way; send the same again in a moment."
    )


def _check_key(new: NewPost, stored: Post) -> None:
    if not is_repeat(new, stored):
        raise KeyReused(
            "The Idempotency-Key was used for a post with another body or published_at; send "
            "that one to have its answer again, or this one with a key of its own."
        )


def is_repeat(new: NewPost, stored: Post) -> bool:
    """Whether a stored post, which is not retracted, is what storing `new` would have stored.

    Bodies are compared as JSON: the order of an object's members does not matter. A number counts
    as it is written, since readers see it so. Of an edited post, the first body counts.
    """
    published_at = post_time.stored_ms(new.published_at, times.to_ms(stored.accepted_at))
    is_same_time = published_at == times.to_ms(stored.published_at)
    return is_same_time and new.body.digest == stored.first_body_hash
