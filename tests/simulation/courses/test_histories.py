"""The histories of simulated stages, judged as outsiders judge one: by the lines alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from fanfold.history import doors
from fanfold.history.doors import History
from fanfold.timeline import marks
from proof.history.judge import NOT_FOLLOWED, Judged, judge
from proof.history.told import read
from proof.simulation.checks.evidence import Evidence
from proof.simulation.kinds.ordinary import play
from proof.simulation.world.lambdas import installed, lambdas
from proof.simulation.world.world import World

SEEDS = range(8)


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What the functions write, which are new ones with the setting."""
    found: list[str] = []
    lambdas.cache_clear()
    with (
        patch.dict(os.environ, {"HISTORY": "True"}),
        patch.object(doors, "History", lambda settings, _: History(settings, found.append)),
        installed(),
    ):
        yield found
    lambdas.cache_clear()


def judged(lines: list[str], seed: int) -> Judged:
    """Run a world, in which no clock is wrong by more than the judge allows."""
    lines.clear()
    world = World(seed)
    world.faults.rates["skewed"] = 0.0
    world.run(play)
    _ = Evidence(world).seen  # everybody reads once more
    return judge(read([(f"seed {seed}", "\n".join(lines))]), is_whole=True)


def test_no_history_of_a_sound_stage_breaks_the_promise(lines: list[str]) -> None:
    owed = 0
    for seed in SEEDS:
        found = judged(lines, seed)
        assert found.findings == [], seed
        owed += found.counts["owed"]
    assert owed > 10 * len(SEEDS)


def test_a_stage_that_shows_whom_its_readers_have_left_is_found_out(
    lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "left_out", lambda *_, **__: set[str]())
    found = (judged(lines, seed).findings for seed in SEEDS)
    assert {each.kind for each in next(filter(None, found), [])} == {NOT_FOLLOWED}
