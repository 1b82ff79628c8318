"""The public contract in one place: routes, fields, limits. Doors, infra, schemas and CLI read it.

Standard library only, because QUERY and the CDK app read it too.
"""

from dataclasses import dataclass
from typing import Final

VERSION: Final = 1
"""Version of every queue message. A reader also accepts the version before."""

# OIDC subjects and e-mail addresses fit. `#` is the separator inside keys, so it is never in an id.
ID_PATTERN: Final = r"[A-Za-z0-9_.:|@+=-]{1,128}"
MAX_ID_CHARS: Final = 128

# A post's row stays under 5 KB with it, and a page of 100 posts far under Lambda's 6 MB answer.
MAX_BODY_BYTES: Final = 4096
# The body and what stands around it; a larger request is refused before it is parsed.
MAX_REQUEST_BYTES: Final = 16 * 1024

MIN_LIMIT: Final = 1
MAX_LIMIT: Final = 100
DEFAULT_LIMIT: Final = 50

# A position is at most a sort key (24 + 1 + 128 characters), in base64 with a version before it.
MAX_CURSOR_CHARS: Final = 256
MAX_IDEMPOTENCY_KEY_CHARS: Final = 256


@dataclass(frozen=True)
class Route:
    """One HTTP route; `door` is the module of functions/ that answers it."""

    method: str
    path: str
    door: str

    @property
    def key(self) -> str:
        """The route key as API Gateway sends it in the event: `GET /v1/timeline`."""
        return f"{self.method} {self.path}"


PUBLISH_POST: Final = Route("POST", "/v1/posts", "api")
RETRACT_POST: Final = Route("DELETE", "/v1/posts/{ref_id}", "api")
SHOW_DELIVERY: Final = Route("GET", "/v1/posts/{ref_id}/delivery", "api")
FOLLOW: Final = Route("PUT", "/v1/following/{publisher_id}", "api")
UNFOLLOW: Final = Route("DELETE", "/v1/following/{publisher_id}", "api")
LIST_FOLLOWING: Final = Route("GET", "/v1/following", "api")
READ_TIMELINE: Final = Route("GET", "/v1/timeline", "timeline")

ROUTES: Final = (
    PUBLISH_POST,
    RETRACT_POST,
    SHOW_DELIVERY,
    FOLLOW,
    UNFOLLOW,
    LIST_FOLLOWING,
    READ_TIMELINE,
)

# What other services may put on the publish queue.
POST_PUBLISHED: Final = "post.published"
POST_DELETED: Final = "post.deleted"
FOLLOW_ADDED: Final = "follow.added"
FOLLOW_REMOVED: Final = "follow.removed"
# What the system sends itself.
FANOUT_PLAN: Final = "fanout.plan"
SEGMENT_DELIVER: Final = "segment.deliver"
RELATION_SETTLE: Final = "relation.settle"
