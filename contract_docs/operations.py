"""What the documents say about each route and parameter: prose, examples and types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fanfold import answers, contract
from functions import _intake

Json = dict[str, Any]

REF_ID = "0b6f8a4c5d1e4f3a9b7c2d8e6f0a1b2c"
ACCEPTED_AT = "2026-11-20T18:00:00.456Z"
PUBLISHED_AT = "2026-11-20T18:00:00.123Z"
BODY = {"title": "Hello", "price": 1.10}
# Cursors as they look; a client never writes one.
TIMELINE_CURSOR = "2MjAyNi0xMS0yMFQxODowMDowMC4xMjNaIzBiNmY4YTRjNWQxZTRmM2E5YjdjMmQ4ZTZmMGExYjJjCgo"
PREVIOUS_CURSOR = (
    "2MjAyNi0xMS0yMFQxODowMDowMC4xMjNaIzBiNmY4YTRjNWQxZTRmM2E5YjdjMmQ4ZTZmMGExYjJjCjI"
    "wMjYtMTAtMjFUMTg6MDA6MDAuMDAwWgoTIw"
)
FOLLOWING_CURSOR = "2YWxpY2UKCg"
FOLLOWERS_CURSOR = "2NzRmMzJiMmJiOTY2YTQ5MiNib2IKCg"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """`id` names it in generated clients, so it is frozen too."""

    id: str
    summary: str
    description: str = ""
    request: type[_intake.PublishRequest | _intake.EditRequest | _intake.MarkerRequest] | None = (
        None
    )
    request_example: Json | None = None
    answer: Any = None  # a TypedDict, or None where there is no body
    example: Json | None = None
    headers: tuple[Json, ...] = ()


IDEMPOTENCY_KEY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Makes the `ref_id`, so that the same request again is the same publish.",
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": contract.MAX_IDEMPOTENCY_KEY_CHARS,
        "pattern": f"^{contract.IDEMPOTENCY_KEY_PATTERN}$",
    },
    "example": "6e1f3a52-9d0b-4c7e-8a41-2b5c7d9e0f13",
}

REQUEST_AGE: Json = {
    "name": "Request-Age",
    "in": "header",
    "description": (
        "How many milliseconds ago the client first sent the request that it repeats. So it gives "
        "way to edits that were sent after that."
    ),
    "schema": {"type": "integer", "minimum": 0, "maximum": contract.MAX_REQUEST_AGE_MS},
    "example": 2500,
}

PAGE: Json = {
    "entries": [
        {
            "ref_id": REF_ID,
            "publisher_id": "alice",
            "published_at": PUBLISHED_AT,
            "edited_at": None,
            "body": BODY,
        }
    ],
    "next": TIMELINE_CURSOR,
    "previous": PREVIOUS_CURSOR,
    "more": True,
    "partial": True,
}

OPERATIONS: dict[contract.Route, Operation] = {
    contract.PUBLISH_POST: Operation(
        id="publishPost",
        summary="Publish a post",
        description=(
            "An answer of 202 promises the delivery to everybody whose follow was answered before. "
            "Send an Idempotency-Key, and repeat the request until it is answered."
        ),
        request=_intake.PublishRequest,
        request_example={"body": BODY},
        headers=(IDEMPOTENCY_KEY,),
        answer=answers.Accepted,
        example={"ref_id": REF_ID, "published_at": PUBLISHED_AT, "accepted_at": ACCEPTED_AT},
    ),
    contract.READ_POST: Operation(
        id="readPost",
        summary="A post",
        description="Of any publisher, unless the stage shows posts to their publisher alone.",
        answer=answers.Post,
        example={
            "ref_id": REF_ID,
            "publisher_id": "alice",
            "published_at": PUBLISHED_AT,
            "edited_at": None,
            "body": BODY,
        },
    ),
    contract.EDIT_POST: Operation(
        id="editPost",
        summary="Give one's own post another body",
        description=(
            "It shows wherever the post is read, within 5 seconds. Of two edits, the one that was "
            "sent later stays."
        ),
        headers=(REQUEST_AGE,),
        request=_intake.EditRequest,
        request_example={"body": BODY},
        answer=answers.Edited,
        example={"ref_id": REF_ID, "edited_at": ACCEPTED_AT},
    ),
    contract.RETRACT_POST: Operation(
        id="retractPost",
        summary="Retract one's own post",
        description="It is shown to nobody and delivered no further. Again, it is 204 again.",
    ),
    contract.SHOW_DELIVERY: Operation(
        id="showDelivery",
        summary="The progress of the delivery of one's own post",
        answer=answers.Delivery,
        example={
            "ref_id": REF_ID,
            "state": "complete",
            "by": "push",
            "followers_estimated": 220,
            "delivered": 221,
            "segments_done": 1,
            "segments": 1,
            "accepted_at": ACCEPTED_AT,
            "completed_at": "2026-11-20T18:00:01.456Z",
            "lag_seconds": 1.0,
        },
    ),
    contract.FOLLOW: Operation(
        id="follow",
        summary="Follow a publisher",
        description="Every publish accepted from now on arrives. Again, it is 200 again.",
        answer=answers.Followed,
        example={"publisher_id": "alice", "followed_at": ACCEPTED_AT},
    ),
    contract.UNFOLLOW: Operation(id="unfollow", summary="Stop following a publisher"),
    contract.LIST_FOLLOWING: Operation(
        id="listFollowing",
        summary="Whom the user follows",
        answer=answers.FollowingPage,
        example={
            "following": [{"publisher_id": "alice", "followed_at": ACCEPTED_AT}],
            "count": 51,
            "next": FOLLOWING_CURSOR,
        },
    ),
    contract.MUTE: Operation(
        id="mute",
        summary="Show nothing of a publisher in the user's timeline",
        description="At once, followed or not, until it is unmuted. Again, it is 204 again.",
    ),
    contract.UNMUTE: Operation(id="unmute", summary="Show a muted publisher again"),
    contract.LIST_MUTED: Operation(
        id="listMuted",
        summary="Whom the user has muted",
        answer=answers.MutedPage,
        example={"muted": [{"publisher_id": "alice"}], "next": FOLLOWING_CURSOR},
    ),
    contract.READ_TIMELINE: Operation(
        id="readTimeline",
        summary="A page of the user's own timeline, newest first",
        answer=answers.TimelinePage,
        example=PAGE,
    ),
    contract.MOVE_MARKER: Operation(
        id="moveMarker",
        summary="Say up to which entry the user has read",
        description=(
            "Send `published_at` and `ref_id` of an entry as the timeline shows them. The marker "
            "only moves up: an older entry, or the same again, is answered with the marker that is "
            "stored. A time in the future becomes that of the request."
        ),
        request=_intake.MarkerRequest,
        request_example={"published_at": PUBLISHED_AT, "ref_id": REF_ID},
        answer=answers.MovedMarker,
        example={"published_at": PUBLISHED_AT, "ref_id": REF_ID},
    ),
    contract.READ_MARKER: Operation(
        id="readMarker",
        summary="Up to which entry the user has read",
        answer=answers.Marker,
        example={"published_at": PUBLISHED_AT, "ref_id": REF_ID},
    ),
    contract.COUNT_UNREAD: Operation(
        id="countUnread",
        summary="How much is above the marker",
        description=(
            "What the timeline shows with `hydrate=false` is counted: publishers that were "
            "unfollowed or muted are left out, and a retracted post may count. What has come late, "
            "below the marker, does not. Without a marker, everything is unread. Where the newest "
            "hundred are all hidden, `unread` is 0 and `more` is true."
        ),
        answer=answers.Unread,
        example={"unread": 3, "more": False},
    ),
    contract.READ_FEED: Operation(
        id="readFeed",
        summary="A page of a publisher's own posts, newest first",
        description=(
            "Of any publisher, unless the stage shows posts to their publisher alone. What was "
            "just published or retracted may be missing, or still be there, for a moment."
        ),
        answer=answers.FeedPage,
        example=PAGE,
    ),
    contract.LIST_FOLLOWERS: Operation(
        id="listFollowers",
        summary="Who follows a publisher",
        description=(
            "Only the publisher may ask, unless the stage says otherwise. Follow `next` until it "
            "is null: a page may be short before it."
        ),
        answer=answers.FollowersPage,
        example={"followers": [{"user_id": "bob"}], "next": FOLLOWERS_CURSOR},
    ),
    contract.COUNT_FOLLOWERS: Operation(
        id="countFollowers",
        summary="How many follow a publisher",
        description="Only the publisher may ask, unless the stage says otherwise.",
        answer=answers.FollowersCount,
        example={"followers": 220, "exact": True},
    ),
}

_CURSOR: Json = {"type": "string", "maxLength": contract.MAX_CURSOR_CHARS}
_TIME: Json = {"anyOf": [{"type": "string", "format": kind} for kind in ("date-time", "date")]}
_PLUS = "In an address, a `+` is sent as `%2B`."
_ID: Json = {"type": "string", "pattern": f"^{contract.ID_PATTERN}$"}

# Query parameters by name; one name means the same on every route.
QUERY: dict[str, Json] = {
    "limit": {
        "description": "The most entries of a page.",
        "schema": {
            "type": "integer",
            "minimum": contract.MIN_LIMIT,
            "maximum": contract.MAX_LIMIT,
            "default": contract.DEFAULT_LIMIT,
        },
    },
    "cursor": {
        "description": "`next` of the page before, unchanged.",
        "schema": _CURSOR,
    },
    "before": {
        "description": "`next` of a page, unchanged: what is older.",
        "schema": _CURSOR,
    },
    "after": {
        "description": (
            "`previous` of a page, unchanged: what is newer, the oldest of it first taken, and "
            "what has come late."
        ),
        "schema": _CURSOR,
    },
    "from": {
        "description": (
            f"Nothing published before this instant, or before this date in UTC. {_PLUS}"
        ),
        "schema": _TIME,
        "example": "2026-11-20",
    },
    "to": {
        "description": (
            f"Only what was published before this instant, or before this date in UTC. {_PLUS}"
        ),
        "schema": _TIME,
        "example": "2026-11-20T18:00:00Z",
    },
    "hydrate": {
        "description": (
            "`false` gives ids without `body`, and does not look at the posts. So retracted ones "
            "are among those of a timeline; a publisher's feed has them no more."
        ),
        "schema": {"type": "boolean", "default": True},
    },
}

PATH: dict[str, Json] = {
    "ref_id": {"description": "The post's id.", "schema": _ID, "example": REF_ID},
    "publisher_id": {"description": "A user's id.", "schema": _ID, "example": "alice"},
}
