"""The page of limits: each number comes from the code that keeps it."""

from __future__ import annotations

from typing import NamedTuple

from fanfold import contract, cursor, names
from fanfold.aws.dead_letters import MAX_MESSAGE_BYTES
from fanfold.channels import head, known_head
from fanfold.fanout.plan import MAX_SEGMENTS, SEGMENT_FOLLOWERS
from fanfold.follows import density, follow, followers, follows_table, looks
from fanfold.messages import MAX_FIRST_SENT_MS
from fanfold.settings import HIGHEST_LEVEL, MOST_BACKFILL, Settings
from fanfold.timeline import channel_union, marker, marks, picking, posts, read

_DAY_SECONDS = 24 * 60 * 60
# Each was a follow, or an unfollow that counted as one.
_TOMBSTONES = Settings.follows_per_day * (follows_table.TOMBSTONE_SECONDS // _DAY_SECONDS + 1)
# The same where a year of retention keeps marks, and with them tombstones, for longer.
_TOMBSTONES_OF_A_YEAR = Settings.follows_per_day * (365 + marks.LONGEST_DAYS + 1)


class Limit(NamedTuple):
    what: str
    limit: str
    at_it: str


def _number(value: int) -> str:
    return f"{value:,}"


def _days(seconds: int) -> str:
    return f"{seconds // _DAY_SECONDS} days"


REFUSED = "400 `bad-input`; on the queue, a dead letter of kind `contract`"

SECTIONS: dict[str, tuple[Limit, ...]] = {
    "What is sent": (
        Limit(
            "an id: of a user, a publisher, a post",
            f"1 to {contract.MAX_ID_CHARS} of letters, digits and `_ . : \\| @ + = -`",
            f"{REFUSED}; 401 `no-user` if it is the token's",
        ),
        Limit(
            "`body`",
            f"{_number(contract.MAX_BODY_BYTES)} bytes as compact JSON in UTF-8",
            "413 `too-large`; on the queue, a dead letter of kind `contract`",
        ),
        Limit("`body`, depth", f"{contract.MAX_BODY_LEVELS} levels", REFUSED),
        Limit(
            "a request",
            f"{_number(contract.MAX_REQUEST_BYTES)} bytes",
            "413 `too-large`; over 10 MB, API Gateway's own 413",
        ),
        Limit(
            "`Idempotency-Key`",
            f"1 to {contract.MAX_IDEMPOTENCY_KEY_CHARS} characters of printable ASCII",
            "400 `bad-input`",
        ),
        Limit(
            "`Request-Age` of an edit",
            f"0 to {_number(contract.MAX_REQUEST_AGE_MS)} milliseconds",
            "400 `bad-input`",
        ),
        Limit(
            "`published_at`",
            f"not older than the retention ({Settings.retention_days} days)",
            f"{REFUSED}; a time in the future becomes the time of acceptance",
        ),
        Limit(
            "a message of the queue",
            f"{_number(MAX_MESSAGE_BYTES)} bytes with its attributes",
            "SQS refuses it",
        ),
        Limit(
            "`first_sent_at` of a message",
            f"{_days(MAX_FIRST_SENT_MS // 1000)} before its `SentTimestamp`",
            "it is not believed; the message counts from its `SentTimestamp`",
        ),
    ),
    "What is read": (
        Limit(
            "`limit`",
            f"{contract.MIN_LIMIT} to {contract.MAX_LIMIT}; {contract.DEFAULT_LIMIT} by default",
            "400 `bad-input`",
        ),
        Limit("a cursor", f"{contract.MAX_CURSOR_CHARS} characters", "400 `bad-input`"),
        Limit(
            "what is left out of one page, such as retracted posts",
            f"{picking.MAX_QUERIES} queries, {picking.MAX_LOOKED_AT} entries looked at, "
            f"{picking.MAX_POSTS} posts read",
            "`partial: true`: the page is short, and its cursors go on behind what was looked at",
        ),
        Limit(
            "ranges beneath a page",
            "one of the reader's own; in a stage with channels, also one of each of at most "
            f"{head.MOST} that the reader follows, with {channel_union.MAX_QUERIES} queries",
            "`partial: true`, likewise",
        ),
        Limit(
            "busy containers of QUERY in a stage with channels",
            "about 3,000 with 64 channels, about 6,000 with fewer than 44: each reads one row once "
            "a second, of which DynamoDB gives 3,000 read units a second",
            f"pages go on with what was read up to {known_head.MOST_SECONDS:.0f} seconds before: "
            "with 4,000 containers 3 seconds at p99 and no 503, with 10,000 0.6 % are 503 "
            "([measured](../bench/channels/README.md) on a model); cold containers answer 503 "
            "`try-later`",
        ),
        Limit(
            "a new post in a channel",
            f"{known_head.HEAD_SECONDS:.0f} second after its delivery is complete, and as long as "
            "an eventually consistent read of DynamoDB lags",
            "so long a container that had just looked may show pages without it; `after` brings it",
        ),
        Limit(
            "late entries that `after` finds",
            f"among the last {cursor.MAX_SEEN} entries looked at",
            "deeper ones are found when that part is read again",
        ),
        Limit(
            "unread entries that are counted",
            f"{contract.MAX_UNREAD}, within the bounds of a page",
            "`more: true`",
        ),
        Limit(
            "tombstones beneath a page of `GET /v1/following`",
            f"{_number(follow.PAGE * follow.MAX_PAGES)} rows looked at",
            "the page is short, and its `next` goes on",
        ),
        Limit(
            "write shards beneath a page of a publisher's followers",
            f"{followers.PAGE_READS} reads, and those that were begun with the last of them",
            "the page is short, perhaps empty, and its `next` goes on",
        ),
        Limit(
            "the exact number of a publisher's followers",
            f"up to {_number(density.SAMPLE_EDGES - 1)} followers, in "
            f"{_number(followers.COUNT_READS)} write shards of all levels",
            f"an estimate, `exact: false`; either is up to {followers.COUNT_SECONDS} seconds old",
        ),
        Limit(
            "a retracted or edited post",
            f"{read.CACHE_SECONDS} seconds",
            "so long a container that had just read it may still show it as it was",
        ),
    ),
    "What is kept": (
        Limit(
            "an entry of a timeline",
            f"{Settings.retention_days} days (`-c retention_days=`)",
            "it is shown no more, and DynamoDB deletes it",
        ),
        Limit(
            "a post, its `ref_id`, its `Idempotency-Key` and the status of its delivery",
            f"the retention and {_days(posts.OUTLIVES_SECONDS)}",
            "the `ref_id` and the key are free again; before, they are refused as expired",
        ),
        Limit(
            "a follow that has ended",
            f"{_days(follows_table.TOMBSTONE_SECONDS)}, or the retention and {marks.LONGEST_DAYS} "
            "days if that is longer",
            "no message of an earlier wish is left by then, and nothing that the unfollow hides",
        ),
        Limit(
            "a message, and a dead letter after it",
            f"{names.QUEUE_DAYS} days each",
            "an alarm rings days before; then SQS deletes it",
        ),
    ),
    "How much": (
        Limit(
            "publishers that one user mutes",
            _number(marks.MAX_MUTED),
            "409 `too-many-mutes`",
        ),
        Limit(
            "unfollowed publishers that a timeline leaves out by their marks",
            _number(marks.MAX_HIDDEN),
            "the next unfollow is taken too, and for the retention and "
            f"{marks.VERIFY_MARGIN_DAYS} day pages read what the user follows",
        ),
        Limit(
            "publishers that one user follows",
            f"{_number(Settings.max_follows)} (`-c max_follows=`)",
            "409 `too-many-follows`; by message, a dead letter that names user and limit",
        ),
        Limit(
            "posts of one publisher",
            f"{Settings.publishes_per_minute} at once, and as many again in each minute "
            "(`-c publishes_per_minute=`); edits and retractions do not count",
            "429 `too-many-requests`, and `Retry-After` says when there is room; a message is "
            "never refused, but delivered by the bulk lane",
        ),
        Limit(
            "new follows of one user over HTTP",
            f"{_number(Settings.follows_per_day)} at once, and as many again in each day "
            "(`-c follows_per_day=`); unfollows of publishers that were never followed count too",
            "429 `too-many-requests`, and `Retry-After` says when there is room; an unfollow is "
            "never refused, but then leaves no tombstone where there was no follow; a message is "
            "not counted",
        ),
        Limit(
            "tombstones of one user over HTTP",
            f"about {_number(_TOMBSTONES)}: the follows of {_days(follows_table.TOMBSTONE_SECONDS)}"
            ", and of one day more; with a retention of 365 days, "
            f"{_number(_TOMBSTONES_OF_A_YEAR)}",
            "no more can come",
        ),
        Limit(
            "posts that a new follow brings",
            f"the {Settings.backfill} newest (`-c backfill=`, at most {MOST_BACKFILL}); "
            f"{looks.POSTS_WHEN_LATE} if its order has waited for {looks.LATE_MS // 1000} s",
            "older ones are in the publisher's feed; of a publisher with a channel, all that the "
            "channel holds show at once",
        ),
        Limit(
            "followers of one publisher",
            "none",
            f"a delivery has up to {_number(MAX_SEGMENTS)} segments; beyond "
            f"{_number(MAX_SEGMENTS * SEGMENT_FOLLOWERS)} followers they grow",
        ),
        Limit(
            "channels of a stage",
            f"none by default; {head.MOST}, active and demoted together, with `-c "
            "channel_threshold=`",
            "the next publisher's posts are delivered to each follower, a metric counts them, and "
            "an alarm rings",
        ),
        Limit(
            "follows a second to one publisher",
            f"{_number(1000 * 2**Settings.max_level)}, after half a minute of growth "
            f"(`-c max_level=`, at most {HIGHEST_LEVEL})",
            "503 `try-later`; by message, tried again",
        ),
        Limit(
            "requests a second to the API",
            "2,000, and 1,000 at once (`-c requests_per_second=`)",
            "API Gateway's own 429",
        ),
        Limit(
            "changes of one user's follows, mutes or marker at the same time",
            f"{follow.ATTEMPTS} attempts of each, {marker.ATTEMPTS} of the marker, while others "
            "change the user's row too",
            "429 `too-many-requests`; by message, tried again",
        ),
        Limit(
            "attempts of a message that fails",
            f"{names.PUBLISH.max_receives} on the publish queue, {names.EXPRESS.max_receives} on "
            f"the lanes, {names.RELATION.max_receives} on the relation queue",
            "a dead letter, and an alarm; `fanfold dlq redrive` tries it again",
        ),
        Limit(
            "entries a second",
            "the table's write capacity (`-c warm_write_units=`, `-c max_write_request_units=`)",
            "deliveries take longer: nothing is refused, and nothing is lost",
        ),
    ),
}

HEADER = """# Limits

Every limit of the contract, and what happens at it. Written by `make documents` from the code that keeps them. [Problems](problems.md) says more about each error, [operations](operations.md) about the limits that a stage sets (`-c`).
"""  # noqa: E501


def page() -> str:
    """The text of docs/limits.md."""
    parts = [HEADER]
    for title, limits in SECTIONS.items():
        rows = "\n".join(f"| {' | '.join(limit)} |" for limit in limits)
        parts.append(f"## {title}\n\n| what | limit | at it |\n| --- | --- | --- |\n{rows}\n")
    return "\n".join(parts)
