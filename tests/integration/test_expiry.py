"""A fan-out whose entries nobody would see any more: it ends, and is told apart from complete."""

from __future__ import annotations

import pytest

from fanfold import times
from fanfold.fanout.backlog import Resume
from tests.integration.system import POST, System


def now(system: System) -> str:
    return times.to_text(system.clock.ms)


@pytest.mark.parametrize("state", ["queued", "delivering", "stalled"])
def test_an_expired_fanout_leaves_both_indexes_and_nothing_reopens_it(
    system: System, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr("fanfold.fanout.plan.count_for", lambda _followers: 2)
    system.give_followers(20)
    system.publish()
    if state != "queued":
        system.pump("Publish")
    if state == "stalled":
        system.give_up()
    seen = system.ledger()
    assert seen.state == state
    assert system.fanouts.expire(seen, now=now(system))
    assert not system.fanouts.expire(seen, now=now(system)), "it has ended already"
    assert system.open_fanouts() == list(system.fanouts.stalled_ids(page=100)) == []
    before = system.dump()
    ledger, later = system.fanouts, times.to_text(system.clock.ms + 1)
    assert not ledger.plan(seen, segments=1, followers=1, level=0, now=later)
    assert not ledger.complete_without_followers(POST, now=later)
    assert not ledger.complete_if_delivered(POST, now=later)
    assert ledger.finish_segment(seen, 0, written=1, now=later) is None
    assert not ledger.store_resume(seen, 0, Resume("0" * 16, 1), now=later)
    assert not system.sweeper.note_question(seen, now_ms=system.clock.ms + 1)
    assert not system.sweeper.note_round(seen, now_ms=system.clock.ms + 1)
    assert not system.sweeper.give_up(seen, now_ms=system.clock.ms + 1)
    ledger.touch(seen, now=later)
    assert system.dump() == before


def test_a_delivered_or_complete_fanout_does_not_expire(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fanfold.fanout.plan.count_for", lambda _followers: 2)
    system.give_followers(20)
    system.publish()
    system.pump("Publish")
    planned = system.ledger()
    for segment in (0, 1):  # the last worker dies before it completes the fan-out
        assert system.fanouts.finish_segment(planned, segment, written=1, now=now(system))
    assert not system.fanouts.expire(planned, now=now(system))
    assert system.fanouts.complete_if_delivered(POST, now=now(system))
    assert not system.fanouts.expire(planned, now=now(system))
    assert system.ledger().state == "complete"
