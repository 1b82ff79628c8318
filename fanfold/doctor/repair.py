"""Repairs: make edges, marks and lists agree with the row, and a row's level with the edges.

A repair may run at any time and more than once; a follow or unfollow that comes meanwhile wins.
Each raises `TryLater` if it has to be run again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fanfold import clock
from fanfold.aws.items import expressions, number, text
from fanfold.aws.retries import STEP, is_transient
from fanfold.doctor.findings import Difference, Miscount, Report, Snapshot
from fanfold.doctor.scan import Records
from fanfold.errors import TryLater
from fanfold.follows.follow import Following
from fanfold.follows.follows_table import row_key
from fanfold.follows.relation import UNFOLLOWED, Asked, Follow, Privacy, blocked, removed
from fanfold.names import EXPIRES_AT

# The most that a repair takes away without a given number, as a share of the edges read. A sound
# stack has next to no orphaned edges; if the table of follows is empty or behind, most are
# orphaned. Unfollows that the repair would undo count as well.
MOST_TAKEN = 0.05


def takes_too_much(report: Report, expected: int | None) -> bool:
    """Whether a repair would take away more than `expected`, or than `MOST_TAKEN` without that."""
    return report.taken_away > (report.edges * MOST_TAKEN if expected is None else expected)


@dataclass(frozen=True)
class Repair:
    records: Records
    following: Following

    def raise_level(self, publisher_id: str, level: int) -> None:
        """Raise the level of the publisher's row, so that all readers find its edges."""
        self.records.publishers.raise_to(publisher_id, level, now_ms=clock.now_ms())
        self.following.edges.forget()  # the level is cached there

    def reconcile(self, seen: Snapshot) -> None:
        """Make the edges, the marks and the lists agree with the row as it is now."""
        if seen.beside:
            seen = self._mended(seen)
        # An edge newer than its row, as after a restore of the table, survives reconciling. Raising
        # the row's version above it deletes nothing that may have come meanwhile.
        newest = max(seen.placements.values(), default=0)
        if newest > seen.row.version:
            self._raise_version(seen.row, newest + 1)
        self.following.reconcile(*seen.pair)
        after = self.records.snapshot(seen.pair)
        # A later unfollow, for example during a restore, has a mark that no file notes.
        is_noted = seen.takes_unfollow or not (after and after.takes_unfollow)
        if (
            after
            and after.mark
            and is_noted
            and self.records.follows.mark(after.row, now_ms=clock.now_ms())
        ):
            after = self.records.snapshot(seen.pair)
        if after and after.difference:
            raise TryLater(
                f"The follow of '{seen.row.publisher_id}' by '{seen.row.user_id}' is still "
                f"{after.difference} after its repair."
            )

    def _mended(self, seen: Snapshot) -> Snapshot:
        """Make a relation agree with its lists, its block, and its publisher's privacy."""
        for _ in clock.tries(*STEP):
            row = seen.row
            if seen.beside is Difference.WAITING:
                self.following.open(*seen.pair)
            elif seen.beside is Difference.PRIVACY_BEHIND:
                self._close(row.publisher_id, row.privacy)
            elif seen.beside:
                self._write(seen)
            now = self.records.snapshot(seen.pair, seen.places)
            if now and not now.beside:
                return now
            seen = now or seen
        raise TryLater(f"The follow of '{row.publisher_id}' by '{row.user_id}' changed too often.")

    def _write(self, seen: Snapshot) -> None:
        """Write a relation anew; a block stays, if one row tells of it, and nobody follows then."""
        row, table, now = seen.row, self.records.follows, clock.now_ms()
        other = table.get(row.publisher_id, row.user_id)
        theirs, mine = (row, other) if row.shut and not other.shuts else (other, row)
        write = partial(table.write, now_ms=now, max_follows=self.following.max_follows)
        if seen.beside is Difference.SHUT_FOLLOWED:
            write([(row, removed(row, Asked(now, now), privacy=row.privacy))])
        elif seen.beside is Difference.BLOCK and not (theirs.shut and mine.shuts):
            asked = Asked(theirs.block_asked_at, now)  # no later than it was
            new = blocked(theirs, mine, asked, privacy=theirs.privacy)
            write(list(zip((theirs, mine), new, strict=True)))
            self.following.reconcile(other.user_id, other.publisher_id)
        else:
            table.mend(row, seen.places, now_ms=now)

    def _close(self, publisher_id: str, version: int) -> None:
        """Make a publisher private whose choice is of before this version, until it chooses."""
        privacies, now = self.following.privacies, clock.now_ms()
        seen = privacies.read(publisher_id)
        if seen.version < version:
            later = Privacy(True, max(version + 1, now), since=now, asked_at=seen.asked_at)
            privacies.replace(publisher_id, seen, later)

    def correct(self, miscount: Miscount) -> None:
        """Make a reader's row count what the follows are, unless it has changed meanwhile."""
        readers, told, right = self.records.follows.readers, miscount.counted, miscount.right
        if not readers.correct(miscount.user_id, told, right):
            raise TryLater(f"The follows of '{miscount.user_id}' changed during their repair.")

    def _raise_version(self, seen: Follow, version: int) -> None:
        """Raise the version of the row; if there is none, put a tombstone."""
        client, table = self.records.follows.client, self.records.follows.table
        sets = {"version": number(version)}
        if not seen.version:
            expires_at = clock.now_ms() // 1000 + self.records.follows.tombstone_seconds
            sets |= {"state": text(UNFOLLOWED), EXPIRES_AT: number(expires_at)}
        condition = "#version = :seen" if seen.version else "attribute_not_exists(user_id)"
        values = {":seen": number(seen.version)} if seen.version else {}
        try:
            client.update_item(
                TableName=table,
                Key=row_key(seen.user_id, seen.publisher_id),
                **expressions(sets=sets, condition=condition, values=values),
            )
        except client.exceptions.ConditionalCheckFailedException:
            raise TryLater("A follow changed during its repair.") from None


def failure_of(repair: Callable[[], None]) -> str:
    """Why a repair has to be run again; empty if it succeeded. Raises lasting errors."""
    try:
        repair()
    except Exception as error:
        if isinstance(error, TryLater) or is_transient(error):
            return str(error)
        raise
    return ""
