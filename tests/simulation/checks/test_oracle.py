"""The checks of entries believe callers alone, whatever the tables say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fanfold import names
from proof.simulation.checks import entries
from proof.simulation.checks.evidence import Evidence
from proof.simulation.world.lambdas import installed
from proof.simulation.world.world import World
from tests.simulation.spoilings import POST, entry, entry_of, gone, settled, text


@pytest.fixture
def world() -> Iterator[World]:
    with installed():
        yield settled()


def spoil(world: World, table: names.Table, **fields: dict[str, str]) -> None:
    """Write these values over those of every row that has them."""
    for row in world.rows(table):
        if fields.keys() <= row.keys():
            world.dynamodb.put_item(TableName=table.name, Item={**row, **fields})


def test_no_wrong_time_of_acceptance_hides_who_was_missed_or_has_what_they_do_not_follow(
    world: World,
) -> None:
    gone(world, names.TIMELINES, entry_of(world, "bob", POST))
    entry(world, "stranger", POST)
    for table in (names.POSTS, names.FANOUTS):
        spoil(world, table, accepted_at=text("2016-11-20T18:00:00.123Z"))
    (missed,) = entries.no_acknowledged_follower_is_missed(Evidence(world))
    (foreign,) = entries.nobody_gets_what_they_do_not_follow(Evidence(world))
    for said, user in ((missed, "bob"), (foreign, "stranger")):
        assert user in said
        assert POST in said


def test_no_following_rows_hide_a_follower_who_was_missed(world: World) -> None:
    gone(world, names.TIMELINES, entry_of(world, "bob", POST))
    for state in ("unfollowed", "followed"):
        spoil(world, names.FOLLOWING, state=text(state))
        (said,) = entries.no_acknowledged_follower_is_missed(Evidence(world))
        assert "bob" in said
        assert POST in said
