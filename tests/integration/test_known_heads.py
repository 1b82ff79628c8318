"""The head that a warm container remembers."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold.channels.head import Head
from fanfold.channels.head_table import HeadTable
from fanfold.channels.known_head import HEAD_SECONDS, JITTER, KnownHead
from tests.service import System

SOON = HEAD_SECONDS * (1 - JITTER) / 2


class CountedTable(HeadTable):
    """Notes how its row is read."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        object.__setattr__(self, "reads", [])

    def get(self, *, is_consistent: bool = True) -> Head:
        self.reads.append(is_consistent)  # type: ignore[attr-defined]
        return super().get(is_consistent=is_consistent)


@pytest.fixture
def table(system: System) -> CountedTable:
    return CountedTable(system.publishers.client, system.publishers.table)


def reads(table: CountedTable) -> list[bool]:
    return table.reads  # type: ignore[attr-defined,no-any-return]


def test_it_is_read_once_a_second_at_most(system: System, table: CountedTable) -> None:
    known = KnownHead(table)
    assert [known.get(), known.get()] == [Head(), Head()]
    system.clock.advance(SOON)
    known.get()
    assert reads(table) == [False]
    system.clock.advance(HEAD_SECONDS)
    table.add("ada", Head(), followers=9)
    assert known.get().of("ada")
    assert reads(table) == [False, False]


def test_an_eventual_read_of_before_does_not_bring_it_back(table: CountedTable) -> None:
    known = KnownHead(table)
    head = table.add("ada", Head(), followers=9)
    assert known.reload() == head
    assert known.keep(Head(), known.now()) == head
    assert known.get() == head
    assert reads(table) == [True]


def test_an_answer_that_took_long_is_as_old_as_its_question(
    system: System, table: CountedTable
) -> None:
    known = KnownHead(table)
    since = known.now()
    system.clock.advance(HEAD_SECONDS)
    known.keep(Head(), since)
    assert known.fresh is None
