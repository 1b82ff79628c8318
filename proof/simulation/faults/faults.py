"""Faults: the seed draws their rates, and each injected fault is counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)

from fanfold import names
from fanfold.aws.retries import SEND
from fanfold.follows import ring
from fanfold.follows.relation import PRIVACY
from fanfold.follows.sharding import HOT_KEY_RANGE
from proof.model import errors
from proof.model.clock import Clock
from proof.model.dynamodb.capacity import WRITE, Charge, Limits, Meter, Reason, Resource, Throttle
from proof.model.dynamodb.partitions import hash_of
from proof.model.errors import Refused

# Each seed draws a rate for each fault, often 0: a fault in every run would hide others.
RATES = {
    "throttled": (0.0, 0.0, 0.02, 0.2),  # a whole call, without effect
    "refused": (0.0, 0.0, 0.01, 0.05),  # a 5xx or no connection, without effect
    "unanswered": (0.0, 0.0, 0.01, 0.05),  # applied, but the answer is a 5xx or is lost
    "partial": (0.0, 0.0, 0.1, 0.3),  # an item of a batch is unprocessed
    "unsent": (0.0, 0.0, 0.05, 0.2),  # one entry of SendMessageBatch fails
    "duplicated": (0.0, 0.0, 0.05, 0.3),  # a message is received twice
    "crashed": (0.0, 0.0, 0.002, 0.01),  # at any turn of an invocation
    "slow": (0.0, 0.0, 0.01, 0.05),  # a call takes seconds
    "skewed": (0.0, 0.0, 0.5, 1.0),  # an invocation's clock is wrong
    "hot": (0.0, 0.0, 0.9, 1.0),  # a put into the timeline of one of a few users is throttled
}
# How often a change of a follow's row is refused because of another transaction. Otherwise the
# model has no such conflicts, because every call takes effect at one instant.
CONFLICT_RATES = (0.0, 0.0, 0.0, 0.05)
# How often the items of a transaction appear one by one, and how long one is behind another.
APART_RATES = (0.0, 0.0, 0.0, 1.0)
APART_SECONDS = (0.005, 0.3)
# Rare faults of AWS, in a few runs each.
RARE_RATES = {
    "uninvoked": (0.0, 0.0, 0.0, 0.2),  # a batch is received, and its invocation is throttled
    "halfway": (0.0, 0.0, 0.0, 0.05),  # a batch is applied in part, and answered with an error
    "late": (0.0, 0.0, 0.0, 0.02),  # a message is received first after hours
    "belated": (0.0, 0.0, 0.0, 0.02),  # a write lands after its call has timed out
}
BELATED_SECONDS = 8.0
# A copy comes only from an SQS server that was unavailable at the receive or delete of the message.
# Without a limit, an order that fails for hours would have thousands of copies of copies; other
# messages hardly reach it.
MOST_COPIES = 20
WRITES = ("put_item", "update_item", "delete_item", "batch_write_item", "transact_write_items")
LATE_SECONDS = (600.0, 6 * 60 * 60.0)
# The share of runs with one kind of fault only, some of which must be handled without SWEEP.
ALONE = 0.3
# The share of those with hot timelines, which must not delay other followers.
HOT_ALONE = 0.3
# How often an invocation is frozen after a call, and for how long.
FREEZE_RATES = (0.0, 0.0, 0.0, 0.001)
FREEZE_SECONDS = 600.0
# How often a client abandons a request that continues: how long the client waits at most, and how
# long the request, stamped before, waits for a cold start.
IMPATIENCE_RATES = (0.0, 0.0, 0.3)
PATIENCE_SECONDS = 3.0
COLD_START_SECONDS = 9.0
MAX_SKEW_MS = 2_000
SLOW_SECONDS = 8.0
# How long a timeline's partition is hot: perhaps long after the other faults have ended.
HOT_SECONDS = (60.0, 120.0, 120.0, 240.0, 1_800.0)
# Writes a second of one write shard in a crowded run, and perhaps of the whole table.
SHARD_WRITES = 2.0
TABLE_WRITES = (None, None, 8.0)
LEDGER = (names.POSTS.name, names.FANOUTS.name)
# The share of crowded runs in which all publishers' first shards are on one partition.
NEIGHBOURS = 0.3


@dataclass
class Faults:
    """The faults of one run; none is injected once `are_on` is false."""

    random: Random
    clock: Clock
    # Separate generators, so that adding these faults did not change other runs.
    conflicting: Random
    apart: Random
    freezing: Random
    rare: Random
    giving_up: Random
    rates: dict[str, float] = field(default_factory=dict)
    injected: Counter[str] = field(default_factory=Counter)
    are_on: bool = True
    hot: frozenset[str] = frozenset()  # users whose timelines are throttled
    lost: str = ""  # messages with this in their bodies are refused, as long as it is set
    poison: str = ""  # workers that take such messages die
    _unsent: Counter[str] = field(default_factory=Counter)  # in a row, by the message's body
    _copies: Counter[str] = field(default_factory=Counter)  # by the message's id

    def __post_init__(self) -> None:
        self.rates = {name: self.random.choice(rates) for name, rates in RATES.items()}
        self.rates["conflict"] = self.conflicting.choice(CONFLICT_RATES)
        self.rates["apart"] = self.apart.choice(APART_RATES)
        self.rates["stopped"] = self.freezing.choice(FREEZE_RATES)
        self.rates |= {name: self.rare.choice(rates) for name, rates in RARE_RATES.items()}
        self.rates["impatient"] = self.giving_up.choice(IMPATIENCE_RATES)
        if self.random.random() < ALONE:
            is_hot = self.random.random() < HOT_ALONE
            one = "hot" if is_hot else self.random.choice(list(RATES))
            alone = {**dict.fromkeys(self.rates, 0.0), one: self.random.choice(RATES[one][2:])}
            self.rates = alone
        self.hot_until = self.random.choice(HOT_SECONDS)

    def strikes(self, name: str) -> bool:
        """Draw whether a fault happens now, and count it."""
        random = self.rare if name in RARE_RATES else self.random
        if not self.are_on or random.random() >= self.rates[name]:
            return False
        self.injected[name] += 1
        return True

    def leaves_copy(self, message_id: str) -> bool:
        """Draw whether a copy of a received message stays, to be received again."""
        if not self.strikes("duplicated") or self._copies[message_id] == MOST_COPIES:
            return False
        self._copies[message_id] += 1
        return True

    def before(self, service: str, operation: str) -> None:
        """Perhaps fail a call before its effect."""
        if self.strikes("throttled"):
            raise errors.client_error(service, operation, self._throttle(service))
        if self.strikes("refused"):
            raise self._failure(service, operation, EndpointConnectionError, ConnectTimeoutError)

    def conflicts(self, operation: str, request: dict[str, Any]) -> None:
        """Perhaps refuse a change of a row because of another transaction."""
        actions = request.get("TransactItems", ())
        is_update = operation == "update_item" and (
            request["TableName"] == names.FOLLOWING.name
            or request["Key"].get("publisher_id", {"S": ""})["S"].endswith(PRIVACY)
        )
        if not (actions or is_update) or not self.are_on:
            return
        if self.conflicting.random() >= self.rates["conflict"]:
            return
        self.injected["conflict"] += 1
        if is_update:
            refused = Refused("TransactionConflictException", "A transaction changes the item.")
        else:
            reasons = [{"Code": "None"} for _ in actions]
            self.conflicting.choice(reasons)["Code"] = "TransactionConflict"
            more = {"CancellationReasons": reasons}
            refused = Refused("TransactionCanceledException", "Transaction cancelled.", more)
        raise errors.client_error("dynamodb", operation, refused)

    def freezes(self) -> bool:
        """Whether the invocation is frozen after its call."""
        if not self.are_on or self.freezing.random() >= self.rates["stopped"]:
            return False
        self.injected["stopped"] += 1
        return True

    def gaps(self, items: int) -> list[float]:
        """The seconds between the appearances of a transaction's items."""
        if not self.are_on or self.apart.random() >= self.rates["apart"]:
            return [0.0] * items
        self.injected["apart"] += 1
        return [0.0, *(self.apart.uniform(*APART_SECONDS) for _ in range(items - 1))]

    def impatience(self) -> tuple[float, float] | None:
        """How long a client waits for an answer, and its request for a cold start, in seconds.

        None if the client waits until the answer.
        """
        if not self.are_on or self.giving_up.random() >= self.rates["impatient"]:
            return None
        self.injected["impatient"] += 1
        draw = self.giving_up.uniform
        return draw(0.0, PATIENCE_SECONDS), draw(0.0, COLD_START_SECONDS)

    def part_of(self, operation: str, request: dict[str, Any]) -> dict[str, Any] | None:
        """The part of a batch that is applied before the call fails; None if it does not fail."""
        batches = {"batch_write_item": "RequestItems", "send_message_batch": "Entries"}
        if operation not in batches or not self.strikes("halfway"):
            return None
        batch = request[batches[operation]]
        if operation == "send_message_batch":
            return {**request, "Entries": self._some(batch)}
        return {**request, "RequestItems": {name: self._some(batch[name]) for name in batch}}

    def _some(self, items: Sequence[Any]) -> list[Any]:
        return self.rare.sample(items, self.rare.randint(1, len(items)))

    def belated_seconds(self, operation: str) -> float | None:
        """How long after its time-out a write lands; None if it does not time out."""
        if operation not in WRITES or not self.strikes("belated"):
            return None
        return self.rare.uniform(0.0, BELATED_SECONDS)

    def halfway(self, service: str, operation: str) -> Exception:
        """The error of a batch that was applied in part."""
        return self._failure(service, operation, ConnectionClosedError, ReadTimeoutError)

    def late_seconds(self) -> float:
        """How late a message is first received."""
        return self.rare.uniform(*LATE_SECONDS) if self.strikes("late") else 0.0

    def after(self, service: str, operation: str) -> None:
        """Perhaps lose the answer of a call that was applied."""
        if self.strikes("unanswered"):
            raise self._failure(service, operation, ConnectionClosedError, ReadTimeoutError)

    def unprocessed(self, _operation: str, _table: str, count: int) -> Collection[int]:
        """The positions of a batch that are unprocessed."""
        return [number for number in range(count) if self.strikes("partial")]

    def unsent(self, _queue: str, entries: Sequence[dict[str, Any]]) -> Collection[int]:
        """The positions of a SendMessageBatch that fail."""
        failed = [
            number
            for number, entry in enumerate(entries)
            if self._is_hit("lost", self.lost, entry["MessageBody"]) or self.strikes("unsent")
        ]
        for number, entry in enumerate(entries):
            body = entry["MessageBody"]
            self._unsent[body] = self._unsent[body] + 1 if number in failed else 0
            if self._unsent[body] == SEND.attempts:
                self.injected["given up"] += 1
        return failed

    def is_poisonous(self, messages: Sequence[dict[str, Any]]) -> bool:
        """Whether one of these messages kills its worker."""
        return any(self._is_hit("poisoned", self.poison, each["Body"]) for each in messages)

    def _is_hit(self, fault: str, what: str, body: str) -> bool:
        if not what or what not in body:
            return False
        self.injected[fault] += 1
        return True

    def is_hot(self, user: str) -> bool:
        """Whether the timeline of this user throttles now."""
        if user not in self.hot or self.clock.monotonic() >= self.hot_until:
            return False
        if self.random.random() >= self.rates["hot"]:
            return False
        self.injected["hot"] += 1
        return True

    def skew_ms(self) -> int:
        """The error of an invocation's clock."""
        return self.random.randint(-MAX_SKEW_MS, MAX_SKEW_MS) if self.strikes("skewed") else 0

    def seconds(self) -> float:
        """The duration of a call."""
        if self.strikes("slow"):
            return self.random.uniform(0.0, SLOW_SECONDS)
        return self.random.uniform(0.001, 0.02)

    def _failure(self, service: str, operation: str, *lost: type[BotoCoreError]) -> Exception:
        """A failed connection, or a 5xx."""
        kind = self.random.choice((*lost, None))
        if kind is None:
            return errors.client_error(service, operation, _unavailable(service))
        return kind(endpoint_url=f"https://{service}.example")

    def _throttle(self, service: str) -> Refused:
        if service != "dynamodb":
            code = {"sqs": "RequestThrottled", "lambda": "TooManyRequestsException"}[service]
            return Refused(code, "The request was throttled.", status=429)
        code = self.random.choice(
            (
                "ProvisionedThroughputExceededException",
                "ThrottlingException",
                "RequestLimitExceeded",
            )
        )
        return Refused(code, "Throughput exceeds the current capacity.")


@dataclass
class HotPartitions(Meter):
    """Counts units, and throttles the timelines of some users for a while.

    A throttle, if there is one, is of the followers table (`crowd`).
    """

    is_hot: Callable[[str], bool] = lambda _user: False
    injected: Counter[str] = field(default_factory=Counter)
    # Write units of posts and of their fan-outs, with those of the indexes, by `ref_id`.
    book_keeping: Counter[str] = field(default_factory=Counter)

    def charge(self, charges: Sequence[Charge]) -> list[Reason]:
        """Count the charges, unless one of them is throttled."""
        for charge in charges:
            is_put = charge.resource.table == names.TIMELINES.name and charge.kind == WRITE
            if is_put and self.is_hot(charge.partition_key):
                return [Reason(HOT_KEY_RANGE, charge.resource.arn)]
        if reasons := super().charge(charges):
            self.injected["crowded"] += 1
        elif charges and charges[0].kind == WRITE and charges[0].resource.table in LEDGER:
            # The indexes' charges follow that of the row.
            units = sum(charge.units for charge in charges)
            self.book_keeping[charges[0].partition_key] += units  # type: ignore[assignment]
        return reasons


def crowd(clock: Clock, random: Random) -> Throttle:
    """A throttle of the followers table: a few writes a second for each write shard.

    Perhaps the whole table has a limit, or the first shards of all publishers share a partition.
    """
    table_writes, neighbours = random.choice(TABLE_WRITES), random.random() < NEIGHBOURS
    limits = Limits(
        partition_writes=SHARD_WRITES,
        partition_reads=math.inf,
        max_write_request_units=table_writes,
    )

    def partition(resource: Resource, key: Any, _partitions: int) -> int:
        is_lowest = str(key).endswith(ring.shard_key("", 0, 0))
        return 0 if neighbours and is_lowest else hash_of(f"{resource}{key}")

    followers = Resource(names.FOLLOWERS.name)
    return Throttle(clock, limits={followers: limits}, locate=partition)


def _unavailable(service: str) -> Refused:
    code = "InternalServerError" if service == "dynamodb" else "ServiceUnavailable"
    return Refused(code, "The service failed.", status=500 if service == "dynamodb" else 503)
