"""Validates what comes from outside: HTTP bodies and messages of other services.

Only this module imports pydantic, so DELIVER and QUERY start without it.
"""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from fanfold import contract, json_text, times
from fanfold.errors import BadInput, TooLarge

# What JSON Schema says besides is for the public documents; the functions below check it.
Version = Annotated[int, Field(json_schema_extra={"const": contract.VERSION})]
Id = Annotated[str, StringConstraints(pattern=rf"^{contract.ID_PATTERN}$")]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Body = Annotated[
    dict[str, Any],
    Field(
        description=(
            f"Opaque, and kept as it was sent: at most {contract.MAX_BODY_BYTES} bytes as compact "
            f"JSON in UTF-8, and {contract.MAX_BODY_LEVELS} levels."
        )
    ),
]


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PublishRequest(_Input):
    """The body of `POST /v1/posts`; the publisher is the token's user, and the ids are ours."""

    published_at: Time | None = None
    body: Body | None = None


class EditRequest(_Input):
    """The body of `PUT /v1/posts/{ref_id}`."""

    body: Body


class MarkerRequest(_Input):
    """The body of `PUT /v1/timeline/marker`: `published_at` and `ref_id` of an entry."""

    published_at: Time
    ref_id: Id


class PostPublished(_Input):
    version: Version
    type: Literal["post.published"]
    publisher_id: Id
    ref_id: Id
    published_at: Time | None = None
    body: Body | None = None


class PostUpdated(_Input):
    version: Version
    type: Literal["post.updated"]
    publisher_id: Id
    ref_id: Id
    body: Body


class PostDeleted(_Input):
    version: Version
    type: Literal["post.deleted"]
    publisher_id: Id
    ref_id: Id


class FollowAdded(_Input):
    version: Version
    type: Literal["follow.added"]
    user_id: Id
    publisher_id: Id


class FollowRemoved(_Input):
    version: Version
    type: Literal["follow.removed"]
    user_id: Id
    publisher_id: Id


Event = PostPublished | PostUpdated | PostDeleted | FollowAdded | FollowRemoved

EVENTS: dict[str, type[Event]] = {
    contract.POST_PUBLISHED: PostPublished,
    contract.POST_UPDATED: PostUpdated,
    contract.POST_DELETED: PostDeleted,
    contract.FOLLOW_ADDED: FollowAdded,
    contract.FOLLOW_REMOVED: FollowRemoved,
}

Model = TypeVar("Model", bound=BaseModel)

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
    """How many objects and lists lie within each other."""
    depth, level = 0, list[Any]([body])
    while level:
        depth += 1
        inner = chain.from_iterable(
            each.values() if isinstance(each, dict) else each for each in level
        )
        level = [each for each in inner if isinstance(each, dict | list)]
    return depth


def _checked(model: type[Model], content: dict[str, Any]) -> Model:
    """Check a message's fields, of which none may be unknown.

    One that is null counts as left out, as many serializers write it.
    """
    fields = model.model_fields
    for name in content:
        if name not in fields:
            known = ", ".join(fields)
            raise BadInput(f"Unknown field {_shown(name)}; the known ones are {known}.")
    content = {name: value for name, value in content.items() if value is not None}
    try:
        valid = model.model_validate(content)
    except ValidationError as invalid:
        raise BadInput(_sentence(invalid)) from None
    published_at = content.get("published_at")
    if published_at is not None:
        times.to_ms(published_at)
    return valid


def _sentence(invalid: ValidationError) -> str:
    """The first error, with what to change."""
    error = invalid.errors(include_url=False, include_input=False)[0]
    field = str(error["loc"][0]) if error["loc"] else "body"
    match error["type"]:
        case "missing":
            return f"'{field}' is missing; send it."
        case "string_pattern_mismatch":
            return (
                f"'{field}' is not a valid id; use 1 to {contract.MAX_ID_CHARS} characters "
                "out of letters, digits and _ . : | @ + = -"
            )
        case "dict_type":
            return f'\'{field}\' is not a JSON object; send one such as {{"title": "Hello"}}.'
        case "string_unicode":
            return f"'{field}' holds half a surrogate pair; send whole characters."
        case _:
            return f"'{field}' is not a string; send one."


def _shown(name: str) -> str:
    """A sender's text as ASCII, and short enough to be quoted in a sentence."""
    shown = ascii(name)  # up to ten times as long as the name
    return shown if len(shown) <= 60 else f"{shown[:60]}...'"
