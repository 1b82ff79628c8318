"""What the HTTP API answers: the fields of its JSON.

Types only; no function imports them at run time. mypy checks the functions against them,
`tools/contract_docs/` writes them into the OpenAPI document, and `tests/openapi.py` checks the
answers in tests against that.
"""

from typing import Annotated, Any, NotRequired, TypedDict, final

from fanfold import contract
from fanfold.contract import FOLLOWED, REQUESTED


class Also:
    """The JSON Schema keywords of a value, besides its type."""

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords


Id = Annotated[str, Also(pattern=f"^{contract.ID_PATTERN}$")]
# UTC with milliseconds.
Instant = Annotated[
    str,
    Also(
        format="date-time",
        pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$",
        examples=["2026-11-20T18:00:00.123Z"],
    ),
]
Cursor = Annotated[str, Also(maxLength=contract.MAX_CURSOR_CHARS)]
NextPage = Annotated[
    Cursor | None, Also(description="The `cursor` of the page after this one, or null at the end.")
]
Count = Annotated[int, Also(minimum=0)]


class Accepted(TypedDict):
    """An accepted post: its delivery is promised."""

    ref_id: Id
    published_at: Instant
    accepted_at: Instant


class Edited(TypedDict):
    """An edited post."""

    ref_id: Id
    edited_at: Instant


class Post(TypedDict):
    """A post as it is now."""

    ref_id: Id
    publisher_id: Id
    published_at: Instant
    edited_at: Annotated[Instant | None, Also(description="Null if nobody has edited it.")]
    body: Annotated[dict[str, Any] | None, Also(description="As it was sent.")]


class Delivery(TypedDict):
    """The progress of a delivery. `fanfold/fanout/status.py` makes it."""

    ref_id: Id
    state: Annotated[
        str,
        Also(
            description="New states may be added; treat an unknown one as not complete.",
            examples=list(contract.STATES),
        ),
    ]
    by: Annotated[
        str | None,
        Also(
            description="How the post reaches followers: by an entry in each follower's timeline, "
            "or in its publisher's channel, which all of them read. Null until that is decided. "
            "New ways may be added; ignore an unknown one.",
            examples=list(contract.WAYS),
        ),
    ]
    followers_estimated: Annotated[
        int | None, Also(description="Null until the delivery is planned, and fixed then.")
    ]
    delivered: Annotated[
        Count,
        Also(
            description="Entries written so far. With a channel, `delivered` becomes "
            "`followers_estimated` when its one entry is written."
        ),
    ]
    segments_done: Count
    segments: Count
    accepted_at: Instant
    completed_at: Instant | None
    lag_seconds: Annotated[
        float | None, Also(description="From `accepted_at` to `completed_at`.", minimum=0)
    ]


@final  # so that `"state" in` tells it from `Requested`
class Followed(TypedDict):
    """A follow."""

    publisher_id: Id
    followed_at: Instant


class Related(TypedDict):
    """A follow, or a request to follow."""

    publisher_id: Id
    state: Annotated[str, Also(enum=[FOLLOWED, REQUESTED])]
    followed_at: NotRequired[Annotated[Instant, Also(description="Absent while it waits.")]]
    requested_at: NotRequired[Annotated[Instant, Also(description="Absent if none was needed.")]]


@final
class Requested(TypedDict):
    """A request to follow a publisher who approves its followers."""

    publisher_id: Id
    state: Annotated[str, Also(const=REQUESTED)]
    requested_at: Instant


class FollowingPage(TypedDict):
    """The publishers that the user follows, or has asked to, in order of id."""

    following: list[Followed | Requested]
    count: Annotated[Count, Also(description="How many there are, on all pages.")]
    next: NextPage


class Me(TypedDict):
    """What the user has chosen as a publisher."""

    private: Annotated[bool, Also(description="Whether the user approves each new follower.")]
    since: Annotated[Instant | None, Also(description="Null if the user never chose.")]
    enforced_from: Annotated[
        Instant | None,
        Also(
            description="From then on, whoever follows must ask. Null if the publisher is public, "
            "or private by the stage's default."
        ),
    ]


class FollowRequest(TypedDict):
    user_id: Id
    requested_at: Instant


class RequestsPage(TypedDict):
    """Who asks to follow the user, newest first."""

    requests: list[FollowRequest]
    next: NextPage


class Approved(TypedDict):
    """An approved follower."""

    user_id: Id
    followed_at: Instant


class Blocked(TypedDict):
    user_id: Id


class BlockedPage(TypedDict):
    """Whom the user blocks, in order of id."""

    blocked: list[Blocked]
    next: NextPage


class Muted(TypedDict):
    publisher_id: Id


class MutedPage(TypedDict):
    """The publishers that the user has muted, in order of id."""

    muted: list[Muted]
    next: NextPage


class Follower(TypedDict):
    user_id: Id


class FollowersPage(TypedDict):
    """The followers of the publisher, in no particular order."""

    followers: list[Follower]
    next: Annotated[
        Cursor | None,
        Also(
            description=(
                "The `cursor` of the page after this one, or null at the end. Before the end, a "
                "page may be short or even empty."
            )
        ),
    ]


class FollowersCount(TypedDict):
    """The number of followers; it may be a minute old."""

    followers: Count
    exact: Annotated[bool, Also(description="False if it is an estimate: 19 of 20 are within 6 %.")]


class TimelineEntry(TypedDict):
    ref_id: Id
    publisher_id: Id
    published_at: Instant
    edited_at: NotRequired[
        Annotated[
            Instant | None,
            Also(description="Null if nobody has edited it; absent with `hydrate=false`."),
        ]
    ]
    body: NotRequired[
        Annotated[
            dict[str, Any] | None, Also(description="As it was sent; absent with `hydrate=false`.")
        ]
    ]


class TimelinePage(TypedDict):
    """Entries of the user's own timeline, newest first."""

    entries: list[TimelineEntry]
    next: Annotated[
        Cursor | None,
        Also(description="The `before` of the page after this one, or null at the end."),
    ]
    previous: Annotated[Cursor, Also(description="The `after` for newer and late entries.")]
    more: NotRequired[
        Annotated[
            bool, Also(description="True if `after` has more entries; else absent.", const=True)
        ]
    ]
    partial: NotRequired[
        Annotated[
            bool,
            Also(
                description="True if the page may be short, as much was left out; else absent.",
                const=True,
            ),
        ]
    ]


class MovedMarker(TypedDict):
    """The entry up to which the user has read."""

    published_at: Instant
    ref_id: Id


class Marker(TypedDict):
    """The entry up to which the user has read; nulls if none was ever set."""

    published_at: Instant | None
    ref_id: Id | None


class Unread(TypedDict):
    """How many entries above the marker the user's timeline shows."""

    unread: Count
    more: Annotated[bool, Also(description="True if there may be more than were counted.")]


class FeedPage(TimelinePage):
    """A publisher's own posts, newest first."""


class Problem(TypedDict):
    """A problem document (RFC 9457)."""

    type: Annotated[
        str,
        Also(
            format="uri",
            description="An address in the documentation; the part after `#` names the problem.",
        ),
    ]
    title: str
    status: Annotated[int, Also(minimum=400, maximum=599)]
    detail: Annotated[str, Also(description="A sentence that says what to do.")]


class GatewayMessage(TypedDict):
    """An answer of API Gateway itself, without a function."""

    message: str
