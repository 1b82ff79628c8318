"""The status of a delivery, as publishers and operators see it."""

from __future__ import annotations

from dataclasses import dataclass

from fanfold.fanout.ledger import Ledger
from fanfold.fanout.row import COMPLETE, VOID, Fanout
from fanfold.timeline.posts import no_post


@dataclass(frozen=True, kw_only=True)
class DeliveryStatus:
    """One fan-out according to the ledger; the fields are those of the public answer."""

    ref_id: str
    state: str  # queued, delivering, complete, stalled, abandoned or expired
    by: str | None  # push or channel; None until it is planned
    followers_estimated: int | None  # None until it is planned
    delivered: int
    segments_done: int
    segments: int  # 0 until it is planned, and where there are no followers
    accepted_at: str
    completed_at: str | None
    lag_seconds: float | None  # from acceptance to completion; None while it is open


def status_of(fanout: Fanout) -> DeliveryStatus:
    completed_at = fanout.completed_at or None
    is_planned = fanout.segments > 0 or fanout.state == COMPLETE
    return DeliveryStatus(
        ref_id=fanout.fanout_id,
        state=fanout.state,
        by=fanout.by if is_planned else None,
        followers_estimated=fanout.followers if is_planned else None,
        # A segment that was handed back is not finished, but its first entries are written.
        delivered=fanout.delivered + sum(resume.written for resume in fanout.resume.values()),
        segments_done=fanout.segments - len(fanout.pending),
        segments=fanout.segments,
        accepted_at=fanout.accepted_at,
        completed_at=completed_at,
        lag_seconds=fanout.lag_seconds(completed_at) if completed_at else None,
    )


def status_for(fanouts: Ledger, ref_id: str, *, publisher_id: str) -> DeliveryStatus:
    """The status of the publisher's own post.

    Raises `NoPost`, with the same message for an unknown post and for another publisher's.
    """
    fanout = fanouts.get(ref_id)
    if fanout is None or fanout.publisher_id != publisher_id or fanout.state == VOID:
        raise no_post(ref_id)
    return status_of(fanout)
