"""What `fanfold cost` says of a channel, against the units that the model of DynamoDB counts."""

from __future__ import annotations

import pytest

from fanfold import names
from fanfold.channels.head import MOST, Head, partition_of
from fanfold.channels.head_table import HeadTable
from fanfold.channels.windows import WINDOW
from fanfold.timeline.entries import Entries, Entry
from fanfold.timeline.page_reads import Range
from fanfold_cli.cost.channel import (
    Units,
    head_read_units,
    post_units,
    promotion_units,
    window_units,
)
from proof.model.dynamodb.capacity import READ, WRITE
from tests.stores import page_of
from tests.unit.cli.cost.test_cli_cost import Model


class Counted(Model):
    """The tables of the model, and what was used of them since the last look."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = HeadTable(self.client, names.PUBLISHERS.name)
        self.entries = Entries(self.client, names.TIMELINES.name)

    def since(self) -> Units:
        units = Units(self.used(WRITE), self.used(READ))
        self.meter.units.clear()
        return units

    def fill(self, channels: int) -> Head:
        """Add so many channels, of publishers with ids of 36 characters."""
        head = Head()
        for number in range(channels):
            added = self.heads.add(f"publisher-{number:026}", head, followers=10_000_000)
            assert added is not None
            head = added
        return head


@pytest.mark.parametrize("channels", [1, 16, MOST])
def test_the_head_costs_what_the_model_counts(channels: int) -> None:
    counted = Counted()
    head = counted.fill(channels - 1)
    counted.since()
    assert counted.heads.get() == head
    assert counted.heads.add("p" * 36, head, followers=10_000_000)
    assert counted.since() == promotion_units(channels)
    counted.heads.raise_seq("p" * 36, f"2026-11-20T18:00:00.123Z#{'r' * 36}")
    writes = counted.since().writes
    assert post_units(channels, 10_000_000).writes == 9 + writes
    counted.heads.get(is_consistent=False)
    assert counted.since() == head_read_units(channels)


@pytest.mark.parametrize("posts", [0, 1, 30, WINDOW])
def test_a_window_costs_what_the_model_counts(posts: int) -> None:
    counted = Counted()
    entries = [
        Entry(f"2026-11-20T18:00:00.{number:03}Z#{'r' * 36}", "p" * 36, 1_800_000_000)
        for number in range(posts)
    ]
    channel = partition_of("p" * 36)
    for start in range(0, posts, 25):
        assert not counted.entries.put(channel, entries[start : start + 25])
    counted.since()
    page_of(counted.entries, channel, Range("2026"), start=None, limit=WINDOW, ConsistentRead=True)
    assert counted.since() == window_units(posts)


def test_a_post_costs_the_same_however_many_follow() -> None:
    assert post_units(1, 10_000) == post_units(1, 10_000_000)
    assert post_units(1, 100).writes == 10
    assert post_units(MOST, 10_000_000).writes == 15
