"""The one home of every name that deploy time and run time share: tables, keys, queues, outputs.

Standard library only: synthesizing the stack needs neither boto3 nor pydantic.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Index:
    """A global secondary index, always KEYS_ONLY: a projected attribute is written twice."""

    name: str
    partition_key: str
    sort_key: str | None = None


@dataclass(frozen=True)
class Table:
    """An on-demand table whose keys are all strings.

    `name` is its CDK id, the stem of its stack output (`<name>Table`) and of its setting
    (`<name>_table`). `ttl` is the attribute with the epoch second after which DynamoDB may delete.
    """

    name: str
    partition_key: str
    sort_key: str | None = None
    indexes: tuple[Index, ...] = ()
    ttl: str | None = None

    @property
    def output(self) -> str:
        """Name of the stack output that holds the physical table name."""
        return f"{self.name}Table"

    @property
    def setting(self) -> str:
        """Name of the field of `Settings` that holds the physical table name."""
        return f"{self.name.lower()}_table"


EXPIRES_AT = "expires_at"

# The outbox is read by backfill: a publisher's own posts, newest first.
OUTBOX = Index("outbox", "publisher_id", "sort_key")
# Sparse: `open_fanout` repeats the id and is there only until the fan-out is complete, so the index
# holds the open ones and no key of it is hot (a constant such as status=OPEN would be).
OPEN = Index("open", "open_fanout")
# Sparse likewise: those that SWEEP gave up. Apart from the open ones, so that however many there
# are, they keep nobody from being looked at, and can be counted every minute.
GIVEN_UP = Index("stalled", "stalled_fanout")

TIMELINES = Table("Timelines", "user_id", "sort_key", ttl=EXPIRES_AT)
FOLLOWERS = Table("Followers", "shard_id", "edge")
FOLLOWING = Table("Following", "user_id", "publisher_id", ttl=EXPIRES_AT)
PUBLISHERS = Table("Publishers", "publisher_id")
POSTS = Table("Posts", "ref_id", indexes=(OUTBOX,), ttl=EXPIRES_AT)
FANOUTS = Table("Fanouts", "fanout_id", indexes=(OPEN, GIVEN_UP), ttl=EXPIRES_AT)
READERS = Table("Readers", "user_id")

TABLES = (TIMELINES, FOLLOWERS, FOLLOWING, PUBLISHERS, POSTS, FANOUTS, READERS)


@dataclass(frozen=True)
class Queue:
    """A standard queue with its own dead-letter queue; `name` is its CDK id and output stem."""

    name: str

    @property
    def url_output(self) -> str:
        """Name of the stack output that holds the queue's URL."""
        return f"{self.name}QueueUrl"

    @property
    def dlq_url_output(self) -> str:
        """Name of the stack output that holds the URL of its dead-letter queue."""
        return f"{self.name}DlqUrl"

    @property
    def url_setting(self) -> str:
        """Name of the field of `Settings` that holds the queue's URL."""
        return f"{self.name.lower()}_queue_url"

    @property
    def dlq_url_setting(self) -> str:
        """Name of the field of `Settings` that holds the URL of its dead-letter queue."""
        return f"{self.name.lower()}_dlq_url"

    @property
    def max_receives_setting(self) -> str:
        """Name of the field of `Settings` that says how often a message of the queue is tried."""
        return f"{self.name.lower()}_max_receives"

    @property
    def mapping_setting(self) -> str:
        """Name of the field of `Settings` with the id of what feeds the queue to its worker."""
        return f"{self.name.lower()}_mapping"


PUBLISH = Queue("Publish")
EXPRESS = Queue("Express")
BULK = Queue("Bulk")
RELATION = Queue("Relation")

QUEUES = (PUBLISH, EXPRESS, BULK, RELATION)

API_URL_OUTPUT = "ApiUrl"
USER_POOL_ID_OUTPUT = "UserPoolId"
USER_POOL_CLIENT_ID_OUTPUT = "UserPoolClientId"

METRICS_NAMESPACE = "Fanfold"

# What speaks to DynamoDB in DELIVER and QUERY; the first unless a stage says otherwise.
LIBCURL = "libcurl"
BOTO3 = "boto3"
TRANSPORTS = (LIBCURL, BOTO3)
