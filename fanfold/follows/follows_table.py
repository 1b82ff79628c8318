"""The following table: whom a user follows. Its rows decide; edges are reconciled with them.

A change is one transaction. It writes the row, the user's count of follows, and the marks by which
pages leave out what the user has unfollowed. The marks are read after the row. Every change of a
publisher's mark also raises the row's version, and the transaction requires the version that was
read, so no other change can come between. Only the doctor's repair, `mark`, raises no version: it
marks in the week of the row's `ended_at`, so a follow deletes that mark, whatever it has read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fanfold import invariants
from fanfold.aws import dynamodb
from fanfold.aws.items import MAX_KEYS, Item, expressions, get_number, get_text, number, text
from fanfold.channels.head import Head
from fanfold.errors import TooManyFollows
from fanfold.follows.relation import FOLLOWED, UNFOLLOWED, Follow
from fanfold.names import EXPIRES_AT
from fanfold.timeline import marks
from fanfold.timeline.readers import NO_ROW_CHANGE, Counted, Readers, RowChange

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from fanfold.channels.known_head import KnownHead
    from fanfold.timeline.marks import Reader

# A tombstone outlives every message of an earlier request: sent up to 28 days after the request
# (`MAX_FIRST_SENT_MS`), and then kept by SQS for 14.
TOMBSTONE_SECONDS = 45 * 24 * 60 * 60


def follow_of(item: Item) -> Follow:
    """The relation in an item of the table; a bare key makes one that was never followed."""
    row = Follow(
        user_id=get_text(item, "user_id"),
        publisher_id=get_text(item, "publisher_id"),
        state=get_text(item, "state", UNFOLLOWED),
        version=get_number(item, "version"),
        followed_at=get_text(item, "followed_at"),
        asked_at=get_number(item, "asked_at"),
        ended_at=get_number(item, "ended_at"),
        changed_at=get_number(item, "changed_at"),
    )
    has_begun = row.version > 0 and row.followed_at > ""
    invariants.check("follow_state", row.state in (FOLLOWED, UNFOLLOWED))
    invariants.check("follow_version", has_begun or not row.is_active)
    invariants.check("follow_ended", not (row.is_active and row.ended_at))
    return row


@dataclass(frozen=True)
class FollowsTable:
    """Changes a follow and its user's row among the readers in one transaction.

    A count that missed a change would let the limit drift; a mark that missed one would hide or
    show the wrong publisher. In a stage with channels, which has `heads`, the user's row also says
    which channels the user's pages read (`channels/following.py`).
    """

    client: DynamoDBClient
    table: str
    readers: Readers
    retention_days: int
    heads: KnownHead | None = None

    @property
    def tombstone_seconds(self) -> int:
        """How long an ended follow keeps its row: longer than late messages, and than its mark.

        Without a row, the doctor could not restore a mark that was lost.
        """
        longest_mark = (self.retention_days + marks.LONGEST_DAYS) * marks.DAY_SECONDS
        return max(TOMBSTONE_SECONDS, longest_mark)

    def get(self, user_id: str, publisher_id: str) -> Follow:
        """Read consistently."""
        key = row_key(user_id, publisher_id)
        answer = self.client.get_item(TableName=self.table, Key=key, ConsistentRead=True)
        return follow_of(answer.get("Item", key))

    def follow(
        self, seen: Follow, *, now_ms: int, max_follows: int, counted: Counted | None = None
    ) -> Follow | None:
        """Turn the relation `seen` into a follow since `seen.followed_at`, `counted` if at a rate.

        None if somebody else changed it meanwhile, or if the user followed others; read it again.
        Raises `TooManyFollows`, if it is not counted.
        """
        limits = {"now_ms": now_ms, "max_follows": max_follows}
        try:
            changed = self.follow_all(seen.user_id, [seen], **limits, counted=counted)
        except TooManyFollows:
            if counted is None:
                raise
            return None  # or over the rate: the user's row tells
        return changed[0] if changed else None

    def follow_all(
        self,
        user_id: str,
        seen: Sequence[Follow],
        *,
        now_ms: int,
        max_follows: int,
        counted: Counted | None = None,
    ) -> list[Follow] | None:
        """Turn up to 99 relations of one user into follows, all or none, as `follow` does."""
        if not seen:
            return []
        if len(seen) > max_follows:
            raise too_many(user_id, max_follows)
        # Marks without a row do occur: of a tombstone that has expired, or after a restore.
        reader = counted.reader if counted else self.readers.get(user_id)
        change = marks.followed(
            reader,
            {each.publisher_id: each.ended_at for each in seen},
            now_ms=now_ms,
            retention_days=self.retention_days,
        )
        memo = self._followed(reader, [each.publisher_id for each in seen])
        count = self.readers.count_up(
            user_id, len(seen), change, max_follows=max_follows, counted=counted, also=memo
        )
        changed = [_changed(each, state=FOLLOWED, ended_at=0, changed_at=now_ms) for each in seen]
        return self._change(changed, count, now_ms=now_ms, max_follows=max_follows)

    def unfollow(self, seen: Follow, *, now_ms: int) -> Follow | None:
        """End the follow `seen`, leaving a tombstone.

        None if somebody else changed it meanwhile; read it again.
        """
        change = marks.unfollowed(
            self.readers.get(seen.user_id),
            seen.publisher_id,
            ended_at=now_ms,
            now_ms=now_ms,
            retention_days=self.retention_days,
        )
        ended = _changed(seen, state=UNFOLLOWED, ended_at=now_ms, changed_at=now_ms)
        memo = self._unfollowed(seen.publisher_id)
        count = self.readers.count_down(seen.user_id, change, memo)
        changed = self._change([ended], count, now_ms=now_ms)
        return changed[0] if changed else None

    def mark(self, seen: Follow, *, now_ms: int) -> bool:
        """Make the marks agree with the relation `seen`, as after a restore; change nothing else.

        False if somebody else changed it meanwhile; read it again.
        """
        reader = self.readers.get(seen.user_id)
        times = {"now_ms": now_ms, "retention_days": self.retention_days}
        if seen.is_active:
            change = marks.followed(reader, {seen.publisher_id: 0}, **times)
            memo = self._followed(reader, [seen.publisher_id])
        else:
            change = marks.NO_CHANGE  # where nothing is known of a follow that ended
            if seen.ended_at:
                ended_at = seen.ended_at
                change = marks.unfollowed(reader, seen.publisher_id, ended_at=ended_at, **times)
            memo = self._unfollowed(seen.publisher_id)
        if not any(change) and not any(memo):
            return True
        is_the_same = {
            "TableName": self.table,
            "Key": row_key(seen.user_id, seen.publisher_id),
            **expressions(**_as_read(seen.version)),
        }
        marked = {"Update": self.readers.marked(seen.user_id, change, memo)}
        return not dynamodb.transact(self.client, [{"ConditionCheck": is_the_same}, marked])

    def note_channel(self, seen: Follow, *, now_ms: int) -> bool:
        """Make the user's row agree with the relation `seen` about the publisher's channel.

        They can differ only if the channel was added while the relation changed: then a page that
        looks up the new channel may not know the change, and the function of the change not the
        channel. False if somebody else changed either meanwhile; read it again.
        """
        if self.heads is None or not self.heads.get().of(seen.publisher_id):
            return True
        from fanfold.channels import following

        reader = self.readers.get(seen.user_id)
        if following.disagrees(reader, seen.publisher_id, is_followed=seen.is_active):
            return self.mark(seen, now_ms=now_ms)
        return True

    def ask_again(self, seen: Follow, *, now_ms: int) -> Follow | None:
        """Record that the present state was requested again at `seen.asked_at`.

        Then a message that was sent earlier and comes later is known to be late. For the same
        reason, the unfollow of a publisher never followed leaves a tombstone. None if somebody else
        changed the relation meanwhile; read it again.
        """
        noted = _changed(seen)
        try:
            self.client.update_item(**self._update(noted, now_ms))
        except (
            self.client.exceptions.ConditionalCheckFailedException,
            self.client.exceptions.TransactionConflictException,
        ):
            return None
        return noted

    def _followed(self, reader: Reader, publisher_ids: Sequence[str]) -> RowChange:
        if self.heads is None:
            return NO_ROW_CHANGE
        from fanfold.channels import following

        head = self.heads.at_hand() or Head()
        if following.is_ahead(reader, head):
            head = self.heads.reload()
        return following.followed(reader, head, publisher_ids)

    def _unfollowed(self, publisher_id: str) -> RowChange:
        if self.heads is None:
            return NO_ROW_CHANGE
        from fanfold.channels import following

        return following.unfollowed(publisher_id)

    def _change(
        self, changed: list[Follow], count: dict[str, Any], *, now_ms: int, max_follows: int = 0
    ) -> list[Follow] | None:
        updates = [*(self._update(each, now_ms) for each in changed), count]
        reasons = dynamodb.transact(self.client, [{"Update": update} for update in updates])
        # If a row changed meanwhile, the user may follow that publisher already: read it again.
        is_full = reasons[-1:] == ["ConditionalCheckFailed"] and set(reasons[:-1]) == {"None"}
        if is_full and self.heads:
            # Otherwise, the head of the channels that this function knows was too old.
            known = self.readers.get(changed[0].user_id)
            is_full = known.follows > max_follows - len(changed)
        if is_full:
            raise too_many(changed[0].user_id, max_follows)
        return None if reasons else changed

    def _update(self, follow: Follow, now_ms: int) -> dict[str, Any]:
        """The Update that writes a follow over its last version; only a tombstone expires."""
        sets = {
            "state": text(follow.state),
            "version": number(follow.version),
            "asked_at": number(follow.asked_at),
            "changed_at": number(follow.changed_at),
        }
        if follow.is_active:
            sets["followed_at"] = text(follow.followed_at)
        else:
            sets[EXPIRES_AT] = number(now_ms // 1000 + self.tombstone_seconds)
            if follow.ended_at:
                sets["ended_at"] = number(follow.ended_at)
        seen = follow.version - 1
        return {
            "TableName": self.table,
            "Key": row_key(follow.user_id, follow.publisher_id),
            **expressions(
                sets=sets,
                removes=[EXPIRES_AT, "ended_at"] if follow.is_active else [],
                **_as_read(seen),
            ),
        }

    def rows(self, pairs: Collection[tuple[str, str]]) -> list[Follow]:
        """The rows of up to 100 pairs (user, publisher), of those that are there.

        Read consistently. Raises `TryLater`.
        """
        if not pairs:
            return []
        wanted = {"Keys": [row_key(*pair) for pair in pairs], "ConsistentRead": True}
        return [
            follow_of(row) for row in dynamodb.rows(self.client, {self.table: wanted})[self.table]
        ]

    def active_among(
        self, user_id: str, publisher_ids: Collection[str]
    ) -> tuple[set[str], set[str]]:
        """Which of these publishers the user follows, and which were not processed.

        Read consistently, at most `MAX_KEYS` in a call.
        """
        keys = [row_key(user_id, each) for each in sorted(publisher_ids)]
        active, left = set[str](), set[str]()
        for start in range(0, len(keys), MAX_KEYS):
            some: Any = {"Keys": keys[start : start + MAX_KEYS], "ConsistentRead": True}
            answer: Any = self.client.batch_get_item(RequestItems={self.table: some})
            rows = map(follow_of, answer["Responses"].get(self.table, []))
            active |= {row.publisher_id for row in rows if row.is_active}
            unprocessed = answer.get("UnprocessedKeys", {}).get(self.table, {}).get("Keys", [])
            left |= {get_text(key, "publisher_id") for key in unprocessed}
        return active, left

    def page(self, user_id: str, *, after: str | None, limit: int) -> tuple[list[Follow], bool]:
        """Rows of one user in order of publisher, tombstones too, and whether more follow."""
        request: dict[str, Any] = {
            "TableName": self.table,
            "KeyConditionExpression": "user_id = :user",
            "ExpressionAttributeValues": {":user": text(user_id)},
            "ConsistentRead": True,
            "Limit": limit,
        }
        if after is not None:
            request["ExclusiveStartKey"] = row_key(user_id, after)
        answer = self.client.query(**request)
        return [follow_of(item) for item in answer["Items"]], "LastEvaluatedKey" in answer


def _as_read(version: int) -> dict[str, Any]:
    """The condition that a row still has this version; at 0 that there is none, and its values."""
    if not version:
        return {"condition": "attribute_not_exists(#user_id)"}
    return {"condition": "#version = :seen", "values": {":seen": number(version)}}


def row_key(user_id: str, publisher_id: str) -> dict[str, dict[str, str]]:
    return {"user_id": text(user_id), "publisher_id": text(publisher_id)}


def _changed(seen: Follow, **changes: Any) -> Follow:
    return replace(seen, version=seen.version + 1, **changes)


def too_many(user_id: str, max_follows: int) -> TooManyFollows:
    who = f"'{user_id}'"
    return TooManyFollows(
        f"{who} may follow at most {max_follows:,} publishers and would then follow more; "
        "unfollow one, then follow again.",
        quoted=who,
    )
