"""The publishers table: how many write shards each publisher's followers are spread over.

Most publishers are at level 0: they have no row, or one without a `level`, which counts their posts
(`fanfold/fanout/publishing/post_rate.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanfold import clock, invariants
from fanfold.aws.items import Item, expressions, get_number, get_text, number, text
from fanfold.aws.retries import STEP
from fanfold.errors import TryLater
from fanfold.follows.sharding import WINDOW_SECONDS, Growth, Shards, raised
from fanfold.settings import HIGHEST_LEVEL

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Tolerated clock skew: one minute.
FAR_WINDOWS = 60 // WINDOW_SECONDS
# The key of the row that applies to all publishers; an id cannot contain '#'.
ALL = "#all"


def shards_of(item: Item) -> Shards:
    """The shards in a publisher's row; most publishers have an empty one."""
    level = _level(item, "level")
    history = tuple(
        Growth(*(int(value["N"]) for value in growth["L"]))
        for growth in item.get("shard_history", {}).get("L", [])
    )
    is_of_history = not history or history[-1].level == level
    invariants.check("level_history", is_of_history, publisher_id=get_text(item, "publisher_id"))
    return Shards(
        level=level,
        version=get_number(item, "version"),
        last_updated=get_number(item, "last_updated"),
        history=history,
        window=get_number(item, "window"),
        follows=get_number(item, "follows"),
        follows_before=get_number(item, "follows_before"),
    )


@dataclass(frozen=True)
class PublishersTable:
    client: DynamoDBClient
    table: str

    def shards(self, publisher_id: str, *, consistent: bool = True) -> Shards:
        """The publisher's shards.

        Read consistently, the level is not lower than that of any edge acknowledged before.
        """
        answer = self.client.get_item(
            TableName=self.table, Key=_key(publisher_id), ConsistentRead=consistent
        )
        return shards_of(answer.get("Item", {}))

    def wanted(self, publisher_id: str) -> dict[str, Any]:
        """What BatchGetItem takes to read the publisher's row, consistently."""
        return {"Keys": [_key(publisher_id)], "ConsistentRead": True}

    def update(self, publisher_id: str, *, seen: Shards, shards: Shards) -> bool:
        """Store grown shards in place of those `seen`; False if the row has changed meanwhile.

        Also False if our own update was repeated because its answer was lost. The growth is then in
        the row's history, but nobody is notified of it.
        """
        as_seen = "#version = :seen" if seen.version else "attribute_not_exists(#version)"
        history = [
            {"L": [number(growth.level), number(growth.at), number(growth.rate)]}
            for growth in shards.history
        ]
        return self._update(
            publisher_id,
            sets={
                "level": number(shards.level),
                "version": number(shards.version),
                "last_updated": number(shards.last_updated),
                "shard_history": {"L": history},
            },
            condition=as_seen,
            values={":seen": number(seen.version)} if seen.version else {},
        )

    def raise_to(
        self, publisher_id: str, level: int, *, now_ms: int, check: Callable[[], Any] = lambda: None
    ) -> int:
        """Raise the publisher's level to at least `level`; returns the level it has then.

        Raises `TryLater` if others keep changing it. `check` runs before each call, and may raise.
        """
        for _ in clock.tries(*STEP):  # one fails only if the publisher grows meanwhile
            check()
            seen = self.shards(publisher_id)
            if seen.level >= level:
                return seen.level
            shards = raised(seen, level=level, now_ms=now_ms)
            check()
            if self.update(publisher_id, seen=seen, shards=shards):
                return level
        raise TryLater(f"The level of '{publisher_id}' changed too often meanwhile; try again.")

    def static_level(self) -> int | None:
        """The level at which the edges of all publishers are written; None if each has its own.

        Not read consistently: writers cache it for a minute anyway.
        """
        answer = self.client.get_item(TableName=self.table, Key=_key(ALL))
        item = answer.get("Item", {})
        return _level(item, "static_level") if "static_level" in item else None

    def set_static_level(self, level: int | None) -> None:
        """Write all publishers at one level, or with None each at its own again."""
        if level is None:
            self._update(ALL, removes=["static_level"])
        else:
            self._update(ALL, sets={"static_level": number(level)})

    def count(self, publisher_id: str, follows: int, *, now_ms: int) -> None:
        """Count accepted follows in the window of `now_ms`, unless a later one has begun."""
        window = int(now_ms / 1000 // WINDOW_SECONDS)
        begin = {"window": number(window), "follows": number(follows)}
        is_counted = self._update(
            publisher_id,
            adds={"follows": number(follows)},
            condition="#window = :now",
            values={":now": number(window)},
        ) or self._update(
            publisher_id,
            sets={**begin, "follows_before": "#follows"},
            condition="#window = :last",
            values={":last": number(window - 1)},
        )
        if is_counted:
            return
        # A window far ahead comes from a wrong clock. Keeping it would stop the count until then.
        self._update(
            publisher_id,
            sets={**begin, "follows_before": number(0)},
            condition="attribute_not_exists(#window) OR #window < :window OR #window > :far",
            values={":far": number(window + FAR_WINDOWS)},
        )

    def _update(self, publisher_id: str, **parts: Any) -> bool:
        """Update a row; False if the condition is not met. `parts` as `expressions` takes them."""
        try:
            self.client.update_item(
                TableName=self.table, Key=_key(publisher_id), **expressions(**parts)
            )
        except self.client.exceptions.ConditionalCheckFailedException:
            return False
        return True


def _level(item: Item, name: str) -> int:
    """A level, bounded: one written by hand must not send readers to a million shards."""
    level = min(HIGHEST_LEVEL, max(0, get_number(item, name)))
    is_bounded = level == get_number(item, name)
    invariants.check("publisher_level", is_bounded, publisher_id=get_text(item, "publisher_id"))
    return level


def _key(publisher_id: str) -> dict[str, dict[str, str]]:
    return {"publisher_id": text(publisher_id)}
