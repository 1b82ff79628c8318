"""The settings of the deployed functions: each field is an environment variable."""

from __future__ import annotations  # The rules cost a cold start nothing: no function reads them.

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any

from fanfold import names

# The most that a stage may set as `max_level`: 1,024 write shards, for a million follows a second.
# PLAN reads every shard of a small publisher: 2,047 queries, which take 2 s of CPU of its 60 s.
HIGHEST_LEVEL = 10
# The most that a stage may set as `retention_days`: ten years.
MOST_RETENTION_DAYS = 3650
# The most that a stage may set as `backfill`: the writes that one follow may cost.
MOST_BACKFILL = 30
# Functions get these variables only if the stage sets them.
_SAID_IF_SET = (
    "channel_threshold",
    "longest_retention_days",
    "history",
    "private_by_default",
)

# By the type of a field's default.
_READ: dict[type, Callable[[str], Any]] = {bool: str(True).__eq__, int: int}


class SettingRule:
    """The values that a setting takes, in words and as a predicate."""

    def __init__(self, words: str, allows: Callable[[Any], object], *, quotes: bool = True) -> None:
        self.words = words
        self._allows = allows
        self._quotes = quotes

    def fault(self, value: Any) -> str:
        """What a value must be instead, such as `must be from 1 to 9, not 0`; empty if it may."""
        if self._allows(value):
            return ""
        return f"must be {self.words}" + (f", not {value!r}" if self._quotes else "")


def bounds(low: int, high: int) -> SettingRule:
    """Numbers from `low` to `high`, both included."""
    return SettingRule(f"from {low} to {high}", lambda value: low <= value <= high)


def one_of(*values: object) -> SettingRule:
    return SettingRule(f"one of {', '.join(map(str, values))}", values.__contains__)


def pattern(regex: str, words: str) -> SettingRule:
    """Whole texts, or each of several; a refusal gives the `words` and not the value."""

    def allows(value: str | tuple[str, ...]) -> bool:
        return all(re.fullmatch(regex, each) for each in ([value] if type(value) is str else value))

    return SettingRule(words, allows, quotes=False)


# A cold start pays for each generated method; those of the subclasses suffice.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class StageSettings:
    """What a stage chooses (`-c NAME=VALUE`) and every function reads under the same name.

    Each has its rule and its text in docs/settings.md. Bounds without a reason catch typing errors.
    """

    # OPENREC.tv keeps them for a month too.
    retention_days: Annotated[int, bounds(1, MOST_RETENTION_DAYS)] = 30
    """How long entries live; posts live 14 days longer."""
    # A raised retention shows entries of that time again, so marks of unfollows and demoted
    # channels outlive it.
    longest_retention_days: Annotated[int, bounds(0, MOST_RETENTION_DAYS)] = 0
    """The longest `retention_days` that the stage ever had, if more. [Give it when you lower the
    retention](operations.md#change-the-retention), and never lower it: `fanfold preflight` refuses
    such a deploy."""
    # Bounds the growth of a timeline.
    max_follows: Annotated[int, bounds(1, 1_000_000)] = 5000
    """How many publishers a user may follow."""
    # Bounds the tombstones that one user leaves.
    follows_per_day: Annotated[int, bounds(0, 1_000_000)] = 1000
    """Follows of a user over HTTP, at once and each day; 0: no limit."""
    # DynamoDB counts no more of one publisher than 60,000.
    publishes_per_minute: Annotated[int, bounds(0, 60_000)] = 60
    """Posts of a publisher, at once and each minute; more are [refused, or delivered
    later](decisions/0037-rates.md); 0: no limit."""
    # Nobody has that many: the maximum leaves channels to operators.
    channel_threshold: Annotated[int, bounds(0, 1_000_000_000)] = 0
    """Publishers with this many followers, by PLAN's estimate, get [a
    channel](operations.md#channels), at most 64. 1000000000: only those that `fanfold channels add`
    names; 0: none."""
    backfill: Annotated[int, bounds(0, MOST_BACKFILL)] = MOST_BACKFILL
    """Newest posts that a new follow brings; 0: none."""
    # By default 256 write shards, for 256,000 follows a second.
    max_level: Annotated[int, bounds(0, HIGHEST_LEVEL)] = 8
    """A publisher has at most 2^`max_level` write shards."""
    post_readers: Annotated[str, one_of(*names.READER_KINDS)] = names.USERS
    """Who reads a feed, or a single post: every signed-in user, or its publisher alone. Those of a
    private publisher are never for others than its followers."""
    # Followers are private unless a stage says otherwise.
    follower_readers: Annotated[str, one_of(*names.READER_KINDS)] = names.PUBLISHER
    """Who sees followers and their number: every signed-in user, or the publisher alone. Those of a
    private publisher are never for others than its followers."""
    private_by_default: bool = False
    """Publishers approve their followers, unless they [go public](api.md#private-publishers)."""
    user_claim: Annotated[
        str, pattern(r"[A-Za-z0-9_:./-]{1,128}", "the name of a claim of the token, such as sub")
    ] = "sub"
    """The claim of the token that has the user's id."""
    transport: Annotated[str, one_of(*names.TRANSPORTS)] = names.LIBCURL
    """The library that calls AWS; boto3 is slower."""
    history: bool = False
    """Logs [what outsiders need to judge the stage](verified.md#histories); billed."""


@dataclass(frozen=True, kw_only=True)
class Settings(StageSettings):
    """Strings, whole numbers, booleans. The variable of `timelines_table` is `TIMELINES_TABLE`."""

    timelines_table: str
    followers_table: str
    following_table: str
    publishers_table: str
    posts_table: str
    fanouts_table: str
    readers_table: str

    publish_queue_url: str
    publish_dlq_url: str
    express_queue_url: str
    express_dlq_url: str
    bulk_queue_url: str
    bulk_dlq_url: str
    relation_queue_url: str
    relation_dlq_url: str

    # Entries a second of one worker, so that all workers of the queue stay within its share of the
    # table's write capacity (budgets.py).
    publish_worker_rate: int = 10_000
    express_worker_rate: int = 10_000
    bulk_worker_rate: int = 2_125
    relation_worker_rate: int = 200
    # A worker's rate while the table throttles it.
    publish_slowest_rate: int = 400
    express_slowest_rate: int = 100
    bulk_slowest_rate: int = 250
    # What a worker may write at once after a rest.
    publish_burst: int = 1_000
    express_burst: int = 2_000
    # Whom each sender of the publish queue may act for (`aws/senders.py`); if empty, every sender
    # may act for everybody.
    senders: str = ""
    # The pause between two growths of a publisher, in which the first one's effect shows.
    growth_cooldown_ms: int = 10_000
    # Ids of the event source mappings, for SWEEP alone: a mapping refers to its function, so in
    # CloudFormation the function cannot refer to the mapping.
    publish_mapping: str = ""
    express_mapping: str = ""
    bulk_mapping: str = ""

    @property
    def entry_days(self) -> int:
        """How long an entry may be in a timeline, whenever it was written."""
        return max(self.retention_days, self.longest_retention_days)

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Settings:
        """Raises `KeyError` with all missing variables of fields without a default."""
        values: dict[str, Any] = {}
        missing: list[str] = []
        for field in fields(cls):
            raw = env.get(field.name.upper())
            if raw is not None:
                values[field.name] = _READ.get(type(field.default), str)(raw)
            elif field.default is MISSING:
                missing.append(field.name.upper())
        if missing:
            raise KeyError(f"The environment lacks {', '.join(missing)}.")
        return cls(**values)

    def to_env(self) -> dict[str, str]:
        return {
            field.name.upper(): str(value)
            for field in fields(self)
            if (value := getattr(self, field.name)) or field.name not in _SAID_IF_SET
        }
