"""One table is restored to an earlier moment, as docs/operations.md says, in a course of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest

from fanfold import names
from fanfold.aws import boto
from fanfold.aws.items import get_number
from fanfold.ids import ref_id_for
from proof.simulation.actors import restores
from proof.simulation.checks import entries
from proof.simulation.checks.evidence import Evidence
from proof.simulation.checks.judge import violations
from proof.simulation.clients import requests
from proof.simulation.kinds.operated import KIND
from proof.simulation.observed import channels
from proof.simulation.stage import stores
from proof.simulation.world import commands, lambdas
from proof.simulation.world.world import World
from tests.simulation.spoilings import PUBLISHER, calm, entry_of, gone

# Seconds from the begin of a run: the moment T; the lanes are paused.
MOMENT, PAUSED = 30.0, 60.0
POST = ref_id_for(PUBLISHER, "post")


class Punctual(Random):
    """The operator's: no command is cut short, and each pause before one takes 30 seconds."""

    def random(self) -> float:
        return 0.99

    def uniform(self, a: float, b: float) -> float:
        del a, b
        return MOMENT


@pytest.fixture
def world() -> Iterator[World]:
    with lambdas.installed(), commands.installed():
        world = calm()
        world.has_operators = True
        yield world


def live(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    tables: tuple[names.Table, ...],
    course: dict[float, Callable[[], object]],
) -> None:
    """Restore these tables, while at some seconds something else happens."""
    monkeypatch.setattr(restores, "RESTORED", (tables,))

    def act() -> None:
        for at, act in course.items():
            world.scheduler.sleep(at - world.clock.elapsed)
            act()

    def start(_world: World) -> None:
        world.start_client("restore", partial(restores.restore_a_table, world, Punctual()))
        world.start_client("all", act)

    world.run(start)


def follow(world: World, *users: str) -> None:
    for user in users:
        requests.relate(world, "follow", user, PUBLISHER)


def lose_entry(world: World, user: str) -> None:
    gone(world, names.TIMELINES, entry_of(world, user, POST))


def grow(level: int = 1) -> None:
    table = stores(boto.dynamodb()).publishers
    table.raise_to(PUBLISHER, level, now_ms=0)


def test_the_repair_raises_a_publisher_no_higher_than_its_edges(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    course: dict[float, Callable[[], object]] = {
        MOMENT + 5: grow,
        PAUSED + 10: partial(follow, world, "ann"),
        PAUSED + 20: partial(grow, 2),
    }
    live(world, monkeypatch, (names.PUBLISHERS,), course)
    row = world.row(names.PUBLISHERS, {"publisher_id": {"S": PUBLISHER}})
    assert get_number(row, "level") == 1
    assert violations(world, KIND.checks) == []


@pytest.mark.parametrize(
    ("tables", "lacking", "shown"),
    [
        pytest.param((names.PUBLISHERS,), 329.0, 400.0, id="an old head until the repair"),
        pytest.param((names.TIMELINES, names.FANOUTS), 210.1, 300.0, id="until published again"),
    ],
)
def test_cold_containers_lack_posts_in_channels_only_until_the_repair(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    tables: tuple[names.Table, ...],
    lacking: float,
    shown: float,
) -> None:
    monkeypatch.setattr(channels, "COLD", 1.0)
    world.channels.stage = channels.ChannelSettings(threshold=1, containers=1)
    pages: list[int] = []

    def read() -> None:
        pages.append(len(requests.read(world, "ann", limit=50)))

    course: dict[float, Callable[[], object]] = {
        1: partial(follow, world, "ann"),
        MOMENT + 5: partial(requests.by_http, world, PUBLISHER, "post"),
        **dict.fromkeys((PAUSED, lacking, shown), read),
    }
    live(world, monkeypatch, tables, course)
    assert pages == [1, 0, 1]
    assert violations(world, KIND.checks) == []


def test_an_entry_that_was_lost_comes_again_for_those_who_still_follow(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfollow = partial(requests.relate, world, "unfollow", publisher=PUBLISHER)

    def post() -> None:
        requests.by_http(world, PUBLISHER, "post")
        world.scheduler.sleep(10)
        lose_entry(world, "dan")  # as if he had been missed

    course: dict[float, Callable[[], object]] = {
        1: partial(follow, world, "ann", "bob", "cy", "dan"),
        MOMENT + 5: post,
        PAUSED + 30: partial(unfollow, "cy"),
        PAUSED + 31: partial(unfollow, "dan"),
    }
    live(world, monkeypatch, (names.TIMELINES, names.FANOUTS), course)
    lose_entry(world, "bob")
    found = Evidence(world)
    assert {user for user, ref_id in found.entries if ref_id == POST} == {"ann"}
    missed = entries.no_acknowledged_follower_is_missed(found)
    assert [said.split()[0] for said in missed] == ["bob", "dan"]
