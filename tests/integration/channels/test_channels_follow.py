"""Follows of publishers with channels: what a reader's row keeps, and what is backfilled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fanfold import names
from fanfold.aws.items import binaries, expressions, number, text
from fanfold.channels.head import key_of, partition_of
from fanfold.channels.known_head import KnownHead
from fanfold.follows.bulk_follow import BulkFollowing
from fanfold.ids import ref_id_for
from fanfold.timeline.entries import Entry
from fanfold.timeline.marks import hash_of
from tests.service import AT_MS, Json, System, error

# No publisher of these tests has so many followers: a channel is given by hand.
BY_HAND = 1_000_000
UNTIL = 2_000_000_000


@pytest.fixture
def channel_threshold() -> int:
    return BY_HAND


def row(system: System, user: str = "bob") -> Json:
    (found,) = [each for each in system.rows(names.READERS) if each["user_id"]["S"] == user]
    return found


def noted(system: System, user: str = "bob") -> set[bytes]:
    return set(row(system, user).get("channels", {}).get("BS", ()))


def look(system: System, version: int, *publishers: str, user: str = "bob") -> None:
    """Note that the user's row is complete to a version of the head, as pages do."""
    found = {"channels": binaries([hash_of(each) for each in publishers])} if publishers else {}
    update = expressions(sets={"channels_seen": number(version)}, adds=found)
    key = {"user_id": text(user)}
    system.dynamodb.update_item(TableName=names.READERS.name, Key=key, **update)


# What a reader's row keeps


def test_a_follow_and_an_unfollow_keep_the_channel_by_every_door(system: System) -> None:
    system.promote("ada")
    assert system.follow("bob").status == 200
    assert noted(system) == {hash_of("ada")}
    assert system.unfollow("bob").status == 204
    assert noted(system) == set()
    wish = {"version": 1, "user_id": "carl", "publisher_id": "ada"}
    plan, records = system.door("plan"), []
    for kind in ("follow.added", "follow.removed"):
        records.append(system.record("Publish", {**wish, "type": kind}))
        assert plan.handler({"Records": records[-1:]}, system.context) == {"batchItemFailures": []}
        assert noted(system, "carl") == ({hash_of("ada")} if kind == "follow.added" else set())
        system.clock.advance(1)
    assert row(system, "carl")["changes"] == {"N": "2"}


def test_a_follow_by_a_door_with_an_old_head_is_accepted_and_noted(system: System) -> None:
    assert system.follow("bob", "bea").status == 200  # the door knows an empty head now
    look(system, system.promote("ada").version)
    assert system.follow("bob").status == 200
    assert noted(system) == {hash_of("ada")}


def throttle(heads: KnownHead, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = lambda *_a, **_k: raise_(error("ThrottlingException"))  # noqa: E731
    monkeypatch.setattr(type(heads.table), "get", refused)


def test_a_follow_is_accepted_while_the_head_is_throttled_and_noted_as_relate_settles_it(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.promote("ada")
    with monkeypatch.context() as hot:
        throttle(system.door("api").following.follows.heads, hot)
        assert system.follow("bob").status == 200
    assert noted(system) == set()
    system.clock.advance(10)
    system.pump("Relation")
    assert noted(system) == {hash_of("ada")}


def raise_(failure: Exception) -> Any:
    raise failure


def test_an_import_notes_channels_too(system: System) -> None:
    head = system.promote("ada", "cleo")
    every = BulkFollowing(system.door("api").following)
    look(system, head.version)
    assert every.follow_all("bob", ["ada", "bea", "cleo"]) == 3
    assert noted(system) == {hash_of("ada"), hash_of("cleo")}
    assert row(system)["changes"] == {"N": "1"}


# Backfills


def backfilled(system: System, user: str = "bob") -> list[str]:
    """The posts in a user's own timeline, newest first."""
    rows = [each for each in system.rows(names.TIMELINES) if each["user_id"]["S"] == user]
    refs = [each["sort_key"]["S"].partition("#")[2] for each in rows]
    return [title for title in ("three", "two", "one") if ref_id_for("ada", title) in refs]


def post(system: System, *titles: str) -> list[Entry]:
    """Publish posts of Ada, which nobody follows, a second apart; their entries."""
    entries = []
    for title in titles:
        system.clock.advance(1)
        assert system.publish(title, body={"title": title}).status == 202
        fanout = system.ledger(ref_id_for("ada", title))
        entries.append(Entry(fanout.sort_key, "ada", fanout.expires_at))
    return entries


def test_a_follow_brings_only_what_the_channel_does_not_hold(system: System) -> None:
    _one, two, three = post(system, "one", "two", "three")
    system.promote("ada")
    system.put_into_channel(two, three)
    system.follow("bob")
    system.pump("Relation")
    assert backfilled(system) == ["one"]


def test_a_demoted_channel_still_saves_entries_until_it_is_removed(system: System) -> None:
    entries = post(system, "one", "two")
    system.promote("ada")
    system.put_into_channel(*entries)
    head = system.heads.demote("ada", until=UNTIL)
    system.follow("bob")
    system.pump("Relation")
    assert backfilled(system) == []
    assert noted(system) == {hash_of("ada")}
    assert head
    assert system.heads.remove(head.channels[key_of("ada")])
    system.clock.advance(10)
    system.follow("carl")
    system.pump("Relation")
    assert backfilled(system, "carl") == ["two", "one"]


def test_what_a_channel_holds_is_read_once_for_a_crowd(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = post(system, "one", "two")
    system.promote("ada")
    system.put_into_channel(*entries)
    channels = system.door("relate").backfilling.newest.channels
    read: list[str] = []
    plain = type(channels.entries).held

    def held(self: Any, user_id: str, sort_keys: Any) -> Any:
        read.append(user_id)
        return plain(self, user_id, sort_keys)

    monkeypatch.setattr(type(channels.entries), "held", held)
    for user in ("bob", "carl", "dora"):
        system.follow(user)
    system.clock.advance(2)
    records = system.receive("Relation")
    assert len(records) == 3
    for some in (records[:1], records[1:]):  # orders of one batch are carried out side by side
        assert system.take({"Records": some}) == []
    assert read.count(partition_of("ada")) == 1


@pytest.mark.parametrize("what", ["head", "channel"])
def test_where_head_or_channel_cannot_be_read_a_follow_brings_all(
    system: System, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    entries = post(system, "one", "two")
    system.promote("ada")
    system.put_into_channel(*entries)
    system.follow("bob")
    channels = system.door("relate").backfilling.newest.channels
    owner, method = (channels.heads.table, "get") if what == "head" else (channels.entries, "held")
    with monkeypatch.context() as throttled:
        throttled.setattr(
            type(owner), method, lambda *_a, **_k: raise_(error("ThrottlingException"))
        )
        assert system.pump_once("Relation")
    assert backfilled(system) == ["two", "one"]


def test_doors_share_one_head_in_a_container(system: System) -> None:
    relate = system.door("relate")
    assert relate.backfilling.newest.channels.heads is relate.following.follows.heads


@pytest.mark.parametrize("is_followed", [True, False])
def test_relate_notes_what_a_door_without_channels_has_left_out(
    system: System, is_followed: bool
) -> None:
    """As the API of the version before does, while a deploy turns channels on."""
    api = system.door("api")
    old = replace(api.following, follows=replace(api.following.follows, heads=None))
    if not is_followed:
        old.follow("bob", "ada", asked_at=AT_MS)
    head = system.promote("ada")
    look(system, head.version, *([] if is_followed else ["ada"]))
    ask = old.follow if is_followed else old.unfollow
    ask("bob", "ada", asked_at=AT_MS + 1)
    assert noted(system) == (set() if is_followed else {hash_of("ada")})
    system.clock.advance(10)
    system.pump("Relation")
    assert noted(system) == ({hash_of("ada")} if is_followed else set())
