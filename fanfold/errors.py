"""Errors by name. Each has one sentence that tells the caller what to do."""

from abc import ABCMeta


class FanfoldError(Exception):
    """An error that is reported to the caller: an HTTP status, a slug and a sentence."""

    status = 500
    slug = "internal"
    title = "Internal error"

    def __init__(self, sentence: str, *, quoted: str = "") -> None:
        """`quoted` is the part that must stay out of logs: a sender's text, or a reader's id."""
        super().__init__(sentence)
        self.sentence = sentence
        self._quoted = quoted

    @property
    def unquoted(self) -> str:
        """The sentence for a log."""
        return self.sentence.replace(self._quoted, "…") if self._quoted else self.sentence


class BadInput(FanfoldError):
    """The request or message breaks the contract; repeating it unchanged cannot help."""

    status = 400
    slug = "bad-input"
    title = "The request breaks the contract"


class NoUser(FanfoldError):
    """The verified token does not name a user."""

    status = 401
    slug = "no-user"
    title = "The token names no user"


class FeedClosed(FanfoldError):
    """The stage shows a publisher's feed to nobody else; or its publisher is private."""

    status = 403
    slug = "feed-closed"
    title = "You may not read this feed"


class FollowersClosed(FanfoldError):
    """The stage shows a publisher's followers to nobody else; or the publisher is private."""

    status = 403
    slug = "followers-closed"
    title = "You may not see these followers"


class NoRoute(FanfoldError):
    status = 404
    slug = "no-route"
    title = "No such route"


class NoPost(FanfoldError):
    """The user has published no such post. It does not reveal whether another user has."""

    status = 404
    slug = "no-post"
    title = "No such post"


class NoRequest(FanfoldError):
    """No request to follow waits; and where the user's own are asked for, no follow either."""

    status = 404
    slug = "no-request"
    title = "No such request to follow"


class BlockedByYou(FanfoldError):
    """The user blocks the publisher."""

    status = 409
    slug = "blocked-by-you"
    title = "The user blocks the publisher"


class TooManyBlocks(FanfoldError):
    """The user already blocks as many users as one user may."""

    status = 409
    slug = "too-many-blocks"
    title = "The user blocks too many users"


class RefIdTaken(FanfoldError):
    status = 409
    slug = "ref-id-taken"
    title = "The ref_id belongs to another publisher"


class TooManyFollows(FanfoldError):
    """The user already follows as many publishers as one user may."""

    status = 409
    slug = "too-many-follows"
    title = "The user follows too many publishers"


class TooManyMutes(FanfoldError):
    """The user has muted as many publishers as one user may."""

    status = 409
    slug = "too-many-mutes"
    title = "The user mutes too many publishers"


class MuteOvertaken(FanfoldError):
    """The user sent a later mute or unmute, and that was answered first."""

    status = 409
    slug = "mute-overtaken"
    title = "A later mute or unmute was answered first"


class KeyReused(FanfoldError):
    """The Idempotency-Key stands for another post. The status is that of the IETF draft."""

    status = 422
    slug = "key-reused"
    title = "The Idempotency-Key stands for another post"


class PostRetracted(FanfoldError):
    """Its publisher retracted the post, perhaps before it was published: messages may overtake."""

    status = 410
    slug = "post-retracted"
    title = "The post was retracted"


class EditOvertaken(FanfoldError):
    """The stored edit was sent later, or in the same millisecond."""

    status = 409
    slug = "edit-overtaken"
    title = "The post has a newer or equally new edit"


class TooLarge(BadInput):
    """The request or the post's body is larger than the contract allows."""

    status = 413
    slug = "too-large"
    title = "The request is too large"


class TryLater(FanfoldError):
    """A transient fault, such as a throttle; repeating the request is safe and may succeed."""

    status = 503
    slug = "try-later"
    title = "Try again in a moment"
    wait_ms = 0  # how long to wait, if that is known


class NotYet(TryLater):
    """A message needs something that is probably under way; it is tried again soon."""


class Unanswered(Exception, metaclass=ABCMeta):
    """A call got no readable answer, so AWS may have applied it or not.

    Such errors of other libraries are registered as subclasses, so that `isinstance` finds them.
    """


class Unsent(Exception):
    """A queue refused a message in every attempt; the sender still has it."""


class TooManyRequests(TryLater):
    """The user's own requests arrive faster than they can be carried out."""

    status = 429
    slug = "too-many-requests"
    title = "Too many requests"


class TooOften(TooManyRequests):
    """The user's rate of posts, or of follows, requests and blocks, is used up for `wait_ms`."""

    def __init__(self, sentence: str, *, wait_ms: int = 0, quoted: str = "") -> None:
        super().__init__(sentence, quoted=quoted)
        self.wait_ms = wait_ms


class Contended(TooManyRequests):
    """The user's other requests kept changing the same row, so every attempt failed."""


class Undeliverable(Exception):
    """A command that failed often enough; its message belongs in the dead-letter queue."""


class NotTheirs(Undeliverable):
    """An event of a sender who may not act for its publisher or user, unless the stage changes."""
