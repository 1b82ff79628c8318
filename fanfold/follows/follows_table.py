"""The following table: whom a user follows. Its rows decide; edges are reconciled with them.

A change is one transaction. It writes the row, the lists that it is in, the user's counts, and the
marks by which pages leave out what the user has unfollowed. The marks are read after the row. Every
change of a publisher's mark also raises the row's version, and the transaction requires the version
that was read, so no other change can come between. Only the doctor's repair, `mark`, raises no
version: it marks in the week of the row's `ended_at`, so a follow deletes that mark, whatever it
has read.

The table also has two lists of each user, in partitions whose keys are no ids: who has asked to
follow the user (`REQUESTS`), by `<requested_at>#<user_id>`, and whom the user blocks (`BLOCKS`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from fanfold import invariants, times
from fanfold.aws import dynamodb
from fanfold.aws.items import MAX_KEYS, Item, expressions, get_number, get_text, number, text
from fanfold.channels.head import Head
from fanfold.contract import ID_PATTERN
from fanfold.errors import TooManyBlocks, TooManyFollows
from fanfold.follows.relation import (
    BLOCKS,
    REQUESTS,
    SEPARATOR,
    STATES,
    UNFOLLOWED,
    Follow,
    Move,
    is_ended,
)
from fanfold.names import EXPIRES_AT
from fanfold.timeline import marks
from fanfold.timeline.readers import NO_ROW_CHANGE, Counted, Counts, Readers, RowChange

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from fanfold.channels.known_head import KnownHead
    from fanfold.timeline.marks import Reader

# A tombstone outlives every message of an earlier request: sent up to 28 days after the request
# (`MAX_FIRST_SENT_MS`), and then kept by SQS for 14.
TOMBSTONE_SECONDS = 45 * 24 * 60 * 60
# How many users one may block, apart from blocks that end a follow or a request.
MAX_BLOCKS = 10_000
# Rows of one user that are read at a time.
PAGE = 1_000

Place: TypeAlias = tuple[str, str]  # the key of an item of a list

_REQUEST = re.compile(rf"(.{{{times.WIDTH}}}){SEPARATOR}({ID_PATTERN})", re.ASCII)


class Waiting(NamedTuple):
    """A request that waits: since when, and who asks."""

    at: str
    user_id: str

    @classmethod
    def of(cls, place: str) -> Waiting | None:
        """The one at a place of the list; None if it is no place."""
        found = _REQUEST.fullmatch(place)
        return cls(*found.groups()) if found and times.is_text(found[1]) else None

    @property
    def place(self) -> str:
        return f"{self.at}{SEPARATOR}{self.user_id}"


def follow_of(item: Item) -> Follow:
    """The relation in an item of the table; a bare key makes one that was never followed."""
    row = Follow(
        user_id=get_text(item, "user_id"),
        publisher_id=get_text(item, "publisher_id"),
        state=get_text(item, "state", UNFOLLOWED),
        version=get_number(item, "version"),
        followed_at=get_text(item, "followed_at"),
        requested_at=get_text(item, "requested_at"),
        asked_at=get_number(item, "asked_at"),
        ended_at=get_number(item, "ended_at"),
        changed_at=get_number(item, "changed_at"),
        left_at=get_number(item, "left_at"),
        approved_at=get_number(item, "approved_at"),
        block_asked_at=get_number(item, "block_asked_at"),
        privacy=get_number(item, "privacy"),
        shut="shut" in item,
        shuts="shuts" in item,
    )
    has_begun = row.version > 0 and row.followed_at > ""
    may_be_asked = row.is_active or row.is_requested == bool(row.requested_at)
    invariants.check("follow_state", row.state in STATES)
    invariants.check("follow_version", has_begun or not row.is_active)
    invariants.check("follow_ended", not (row.is_active and row.ended_at))
    invariants.check("follow_blocked", not (row.is_active and row.is_blocked))
    invariants.check("follow_requested", may_be_asked)
    invariants.check("follow_expires", row.expires or EXPIRES_AT not in item)
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

    def write(
        self,
        moves: Sequence[Move],
        *,
        now_ms: int,
        max_follows: int = 0,
        counted: Counted | None = None,
        also: Sequence[Any] = (),
    ) -> list[Follow] | None:
        """Change relations, all or none; returns them as they are then, in this order.

        They are up to 99 new follows of one user, or both relations of two users, or one relation.
        The user of the last one is `counted` at a rate, and keeps to `max_follows`, and unless they
        end something, to `MAX_BLOCKS`. `also` has further actions of the transaction.

        None if somebody else changed one of them meanwhile, or if a user's row changed, or if
        `also` is refused; read it again. Raises `TooManyFollows` and `TooManyBlocks`.
        """
        changed = [_changed(*move, now_ms=now_ms) for move in moves]
        done = [(seen, new) for (seen, _), new in zip(moves, changed, strict=True)]
        actions = [{"Update": self._update(*each, now_ms=now_ms)} for each in done]
        actions += [each for move in done for each in self._lists(*map(places_of, move))]
        actions += also
        room = Counts(max_follows, blocks=0 if is_ended(moves) else MAX_BLOCKS)
        for user_id in dict.fromkeys(each.user_id for each in changed):
            own = [each for each in done if each[1].user_id == user_id]
            is_last = user_id == changed[-1].user_id
            rate = counted if is_last else None
            update = self._reader(user_id, own, now_ms=now_ms, room=room, counted=rate)
            if update:
                actions.append({"Update": update})
        if len(actions) < 2:
            return changed if not actions or self._update_one(actions[0]["Update"]) else None
        reasons = dynamodb.transact(self.client, actions)
        if reasons[-1:] == ["ConditionalCheckFailed"] and set(reasons[:-1]) == {"None"}:
            self._refuse(done, room)
        return None if reasons else changed

    def _reader(
        self,
        user_id: str,
        moves: Sequence[Move],
        *,
        now_ms: int,
        room: Counts,
        counted: Counted | None,
    ) -> dict[str, Any] | None:
        """The Update of the row of a user whose relations change; None if nothing in it does."""
        begun = [(seen, new) for seen, new in moves if new.is_active and not seen.is_active]
        ended = [new for seen, new in moves if seen.is_active and not new.is_active]
        counts = Counts(
            follows=sum(new.has_place - seen.has_place for seen, new in moves),
            requests=sum(new.is_requested - seen.is_requested for seen, new in moves),
            blocks=sum(new.shuts - seen.shuts for seen, new in moves),
        )
        if not (begun or ended or any(counts)):
            return None
        if counts.follows > room.follows:
            raise too_many(user_id, room.follows)
        change, memo = marks.NO_CHANGE, NO_ROW_CHANGE
        if begun or ended:
            # Marks without a row do occur: of a tombstone that has expired, or after a restore.
            reader = counted.reader if counted else self.readers.get(user_id)
            times = {"now_ms": now_ms, "retention_days": self.retention_days}
            if begun:
                over = {new.publisher_id: seen.ended_at for seen, new in begun}
                change = marks.followed(reader, over, **times)
                memo = self._followed(reader, [*over])
            else:
                (new,) = ended
                left, ended_at = new.publisher_id, new.ended_at
                change = marks.unfollowed(reader, left, ended_at=ended_at, **times)
                memo = self._unfollowed(left)
        return self.readers.change(user_id, counts, change, room=room, counted=counted, also=memo)

    def _lists(self, before: Set[Place], after: Set[Place]) -> Iterator[dict[str, Any]]:
        """The actions by which a relation enters or leaves the lists."""
        for place in sorted(before - after):
            yield {"Delete": {"TableName": self.table, "Key": row_key(*place)}}
        for place in sorted(after - before):
            yield {"Put": {"TableName": self.table, "Item": row_key(*place)}}

    def mend(self, seen: Follow, places: Set[Place], *, now_ms: int) -> bool:
        """Write a relation anew, with its time to live, and make the `places` read those it has.

        False if somebody else changed it meanwhile; read it again.
        """
        new = replace(seen, version=seen.version + 1)
        actions: list[Any] = [{"Update": self._update(seen, new, now_ms=now_ms)}]
        return not dynamodb.transact(self.client, [*actions, *self._lists(places, places_of(seen))])

    def _refuse(self, moves: Sequence[Move], room: Counts) -> None:
        """Raise if the last user's row has no room, which is why a transaction was refused.

        Otherwise, the user's rate is used up, or the head of the channels that this function knows
        was too old.
        """
        _, new = moves[-1]
        known = self.readers.get(new.user_id)
        places = sum(after.has_place - before.has_place for before, after in moves)
        if places > 0 and known.follows > room.follows - places:
            raise too_many(new.user_id, room.follows)
        if new.shuts and 0 < room.blocks <= known.blocks:
            raise too_many_blocks(new.user_id)

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
        marked = {"Update": self.readers.change(seen.user_id, marks=change, also=memo)}
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

    def _update_one(self, update: dict[str, Any]) -> bool:
        """Make one Update, which costs half of what it would in a transaction.

        So it is where the present state is requested again: then a message that was sent earlier
        and comes later is known to be late. For the same reason, the unfollow of a publisher never
        followed leaves a tombstone.
        """
        try:
            self.client.update_item(**update)
        except (
            self.client.exceptions.ConditionalCheckFailedException,
            self.client.exceptions.TransactionConflictException,
        ):
            return False
        return True

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

    def _update(self, seen: Follow, new: Follow, *, now_ms: int) -> dict[str, Any]:
        """The Update that writes a relation over its last version; only a tombstone expires."""
        sets = {
            "state": text(new.state),
            "version": number(new.version),
            "asked_at": number(new.asked_at),
            "changed_at": number(new.changed_at),
        }
        if new.is_active:
            sets["followed_at"] = text(new.followed_at)
        if new.requested_at:
            sets["requested_at"] = text(new.requested_at)
        for name in (
            "ended_at",
            "left_at",
            "approved_at",
            "block_asked_at",
            "privacy",
            "shut",
            "shuts",
        ):
            if value := int(getattr(new, name)):
                sets[name] = number(value)
        if new.expires:
            sets[EXPIRES_AT] = number(now_ms // 1000 + self.tombstone_seconds)
        gone = [] if new.expires else [EXPIRES_AT]
        gone += ["ended_at"] if new.is_active else []
        gone += [
            name
            for name in ("requested_at", "shut", "shuts")
            if getattr(seen, name) and not getattr(new, name)
        ]
        return {
            "TableName": self.table,
            "Key": row_key(new.user_id, new.publisher_id),
            **expressions(sets=sets, removes=gone, **_as_read(seen.version)),
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
        items, more = self._page(user_id, after, limit)
        return [follow_of(item) for item in items], more

    def rows_of(self, user_id: str) -> Iterator[Follow]:
        """All rows of one user, likewise."""
        after, more = None, True
        while more:
            rows, more = self.page(user_id, after=after, limit=PAGE)
            yield from rows
            after = rows[-1].publisher_id if rows else None

    def requests(
        self, publisher_id: str, *, after: str | None, limit: int
    ) -> tuple[list[str], bool]:
        """The newest requests to follow a publisher, as `<requested_at>#<user_id>`, likewise."""
        items, more = self._page(f"{publisher_id}{REQUESTS}", after, limit, is_ascending=False)
        return [get_text(item, "publisher_id") for item in items], more

    def blocks(self, user_id: str, *, after: str | None, limit: int) -> tuple[list[str], bool]:
        """Whom a user blocks, in order of id, likewise."""
        items, more = self._page(f"{user_id}{BLOCKS}", after, limit)
        return [get_text(item, "publisher_id") for item in items], more

    def _page(
        self, partition: str, after: str | None, limit: int, *, is_ascending: bool = True
    ) -> tuple[list[Item], bool]:
        request: dict[str, Any] = {
            "TableName": self.table,
            "KeyConditionExpression": "user_id = :user",
            "ExpressionAttributeValues": {":user": text(partition)},
            "ConsistentRead": True,
            "ScanIndexForward": is_ascending,
            "Limit": limit,
        }
        if after is not None:
            request["ExclusiveStartKey"] = row_key(partition, after)
        answer = self.client.query(**request)
        return list(answer["Items"]), "LastEvaluatedKey" in answer


def _as_read(version: int) -> dict[str, Any]:
    """The condition that a row still has this version; at 0 that there is none, and its values."""
    if not version:
        return {"condition": "attribute_not_exists(#user_id)"}
    return {"condition": "#version = :seen", "values": {":seen": number(version)}}


def row_key(user_id: str, publisher_id: str) -> dict[str, dict[str, str]]:
    return {"user_id": text(user_id), "publisher_id": text(publisher_id)}


def places_of(row: Follow) -> frozenset[Place]:
    """Where a relation is in lists: of its publisher's requests, and of its user's blocks."""
    request = f"{row.publisher_id}{REQUESTS}", Waiting(row.requested_at, row.user_id).place
    block = f"{row.user_id}{BLOCKS}", row.publisher_id
    has = (request, row.is_listed), (block, row.shuts)
    return frozenset(place for place, is_there in has if is_there)


def is_of_list(item: Item) -> bool:
    """Whether an item of the table is of a list, and so no relation."""
    return SEPARATOR in get_text(item, "user_id")


def _changed(seen: Follow, target: Follow, *, now_ms: int) -> Follow:
    """The target as it is written over the relation seen."""
    if target.state == seen.state:
        return replace(target, version=seen.version + 1)
    over = 0 if target.is_active else now_ms if seen.is_active else seen.ended_at
    return replace(target, version=seen.version + 1, changed_at=now_ms, ended_at=over)


def too_many(user_id: str, max_follows: int) -> TooManyFollows:
    who = f"'{user_id}'"
    return TooManyFollows(
        f"{who} may follow at most {max_follows:,} publishers and would then follow more; "
        "unfollow one, then follow again.",
        quoted=who,
    )


def too_many_blocks(user_id: str) -> TooManyBlocks:
    who = f"'{user_id}'"
    return TooManyBlocks(
        f"{who} blocks {MAX_BLOCKS:,} users or more; unblock some, then block again.",
        quoted=who,
    )
