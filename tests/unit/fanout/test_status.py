"""The status of a delivery, from its row of the ledger."""

from dataclasses import asdict, replace

from fanfold.fanout.backlog import Resume
from fanfold.fanout.row import Fanout
from fanfold.fanout.status import status_of

QUEUED = Fanout(
    fanout_id="post-1",
    publisher_id="ada",
    sort_key="2026-11-20T18:00:00.000Z#post-1",
    accepted_at="2026-11-20T18:00:00.123Z",
    expires_at=1,
)
DELIVERING = replace(
    QUEUED, state="delivering", segments=4, followers=20_000, pending=frozenset({1, 3})
)


def test_the_status_of_an_unplanned_fanout_claims_nothing() -> None:
    for state in ("queued", "stalled"):
        assert asdict(status_of(replace(QUEUED, state=state))) == {
            "ref_id": "post-1",
            "state": state,
            "by": None,
            "followers_estimated": None,
            "delivered": 0,
            "segments_done": 0,
            "segments": 0,
            "accepted_at": "2026-11-20T18:00:00.123Z",
            "completed_at": None,
            "lag_seconds": None,
        }


def test_entries_of_unfinished_segments_count_as_delivered() -> None:
    resume = {1: Resume("4" * 16, 700), 3: Resume("c" * 16, 50)}
    status = status_of(replace(DELIVERING, delivered=10_000, resume=resume))
    assert (status.segments_done, status.segments, status.delivered) == (2, 4, 10_750)
    assert (status.followers_estimated, status.lag_seconds) == (20_000, None)
    assert status.by == "push"


def test_the_lag_is_from_acceptance_to_completion() -> None:
    done = replace(
        DELIVERING,
        state="complete",
        pending=frozenset(),
        delivered=19_950,
        completed_at="2026-11-20T18:00:04.623Z",
    )
    status = status_of(done)
    assert (status.completed_at, status.lag_seconds) == (done.completed_at, 4.5)
    assert (status.segments_done, status.delivered) == (4, 19_950)
    early = replace(done, completed_at="2026-11-20T18:00:00.000Z")
    assert status_of(early).lag_seconds == 0, "by clocks that disagree"


def test_a_post_without_followers_is_complete_with_0_segments() -> None:
    status = status_of(replace(QUEUED, state="complete", completed_at=QUEUED.accepted_at))
    assert (status.followers_estimated, status.segments, status.lag_seconds) == (0, 0, 0)


def test_a_post_in_a_channel_is_delivered_to_all_that_were_estimated() -> None:
    done = replace(
        QUEUED,
        state="complete",
        by="channel",
        followers=1_000_000,
        delivered=1_000_000,
        completed_at=QUEUED.accepted_at,
    )
    status = status_of(done)
    assert (status.by, status.delivered, status.segments) == ("channel", 1_000_000, 0)
