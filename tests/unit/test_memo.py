"""What a reader's row says of channels agrees with the follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from fanfold import clock as product_clock
from fanfold.aws.items import expressions, number, text
from fanfold.channels.head import key_of
from fanfold.channels.head_table import HeadTable
from fanfold.channels.known_head import KnownHead
from fanfold.errors import TooManyFollows
from fanfold.follows.follows_table import FollowsTable
from fanfold.follows.wishes import Follow
from fanfold.names import FOLLOWING, PUBLISHERS, READERS
from fanfold.timeline import memo
from fanfold.timeline.marks import Reader, holds
from fanfold.timeline.readers import Readers
from tests.unit.stores import client_of

AT = "2026-11-20T18:00:00.123Z"
NOW_MS = 1_795_197_600_123
ADA, BEA = "ada", "bea"


@dataclass
class World:
    """Ben, the publishers Ada and Bea, and doors with heads of different age."""

    client: Any

    def door(self) -> FollowsTable:
        """A door with a head of its own, which stays as it is read for the first time."""
        readers = Readers(self.client, READERS.name)
        return FollowsTable(self.client, FOLLOWING.name, readers, 30, KnownHead(self.heads))

    @property
    def heads(self) -> HeadTable:
        return HeadTable(self.client, PUBLISHERS.name)

    def promote(self, publisher: str = ADA) -> None:
        self.heads.add(publisher, self.heads.get(), followers=9)

    @property
    def reader(self) -> Reader:
        return Readers(self.client, READERS.name).get("ben")

    def channels(self) -> set[str]:
        """Of which publishers Ben's pages read the channels without looking at the follows."""
        return {each for each in (ADA, BEA) if holds(self.reader.channels, each)}

    def change(self, **sets: Any) -> None:
        """Write attributes of Ben's row, as a restore of the table does."""
        key = {"user_id": text("ben")}
        self.client.update_item(TableName=READERS.name, Key=key, **expressions(sets=sets))

    def check(self) -> None:
        reader, head, door = self.reader, self.heads.get(), self.door()
        for publisher in (ADA, BEA):
            is_followed = door.get("ben", publisher).is_active
            channel = head.of(publisher)
            if holds(reader.channels, publisher):
                assert is_followed, f"{publisher} is shown without a follow"
            elif is_followed and channel:
                assert channel.version > reader.channels_seen, f"{publisher} is overlooked"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(product_clock, "now_ms", lambda: NOW_MS)
    monkeypatch.setattr(product_clock, "monotonic", lambda: 1.0)
    return World(client_of(FOLLOWING, READERS, PUBLISHERS))


def follow(door: FollowsTable, *publishers: str, most: int = 9) -> list[Follow]:
    """Let Ben follow, as doors do: what is refused because of something else is tried again."""
    for _ in range(4):
        seen = [replace(door.get("ben", each), followed_at=AT, asked_at=5) for each in publishers]
        left = [each for each in seen if not each.is_active]
        done = door.follow_all("ben", left, now_ms=NOW_MS, max_follows=most)
        if done is not None:
            return done
    raise AssertionError("never accepted")


def unfollow(door: FollowsTable, publisher: str = ADA) -> None:
    for _ in range(4):
        seen = door.get("ben", publisher)
        if not seen.is_active or door.unfollow(seen, now_ms=NOW_MS):
            return
    raise AssertionError("never accepted")


def look(door: FollowsTable) -> None:
    """What a page does with a head that is later than the reader's row: look, and note it."""
    assert door.heads
    reader, head = door.readers.get("ben"), door.heads.get()
    _, newer = memo.told(reader, head)
    if not newer:
        return
    followed, left = door.active_among("ben", [each.publisher_id for each in newer])
    assert not left
    memo.note(door.readers, "ben", reader, head, followed)


def test_a_follow_notes_the_channels_that_its_door_knows(world: World) -> None:
    world.promote(ADA)
    follow(world.door(), ADA, BEA)
    assert (world.channels(), world.reader.changes, world.reader.follows) == ({ADA}, 1, 2)
    world.promote(BEA)
    look(world.door())
    assert world.channels() == {ADA, BEA}
    assert world.reader.channels_seen == world.heads.get().version


def test_an_unfollow_takes_the_channel_out_whatever_head_its_door_knows(world: World) -> None:
    old = world.door()
    assert old.heads
    old.heads.get()
    world.promote(ADA)
    follow(world.door(), ADA)
    unfollow(old)
    assert (world.channels(), world.reader.changes, world.reader.follows) == (set(), 2, 0)
    assert not old.heads.get().channels


def test_a_stage_without_channels_writes_nothing_of_them(world: World) -> None:
    door = replace(world.door(), heads=None)
    follow(door, ADA)
    unfollow(door)
    row = world.client.get_item(TableName=READERS.name, Key={"user_id": text("ben")})["Item"]
    assert not {"channels", "channels_seen", "changes"} & row.keys()


def test_a_mark_of_an_earlier_channel_tells_nothing_of_a_new_one(world: World) -> None:
    """As the unfollow took nothing out while the stage had no channels."""
    world.promote(ADA)
    follow(world.door(), ADA)
    look(world.door())
    head = world.heads.demote(ADA, until=NOW_MS)
    assert head
    world.heads.remove(head.channels[key_of(ADA)])
    unfollow(replace(world.door(), heads=None))
    world.promote(ADA)
    look(world.door())
    assert world.channels() == set()
    assert world.reader.channels_seen == world.heads.get().version
    follow(world.door(), ADA)
    assert world.channels() == {ADA}


def test_the_limit_is_told_also_where_the_head_is_old(world: World) -> None:
    follow(world.door(), BEA, most=1)
    old = world.door()
    assert old.heads
    old.heads.get()
    world.promote(ADA)
    look(world.door())
    assert world.reader.channels_seen == world.heads.get().version
    with pytest.raises(TooManyFollows):
        follow(old, ADA, most=1)


def test_over_a_row_ahead_of_a_restored_head_follows_are_taken_and_later_channels_looked_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.promote(ADA)
    world.change(channels_seen=number(world.heads.get().version + 7))
    follow(world.door(), BEA)
    monkeypatch.setattr(product_clock, "now_ms", lambda: NOW_MS + 10)
    world.promote(BEA)
    look(world.door())
    assert world.channels() == {BEA}
    world.check()
