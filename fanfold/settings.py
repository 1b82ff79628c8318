"""The settings of the deployed functions: each field is an environment variable."""

import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from fanfold import names

# The most that a stage may set as `max_level`: 1,024 write shards, for a million follows a second.
# PLAN reads every shard of a small publisher: 2,047 queries, which take 2 s of CPU of its 60 s.
HIGHEST_LEVEL = 10
# The most that a stage may set as `backfill`: so many writes may each follow of a user cost.
MOST_BACKFILL = 30
# A stage that does not use them is deployed as if there were none: not even a variable says so.
_SAID_IF_SET = ("channel_threshold", "longest_retention_days")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Strings and whole numbers. The variable of `timelines_table` is `TIMELINES_TABLE`."""

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

    # The library that calls AWS, one of `names.TRANSPORTS`.
    transport: str = names.LIBCURL
    # Entries a second of one worker, so that all workers of the queue stay within its share of the
    # table's write capacity (budgets.py).
    publish_worker_rate: int = 10_000
    express_worker_rate: int = 10_000
    bulk_worker_rate: int = 2_125
    relation_worker_rate: int = 200
    # The same where the table throttles it.
    publish_slowest_rate: int = 400
    express_slowest_rate: int = 100
    bulk_slowest_rate: int = 250
    # What a worker may write at once after a rest.
    publish_burst: int = 1_000
    express_burst: int = 2_000
    # The claim of the verified token that names the user.
    user_claim: str = "sub"
    # Whom each sender of the publish queue may act for (`senders.py`); without any, whoever may
    # send may act for everybody.
    senders: str = ""
    # Who may read posts apart from timelines, one of `names.READER_KINDS`.
    post_readers: str = names.USERS
    # Likewise, who may see a publisher's followers and their number. Names of users are nobody
    # else's business unless a stage says so.
    follower_readers: str = names.PUBLISHER
    # The life of an entry, a post and a ledger row. OPENREC.tv keeps them for a month too.
    retention_days: int = 30
    # The longest that it ever was in this stage, if it was longer: entries of that time hide and
    # show again with it, so marks of unfollows and demoted channels outlive it.
    longest_retention_days: int = 0
    # The most publishers that one user may follow, which bounds the growth of a timeline.
    max_follows: int = 5000
    # Posts of one publisher: so many at once, and in each minute; 0 for no limit. Over it, the API
    # refuses, and messages of the queue are delivered by the bulk lane.
    publishes_per_minute: int = 60
    # Follows of one user over HTTP: so many at once, and in each day; 0 for no limit. It bounds the
    # tombstones that one user leaves.
    follows_per_day: int = 1000
    # A publisher with so many followers, by PLAN's estimate, gets a channel (`channels/`): one
    # timeline that all of them read. 0 for no channels at all.
    channel_threshold: int = 0
    # How many of a publisher's newest posts a new follow brings; 0 for none.
    backfill: int = MOST_BACKFILL
    # A publisher has at most 2^max_level write shards: 256, for 256,000 follows a second.
    max_level: int = 8
    # Between two growths of a publisher. By then, the effect of the first can be measured.
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
    def from_env(cls, env: Mapping[str, str] = os.environ) -> "Settings":
        """Raises `KeyError` with all missing variables of fields without a default."""
        values: dict[str, Any] = {}
        missing: list[str] = []
        for field in fields(cls):
            raw = env.get(field.name.upper())
            if raw is not None:
                values[field.name] = int(raw) if isinstance(field.default, int) else raw
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
