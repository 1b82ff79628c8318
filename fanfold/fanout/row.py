"""One fan-out, as its row of the ledger says: values, without I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from fanfold import invariants, times
from fanfold.aws.items import Item, get_number, get_text
from fanfold.contract import STATES, WAYS
from fanfold.fanout.backlog import Resume
from fanfold.ids import split_sort_key
from fanfold.names import BULK
from fanfold.settings import HIGHEST_LEVEL

# EXPIRED: its entries' time to live was over before all were written. ABANDONED: by an operator.
QUEUED, DELIVERING, COMPLETE, STALLED, EXPIRED, ABANDONED = STATES
# By an entry in each follower's timeline, or by one in the publisher's channel, which all read.
PUSH, CHANNEL = WAYS
# Its post was never stored, so nothing was accepted, and the row is shown to nobody.
VOID = "void"
# Nothing reopens a fan-out in one of these states, and its messages are done.
ENDED = frozenset({COMPLETE, EXPIRED, ABANDONED, VOID})

# By then, the function that opened a row, or took one up, has stored its post or never will: PLAN,
# the slower of the two, has a minute, and a write may land some seconds after its caller has gone.
VOID_MS = 120_000

# DynamoDB deletes the row by `EXPIRES_AT`, which is later.
ENTRIES_EXPIRE_AT = "entries_expire_at"

# In the key of the index `open`. No id contains it.
_SEPARATOR = "#"
# The end of that key while a fan-out is in the bulk lane.
_LARGE = f"{_SEPARATOR}large"
# A command answers SWEEP's question if it was sent after it, by the clock of SQS and not of SWEEP.
# It may also have been sent shortly before: the answer then comes a little early, once.
ANSWERS_FROM_MS = -60_000


@dataclass(frozen=True, kw_only=True)
class Fanout:
    """A row of the ledger. `sent_at`, `asked_at` and `came_out` are epoch milliseconds.

    They are 0 if it never happened.
    """

    fanout_id: str
    publisher_id: str
    sort_key: str
    accepted_at: str
    expires_at: int  # epoch second at which the time to live of its entries ends
    state: str = QUEUED
    lane: str = ""  # bulk if the publisher was over the rate at acceptance; else its size decides
    segments: int = 0
    followers: int = 0  # estimated by PLAN
    level: int = 0  # of the publisher's write shards, as PLAN saw it
    pending: frozenset[int] = frozenset()
    resume: dict[int, Resume] = field(default_factory=dict)
    delivered: int = 0
    changed_at: str = ""  # by a worker or a person; SWEEP does not move it
    completed_at: str = ""
    by: str = PUSH  # or CHANNEL: fixed by the update that ends its wait for a plan
    head_revision: int = 0  # of the head of the channels that told of the post
    sent_at: int = 0  # when all that is pending was last sent
    asked_at: int = 0  # when SWEEP sent its last question
    came_out: int = 0  # `asked_at` of the newest question known to have left the queue
    asks: int = 0  # questions since the last progress
    repaired: int = 0  # entries that an audit missed later, and has written
    rounds: int = 0  # answered questions since a person last sent everything again

    @property
    def awaits_plan(self) -> bool:
        """Whether PLAN has yet to fix the plan, even if SWEEP has given it up meanwhile."""
        return self.state == QUEUED or (self.state == STALLED and not self.segments)

    @property
    def is_open(self) -> bool:
        """Whether it is SWEEP's to watch: neither finished nor given up."""
        return self.state in (QUEUED, DELIVERING)

    @property
    def is_over_rate(self) -> bool:
        """Whether its publisher published faster than the stage's rate when it was accepted."""
        return self.lane == BULK.lane

    @property
    def is_bulk(self) -> bool:
        """Whether its segments, once it is planned, wait in the bulk lane."""
        return self.segments > 1 or (self.segments > 0 and self.is_over_rate)

    def has_expired(self, now_ms: int) -> bool:
        """Whether an entry written now would be one that no timeline shows."""
        return now_ms >= self.expires_at * 1000

    @property
    def open_key(self) -> str:
        """Its key in the index `open`, which tells its age and its lane without its row."""
        return f"{self.accepted_at}{_SEPARATOR}{self.fanout_id}{_LARGE if self.is_bulk else ''}"

    @property
    def changed_ms(self) -> int:
        return times.to_ms(self.changed_at) if self.changed_at else 0

    def lag_seconds(self, completed_at: str) -> float:
        """Seconds from acceptance to this completion, never below 0.

        The two times come from different clocks: the door's or queue's, and a worker's.
        """
        return max(0, times.to_ms(completed_at) - times.to_ms(self.accepted_at)) / 1000

    def may_be_stored(self, now_ms: int) -> bool:
        """Whether somebody who has opened the row may still store its post."""
        return self.awaits_plan and now_ms - self.changed_ms < VOID_MS

    def is_answered_by(self, sent_at: int) -> bool:
        """Whether a command that SQS took at `sent_at` shows that the last question came out."""
        return self.asked_at > 0 and sent_at >= self.asked_at + ANSWERS_FROM_MS


def check(row: Fanout, *, now_ms: int) -> None:
    """Report what a row, just read, can never say."""
    expect = partial(invariants.check, fanout_id=row.fanout_id)
    latest_ms = max(row.sent_at, row.asked_at, row.came_out)
    in_plan = not row.pending or (min(row.pending) >= 0 and max(row.pending) < row.segments)
    expect("fanout_state", row.state in (*STATES, VOID))
    expect("fanout_key", split_sort_key(row.sort_key)[1] == row.fanout_id)
    expect("fanout_times", latest_ms <= now_ms + invariants.AHEAD_MS)
    expect("queued_unplanned", row.state != QUEUED or not row.segments)
    expect("delivering_planned", row.state != DELIVERING or row.segments > 0)
    expect("complete_pending", row.state != COMPLETE or not row.pending)
    expect("complete_since", row.state != COMPLETE or bool(row.completed_at))
    expect("pending_in_plan", in_plan)
    expect("resume_pending", row.resume.keys() <= row.pending)
    expect("plan_level", 0 <= row.level <= HIGHEST_LEVEL)


def accepted_at(open_key: str) -> str:
    """When the fan-out behind a key of the index `open` was accepted."""
    return open_key.partition(_SEPARATOR)[0]


def is_large(open_key: str) -> bool:
    """Whether the fan-out behind a key of the index `open` is surely in the bulk lane."""
    return open_key.partition(_SEPARATOR)[2].endswith(_LARGE)  # "large" may also be an id


def from_item(item: Item) -> Fanout:
    resume = item.get("resume", {}).get("M", {})
    return Fanout(
        fanout_id=get_text(item, "fanout_id"),
        publisher_id=get_text(item, "publisher_id"),
        sort_key=get_text(item, "sort_key"),
        accepted_at=get_text(item, "accepted_at"),
        expires_at=get_number(item, ENTRIES_EXPIRE_AT),
        state=get_text(item, "state"),
        lane=get_text(item, "lane"),
        segments=get_number(item, "segments"),
        followers=get_number(item, "followers"),
        level=get_number(item, "level"),
        pending=frozenset(int(n) for n in item.get("pending", {}).get("NS", [])),
        resume={int(k): Resume.from_text(v["S"]) for k, v in resume.items()},
        delivered=get_number(item, "delivered"),
        changed_at=get_text(item, "changed_at"),
        completed_at=get_text(item, "completed_at"),
        by=get_text(item, "by", PUSH),
        head_revision=get_number(item, "head_revision"),
        sent_at=get_number(item, "sent_at"),
        asked_at=get_number(item, "asked_at"),
        came_out=get_number(item, "came_out"),
        asks=get_number(item, "asks"),
        repaired=get_number(item, "repaired"),
        rounds=get_number(item, "rounds"),
    )
