"""Channels in a run: their settings, and what calls show of them.

Puts show which posts are in a channel, and completions show that a post was delivered by one. The
observer never reads whether a publisher has a channel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fanfold import names
from fanfold.aws.items import get_text
from fanfold.aws.retries import BATCH
from fanfold.channels import head, head_table, union
from fanfold.channels.head import HEAD, MOST, Head, head_of, partition_of
from fanfold.channels.windows import WINDOW
from fanfold.fanout.row import CHANNEL, COMPLETE
from fanfold.ids import split_sort_key
from proof.simulation.world.scheduler import Patch

SIGN = partition_of("")
# The share of pages before which Lambda ends the container.
COLD = 0.05


@dataclass(frozen=True)
class ChannelSettings:
    """The channel settings of a stage; by default none, as in the product."""

    threshold: int = 0  # followers from which on a publisher is promoted
    most: int = MOST
    window: int = WINDOW  # entries of a channel that a container keeps
    containers: int = 0  # that answer pages in turn; 0 for as few as possible

    def patches(self) -> list[Patch]:
        """The settings that are constants of the product."""
        mosts: list[Patch] = [(module, "MOST", self.most) for module in (head, head_table)]
        return [*mosts, (union, "WINDOW", self.window)]


@dataclass
class ObservedChannels:
    """The observed channels of one run."""

    random: Random
    stage: ChannelSettings = field(default_factory=ChannelSettings)
    # When each entry was first in its publisher's channel, by sort key, and whose it is.
    put_ms: dict[str, float] = field(default_factory=dict)
    publishers: dict[str, str] = field(default_factory=dict)
    # When the service first said that a post was delivered by its channel, by `ref_id`.
    complete_ms: dict[str, float] = field(default_factory=dict)
    puts: int = 0
    given_up: int = 0  # puts whose every attempt was refused
    # Called after a post was put into a publisher's channel, in the turn of its writer.
    when_put: Callable[[str], object] = lambda _publisher: None
    # Called after a change of the head, with the publisher of its newest channel, if one was added.
    when_head_changed: Callable[[str | None], object] = lambda _added: None
    _version: int = 0  # of the head
    _refused: Counter[str] = field(default_factory=Counter)  # since it was put last, by sort key
    container: int | None = None  # answers all pages, if it is set

    def applied(self, operation: str, request: dict[str, Any], answer: Any, now_ms: float) -> None:
        """A call was applied."""
        if operation == "update_item" and is_of_head(request):
            self._head_changed(head_of(answer["Attributes"]))
        elif operation == "batch_write_item":
            left = answer.get("UnprocessedItems", {}).get(names.TIMELINES.name, ())
            for item in channel_puts(request):
                if {"PutRequest": {"Item": item}} not in left:
                    self._put(item, now_ms)
                else:
                    self._refuse(item)

    def _refuse(self, item: dict[str, Any]) -> None:
        key = item["sort_key"]["S"]
        self._refused[key] += 1
        self.given_up += self._refused[key] % BATCH.attempts == 0

    def _head_changed(self, now: Head) -> None:
        newest = [each for each in now.channels.values() if each.version == now.version]
        is_added, self._version = now.version > self._version, now.version
        self.when_head_changed(newest[0].publisher_id if newest and is_added else None)

    def _put(self, item: dict[str, Any], now_ms: float) -> None:
        key, publisher = item["sort_key"]["S"], get_text(item, "publisher_id")
        self._refused[key] = 0
        self.put_ms.setdefault(key, now_ms)
        self.publishers[key] = publisher
        self.puts += 1
        self.when_put(publisher)

    def completed(self, row: dict[str, Any], now_ms: float) -> None:
        """A row of the ledger has changed to this one."""
        if row["state"]["S"] == COMPLETE and get_text(row, "by") == CHANNEL:
            self.complete_ms.setdefault(row["fanout_id"]["S"], now_ms)

    def shared(self) -> Iterator[tuple[str, str, str, float]]:
        """Sort key, publisher, `ref_id` and time of all posts that were ever in a channel."""
        for key, at_ms in self.put_ms.items():
            yield key, self.publishers[key], split_sort_key(key)[1], at_ms

    def choose(self) -> int:
        """The number of the container that answers the next page."""
        if self.container is not None:
            return self.container
        return self.random.randrange(self.stage.containers)

    def ends_container(self) -> bool:
        """Whether a cold container replaces the chosen one for the next page."""
        return self.container is None and self.random.random() < COLD


def is_channel(user: str) -> bool:
    """Whether a timeline is a channel."""
    return user.startswith(SIGN)


def channel_puts(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The entries that a BatchWriteItem puts into channels."""
    for put in request["RequestItems"].get(names.TIMELINES.name, ()):
        if is_channel(put["PutRequest"]["Item"]["user_id"]["S"]):
            yield put["PutRequest"]["Item"]


def is_of_head(request: Mapping[str, Any]) -> bool:
    """Whether a request changes the head."""
    key = request.get("Key", {}).get("publisher_id", {})
    return request.get("TableName") == names.PUBLISHERS.name and key == {"S": HEAD}
