"""What the page shows, as values that each refresh makes anew and the bridge sends as JSON.

Times are epoch seconds; shares lie between 0 and 1. The page draws them and decides nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from fanfold.fanout.row import CHANNEL, PUSH
from fanfold_cli.deliveries.pauses import Paused
from fanfold_cli.health.verdict import Depth

# Parts of the ring: one for each first byte of the followers' hashes.
CELLS = 256

CALM, BUSY, HURT, GOOD = "calm", "busy", "hurt", "good"
INFO, HEAL = "info", "heal"  # of events, beside HURT and GOOD


@dataclass(frozen=True, kw_only=True)
class Ring:
    """One fan-out. Values by cell have `CELLS` members, or none if nothing is known by cell."""

    ref_id: str
    publisher_id: str
    state: str
    followers: int | None  # None until they are known or estimated
    delivered: int
    segments: int
    pending: tuple[int, ...]
    accepted_at: float
    changed_at: float = 0.0  # when a worker or a person last changed its row
    lag_seconds: float | None  # once it is complete
    by: str = PUSH  # or CHANNEL: one entry, which all followers read
    have: tuple[float, ...] = ()  # by cell: the share that is in the timelines
    refused: tuple[int, ...] = ()  # by cell: puts that the table refused and that are retried
    again: tuple[float, ...] = ()  # by cell: the share that was written again
    found: tuple[int, ...] = ()  # by cell: 1 if the sampled follower has it, 0 if not, -1 unknown
    is_largest: bool = True

    @property
    def entries(self) -> int:
        """How many entries are written."""
        return min(1, self.delivered) if self.by == CHANNEL else self.delivered

    @property
    def share(self) -> float:
        if self.state == "complete":
            return 1.0
        return min(1.0, self.delivered / self.followers) if self.followers else 0.0


@dataclass(frozen=True, kw_only=True)
class Worker:
    number: int
    state: str  # idle, busy or killed
    ref_id: str = ""
    publisher_id: str = ""
    segment: int = 0
    segments: int = 0
    is_twin: bool = False


@dataclass(frozen=True, kw_only=True)
class ReaderView:
    """The newest entries of a user's timeline, as the API answers."""

    user: str
    read_at: float = 0.0  # when the API answered last
    entries: tuple[dict[str, str], ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class Headline:
    mood: str
    title: str
    text: str


@dataclass(frozen=True)
class Event:
    number: int
    at: float  # from the ledger, if it is about a delivery
    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Hurting:
    """The faults of `fanfold demo --hurt` that are on, and their effects so far."""

    throttled: bool = False
    twice: bool = False
    killed: int = 0
    refused: int = 0  # batches
    copies: int = 0
    rewritten: int = 0  # entries that were written again
    shown_after: int = 0  # seconds until a killed worker's message is visible again
    hidden_for: int = 0  # seconds until any other message is
    is_scripted: bool = True
    act: str = ""  # what the script does now
    publishes: str = ""  # what the button publishes
    has_ended: bool = False


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The rows in the timelines, compared with the follow graph and the accepted posts."""

    expected: int
    delivered: int  # the expected ones that are in timelines
    unexpected: int
    twice: int
    wrong_readers: int
    sentence: str
    wrong_counts: int = 0  # that publishers were told

    @property
    def lost(self) -> int:
        return self.expected - self.delivered

    @property
    def is_right(self) -> bool:
        wrong = self.wrong_readers or self.wrong_counts
        return not (self.lost or self.unexpected or self.twice or wrong)


@dataclass(frozen=True, kw_only=True)
class State:
    where: str  # stack, account and region
    read_at: float  # when the refresh began
    every_seconds: float
    is_protected: bool = False  # from deletion, like `prod`; the page has another colour
    may_operate: bool = False
    cost: str = ""
    failure: str = ""  # why the last refresh failed
    status: str = ""  # what `fanfold status` says; empty until all of it is known
    ring: Ring | None = None
    others: tuple[Ring, ...] = ()
    open: int = 0
    stalled: int = 0
    rate: float = 0.0  # entries a second
    rate_at: float = 0.0  # the end of the minute that the metric counts; 0 without a metric
    queues: dict[str, Depth] = field(default_factory=dict)
    paused: Paused = field(default_factory=Paused)
    workers: tuple[Worker, ...] = ()
    readers: tuple[ReaderView, ...] = ()
    still_seconds: float = 0.0  # since the last progress, while fan-outs are open
    hurting: Hurting | None = None
    verdict: Verdict | None = None
    events: tuple[Event, ...] = ()
    headline: Headline = Headline(CALM, "Connecting", "")

    @property
    def dead(self) -> int:
        return sum(each.dead for each in self.queues.values())

    def content(self) -> dict[str, Any]:
        """The state as JSON, with the share of each fan-out."""
        shares = {ring.ref_id: ring.share for ring in (self.ring, *self.others) if ring}
        return {**asdict(self), "shares": shares}
