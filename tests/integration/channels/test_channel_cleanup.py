"""SWEEP in a stage with channels: it counts them, and removes those that nobody reads any more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fanfold import names
from fanfold.channels.head import Head, readable_until
from fanfold.channels.head_table import HeadTable
from tests.service import AT_MS, System, error

THRESHOLD = 1_000
UNTIL = AT_MS // 1000 + 100


@pytest.fixture
def channel_threshold() -> int:
    return THRESHOLD


def publishers(head: Head) -> list[str]:
    return sorted(channel.publisher_id for channel in head.channels.values())


def counted(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """The number of channels that each run has reported."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line[names.CHANNELS] for line in lines if names.CHANNELS in line]


def test_a_demoted_channel_is_removed_once_its_time_is_over(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    system.sweep()
    system.promote("ada", "bea", "cleo")
    system.heads.demote("ada", until=UNTIL)
    system.heads.demote("bea", until=UNTIL + 1)
    left = []
    for seconds in (100, 1, 1):
        system.clock.advance(seconds)
        system.sweep()
        left.append(publishers(system.heads.get()))
    assert left == [["ada", "bea", "cleo"], ["bea", "cleo"], ["cleo"]]
    assert counted(capsys) == [[0], [3], [2], [1]], "demoted ones count until then"


def test_a_channel_is_readable_for_longer_than_its_last_entry_lives(system: System) -> None:
    system.promote("ada")
    days = system.settings.retention_days
    system.heads.demote("ada", until=readable_until(system.clock.ms, days))
    system.clock.advance((days + 7) * 86_400)
    system.sweep()
    assert publishers(system.heads.get()) == ["ada"]
    system.clock.advance(1 * 86_400 + 2)
    system.sweep()
    assert publishers(system.heads.get()) == []


def test_a_channel_that_takes_posts_again_meanwhile_stays(
    system: System, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    system.promote("ada", "bea")
    for publisher in ("ada", "bea"):
        system.heads.demote(publisher, until=UNTIL)
    system.clock.advance(200)
    plain = HeadTable.remove

    def remove(heads: HeadTable, channel: Any) -> Head | None:
        if channel.publisher_id == "ada":
            system.promote("ada")
        return plain(heads, channel)

    monkeypatch.setattr(HeadTable, "remove", remove)
    system.sweep()
    assert publishers(system.heads.get()) == ["ada"]
    assert counted(capsys) == [[1]]


def test_a_run_that_cannot_read_the_head_fails_and_its_work_is_done(
    system: System, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def get(_heads: HeadTable) -> Head:
        raise error("AccessDeniedException")

    monkeypatch.setattr(HeadTable, "get", get)
    system.give_followers(3)
    system.publish()
    system.bodies("Publish")
    system.clock.advance(3_600)
    with pytest.raises(Exception, match="AccessDenied"):
        system.sweep()
    assert system.waiting("Publish") == 1
    assert counted(capsys) == []
