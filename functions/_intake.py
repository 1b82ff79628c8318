"""Validates what comes from outside: HTTP bodies and messages of other services.

A model names its fields, and `CHECKS` says what a field of that name may hold.
tools/contract_docs/ writes the public documents from both.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from fanfold import contract, json_text, times
from fanfold.errors import BadInput, TooLarge
from fanfold.ids import check_id
from fanfold.json_text import Body


class PublishRequest(NamedTuple):
    """The body of `POST /v1/posts`; the publisher is the token's user, and the ids are ours."""

    published_at: str | None = None
    body: dict[str, Any] | None = None


class EditRequest(NamedTuple):
    """The body of `PUT /v1/posts/{ref_id}`."""

    body: dict[str, Any]


class MarkerRequest(NamedTuple):
    """The body of `PUT /v1/timeline/marker`: `published_at` and `ref_id` of an entry."""

    published_at: str
    ref_id: str


class PrivacyRequest(NamedTuple):
    """The body of `PUT /v1/me`: whether the user approves each new follower."""

    private: bool


class PostPublished(NamedTuple):
    version: int
    type: str
    publisher_id: str
    ref_id: str
    published_at: str | None = None
    body: dict[str, Any] | None = None


class PostUpdated(NamedTuple):
    version: int
    type: str
    publisher_id: str
    ref_id: str
    body: dict[str, Any]


class PostDeleted(NamedTuple):
    version: int
    type: str
    publisher_id: str
    ref_id: str


class FollowAdded(NamedTuple):
    version: int
    type: str
    user_id: str
    publisher_id: str
    approved: bool = False


class FollowRemoved(NamedTuple):
    version: int
    type: str
    user_id: str
    publisher_id: str


class FollowerApproved(NamedTuple):
    version: int
    type: str
    user_id: str
    publisher_id: str


class FollowerRemoved(NamedTuple):
    version: int
    type: str
    user_id: str
    publisher_id: str


class UserBlocked(NamedTuple):
    version: int
    type: str
    user_id: str
    publisher_id: str


class UserUnblocked(NamedTuple):
    version: int
    type: str
    user_id: str
    publisher_id: str


Event = (
    PostPublished
    | PostUpdated
    | PostDeleted
    | FollowAdded
    | FollowRemoved
    | FollowerApproved
    | FollowerRemoved
    | UserBlocked
    | UserUnblocked
)

EVENTS: dict[str, type[Event]] = {
    contract.POST_PUBLISHED: PostPublished,
    contract.POST_UPDATED: PostUpdated,
    contract.POST_DELETED: PostDeleted,
    contract.FOLLOW_ADDED: FollowAdded,
    contract.FOLLOW_REMOVED: FollowRemoved,
    contract.FOLLOWER_APPROVED: FollowerApproved,
    contract.FOLLOWER_REMOVED: FollowerRemoved,
    contract.USER_BLOCKED: UserBlocked,
    contract.USER_UNBLOCKED: UserUnblocked,
}

Model = TypeVar("Model", bound=tuple[Any, ...])

_A_POST = '{"body": {"title": "Hello"}}'
_AN_ENTRY = '{"published_at": "2026-11-20T18:00:00.123Z", "ref_id": "0b6f8a4c"}'


def read_publish_request(raw: str) -> PublishRequest:
    """Read the body of `POST /v1/posts`; raises `BadInput`."""
    content = _content(raw, _A_POST)
    if "ref_id" in content:
        raise BadInput(
            "'ref_id' cannot be chosen over HTTP; leave it out, and send an Idempotency-Key header "
            "to have the same ref_id each time. Applications with ids of their own publish by the "
            "queue."
        )
    return _checked(PublishRequest, content)


def read_edit_request(raw: str) -> EditRequest:
    """Read the body of `PUT /v1/posts/{ref_id}`; raises `BadInput`."""
    return _checked(EditRequest, _content(raw, _A_POST))


def read_marker_request(raw: str) -> MarkerRequest:
    """Read the body of `PUT /v1/timeline/marker`; raises `BadInput`."""
    return _checked(MarkerRequest, _content(raw, _AN_ENTRY))


def read_privacy_request(raw: str) -> PrivacyRequest:
    """Read the body of `PUT /v1/me`; raises `BadInput`."""
    return _checked(PrivacyRequest, _content(raw, '{"private": true}'))


def _content(raw: str, example: str) -> dict[str, Any]:
    """The JSON object of a request, such as the example; raises `BadInput`."""
    if len(raw.encode("utf-8", "surrogatepass")) > contract.MAX_REQUEST_BYTES:
        raise TooLarge(
            f"The request is larger than {contract.MAX_REQUEST_BYTES} bytes; shorten it."
        )
    hint = f"; send an object such as {example}"
    return json_text.read(raw, what="The request body", hint=hint)


def read_event(content: dict[str, Any]) -> Event:
    """Read a parsed message of another service; raises `BadInput`."""
    kind = content.get("type")
    model = EVENTS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise BadInput(f"The message's type is not known; send one of {', '.join(EVENTS)}.")
    return _checked(model, content)


def actors(event: Event) -> tuple[str, ...]:
    """Whose decision an event tells: its sender must be allowed to act for all of them."""
    match event:
        case FollowAdded(approved=True):
            return event.user_id, event.publisher_id
        case FollowAdded() | FollowRemoved():
            return (event.user_id,)
        case PostPublished() | PostUpdated() | PostDeleted():
            return (event.publisher_id,)
        case FollowerApproved() | FollowerRemoved() | UserBlocked() | UserUnblocked():
            return (event.publisher_id,)


def body_of(body: dict[str, Any] | None) -> Body:
    """The body of a new post; raises `BadInput` or `TooLarge`."""
    return Body(body_text(body), json_text.digest(body))


def body_text(body: dict[str, Any] | None) -> str:
    """A post's body as compact JSON text, with its numbers as they were sent.

    Raises `BadInput` or `TooLarge`.
    """
    if body is None:
        return ""
    if _depth(body) > contract.MAX_BODY_LEVELS:
        raise BadInput(
            f"'body' is nested more than {contract.MAX_BODY_LEVELS} levels deep; flatten it."
        )
    text = json_text.write(body)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadInput("'body' holds half a surrogate pair; send whole characters.") from None
    if size > contract.MAX_BODY_BYTES:
        raise TooLarge(
            f"'body' is {size} bytes as compact JSON and may be {contract.MAX_BODY_BYTES}; keep "
            "large content elsewhere and put its address here."
        )
    return text


def _depth(body: dict[str, Any]) -> int:
    """How deep objects and lists are nested."""
    depth, level = 0, list[Any]([body])
    while level:
        depth += 1
        inner = chain.from_iterable(
            each.values() if isinstance(each, dict) else each for each in level
        )
        level = [each for each in inner if isinstance(each, dict | list)]
    return depth


def _checked(model: type[Model], content: dict[str, Any]) -> Model:
    """Check a message's fields; none may be unknown.

    A null field counts as left out, as many serializers write it.
    """
    fields: tuple[str, ...] = model._fields  # type: ignore[attr-defined]
    for name in content:
        if name not in fields:
            known = ", ".join(fields)
            quoted = _shown(name)
            raise BadInput(f"Unknown field {quoted}; the known ones are {known}.", quoted=quoted)
    content = {name: value for name, value in content.items() if value is not None}
    defaults = model._field_defaults  # type: ignore[attr-defined]
    for name in fields:
        if name in content:
            CHECKS[name](content[name], name)
        elif name not in defaults:
            raise BadInput(f"'{name}' is missing; send it.")
    if "published_at" in content:  # last: a body may be refused before it
        times.to_ms(content["published_at"])
    return model(**content)


def _version(value: Any, field: str) -> None:
    """`messages.parse` decides which versions are read."""
    if type(value) is not int:
        raise BadInput(f"'{field}' is not a whole number; send {contract.VERSION}.")


def _text(value: Any, field: str) -> None:
    if not isinstance(value, str):
        raise BadInput(f"'{field}' is not a string; send one.")
    _whole(value, field)


def _whole(text: str, field: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"'{field}' holds half a surrogate pair; send whole characters.") from None


def _id(value: Any, field: str) -> None:
    _text(value, field)
    check_id(value, field=field)


def _boolean(value: Any, field: str) -> None:
    if not isinstance(value, bool):
        raise BadInput(f"'{field}' is not true or false; send one of them.")


def _object(value: Any, field: str) -> None:
    if not isinstance(value, dict):
        raise BadInput(f'\'{field}\' is not a JSON object; send one such as {{"title": "Hello"}}.')
    for name in value:
        _whole(name, field)


CHECKS: dict[str, Callable[[Any, str], None]] = {
    "version": _version,
    "type": _text,
    "publisher_id": _id,
    "ref_id": _id,
    "user_id": _id,
    "published_at": _text,
    "body": _object,
    "private": _boolean,
    "approved": _boolean,
}


def _shown(name: str) -> str:
    """A sender's text as ASCII, short enough for a sentence."""
    shown = ascii(name)  # up to ten times as long as the name
    return shown if len(shown) <= 60 else f"{shown[:60]}...'"
