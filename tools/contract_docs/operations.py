"""What the documents say about each route and parameter: prose, examples and types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fanfold import answers, contract
from fanfold.timeline import page_reads
from functions import _intake

Json = dict[str, Any]

REF_ID = "0b6f8a4c5d1e4f3a9b7c2d8e6f0a1b2c"
ACCEPTED_AT = "2026-11-20T18:00:00.456Z"
PUBLISHED_AT = "2026-11-20T18:00:00.123Z"
BODY = {"title": "Hello", "price": 1.10}
# Examples; clients never construct cursors.
TIMELINE_CURSOR = "3MjAyNi0xMS0yMFQxODowMDowMC4xMjNaIzBiNmY4YTRjNWQxZTRmM2E5YjdjMmQ4ZTZmMGExYjJjCgo"
PREVIOUS_CURSOR = (
    "3MjAyNi0xMS0yMFQxODowMDowMC4xMjNaIzBiNmY4YTRjNWQxZTRmM2E5YjdjMmQ4ZTZmMGExYjJjCjIw"
    "MjYtMTAtMjFUMTg6MDA6MDAuMDAwWgrWYDs"
)
FOLLOWING_CURSOR = "3YWxpY2UKCg"
FOLLOWERS_CURSOR = "3NzRmMzJiMmJiOTY2YTQ5MiNib2IKCg"


REQUESTS_CURSOR = "3MjAyNi0xMS0yMFQxODowMDowMC4xMjNaI2JvYgoK"
BLOCKED_CURSOR = "3Ym9iCgo"
FOLLOWED: Json = {"publisher_id": "alice", "followed_at": ACCEPTED_AT}
REQUESTED: Json = {"publisher_id": "alice", "state": "requested", "requested_at": ACCEPTED_AT}
ME: Json = {
    "private": True,
    "since": ACCEPTED_AT,
    "enforced_from": "2026-11-20T18:00:30.456Z",
}


@dataclass(frozen=True, kw_only=True)
class Operation:
    """`id` names it in generated clients, so it is frozen too."""

    id: str
    summary: str
    description: str = ""
    request: (
        type[
            _intake.PublishRequest
            | _intake.EditRequest
            | _intake.MarkerRequest
            | _intake.PrivacyRequest
        ]
        | None
    ) = None
    request_example: Json | None = None
    answer: Any = None  # a TypedDict, or None where there is no body
    example: Json | None = None
    also: Any = None  # the answer of the other status
    also_example: Json | None = None
    headers: tuple[Json, ...] = ()


IDEMPOTENCY_KEY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The `ref_id` is derived from it, so a repeated request is the same publish.",
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
        "In a repeated request: how many milliseconds ago the client first sent it. An edit or "
        "choice that was sent after that time takes precedence."
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
            "A 202 promises delivery to every user whose follow was answered before. Send an "
            "Idempotency-Key, and repeat the request until it is answered."
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
        description=(
            "Any user may read it, unless its publisher is private, or the stage shows posts only "
            "to their publisher."
        ),
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
        summary="Replace the body of one's own post",
        description=(
            "The new body shows within 5 seconds, wherever the post is read. Of two edits, the one "
            "that was sent later stays."
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
        description="The post is no longer shown or delivered. A repeated request is 204 too.",
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
        description=(
            "With 200, every post accepted from now on arrives. With 202, the publisher is "
            "private: posts arrive once it has approved the request. A repeated request is "
            "answered alike."
        ),
        answer=answers.Followed,
        example=FOLLOWED,
        also=answers.Requested,
        also_example=REQUESTED,
    ),
    contract.UNFOLLOW: Operation(
        id="unfollow", summary="Stop following a publisher, or take back the request to"
    ),
    contract.SHOW_FOLLOWING: Operation(
        id="showFollowing",
        summary="Whether the user follows a publisher, or has asked to",
        answer=answers.Related,
        example={**FOLLOWED, "state": contract.FOLLOWED, "requested_at": PUBLISHED_AT},
    ),
    contract.LIST_FOLLOWING: Operation(
        id="listFollowing",
        summary="The publishers that the user follows, or has asked to",
        answer=answers.FollowingPage,
        example={
            "following": [FOLLOWED],
            "count": 51,
            "next": FOLLOWING_CURSOR,
        },
    ),
    contract.CHOOSE_PRIVACY: Operation(
        id="choosePrivacy",
        summary="Go private, or public",
        description=(
            "A private publisher approves each new follower, and only its followers see its posts. "
            "Going public approves the requests that wait. Of two choices, the one that was sent "
            "later stays."
        ),
        headers=(REQUEST_AGE,),
        request=_intake.PrivacyRequest,
        request_example={"private": True},
        answer=answers.Me,
        example=ME,
    ),
    contract.SHOW_PRIVACY: Operation(
        id="showPrivacy",
        summary="Whether the user is a private publisher",
        answer=answers.Me,
        example=ME,
    ),
    contract.LIST_REQUESTS: Operation(
        id="listRequests",
        summary="Who asks to follow the user",
        answer=answers.RequestsPage,
        example={
            "requests": [{"user_id": "bob", "requested_at": PUBLISHED_AT}],
            "next": REQUESTS_CURSOR,
        },
    ),
    contract.APPROVE: Operation(
        id="approveFollower",
        summary="Approve a request to follow the user",
        description="A repeated request is 200 too.",
        answer=answers.Approved,
        example={"user_id": "bob", "followed_at": ACCEPTED_AT},
    ),
    contract.REMOVE: Operation(
        id="removeFollower",
        summary="Deny a request to follow the user, or remove a follower",
        description=(
            "The former follower sees no more of the user's posts, but may follow a public "
            "publisher again. A repeated request is 204 too."
        ),
    ),
    contract.BLOCK: Operation(
        id="block",
        summary="Block a user",
        description=(
            "Neither follows the other any more. To the blocked user, the other seems a private "
            "publisher who never answers. A repeated request is 204 too."
        ),
    ),
    contract.UNBLOCK: Operation(
        id="unblock",
        summary="Unblock a user",
        description="Nothing that the block has ended begins again.",
    ),
    contract.LIST_BLOCKED: Operation(
        id="listBlocked",
        summary="The users whom the user blocks",
        answer=answers.BlockedPage,
        example={"blocked": [{"user_id": "bob"}], "next": BLOCKED_CURSOR},
    ),
    contract.MUTE: Operation(
        id="mute",
        summary="Mute a publisher",
        description=(
            "The user's timeline leaves the publisher out at once, followed or not, until it is "
            "unmuted. A repeated request is 204 too."
        ),
    ),
    contract.UNMUTE: Operation(id="unmute", summary="Unmute a publisher"),
    contract.LIST_MUTED: Operation(
        id="listMuted",
        summary="The publishers that the user has muted",
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
        summary="Move the user's read marker",
        description=(
            "Send the `published_at` and `ref_id` of an entry, as the timeline shows them. The "
            "marker only moves to newer entries: for an older one, or the same one again, the "
            "answer is the stored marker. A future time is replaced by the time of the request."
        ),
        request=_intake.MarkerRequest,
        request_example={"published_at": PUBLISHED_AT, "ref_id": REF_ID},
        answer=answers.MovedMarker,
        example={"published_at": PUBLISHED_AT, "ref_id": REF_ID},
    ),
    contract.READ_MARKER: Operation(
        id="readMarker",
        summary="The user's read marker",
        answer=answers.Marker,
        example={"published_at": PUBLISHED_AT, "ref_id": REF_ID},
    ),
    contract.COUNT_UNREAD: Operation(
        id="countUnread",
        summary="The number of unread entries",
        description=(
            "Counts the entries above the marker that the timeline shows with `hydrate=false`: "
            "posts of unfollowed and muted publishers do not count, but retracted posts may. Late "
            "entries below the marker do not count. Without a marker, every entry is unread. If "
            f"the newest {page_reads.MAX_LOOKED_AT} entries are all hidden, `unread` is 0 and "
            "`more` is true."
        ),
        answer=answers.Unread,
        example={"unread": 3, "more": False},
    ),
    contract.READ_FEED: Operation(
        id="readFeed",
        summary="A page of a publisher's own posts, newest first",
        description=(
            "Any user may read it, unless the publisher is private, or the stage shows posts only "
            "to their publisher. For a moment, a new post may be missing, and a retracted one may "
            "still be there."
        ),
        answer=answers.FeedPage,
        example=PAGE,
    ),
    contract.LIST_FOLLOWERS: Operation(
        id="listFollowers",
        summary="A publisher's followers",
        description=(
            "Only the publisher may ask, unless the stage says otherwise. Follow `next` until it "
            "is null: a short page need not be the last one."
        ),
        answer=answers.FollowersPage,
        example={"followers": [{"user_id": "bob"}], "next": FOLLOWERS_CURSOR},
    ),
    contract.COUNT_FOLLOWERS: Operation(
        id="countFollowers",
        summary="The number of a publisher's followers",
        description="Only the publisher may ask, unless the stage says otherwise.",
        answer=answers.FollowersCount,
        example={"followers": 220, "exact": True},
    ),
}

_CURSOR: Json = {"type": "string", "maxLength": contract.MAX_CURSOR_CHARS}
_TIME: Json = {"anyOf": [{"type": "string", "format": kind} for kind in ("date-time", "date")]}
_PLUS = "In a URL, write `+` as `%2B`."
_ID: Json = {"type": "string", "pattern": f"^{contract.ID_PATTERN}$"}

# Query parameters by name; one name means the same on every route.
QUERY: dict[str, Json] = {
    "limit": {
        "description": "The maximum number of entries in a page.",
        "schema": {
            "type": "integer",
            "minimum": contract.MIN_LIMIT,
            "maximum": contract.MAX_LIMIT,
            "default": contract.DEFAULT_LIMIT,
        },
    },
    "cursor": {
        "description": "The `next` of the page before this one, unchanged.",
        "schema": _CURSOR,
    },
    "before": {
        "description": "The `next` of a page, unchanged, to get older entries.",
        "schema": _CURSOR,
    },
    "after": {
        "description": (
            "The `previous` of a page, unchanged, to get newer entries and late ones. If there are "
            "more than `limit`, the page has the oldest of them."
        ),
        "schema": _CURSOR,
    },
    "from": {
        "description": (
            "Only posts published at or after this instant, or on or after this date in UTC. "
            f"{_PLUS}"
        ),
        "schema": _TIME,
        "example": "2026-11-20",
    },
    "to": {
        "description": (
            f"Only posts published before this instant, or before this date in UTC. {_PLUS}"
        ),
        "schema": _TIME,
        "example": "2026-11-20T18:00:00Z",
    },
    "state": {
        "description": "Which ones: those that are followed, or requests that wait.",
        "schema": {
            "type": "string",
            "enum": [contract.FOLLOWED, contract.REQUESTED],
            "default": contract.FOLLOWED,
        },
    },
    "hydrate": {
        "description": (
            "With `false`, entries have ids but no `body`, and the posts are not read. So a "
            "timeline may include retracted posts; a publisher's feed leaves them out."
        ),
        "schema": {"type": "boolean", "default": True},
    },
}

PATH: dict[str, Json] = {
    "ref_id": {"description": "The post's id.", "schema": _ID, "example": REF_ID},
    "publisher_id": {"description": "A user's id.", "schema": _ID, "example": "alice"},
    "user_id": {"description": "Another user's id.", "schema": _ID, "example": "bob"},
}
