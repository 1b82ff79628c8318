"""What a deployed function is told by its environment: one field, one variable."""

import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from fanfold import names

# 1,024 write shards, a million follows a second: no stage may ask for more. PLAN reads every shard
# of a small publisher: at this level 2,047 queries, 2 s of CPU through boto3, of its 60 s.
HIGHEST_LEVEL = 10


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every setting of the run time. The variable of `timelines_table` is `TIMELINES_TABLE`.

    All values are strings on the wire; whole numbers are read back as `int`.
    """

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

    # What speaks to DynamoDB in DELIVER and QUERY, one of `names.TRANSPORTS`.
    transport: str = names.LIBCURL
    # How many entries a second one worker of a lane may write, so that all workers of the lane
    # together stay within its share of the table's write capacity (budgets.py).
    express_worker_rate: int = 10_000
    bulk_worker_rate: int = 2_125
    # The claim of the verified token that names the user.
    user_claim: str = "sub"
    # How long an entry, a post and a ledger row live. One month, as OPENREC.tv keeps them.
    retention_days: int = 30
    # How many publishers one user may follow; it bounds the growth of one timeline's partition.
    max_follows: int = 5000
    # Write shards of one publisher: 2^8 at most, for 256,000 follows a second.
    max_level: int = 8
    # Milliseconds between two growths of one publisher: what a growth did shows by then.
    growth_cooldown_ms: int = 10_000
    # Ids of the event source mappings. Only SWEEP is told, because a mapping names its function,
    # and so no function that is fed by one can name the mapping.
    publish_mapping: str = ""
    express_mapping: str = ""
    bulk_mapping: str = ""

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> "Settings":
        """Read every field from `env`; a missing one without a default raises `KeyError`."""
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
        """The variables that `from_env` reads back as an equal value."""
        return {f.name.upper(): str(getattr(self, f.name)) for f in fields(self)}
