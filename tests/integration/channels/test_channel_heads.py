"""The head of the channels: each change of its row, and what refuses one."""

from __future__ import annotations

import pytest

from fanfold import times
from fanfold.channels.head import MOST, Head, key_of
from fanfold.channels.head_table import KEY, LAST_MS, HeadTable
from fanfold.channels.known_head import KnownHead
from tests.service import System

UNTIL = 1_800_000_000


@pytest.fixture
def heads(system: System) -> HeadTable:
    return HeadTable(system.publishers.client, system.publishers.table)


def add(heads: HeadTable, publisher: str, followers: int = 1_000_000) -> Head:
    """Give a publisher a channel, as nobody else does meanwhile."""
    head = heads.add(publisher, heads.get(), followers=followers)
    assert head is not None
    assert head == heads.get()
    return head


def lasts(head: Head) -> dict[str, str]:
    return {name: head.channels[key_of(name)].last for name in ("ada", "bea", "cem")}


def test_the_head_tells_which_post_was_put_last_for_a_minute(
    system: System, heads: HeadTable
) -> None:
    for publisher in ("ada", "bea", "cem"):
        add(heads, publisher)
    now = times.to_text(system.clock.ms)
    seen = heads.raise_seq("ada", f"{now}#one")
    assert seen
    seen = heads.raise_seq("bea", f"{now}#two", seen=seen)
    assert seen
    assert lasts(seen) == {"ada": f"{now}#one", "bea": f"{now}#two", "cem": ""}
    system.clock.advance(LAST_MS / 1000 + 1)
    later = f"{times.to_text(system.clock.ms)}#three"
    heads.demote("bea", until=UNTIL)
    seen = heads.raise_seq("cem", later, seen=heads.get())
    assert seen
    assert lasts(seen) == {"ada": "", "bea": f"{now}#two", "cem": later}


def test_only_a_channel_that_was_demoted_as_seen_is_removed(heads: HeadTable) -> None:
    first = add(heads, "ada").channels[key_of("ada")]
    demoted = heads.demote("ada", until=UNTIL)
    assert demoted is not None
    assert heads.remove(first._replace(until=UNTIL - 1)) is None
    head = heads.remove(demoted.channels[key_of("ada")])
    assert head is not None
    assert head.channels == {}
    assert heads.get() == head
    # Whoever knows the head of before learns of the new channel.
    assert add(heads, "ada").channels[key_of("ada")].tag > first.tag


def test_a_head_that_has_changed_since_it_was_seen_is_not_replaced(heads: HeadTable) -> None:
    seen = add(heads, "ada")
    after = heads.raise_seq("ada", "2026-11-20T18:00:00.123Z#post")
    assert after is not None
    rebuilt = seen._replace(version=seen.version + 1, revision=seen.revision + 2)
    assert not heads.replace(seen, rebuilt)
    assert heads.get() == after
    assert heads.replace(after, rebuilt)
    assert heads.get() == rebuilt


def test_a_head_that_was_lost_begins_above_what_readers_have_seen(
    system: System, heads: HeadTable
) -> None:
    seen = add(heads, "ada").version
    system.clock.advance(1)
    system.dynamodb.delete_item(TableName=heads.table, Key=KEY)
    assert add(heads, "bea").version > seen


def test_one_more_than_the_maximum_is_refused(heads: HeadTable) -> None:
    for number in range(MOST):
        head = add(heads, f"publisher-{number}")
    assert head.is_full
    assert heads.add("ada", head, followers=1) is None
    assert heads.get() == head


def test_an_eventual_read_of_before_does_not_bring_a_head_back(heads: HeadTable) -> None:
    known = KnownHead(heads)
    head = add(heads, "ada")
    assert known.reload() == head
    assert known.keep(Head(), known.now()) == head
    assert known.get() == head
