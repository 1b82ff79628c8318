"""What deploy time and run time share: tables, functions, queues, outputs and their numbers.

Standard library only: synthesizing the stack needs no boto3.
"""

from typing import NamedTuple


class Index(NamedTuple):
    """A global secondary index. All are KEYS_ONLY: a projected attribute is written twice."""

    name: str
    partition_key: str
    sort_key: str | None = None


class Table(NamedTuple):
    """An on-demand table with string keys; `name` is its CDK id.

    `ttl` names the attribute with the epoch second after which DynamoDB may delete the item.

    With `takes_bursts`, the table gets the stage's maximum of write units, and is warmed.
    With `keys_run_hot`, many users read or write one key, and a stage may let CloudWatch record the
    throttled keys. Its indexes are billed for that too, so other tables go without.
    With `heard_by_others`, changes may be streamed to other systems.
    """

    name: str
    partition_key: str
    sort_key: str | None = None
    indexes: tuple[Index, ...] = ()
    ttl: str | None = None
    takes_bursts: bool = False
    keys_run_hot: bool = False
    heard_by_others: bool = False

    @property
    def output(self) -> str:
        """The stack output with the physical table name."""
        return f"{self.name}Table"

    @property
    def stream_output(self) -> str:
        """The stack output with the ARN of its stream."""
        return f"{self.name}StreamArn"

    @property
    def setting(self) -> str:
        """The field of `Settings` with the physical table name."""
        return f"{self.name.lower()}_table"


EXPIRES_AT = "expires_at"

# A publisher's own posts by time, for a backfill.
OUTBOX = Index("outbox", "publisher_id", "sort_key")
# Sparse: a row has `open_fanout` only until its fan-out is complete, so the index holds the open
# fan-outs alone. It repeats the fan-out's id: a constant such as status=OPEN would be a hot key.
OPEN = Index("open", "open_fanout")
# Sparse too: the fan-outs that SWEEP gave up. They have an index of their own, so that SWEEP can
# count them every minute and they never delay its pass over the open ones.
GIVEN_UP = Index("stalled", "stalled_fanout")

# Hot: a reader's timeline, which every publisher that the reader follows writes to.
TIMELINES = Table(
    "Timelines",
    "user_id",
    "sort_key",
    ttl=EXPIRES_AT,
    takes_bursts=True,
    keys_run_hot=True,
    heard_by_others=True,
)
# Hot: a write shard of a publisher that many follow at once.
FOLLOWERS = Table("Followers", "shard_id", "edge", takes_bursts=True, keys_run_hot=True)
FOLLOWING = Table("Following", "user_id", "publisher_id", ttl=EXPIRES_AT)
# Hot: a publisher's row, which each segment of its deliveries reads.
PUBLISHERS = Table("Publishers", "publisher_id", keys_run_hot=True)
POSTS = Table("Posts", "ref_id", indexes=(OUTBOX,), ttl=EXPIRES_AT, heard_by_others=True)
FANOUTS = Table("Fanouts", "fanout_id", indexes=(OPEN, GIVEN_UP), ttl=EXPIRES_AT)
READERS = Table("Readers", "user_id")

TABLES = (TIMELINES, FOLLOWERS, FOLLOWING, PUBLISHERS, POSTS, FANOUTS, READERS)


# A write that was not answered in three seconds may still land seconds later
# (docs/decisions/0053-rare-faults.md).
LANDING_SECONDS = 15


class Function(NamedTuple):
    """A Lambda function; `name` is its module in `functions/` and the stem of its CDK id."""

    name: str
    seconds: int  # its timeout

    @property
    def settled_seconds(self) -> int:
        """After this, an invocation has ended, and whatever it wrote has landed."""
        return self.seconds + LANDING_SECONDS


# API Gateway gives up after 30 s, and people long before that.
API = Function("api", 10)
TIMELINE = Function("timeline", 10)
PLAN = Function("plan", 60)
# Enough for the 5,000 entries of a segment on a throttled table; DELIVER hands back the rest.
DELIVER = Function("deliver", 60)
RELATE = Function("relate", 30)
# It runs every minute and ends before the next run.
SWEEP = Function("sweep", 55)

FUNCTIONS = (API, TIMELINE, PLAN, DELIVER, RELATE, SWEEP)

# AWS recommends six timeouts, so that a batch stays hidden while Lambda retries a throttled
# invocation with it.
VISIBILITY_PER_TIMEOUT = 6


class Queue(NamedTuple):
    """A standard queue with its own dead-letter queue; `name` is its CDK id and output stem."""

    name: str
    consumer: Function
    batch_size: int
    max_receives: int  # by then, SQS moves a message to the dead-letter queue

    @property
    def visibility_seconds(self) -> int:
        """How long SQS hides a received message from other workers."""
        return VISIBILITY_PER_TIMEOUT * self.consumer.seconds

    @property
    def lane(self) -> str:
        """Its name for people, and in the dimension `LANE` of metrics."""
        return self.name.lower()

    @property
    def url_output(self) -> str:
        """The stack output with the queue's URL."""
        return f"{self.name}QueueUrl"

    @property
    def dlq_url_output(self) -> str:
        """The stack output with the URL of its dead-letter queue."""
        return f"{self.name}DlqUrl"

    @property
    def url_setting(self) -> str:
        """The field of `Settings` with the queue's URL."""
        return f"{self.name.lower()}_queue_url"

    @property
    def dlq_url_setting(self) -> str:
        """The field of `Settings` with the URL of its dead-letter queue."""
        return f"{self.name.lower()}_dlq_url"

    @property
    def mapping_setting(self) -> str:
        """The field of `Settings` with the id of the queue's event source mapping."""
        return f"{self.name.lower()}_mapping"


# The longest that SQS keeps a message. It counts from a message's `SentTimestamp`, which a message
# keeps when SQS moves it to a dead-letter queue.
QUEUE_DAYS = 14

# A message of PUBLISH or RELATION takes a few small calls. Ten are the most that Lambda hands over
# without a batching window. Five receives are the fewest that AWS recommends: with fewer, throttled
# invocations alone could send healthy messages to the dead-letter queue. A command of RELATION
# fails while its publisher's edges are throttled or its backfill makes no progress. Its 30
# receives, three minutes apart, last an hour and a half, longer than a rush of follows.
PUBLISH = Queue("Publish", PLAN, batch_size=10, max_receives=5)
RELATION = Queue("Relation", RELATE, batch_size=10, max_receives=30)
# A message of a lane is a segment. It may take the whole timeout, and fails whenever the table is
# throttled.
EXPRESS = Queue("Express", DELIVER, batch_size=1, max_receives=10)
BULK = Queue("Bulk", DELIVER, batch_size=1, max_receives=10)

LANES = (EXPRESS, BULK)
QUEUES = (PUBLISH, EXPRESS, BULK, RELATION)
# What `fanfold pause` stops: follows go on while deliveries wait.
PAUSABLE = (PUBLISH, *LANES)

API_URL_OUTPUT = "ApiUrl"
# Where the DNS record of an API with a domain points.
API_DOMAIN_TARGET_OUTPUT = "ApiDomainTarget"
USER_POOL_ID_OUTPUT = "UserPoolId"
USER_POOL_CLIENT_ID_OUTPUT = "UserPoolClientId"
# Only of a stage with channels: PLAN gives one to publishers with this many followers.
CHANNEL_THRESHOLD_OUTPUT = "ChannelThreshold"

METRICS_NAMESPACE = "Fanfold"
# Powertools' variable with the value of the dimension `service`.
SERVICE_NAME = "POWERTOOLS_SERVICE_NAME"
FANOUTS_STALLED = "FanoutsStalled"
# How many fan-outs operators have ended. By the table of the ledger, since no function emits it.
FANOUTS_ABANDONED = "FanoutsAbandoned"
# What an audit has found missing, by the same table: operators put it.
AUDIT_MISSING = "AuditMissing"
# Deliveries that PLAN has ended because their post is missing.
FANOUTS_VOIDED = "FanoutsVoided"
# The age of the oldest open fan-out in seconds, or 0: of those with at most one segment, and of
# those with more. SWEEP emits both at the end of a complete run.
OLDEST_SMALL_OPEN_SECONDS = "OldestSmallOpenSeconds"
OLDEST_LARGE_OPEN_SECONDS = "OldestLargeOpenSeconds"
# Seconds since the oldest dead letter was sent, of those that a run of SWEEP has read; 0 if it read
# none. SQS counts the retention from there. Its own metric leaves out messages received more than
# three times, and SWEEP receives each letter every minute.
OLDEST_DEAD_LETTER_SECONDS = "OldestDeadLetterSeconds"
ENTRIES_DELIVERED = "EntriesDelivered"
# From acceptance to complete. Who completes a fan-out emits it, so each is counted once at most.
DELIVERY_SECONDS = "DeliverySeconds"
LANE = "lane"  # a dimension of both, but for what SWEEP completes
GROWTHS = "Growths"
GROWTHS_REFUSED = "GrowthsRefused"
# The number of channels, including demoted ones. SWEEP emits it too, in a stage with channels.
CHANNELS = "Channels"
# Posts that were pushed because there was no room for another channel.
CHANNELS_REFUSED = "ChannelsRefused"

# Contradictions of what can never be (`fanfold/invariants`), met by any function.
INVARIANT_BROKEN = "InvariantBroken"

# Who may read a publisher's feed and followers: every signed-in user, or the publisher alone.
USERS = "users"
PUBLISHER = "publisher"
READER_KINDS = (USERS, PUBLISHER)

# Libraries that can call AWS.
LIBCURL = "libcurl"
BOTO3 = "boto3"
TRANSPORTS = (LIBCURL, BOTO3)
