"""The checks of entries believe callers alone, whatever the tables say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fanfold import names
from simulation.checks import entries, posts, timelines
from simulation.checks.evidence import Evidence
from simulation.checks.judge import violations
from simulation.kinds.ordinary import play
from simulation.lambdas import installed
from simulation.wishes import surely
from simulation.world import World

YEARS_AGO = {"S": "2016-11-20T18:00:00.123Z"}


@pytest.fixture
def world() -> Iterator[World]:
    with installed():
        world = next(each for seed in range(1, 50) if is_telling(each := played(seed)))
        world.faults.hot = frozenset()  # timelines that would refuse what a test puts
        yield world


def played(seed: int) -> World:
    world = World(seed)
    world.run(play)
    return world


def is_telling(world: World) -> bool:
    """Whether somebody surely follows, and has a post by that."""
    try:
        _, ref_id = sure(Evidence(world), follows=True)
    except LookupError:
        return False
    return any(row["sort_key"]["S"].endswith(f"#{ref_id}") for row in world.rows(names.TIMELINES))


def sure(found: Evidence, *, follows: bool) -> tuple[str, str]:
    """A user and a post such that the user surely followed, or did not, until it was delivered."""
    for publish in found.publishes.values():
        if not found.is_due(publish):
            continue
        until_ms = found.world.observer.completed_ms[publish.ref_id]
        for (user, publisher), relation in found.history.relations.items():
            wishes = relation.settled_wishes()
            if publisher == publish.publisher and any(wish.follows for wish in wishes):
                said = surely(wishes, publish.begun_ms, until_ms, skew_ms=found.skew_ms)
                if said is follows:
                    return user, publish.ref_id
    raise LookupError("Nobody is sure.")


def spoil(world: World, table: names.Table, **fields: dict[str, str]) -> None:
    """Write these values over those of every row that has them."""
    for row in world.rows(table):
        if fields.keys() <= row.keys():
            world.dynamodb.put_item(TableName=table.name, Item={**row, **fields})


def delete_entry(world: World, user: str, ref_id: str) -> None:
    for row in world.rows(names.TIMELINES):
        key = {"user_id": row["user_id"], "sort_key": row["sort_key"]}
        if row["user_id"]["S"] == user and row["sort_key"]["S"].endswith(f"#{ref_id}"):
            world.dynamodb.delete_item(TableName=names.TIMELINES.name, Key=key)


def put_entry(world: World, user: str, ref_id: str) -> None:
    (row, *_) = [
        each for each in world.rows(names.TIMELINES) if each["sort_key"]["S"].endswith(f"#{ref_id}")
    ]
    item = {**row, "user_id": {"S": user}}
    world.dynamodb.put_item(TableName=names.TIMELINES.name, Item=item)


def spoil_times(world: World) -> None:
    for table in (names.POSTS, names.FANOUTS):
        spoil(world, table, accepted_at=YEARS_AGO)


def test_no_wrong_time_of_acceptance_hides_a_follower_who_was_missed(world: World) -> None:
    user, ref_id = sure(Evidence(world), follows=True)
    spoil_times(world)
    delete_entry(world, user, ref_id)
    (said,) = entries.no_acknowledged_follower_is_missed(Evidence(world))
    assert user in said
    assert ref_id in said
    assert [*entries.nobody_gets_what_they_do_not_follow(Evidence(world))] == []


def test_no_wrong_time_of_acceptance_hides_an_entry_of_somebody_who_does_not_follow(
    world: World,
) -> None:
    _, ref_id = sure(Evidence(world), follows=True)
    user = "stranger"  # who followed before or after may have it by a backfill
    spoil_times(world)
    put_entry(world, user, ref_id)
    (said,) = entries.nobody_gets_what_they_do_not_follow(Evidence(world))
    assert user in said
    assert ref_id in said


def test_a_wrong_time_of_acceptance_is_told_itself(world: World) -> None:
    assert violations(world) == []
    spoil_times(world)
    assert [*posts.posts_are_accepted_when_they_were_sent(Evidence(world))]


@pytest.mark.parametrize("state", ["unfollowed", "followed"])
def test_no_following_rows_hide_a_follower_who_was_missed(world: World, state: str) -> None:
    user, ref_id = sure(Evidence(world), follows=True)
    spoil(world, names.FOLLOWING, state={"S": state})
    delete_entry(world, user, ref_id)
    assert [
        said
        for said in entries.no_acknowledged_follower_is_missed(Evidence(world))
        if user in said and ref_id in said
    ]


@pytest.mark.parametrize(
    ("spoilt", "told"),
    [
        ({"body": {"S": '{"title":"another"}'}}, "another body"),
        ({"publisher_id": {"S": "somebody"}}, "publisher"),
    ],
)
def test_readers_are_not_shown_what_nobody_sent(
    world: World, spoilt: dict[str, dict[str, str]], told: str
) -> None:
    spoil(world, names.POSTS, **spoilt)
    if "publisher_id" in spoilt:  # an entry is shown only beside its own post
        spoil(world, names.TIMELINES, **spoilt)
    said = [*timelines.posts_are_shown_as_they_were_sent(Evidence(world))]
    assert said
    assert all(told in each for each in said)
