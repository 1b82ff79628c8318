"""The route that shows a publisher the delivery of a post."""

from __future__ import annotations

import pytest

from tests.service import AT, POST, Answer, System


def delivery(system: System, ref_id: str = POST, *, user: str = "ada") -> Answer:
    return system.http("api/show_delivery", user=user, path={"ref_id": ref_id})


def test_a_publisher_sees_the_delivery_go_from_queued_to_complete(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fanfold.fanout.plan.count_for", lambda _followers: 4)
    system.give_followers(40)
    system.publish()
    answer = delivery(system)
    assert answer.status == 200
    assert answer.body == {
        "ref_id": POST,
        "state": "queued",
        "by": None,
        "followers_estimated": None,
        "delivered": 0,
        "segments_done": 0,
        "segments": 0,
        "accepted_at": AT,
        "completed_at": None,
        "lag_seconds": None,
    }
    system.pump("Publish")
    assert system.pump_once("Bulk")
    halfway = delivery(system).body
    assert (halfway["state"], halfway["followers_estimated"]) == ("delivering", 40)
    assert (halfway["segments_done"], halfway["segments"]) == (1, 4)
    assert halfway["delivered"] == len(system.reached()) > 0
    system.clock.advance(4.5)
    system.pump()
    done = delivery(system).body
    assert (done["state"], done["delivered"], done["segments_done"]) == ("complete", 40, 4)
    assert done["lag_seconds"] >= 4.5
    assert done["completed_at"] == system.ledger().completed_at > AT
