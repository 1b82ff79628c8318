"""Repairs: make edges and marks agree with the row, and a row's level with the edges.

A repair may run at any time and more than once; a follow or unfollow that comes meanwhile wins.
Each raises `TryLater` if it has to be run again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fanfold import clock
from fanfold.aws.items import expressions, number, text
from fanfold.aws.retries import is_transient
from fanfold.doctor.findings import Report, Snapshot
from fanfold.doctor.scan import Records
from fanfold.errors import TryLater
from fanfold.follows.follow import Following
from fanfold.follows.follows_table import row_key
from fanfold.follows.relation import UNFOLLOWED, Follow
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
        """Make the edges and the marks agree with the row as it is now."""
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
