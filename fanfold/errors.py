"""What can go wrong, by name. Each error carries one sentence that tells the sender what to do."""

from abc import ABCMeta


class FanfoldError(Exception):
    """Something that the caller is told about: an HTTP status, a slug and a sentence."""

    status = 500
    slug = "internal"
    title = "Internal error"

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class BadInput(FanfoldError):
    """The request or message breaks the contract; sending it again unchanged cannot help."""

    status = 400
    slug = "bad-input"
    title = "The request breaks the contract"


class NoUser(FanfoldError):
    """The verified token does not name a user."""

    status = 401
    slug = "no-user"
    title = "The token names no user"


class NoRoute(FanfoldError):
    """No such method and path."""

    status = 404
    slug = "no-route"
    title = "No such route"


class NoPost(FanfoldError):
    """The user has published no such post; whether somebody else has is not said."""

    status = 404
    slug = "no-post"
    title = "No such post"


class RefIdTaken(FanfoldError):
    """The `ref_id` belongs to another publisher, who used it first."""

    status = 409
    slug = "ref-id-taken"
    title = "The ref_id belongs to another publisher"


class TooManyFollows(FanfoldError):
    """The user follows as many publishers as one user may."""

    status = 409
    slug = "too-many-follows"
    title = "The user follows too many publishers"


class PostRetracted(FanfoldError):
    """The post was retracted by its publisher, before or after it was published."""

    status = 410
    slug = "post-retracted"
    title = "The post was retracted"


class TooLarge(BadInput):
    """The request or the post's body is larger than the contract allows."""

    status = 413
    slug = "too-large"
    title = "The request is too large"


class TryLater(FanfoldError):
    """A passing fault, such as a throttle; the same request again is safe and may succeed."""

    status = 503
    slug = "try-later"
    title = "Try again in a moment"


class Unanswered(Exception, metaclass=ABCMeta):
    """A call got no answer that can be read; it may have taken effect. Made again, it may get one.

    Other libraries' errors of that kind are registered as subclasses, so `isinstance` knows them.
    """


class Unsent(Exception):
    """A queue did not take a message within the attempts that were made; nothing was lost."""


class Contended(TryLater):
    """Others changed the same row faster than we could; the call had no effect that counts."""


class Undeliverable(Exception):
    """An order that was tried for long enough; it belongs in the dead-letter queue, visibly."""
