"""Pages over a rebuilt head, which may have more channels than a stage is given."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from fanfold.channels.head import MOST
from fanfold.channels.head_table import LAST_MS, MOST_STALE
from fanfold.doctor import rebuilt_head
from fanfold.doctor.rebuilt_head import Known
from proof.model.clock import START_MS
from proof.simulation.world.scheduler import Scheduler, virtual_time
from tests.integration.channel_stage import Stage, publisher

# More than one BatchGetItem takes, and more than the queries of channels that a page may make.
COUNTS = (2 * MOST, 2 * MOST + 2)


@pytest.fixture(params=COUNTS)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Its reader follows the publishers of all the channels, with a post each."""
    stage = Stage()
    with virtual_time(Scheduler(Random(0), clock=stage.clock)):
        publishers = [publisher(place) for place in range(request.param)]
        known = Known(followers=dict.fromkeys(publishers, 1))
        known.posts.update(publishers)
        lost = stage.heads.get()
        whole = rebuilt_head.rebuilt(lost, known, now_ms=stage.clock.now_ms())
        assert stage.heads.replace(lost, whole)
        stage.follow(*publishers)
        for place, each in enumerate(publishers):
            stage.put(stage.entry(each, START_MS - 1_000 * place))
        yield stage


def test_a_page_shows_all_channels_of_a_rebuilt_head(stage: Stage) -> None:
    wanted = len(stage.heads.get().channels)
    first = stage.page(100)
    second = stage.page(100, before=first["next"])
    shown = [each["publisher_id"] for each in (*first["entries"], *second["entries"])]
    assert shown == [publisher(place) for place in range(wanted)]


def test_every_post_is_told_however_many_keys_are_old(stage: Stage) -> None:
    """An expression has 4 KB at most."""
    first = publisher(0)
    stage.clock.advance(LAST_MS / 1000 + 1)
    told = []
    for _ in range(5):
        seen = stage.heads.get()
        entry = stage.entry(first, stage.clock.now_ms())
        head = stage.heads.raise_seq(first, entry.sort_key, seen=seen)
        assert head
        told.append(sum(bool(each.last) for each in head.channels.values()))
    left = len(stage.heads.get().channels) - 1
    assert told == [1 + max(0, left - MOST_STALE * (posts + 1)) for posts in range(5)]
