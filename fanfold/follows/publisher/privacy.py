"""Who approves its followers: one row of each publisher who ever chose, remembered for seconds.

The row is not the publisher's own, which each post updates: transactions that check it would fail.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from fanfold import clock, names
from fanfold.aws.items import Item, Value, expressions, get_number, number, text
from fanfold.follows.relation import PRIVACY, Privacy

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# How old a remembered privacy may be, from before it was read.
SECONDS = 5
# Publishers that one container remembers; at 200 bytes each, 2 MB.
PUBLISHERS = 10_000
# After this, all doors know a change: what they have remembered until it landed is read again.
ENFORCED_MS = (names.API.settled_seconds + SECONDS) * 1000


@dataclass(frozen=True)
class Privacies:
    """The privacy of all publishers; without a row, it is the stage's."""

    client: DynamoDBClient
    table: str
    private_by_default: bool = False
    _known: MutableMapping[str, tuple[float, Privacy]] = field(
        default_factory=lambda: LRUCache(PUBLISHERS)
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seconds: Callable[[], float] = field(default_factory=clock.Lasting)

    def forget(self) -> None:
        """Empty the cache, as after a cold start."""
        with self._lock:
            self._known.clear()

    def known(self, publisher_id: str, *, at_least: int = 0) -> Privacy:
        """The privacy, at most `SECONDS` old, and not before this version."""
        with self._lock:
            began = self._seconds()
            read_at, privacy = self._known.get(publisher_id, (began, None))
        if privacy and began - read_at <= SECONDS and privacy.version >= at_least:
            return privacy
        privacy = self.read(publisher_id)
        if privacy.version < at_least:  # the row was lost
            return privacy._replace(is_private=True)
        with self._lock:
            self._known[publisher_id] = began, privacy
        return privacy

    def read(self, publisher_id: str) -> Privacy:
        """Read consistently."""
        answer = self.client.get_item(
            TableName=self.table, Key=privacy_key(publisher_id), ConsistentRead=True
        )
        return self.of(answer.get("Item", {}))

    def replace(self, publisher_id: str, seen: Privacy, new: Privacy) -> bool:
        """Store a privacy in place of the one seen; False if it has changed meanwhile."""
        sets: dict[str, Value] = {
            "private": {"BOOL": new.is_private},
            "version": number(new.version),
            "since": number(new.since),
            "asked_at": number(new.asked_at),
        }
        try:
            self.client.update_item(
                TableName=self.table,
                Key=privacy_key(publisher_id),
                **expressions(sets=sets, **_as_read(seen, "asked_at")),
            )
        except (
            self.client.exceptions.ConditionalCheckFailedException,
            self.client.exceptions.TransactionConflictException,
        ):
            return False
        return True

    def unchanged(self, publisher_id: str, seen: Privacy) -> dict[str, Any]:
        """The action of a transaction that fails if the privacy has changed since it was `seen`."""
        check = {
            "TableName": self.table,
            "Key": privacy_key(publisher_id),
            **expressions(**_as_read(seen)),
        }
        return {"ConditionCheck": check}

    def of(self, item: Item) -> Privacy:
        """The privacy in an item of the table, or the stage's if it is empty."""
        if "version" not in item:
            return Privacy(self.private_by_default)
        is_private = bool(item["private"]["BOOL"])
        return Privacy(is_private, *(get_number(item, each) for each in Privacy._fields[1:]))


def _as_read(seen: Privacy, *names: str) -> dict[str, Any]:
    """The condition that a row still has this version, and these other attributes."""
    if not seen.version:
        return {"condition": "attribute_not_exists(#version)"}
    all_of = {name: number(getattr(seen, name)) for name in ("version", *names)}
    return {
        "condition": " AND ".join(f"#{name} = :{name}_seen" for name in all_of),
        "values": {f":{name}_seen": value for name, value in all_of.items()},
    }


def privacy_key(publisher_id: str) -> dict[str, dict[str, str]]:
    """The key of a publisher's choice."""
    return {"publisher_id": text(f"{publisher_id}{PRIVACY}")}
