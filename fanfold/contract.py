"""The public contract: routes with their parameters and errors, message types, limits.

`answers.py` has the fields of answers, `functions/_intake.py` those of requests and messages, and
`tools/contract_docs/` writes the public documents from all of these at development time.
"""

from typing import Final, NamedTuple

from fanfold import errors

# The version of every queue message. A new reader also accepts the version before.
VERSION: Final = 1

# OIDC subjects and e-mail addresses fit. `#` separates the parts of a key, so no id contains it.
ID_PATTERN: Final = r"[A-Za-z0-9_.:|@+=-]{1,128}"
MAX_ID_CHARS: Final = 128

# So a post's row stays under 5 KB, and a page of 100 posts far below Lambda's limit of 6 MB.
MAX_BODY_BYTES: Final = 4096
# JSON parsers of clients have their own limits; Python's is between 300 and 1,000.
MAX_BODY_LEVELS: Final = 100
# The body with its envelope. A larger request is refused before it is parsed.
MAX_REQUEST_BYTES: Final = 16 * 1024

MIN_LIMIT: Final = 1
MAX_LIMIT: Final = 100
DEFAULT_LIMIT: Final = 50
# Entries above the marker that are counted: 2.5 read units, and apps show "99+" anyway.
MAX_UNREAD: Final = 100

# Two sort keys of 153 characters and 50 hashes of three bytes, in base64 after a version.
MAX_CURSOR_CHARS: Final = 640
MAX_IDEMPOTENCY_KEY_CHARS: Final = 256
# Printable ASCII: HTTP does not say how a header spells any other character, so proxies differ.
IDEMPOTENCY_KEY_PATTERN: Final = rf"[ -~]{{1,{MAX_IDEMPOTENCY_KEY_CHARS}}}"

# The header of a repeated request: milliseconds since the client first sent it. So the client's
# clock does not matter.
REQUEST_AGE: Final = "request-age"
# No client repeats a request by itself for longer.
MAX_REQUEST_AGE_MS: Final = 60 * 60 * 1000


# A frozen dataclass would be half a millisecond of every cold start.
class Route(NamedTuple):
    """`refusals` are its own errors, besides those that every route has (`ANY_ROUTE`)."""

    method: str
    path: str
    door: str  # the module of functions/ that answers it
    status: int = 200  # of a successful answer
    also: int = 0  # another one, with an answer of its own
    query: tuple[str, ...] = ()  # its parameters; any other is refused
    refusals: tuple[type[errors.FanfoldError], ...] = ()

    @property
    def key(self) -> str:
        """API Gateway's route key, such as `GET /v1/timeline`."""
        return f"{self.method} {self.path}"


# Parameters that bound a page which can be read in both directions.
PLACES: Final = ("before", "after", "from", "to")

# Errors that any route may answer.
ANY_ROUTE: Final[tuple[type[errors.FanfoldError], ...]] = (
    errors.BadInput,
    errors.NoUser,
    errors.TooManyRequests,
    errors.FanfoldError,
    errors.TryLater,
)

PUBLISH_POST: Final = Route(
    "POST",
    "/v1/posts",
    "api",
    status=202,
    refusals=(errors.RefIdTaken, errors.PostRetracted, errors.TooLarge, errors.KeyReused),
)
READ_POST: Final = Route("GET", "/v1/posts/{ref_id}", "timeline", refusals=(errors.NoPost,))
EDIT_POST: Final = Route(
    "PUT",
    "/v1/posts/{ref_id}",
    "api",
    refusals=(errors.NoPost, errors.EditOvertaken, errors.PostRetracted, errors.TooLarge),
)
RETRACT_POST: Final = Route(
    "DELETE", "/v1/posts/{ref_id}", "api", status=204, refusals=(errors.NoPost,)
)
SHOW_DELIVERY: Final = Route("GET", "/v1/posts/{ref_id}/delivery", "api", refusals=(errors.NoPost,))
FOLLOW: Final = Route(
    "PUT",
    "/v1/following/{publisher_id}",
    "api",
    also=202,
    refusals=(errors.TooManyFollows, errors.BlockedByYou),
)
UNFOLLOW: Final = Route("DELETE", "/v1/following/{publisher_id}", "api", status=204)
SHOW_FOLLOWING: Final = Route(
    "GET", "/v1/following/{publisher_id}", "api", refusals=(errors.NoRequest,)
)
LIST_FOLLOWING: Final = Route("GET", "/v1/following", "api", query=("limit", "cursor", "state"))
CHOOSE_PRIVACY: Final = Route("PUT", "/v1/me", "api", refusals=(errors.TooLarge,))
SHOW_PRIVACY: Final = Route("GET", "/v1/me", "api")
LIST_REQUESTS: Final = Route("GET", "/v1/requests", "api", query=("limit", "cursor"))
APPROVE: Final = Route("PUT", "/v1/followers/{user_id}", "api", refusals=(errors.NoRequest,))
REMOVE: Final = Route("DELETE", "/v1/followers/{user_id}", "api", status=204)
BLOCK: Final = Route(
    "PUT", "/v1/blocked/{user_id}", "api", status=204, refusals=(errors.TooManyBlocks,)
)
UNBLOCK: Final = Route("DELETE", "/v1/blocked/{user_id}", "api", status=204)
LIST_BLOCKED: Final = Route("GET", "/v1/blocked", "api", query=("limit", "cursor"))
MUTE: Final = Route(
    "PUT",
    "/v1/muted/{publisher_id}",
    "api",
    status=204,
    refusals=(errors.TooManyMutes, errors.MuteOvertaken),
)
UNMUTE: Final = Route(
    "DELETE", "/v1/muted/{publisher_id}", "api", status=204, refusals=(errors.MuteOvertaken,)
)
LIST_MUTED: Final = Route("GET", "/v1/muted", "api", query=("limit", "cursor"))
READ_TIMELINE: Final = Route("GET", "/v1/timeline", "timeline", query=("limit", *PLACES, "hydrate"))
MOVE_MARKER: Final = Route("PUT", "/v1/timeline/marker", "api", refusals=(errors.TooLarge,))
READ_MARKER: Final = Route("GET", "/v1/timeline/marker", "timeline")
COUNT_UNREAD: Final = Route("GET", "/v1/timeline/unread", "timeline")
READ_FEED: Final = Route(
    "GET",
    "/v1/publishers/{publisher_id}/posts",
    "timeline",
    query=("limit", *PLACES, "hydrate"),
    refusals=(errors.FeedClosed,),
)
LIST_FOLLOWERS: Final = Route(
    "GET",
    "/v1/publishers/{publisher_id}/followers",
    "api",
    query=("limit", "cursor"),
    refusals=(errors.FollowersClosed,),
)
COUNT_FOLLOWERS: Final = Route(
    "GET",
    "/v1/publishers/{publisher_id}/followers/count",
    "api",
    refusals=(errors.FollowersClosed,),
)

ROUTES: Final = (
    PUBLISH_POST,
    READ_POST,
    EDIT_POST,
    RETRACT_POST,
    SHOW_DELIVERY,
    FOLLOW,
    UNFOLLOW,
    SHOW_FOLLOWING,
    LIST_FOLLOWING,
    CHOOSE_PRIVACY,
    SHOW_PRIVACY,
    LIST_REQUESTS,
    APPROVE,
    REMOVE,
    BLOCK,
    UNBLOCK,
    LIST_BLOCKED,
    MUTE,
    UNMUTE,
    LIST_MUTED,
    READ_TIMELINE,
    MOVE_MARKER,
    READ_MARKER,
    COUNT_UNREAD,
    READ_FEED,
    LIST_FOLLOWERS,
    COUNT_FOLLOWERS,
)

# A problem's type is this address, `#` and the error's slug. Clients compare the slug, since the
# page may move.
PROBLEMS_PAGE: Final = "https://fanfold.example/docs/problems.md"
# An answer belongs to one user, and the next one may differ.
CACHE_CONTROL: Final = "private, no-store"
# The default of answers 429 and 503.
RETRY_AFTER_SECONDS: Final = 1

# States of a relation of a user to a publisher, as routes name them.
FOLLOWED: Final = "followed"
REQUESTED: Final = "requested"

# Messages of other services on the publish queue.
POST_PUBLISHED: Final = "post.published"
POST_UPDATED: Final = "post.updated"
POST_DELETED: Final = "post.deleted"
FOLLOW_ADDED: Final = "follow.added"
FOLLOW_REMOVED: Final = "follow.removed"
FOLLOWER_APPROVED: Final = "follower.approved"
FOLLOWER_REMOVED: Final = "follower.removed"
USER_BLOCKED: Final = "user.blocked"
USER_UNBLOCKED: Final = "user.unblocked"
EVENTS: Final = (
    POST_PUBLISHED,
    POST_UPDATED,
    POST_DELETED,
    FOLLOW_ADDED,
    FOLLOW_REMOVED,
    FOLLOWER_APPROVED,
    FOLLOWER_REMOVED,
    USER_BLOCKED,
    USER_UNBLOCKED,
)
# Commands that our functions send each other.
FANOUT_PLAN: Final = "fanout.plan"
SEGMENT_DELIVER: Final = "segment.deliver"
RELATION_BACKFILL: Final = "relation.backfill"
RELATION_SETTLE: Final = "relation.settle"
RELATION_OPEN: Final = "relation.open"
COMMANDS: Final = (
    FANOUT_PLAN,
    SEGMENT_DELIVER,
    RELATION_BACKFILL,
    RELATION_SETTLE,
    RELATION_OPEN,
)

# States of a delivery. Clients ignore those that they do not know.
STATES: Final = ("queued", "delivering", "complete", "stalled", "expired", "abandoned")
# How a post reaches its followers: by an entry in the timeline of each, or in its publisher's
# channel. Clients ignore those that they do not know.
WAYS: Final = ("push", "channel")

# Attributes of a message that was rejected or moved back, all strings: when it was first sent
# (epoch milliseconds), the id that SQS gave it then, and the SHA-256 of its body (hex digits). SQS
# gives a new `SentTimestamp` and a new id to what is sent again.
FIRST_SENT_AT: Final = "first_sent_at"
FIRST_MESSAGE_ID: Final = "first_message_id"
BODY_SHA256: Final = "sha256"
# And who sent it before it was sent again, the latest first (`fanfold/aws/senders.py`).
FIRST_SENDERS: Final = "first_senders"
# SQS's ids are UUIDs, and may have up to 100 characters.
MESSAGE_ID_PATTERN: Final = r"[A-Za-z0-9_-]{1,100}"
