"""Many follows of one user at once, for imports: as safe as single follows, in far fewer calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from fanfold import clock
from fanfold.aws.retries import STEP
from fanfold.errors import Contended
from fanfold.follows.follow import Following
from fanfold.follows.relation import Asked, Follow, granted

# TransactWriteItems takes 100 actions; one is the count of the user's follows.
MAX_CHANGES = 99


@dataclass(frozen=True)
class BulkFollowing:
    """The use case behind `fanfold seed`.

    It leaves out what a user has unfollowed, and reports it by `leave`, unless told to follow
    `again`. It also leaves requests and blocks; otherwise it counts as approved by the publisher.
    """

    following: Following
    again: bool = False
    leave: Callable[[Follow], None] = lambda _row: None

    def in_effect(self, pairs: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Which of up to 100 follows (user, publisher) have their row and their edge already.

        Two reads, and no write. `follow_all` completes what lacks either, as after a crash between
        the two writes. Raises `TryLater`.

        Only an unfollow removes an edge, and only after it gave the row a higher version. The edge
        is read before the row: if the row is a follow whose version is not above the edge's, the
        edge is there at that moment, too. If it is above, the user has followed again, and the edge
        that was read may be about to go.

        One case escapes this. An older import stalls in a batch, whose put has no condition, and
        writes its lower version over that edge between the two reads; a late unfollow then removes
        it. That import reads the rows again and reconciles, as RELATE and the doctor do.
        """
        edges = self.following.edges.versions([(publisher, user) for user, publisher in pairs])
        rows = self.following.follows.rows([(user, publisher) for publisher, user in edges])
        return {
            (row.user_id, row.publisher_id)
            for row in rows
            if row.is_active and row.version <= edges[row.publisher_id, row.user_id]
        }

    def follow_all(self, user_id: str, publisher_ids: Sequence[str]) -> int:
        """Let the user follow every one of these publishers; returns how many are new.

        As `Following.follow` does, it writes the rows, then the edges, then reads the rows again.
        An existing follow is not requested again: an unfollow message under way ends it. A second
        call completes an interrupted one. Raises `TooManyFollows` before anything of a group of 99
        is written.
        """
        new = 0
        wanted = sorted(set(publisher_ids))
        for start in range(0, len(wanted), MAX_CHANGES):
            new += self._follow_group(user_id, wanted[start : start + MAX_CHANGES])
        return new

    def _follow_group(self, user_id: str, publisher_ids: Sequence[str]) -> int:
        unseen = {each: Follow(user_id=user_id, publisher_id=each) for each in publisher_ids}
        for attempt in clock.tries(*STEP):
            # Most follows of an import are new: the first attempt assumes that no rows exist.
            seen = {**unseen, **self._rows(user_id)} if attempt else unseen
            now = clock.now_ms()
            left = [seen[each] for each in publisher_ids if self._leaves(seen[each])]
            moves = [
                (row, granted(row, True, Asked(max(now, row.asked_at), now)))
                for row in map(seen.__getitem__, publisher_ids)
                if not (row.is_active or self._leaves(row))
            ]
            changed = self.following.follows.write(
                moves, now_ms=now, max_follows=self.following.max_follows
            )
            if changed is not None:
                known = [seen[each] for each in publisher_ids if seen[each].is_active]
                self._put_edges(user_id, changed, known)
                for row in left:
                    self.leave(row)
                return len(changed)
        raise Contended(f"The follows of '{user_id}' changed too often meanwhile; try again.")

    def _leaves(self, row: Follow) -> bool:
        """Whether the user has ended it, or waits for its publisher, or a block keeps them apart.

        A tombstone put by a repair is nobody's request.
        """
        if row.is_requested or row.is_blocked:
            return True
        return not self.again and not row.is_active and row.asked_at > 0

    def _put_edges(self, user_id: str, new: Sequence[Follow], known: Sequence[Follow]) -> None:
        """Put the edges of new follows; those of known ones are there, unless one was lost."""
        edges = self.following.edges
        edges.put_all((f.publisher_id, f.user_id, f.version) for f in new)
        edges.ensure_all((f.publisher_id, f.user_id, f.version) for f in known)
        now = self._rows(user_id)
        for follow in (*new, *known):
            if now.get(follow.publisher_id) != follow:  # changed meanwhile
                self.following.reconcile(user_id, follow.publisher_id)

    def _rows(self, user_id: str) -> dict[str, Follow]:
        return {row.publisher_id: row for row in self.following.follows.rows_of(user_id)}
