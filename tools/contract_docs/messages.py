"""JSON Schemas of the messages that other services send to the publish queue."""

from __future__ import annotations

from typing import Any

from fanfold import contract
from functions._intake import EVENTS
from tools.contract_docs.intake import schema_of
from tools.contract_docs.operations import BODY, PUBLISHED_AT

Json = dict[str, Any]

_POST = {"publisher_id": "alice", "ref_id": "article-4711"}
_FOLLOW = {"user_id": "bob", "publisher_id": "alice"}

EXAMPLES: dict[str, Json] = {
    contract.POST_PUBLISHED: {**_POST, "published_at": PUBLISHED_AT, "body": BODY},
    contract.POST_UPDATED: {**_POST, "body": BODY},
    contract.POST_DELETED: _POST,
    contract.FOLLOW_ADDED: {**_FOLLOW, "approved": True},
    contract.FOLLOW_REMOVED: _FOLLOW,
    contract.FOLLOWER_APPROVED: _FOLLOW,
    contract.FOLLOWER_REMOVED: _FOLLOW,
    contract.USER_BLOCKED: _FOLLOW,
    contract.USER_UNBLOCKED: _FOLLOW,
}


def example(kind: str) -> Json:
    """A whole message of this type."""
    return {"version": contract.VERSION, "type": kind, **EXAMPLES[kind]}


def documents() -> dict[str, Json]:
    """A JSON Schema for each type of message."""
    return {
        kind: {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **schema_of(model, kind=kind),
            "examples": [example(kind)],
        }
        for kind, model in EVENTS.items()
    }
