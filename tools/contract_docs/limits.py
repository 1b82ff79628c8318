"""The page of limits: each number comes from the code that enforces it."""

from __future__ import annotations

from fanfold import contract, cursor, names
from fanfold.aws.dead_letters import MAX_MESSAGE_BYTES
from fanfold.aws.retries import STEP
from fanfold.channels import head, known_head, union
from fanfold.fanout.segment_size import MAX_SEGMENTS, SEGMENT_FOLLOWERS
from fanfold.follows import backfill, follow, follower_estimate, follows_table
from fanfold.follows.publisher import followers, privacy
from fanfold.messages import MAX_FIRST_SENT_MS
from fanfold.settings import HIGHEST_LEVEL, MOST_BACKFILL, Settings
from fanfold.timeline import marks, page_reads, post_cache, posts

_DAY_SECONDS = 24 * 60 * 60
# Each was a follow, or an unfollow that counted as one.
_TOMBSTONES = Settings.follows_per_day * (follows_table.TOMBSTONE_SECONDS // _DAY_SECONDS + 1)
# With a retention of a year, which keeps marks, and therefore tombstones, longer.
_TOMBSTONES_OF_A_YEAR = Settings.follows_per_day * (365 + marks.LONGEST_DAYS + 1)


def _days(seconds: int) -> str:
    return f"{seconds // _DAY_SECONDS} days"


PAGE = f"""# Limits

Every limit with its default, and what happens at it, by `make documents`. See also [problems](problems.md), and [settings](settings.md) for the limits that a stage sets (`-c`).

## What is sent

On the queue, a message whose id, `body` or `published_at` is refused becomes a dead letter of kind `contract`.

| what | limit | at it |
| --- | --- | --- |
| the id of a user, publisher or post | 1 to {contract.MAX_ID_CHARS} of letters, digits and `_ . : \\| @ + = -` | 400 `bad-input`; 401 `no-user` if it is the token's |
| `body` | {contract.MAX_BODY_BYTES:,} bytes as compact JSON in UTF-8 | 413 `too-large` |
| `body`, depth | {contract.MAX_BODY_LEVELS} levels | 400 `bad-input` |
| a request | {contract.MAX_REQUEST_BYTES:,} bytes | 413 `too-large`; over 10 MB, API Gateway's own 413 |
| `Idempotency-Key` | 1 to {contract.MAX_IDEMPOTENCY_KEY_CHARS} characters of printable ASCII | 400 `bad-input` |
| `Request-Age` of an edit or a choice of privacy | 0 to {contract.MAX_REQUEST_AGE_MS:,} milliseconds | 400 `bad-input` |
| `published_at` | no older than the retention ({Settings.retention_days} days) | 400 `bad-input`; a future time becomes that of acceptance |
| a message of the queue | {MAX_MESSAGE_BYTES:,} bytes with its attributes | SQS refuses it |
| `first_sent_at` of a message | at most {_days(MAX_FIRST_SENT_MS // 1000)} before `SentTimestamp` | `SentTimestamp` is used instead |

## What is read

| what | limit | at it |
| --- | --- | --- |
| `limit` | {contract.MIN_LIMIT} to {contract.MAX_LIMIT}; {contract.DEFAULT_LIMIT} by default | 400 `bad-input` |
| a cursor | {contract.MAX_CURSOR_CHARS} characters | 400 `bad-input` |
| work for a page that leaves out entries, such as retracted posts | {page_reads.MAX_QUERIES} queries, {page_reads.MAX_LOOKED_AT} entries looked at, {page_reads.MAX_POSTS} posts read | the page is short, with `partial: true`; its cursors continue behind it |
| ranges read for a page | the reader's timeline, and up to {head.MOST} channels that the reader follows, with at most {union.MAX_QUERIES} queries | the page is short, with `partial: true` |
| busy containers of `timeline` in a stage with channels | about 3,000 with 64 channels, 6,000 with fewer than 44: each reads one row, of 3,000 read units a second, once a second | pages use a copy up to {known_head.MOST_SECONDS:.0f} seconds old ([measured](../proof/bench/channels/README.md)). A cold container that cannot read the row answers 503 `try-later` |
| time until a new post in a channel shows | {known_head.HEAD_SECONDS:.0f} second after its delivery is complete, plus the lag of a read of DynamoDB | a later page with `after` has it |
| late entries that `after` finds | among the last {cursor.MAX_SEEN} entries looked at | others appear when that part is read again |
| unread entries that are counted | {contract.MAX_UNREAD}, within the bounds of a page | `more: true` |
| rows read for a page of `GET /v1/following`, tombstones and the other `state` included | {follow.PAGE * follow.MAX_PAGES:,} | the page is short; `next` continues it |
| reads for a page of a publisher's followers | {followers.PAGE_READS}, plus those started together with the last one | the page is short or empty; `next` continues it |
| the exact number of a publisher's followers | up to {follower_estimate.SAMPLE_EDGES - 1:,} followers, in {followers.COUNT_READS:,} write shards of all levels | an estimate with `exact: false`. Both exact and estimated numbers can be {followers.COUNT_SECONDS} seconds old |
| time until going private binds everybody | {privacy.ENFORCED_MS // 1000} seconds (`enforced_from`) | until then, some may follow without approval |
| time until a retraction or an edit shows | {post_cache.CACHE_SECONDS} seconds | until then, a container may show what it has read |

## What is kept

| what | limit | at it |
| --- | --- | --- |
| an entry of a timeline | {Settings.retention_days} days (`-c retention_days=`) | it is no longer shown, and DynamoDB deletes it |
| a post, its `ref_id`, its `Idempotency-Key` and the status of its delivery | the retention and {_days(posts.OUTLIVES_SECONDS)} | `ref_id` and key can be used again. In the last of these days, a publish with them is refused as expired |
| a follow that has ended | {_days(follows_table.TOMBSTONE_SECONDS)}, or the retention and {marks.LONGEST_DAYS} days if that is longer | its tombstone is deleted. By then, no older message and no entry that the unfollow hides is left |
| a message, and a dead letter after it | {names.QUEUE_DAYS} days each | an alarm fires days before; then SQS deletes it |

## How much

| what | limit | at it |
| --- | --- | --- |
| publishers that one user mutes | {marks.MAX_MUTED:,} | 409 `too-many-mutes` |
| recent unfollows kept as marks for one user | {marks.MAX_HIDDEN:,} | for the retention and {marks.VERIFY_MARGIN_DAYS} day after further ones, each page reads whether the user follows its publishers |
| users whom one user blocks | {follows_table.MAX_BLOCKS:,}, and more by blocks that end a follow or request | 409 `too-many-blocks`; by message, a dead letter |
| publishers that one user follows or has asked to | {Settings.max_follows:,} (`-c max_follows=`) | 409 `too-many-follows`; by message, a dead letter that names user and limit |
| posts of one publisher | {Settings.publishes_per_minute} at once, and as many again in each minute (`-c publishes_per_minute=`); edits and retractions do not count | 429 `too-many-requests` with `Retry-After`. A message takes the bulk lane instead |
| new follows, requests to follow and blocks of one user over HTTP | {Settings.follows_per_day:,} at once, and as many again in each day (`-c follows_per_day=`); unfollows and removals of what never was a follow count too | the same. What ends something is never refused; above the limit, it leaves no tombstone where there was no row. Messages do not count |
| tombstones of one user over HTTP | about {_TOMBSTONES:,}: the follows of {_days(follows_table.TOMBSTONE_SECONDS + _DAY_SECONDS)} ({_TOMBSTONES_OF_A_YEAR:,} with a retention of 365 days); and one for each user who removes or blocks them | nothing |
| posts that a new follow brings | the {Settings.backfill} newest (`-c backfill=`, at most {MOST_BACKFILL}); {backfill.POSTS_WHEN_LATE} if its command waited more than {backfill.LATE_MS // 1000} s | older posts are in the publisher's feed; all posts in a channel show at once |
| followers of one publisher | none | a delivery has at most {MAX_SEGMENTS:,} segments; above {MAX_SEGMENTS * SEGMENT_FOLLOWERS:,} followers, segments become larger |
| channels of a stage | none by default; {head.MOST}, active and demoted together, with `-c channel_threshold=` | others' posts are delivered to each follower, and an alarm fires |
| follows a second to one publisher | {1000 * 2**Settings.max_level:,}, once it has grown, about 8 s a level (`-c max_level=`, at most {HIGHEST_LEVEL}) | 503 `try-later`; a message is retried |
| requests a second to the API | 2,000, and 1,000 at once (`-c requests_per_second=`) | API Gateway's own 429 |
| concurrent changes to one user's follows, mutes or marker | {STEP.attempts} attempts each | 429 `too-many-requests`; a message is retried |
| attempts of a message that fails | {names.PUBLISH.max_receives} on the publish queue, {names.EXPRESS.max_receives} on the lanes, {names.RELATION.max_receives} on the relation queue | a dead letter and an alarm; `fanfold dlq redrive` sends it again |
| entries a second | the table's write capacity (`-c warm_write_units=`, `-c max_write_request_units=`) | deliveries take longer; nothing is refused or lost |
"""  # noqa: E501
