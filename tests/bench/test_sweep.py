"""The bench of SWEEP: its short run and its worlds."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest

from fanfold.sweep import sweep
from fanfold.sweep.silence import Remedy
from proof.bench import runner
from proof.bench.sweep.bench import live_through
from proof.bench.sweep.cases import LARGE_SEGMENTS
from proof.bench.sweep.cost import Ledgers, costs
from proof.bench.sweep.world import PLAN, SweepPost, Traffic, WorldCase


@pytest.mark.slow
@pytest.mark.network
def test_a_short_run_reaches_every_target() -> None:
    figures = runner.run_here("sweep", short=True).figures
    assert [figure for figure in figures if not figure.met] == []


# The worlds

LOST_PLAN = SweepPost("plan", "ada", 1, at=5.0, lost=frozenset({PLAN}))
LOST_SEGMENT = SweepPost("segment", "bob", 1, at=5.0, lost=frozenset({0}))
LOST_SOME = SweepPost("some", "eve", 16, at=5.0, lost=frozenset(range(3, 16)))
QUIET = WorldCase(name="quiet", others=(LOST_PLAN, LOST_SEGMENT, LOST_SOME), days=1)
# Half an hour of the bulk lane.
BUSY = replace(QUIET, traffic=(Traffic(0.0, "celebrity", 6 * LARGE_SEGMENTS),))


def test_a_quiet_world_is_mended_without_extra_messages_and_not_without_a_sweep() -> None:
    found = live_through(QUIET)
    assert (found.unmended, found.stalled, found.extra_percent) == (0, 0, 0.0)
    assert len(found.minutes) == 3
    assert found.worst < 11
    with patch.object(sweep, "remedy_for", return_value=Remedy.NOTHING):
        found = live_through(replace(QUIET, days=0.1))
    assert found.unmended == 1 + 1 + 13
    assert found.worst > 140


def test_asking_does_not_wait_for_the_end_of_a_backlog_and_counts_what_is_sent_again() -> None:
    found = live_through(BUSY)
    assert [round(each) for each in found.minutes] == [3, 8, 10]
    assert found.extra_percent == 0.0
    # What waits rightly is asked about after 8, 15 and 29 minutes, ten messages each.
    waiting = replace(BUSY, others=(SweepPost("waiting", "celebrity", 64, at=1.0),))
    assert live_through(waiting).extra_percent == pytest.approx(100 * 30 / 65)


@pytest.mark.network
def test_a_run_costs_a_read_for_each_open_fanout_and_a_write_for_each_question() -> None:
    waiting, lost = costs(Ledgers("waiting", 120)), costs(Ledgers("lost", 120, are_lost=True))
    assert (120 < waiting.read_units < 150, waiting.write_units) == (True, 1)
    assert (120 < lost.read_units < 150, lost.write_units) == (True, 121)
