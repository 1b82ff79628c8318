"""The ledger: which posts are being delivered, how they are cut, and what is still pending.

One row per fan-out. Every change is one conditional update, so a message that is delivered twice
is counted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fanfold import times
from fanfold.aws import dynamodb
from fanfold.aws.items import Value, expressions, get_text, number, text
from fanfold.fanout.backlog import Resume
from fanfold.fanout.row import (
    ABANDONED,
    CHANNEL,
    COMPLETE,
    DELIVERING,
    ENTRIES_EXPIRE_AT,
    EXPIRED,
    QUEUED,
    STALLED,
    VOID,
    Fanout,
    from_item,
)
from fanfold.names import EXPIRES_AT, GIVEN_UP, OPEN, Index
from fanfold.timeline.posts import OUTLIVES_SECONDS

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Keys of one page of an index: many to a call, and little to throw away.
PAGE = 1_000

_OPEN = OPEN.partition_key
_GIVEN_UP = GIVEN_UP.partition_key
# SWEEP may have given up a fan-out before PLAN came to it: its command may have waited that long.
_AWAITS_PLAN = {
    "condition": "attribute_not_exists(#segments) AND #state IN (:queued, :stalled)",
    "values": {":queued": text(QUEUED), ":stalled": text(STALLED)},
}
_IS_PLANNED = "#state IN (:delivering, :stalled)"
_PLANNED_STATES = {":delivering": text(DELIVERING), ":stalled": text(STALLED)}
_HAS_NOT_ENDED = "#state IN (:queued, :delivering, :stalled)"
_STATES = {":queued": text(QUEUED), **_PLANNED_STATES}
_AS_SEEN = "(#state = :seen_state AND #changed_at = :seen_changed AND #sort_key = :seen_key)"


@dataclass(frozen=True)
class Ledger:
    client: DynamoDBClient
    table: str

    def open(self, fanout: Fanout, *, over: Fanout | None = None) -> Fanout | None:
        """Write the row of a publish in state `queued`; returns the row that is in its way.

        The row `over` is overwritten if it is as it was seen. The new one keeps its `asked_at`:
        PLAN may be about to receive a question, and must not take it for the command of a stored
        post.
        """
        item: dict[str, Any] = {
            "fanout_id": text(fanout.fanout_id),
            _OPEN: text(fanout.open_key),
            "publisher_id": text(fanout.publisher_id),
            "sort_key": text(fanout.sort_key),
            "accepted_at": text(fanout.accepted_at),
            "changed_at": text(fanout.changed_at or fanout.accepted_at),
            "state": text(QUEUED),
            ENTRIES_EXPIRE_AT: number(fanout.expires_at),
            EXPIRES_AT: number(fanout.expires_at + OUTLIVES_SECONDS),
        }
        if fanout.lane:
            item["lane"] = text(fanout.lane)
        only: dict[str, Any] = {"condition": "attribute_not_exists(#fanout_id)"}
        if over is not None:
            asked = "attribute_not_exists(#asked_at)"
            values = _seen(over)
            if over.asked_at:
                asked = "#asked_at = :seen_asked_at"
                item["asked_at"] = values[":seen_asked_at"] = number(over.asked_at)
            only = {"condition": f"{_AS_SEEN} AND {asked}", "values": values}
        try:
            self.client.put_item(
                TableName=self.table,
                Item=item,
                **expressions(**only),
                ReturnValuesOnConditionCheckFailure="ALL_OLD",  # saves a read
            )
        except self.client.exceptions.ConditionalCheckFailedException as refused:
            response: Any = refused.response
            if "Item" not in response:  # the row `over` is gone
                return over
            found = from_item(response["Item"])
            # The answer to the first attempt was lost, if the row is ours.
            return None if _opened_by(found) == _opened_by(fanout) else found
        return None

    def get(self, fanout_id: str) -> Fanout | None:
        """The row, read consistently, or None."""
        answer = self.client.get_item(
            TableName=self.table, Key=_key(fanout_id), ConsistentRead=True
        )
        return from_item(answer["Item"]) if "Item" in answer else None

    def wanted(self, fanout_id: str) -> dict[str, Any]:
        """What BatchGetItem takes to read the row, consistently."""
        return {"Keys": [_key(fanout_id)], "ConsistentRead": True}

    def plan(
        self,
        fanout: Fanout,
        *,
        segments: int,
        followers: int,
        level: int,
        now: str,
        resume: Mapping[int, Resume] = MappingProxyType({}),
    ) -> bool:
        """Fix the plan, once; False if it was fixed before.

        `resume` says how far segments are delivered already.
        """
        sets = {
            **_progress(replace(fanout, segments=segments), now),
            "sent_at": number(planned_at(fanout, now)),
            "segments": number(segments),
            "followers": number(followers),
            "level": number(level),
            "pending": {"NS": [str(segment) for segment in range(segments)]},
            "resume": {"M": {str(each): text(resume[each].to_text()) for each in resume}},
            "delivered": number(0),
        }
        return self._applies(fanout.fanout_id, sets=sets, removes=[_GIVEN_UP], **_AWAITS_PLAN)

    def finish_segment(
        self, fanout: Fanout, segment: int, *, written: int, now: str, answers: bool = False
    ) -> Fanout | None:
        """Take the segment out of `pending` and count its entries, once.

        Returns the updated row, or None if the segment was not pending. If it is the fan-out's only
        segment, the same update completes the fan-out. Here and below, `answers` says that the
        worker's command shows that the last question of `fanout` came out of the queue.
        """
        sets = _progress(fanout, now) | _answer(fanout, answers)
        removes = [f"resume.{segment}", _GIVEN_UP]
        if fanout.segments == 1:
            sets = _completion(now)
            removes.append(_OPEN)
        is_pending = "contains(#pending, :number)"
        return self._update(
            fanout.fanout_id,
            sets=sets,
            adds={"delivered": number(written)},
            deletes={"pending": {"NS": [str(segment)]}},
            removes=removes,
            condition=f"{is_pending} AND {_IS_PLANNED}",
            values={":number": number(segment), **_PLANNED_STATES},
        )

    def complete_if_delivered(self, fanout_id: str, *, now: str) -> bool:
        """Complete a fan-out that has nothing pending; False if it has, or is complete already."""
        none_pending = "attribute_not_exists(#pending)"  # DynamoDB keeps no empty set
        return self._applies(
            fanout_id,
            sets=_completion(now),
            removes=[_OPEN, _GIVEN_UP],
            condition=f"attribute_exists(#segments) AND {none_pending} AND {_IS_PLANNED}",
            values=_PLANNED_STATES,
        )

    def complete_at_once(self, fanout_id: str, *, followers: int, now: str) -> bool:
        """Complete a fan-out without a plan; False if it has one, or has ended.

        All `followers` have their entry: they were one segment, or none where nobody follows.
        """
        return self._complete_unplanned(fanout_id, min(1, followers), followers, now=now)

    def complete_in_channel(
        self, fanout_id: str, *, followers: int, revision: int, now: str
    ) -> bool:
        """Complete a fan-out without a plan, whose post has one entry in its publisher's channel.

        About this many `followers` read it there, and no segment is left to do. The head had this
        `revision` once it told of the post.
        """
        by = {"by": text(CHANNEL), "head_revision": number(revision)}
        return self._complete_unplanned(fanout_id, 0, followers, now=now, **by)

    def _complete_unplanned(
        self, fanout_id: str, segments: int, followers: int, *, now: str, **more: Value
    ) -> bool:
        sets = {
            **_completion(now),
            "segments": number(segments),
            "followers": number(followers),
            "delivered": number(followers),
            **more,
        }
        return self._applies(fanout_id, sets=sets, removes=[_OPEN, _GIVEN_UP], **_AWAITS_PLAN)

    def store_resume(
        self, fanout: Fanout, segment: int, resume: Resume, *, now: str, answers: bool = False
    ) -> bool:
        """Note how far a pending segment is delivered; False if another worker is further on.

        An equal resume is stored again: the answer to the first attempt may have been lost.
        """
        stored = f"#resume.#{segment}"
        is_pending = "contains(#pending, :number)"
        is_first = f"attribute_not_exists({stored})"
        is_as_far = f"{stored} <= :resume_{segment}"
        progress = _progress(fanout, now) | _answer(fanout, answers)
        return self._applies(
            fanout.fanout_id,
            sets={f"resume.{segment}": text(resume.to_text()), **progress},
            removes=[_GIVEN_UP],
            condition=f"{is_pending} AND ({is_first} OR {is_as_far}) AND {_IS_PLANNED}",
            values={":number": number(segment), **_PLANNED_STATES},
        )

    def touch(self, fanout: Fanout, *, now: str, answers: bool = False) -> None:
        """Note that a worker tried, although it made no progress."""
        sets = {"changed_at": text(now), **_answer(fanout, answers)}
        self._update(fanout.fanout_id, sets=sets, condition=_HAS_NOT_ENDED, values=_STATES)

    def note_answer(self, fanout: Fanout) -> None:
        """Note that the last question of `fanout` came out, for a worker that changes nothing."""
        self._update(
            fanout.fanout_id,
            sets=_answer(fanout, answers=True),
            condition="#asked_at = :as_read",
            values={":as_read": number(fanout.asked_at)},
        )

    def void(self, fanout: Fanout, *, now: str) -> bool:
        """End a fan-out whose post was never stored; False if somebody has changed it meanwhile."""
        return self._end(fanout.fanout_id, VOID, now=now, condition=_AS_SEEN, values=_seen(fanout))

    def abandon(self, fanout_id: str, *, now: str) -> bool:
        """End a fan-out for good, as a person decided; False if it has ended already.

        Entries that are written stay. What is pending stays in the row, to tell what was not.
        """
        return self._end(fanout_id, ABANDONED, now=now, condition=_HAS_NOT_ENDED, values=_STATES)

    def note_repair(self, fanout: Fanout, *, written: int) -> None:
        """Count entries that an audit missed in a complete fan-out, and has written.

        A repeated update counts them once.
        """
        seen = self.get(fanout.fanout_id)
        before = seen.repaired if seen else 0
        self._update(
            fanout.fanout_id,
            sets={"repaired": number(before + written)},
            condition="#sort_key = :sort_key AND #accepted_at = :accepted_at AND #state = :complete"
            + (" AND #repaired = :before" if before else " AND attribute_not_exists(#repaired)"),
            values={
                ":sort_key": text(fanout.sort_key),
                ":accepted_at": text(fanout.accepted_at),
                ":complete": text(COMPLETE),
                **({":before": number(before)} if before else {}),
            },
        )

    def expire(self, fanout: Fanout, *, now: str) -> bool:
        """End a fan-out whose entries nobody would see; False if it has ended already.

        Also False if it has nothing pending, which is completed instead, or if another post has
        taken its id.
        """
        is_delivered = "attribute_exists(#segments) AND attribute_not_exists(#pending)"
        return self._end(
            fanout.fanout_id,
            EXPIRED,
            now=now,
            condition=f"{_HAS_NOT_ENDED} AND #sort_key = :sort_key AND NOT ({is_delivered})",
            values={":sort_key": text(fanout.sort_key), **_STATES},
        )

    def reopen(self, fanout: Fanout, *, now: str) -> Fanout | None:
        """Let SWEEP watch the fan-out from the start, for a person who sends all of it again.

        Returns the row, to be sent; None if it has ended, or if PLAN has fixed its plan meanwhile.
        """
        exists = "attribute_exists" if fanout.segments else "attribute_not_exists"
        sets: dict[str, Value] = {
            "state": text(DELIVERING if fanout.segments else QUEUED),
            "changed_at": text(now),
            "sent_at": number(times.to_ms(now)),
            "asks": number(0),
            "rounds": number(0),
            _OPEN: text(fanout.open_key),
        }
        if not fanout.segments:  # as a question of SWEEP: its post may never have been stored
            sets["asked_at"] = sets["sent_at"]
        return self._update(
            fanout.fanout_id,
            sets=sets,
            removes=[_GIVEN_UP],
            condition=f"{_HAS_NOT_ENDED} AND {exists}(#segments)",
            values=_STATES,
        )

    def open_ids(self, *, page: int = PAGE) -> Iterator[str]:
        """The ids of the fan-outs under way, read from the sparse index page by page."""
        yield from self._ids(OPEN, page)

    def stalled_ids(self, *, page: int = PAGE) -> Iterator[str]:
        """The ids of the stalled fan-outs, read in the same way."""
        yield from self._ids(GIVEN_UP, page)

    def _ids(self, index: Index, page: int) -> Iterator[str]:
        pages = dynamodb.pages(self.client, TableName=self.table, IndexName=index.name, Limit=page)
        for answer in pages:
            yield from (get_text(item, "fanout_id") for item in answer["Items"])

    def _end(self, fanout_id: str, state: str, *, now: str, **clauses: Any) -> bool:
        sets = {"state": text(state), "changed_at": text(now)}
        return self._applies(fanout_id, sets=sets, removes=[_OPEN, _GIVEN_UP], **clauses)

    def _applies(self, fanout_id: str, **clauses: Any) -> bool:
        return self._update(fanout_id, **clauses) is not None

    def _update(self, fanout_id: str, **clauses: Any) -> Fanout | None:
        """The row after the update, or None if its condition did not hold."""
        try:
            answer = self.client.update_item(
                TableName=self.table,
                Key=_key(fanout_id),
                ReturnValues="ALL_NEW",
                **expressions(**clauses),
            )
        except self.client.exceptions.ConditionalCheckFailedException:
            return None
        return from_item(answer["Attributes"])


def _key(fanout_id: str) -> dict[str, dict[str, str]]:
    return {"fanout_id": text(fanout_id)}


def planned_at(fanout: Fanout, now: str) -> int:
    """The `sent_at` of a plan, in epoch ms.

    Never before the question that led to it, whatever the clocks say.
    """
    return max(times.to_ms(now), fanout.asked_at)


def _opened_by(fanout: Fanout) -> tuple[str, ...]:
    """What tells one opening of a row from another."""
    return fanout.publisher_id, fanout.sort_key, fanout.accepted_at, fanout.changed_at


def _seen(fanout: Fanout) -> dict[str, Value]:
    return {
        ":seen_state": text(fanout.state),
        ":seen_changed": text(fanout.changed_at),
        ":seen_key": text(fanout.sort_key),
    }


def _progress(fanout: Fanout, now: str) -> dict[str, Value]:
    """What any progress sets: it also reopens a stalled fan-out.

    It does not set `rounds` to 0: a fan-out that lost something after each little progress could
    then be sent again and again, without end.
    """
    return {
        "state": text(DELIVERING),
        "asks": number(0),
        "changed_at": text(now),
        _OPEN: text(fanout.open_key),
    }


def _answer(fanout: Fanout, answers: bool) -> dict[str, Value]:
    return {"came_out": number(fanout.asked_at)} if answers else {}


def _completion(now: str) -> dict[str, Value]:
    return {"state": text(COMPLETE), "completed_at": text(now), "changed_at": text(now)}
