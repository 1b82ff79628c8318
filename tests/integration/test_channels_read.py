"""Timelines of which some entries lie in channels."""

from __future__ import annotations

import pytest

from tests.integration.system import System

# No publisher of these tests has so many followers: a channel is given by hand.
BY_HAND = 1_000_000


@pytest.fixture
def channel_threshold() -> int:
    return BY_HAND


def test_a_stage_has_the_threshold_of_its_tests(system: System) -> None:
    assert system.door("timeline").settings.channel_threshold == BY_HAND
    assert system.door("api").settings == system.settings
