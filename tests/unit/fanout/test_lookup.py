"""What a worker reads before it delivers, on the model: the rows, and whose publisher's."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from fanfold import clock, names
from fanfold.aws.retries import BATCH
from fanfold.aws.threads import together
from fanfold.errors import TryLater
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.lookup import Found, Lookup
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.publishers_table import PublishersTable
from fanfold.timeline.posts import Posts
from tests import stores
from tests.stores import client_of

ROW = replace(stores.ROW, changed_at=stores.AT)
POST = replace(stores.POST, body='{"text": "Hello"}')


@pytest.fixture
def client() -> Any:
    """Tables with a fan-out, its post, and a publisher who has grown."""
    client = client_of(*names.TABLES)
    Ledger(client, names.FANOUTS.name).open(ROW)
    Posts(client, names.POSTS.name).add(POST, now=1)
    PublishersTable(client, names.PUBLISHERS.name).raise_to("ada", 2, now_ms=1)
    return client


def lookup(client: Any) -> Lookup:
    return Lookup(
        Ledger(client, names.FANOUTS.name),
        Posts(client, names.POSTS.name),
        PublishersTable(client, names.PUBLISHERS.name),
        EdgesTable(client, names.FOLLOWERS.name),
        partial(together, client, None),
    )


@pytest.mark.parametrize(
    ("publisher", "expected"),
    [
        ("ada", ["BatchGetItem"]),
        ("bea", ["BatchGetItem", "GetItem"]),  # a group that a person gave
        ("", ["BatchGetItem", "GetItem"]),
        ("no id", ["BatchGetItem", "GetItem"]),
    ],
)
def test_the_rows_are_read_in_one_call_if_the_publisher_is_known(
    client: Any, publisher: str, expected: list[str]
) -> None:
    plain, calls = client.call, list[str]()

    def call(operation: str, request: Any) -> Any:
        calls.append(operation)
        return plain(operation, request)

    client.call = call
    assert lookup(client).find("post-1", publisher) == Found(ROW, replace(POST, body=""), 2)
    assert calls == expected


def test_rows_that_are_never_processed_are_tried_later(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "sleep", lambda _seconds: None)
    plain, batches = client.batch_get_item, list[Any]()

    def leave(**request: Any) -> Any:
        batches.append(request)
        answer = plain(**request)
        answer["Responses"].pop(names.POSTS.name, None)
        left = {names.POSTS.name: request["RequestItems"][names.POSTS.name]}
        return {**answer, "UnprocessedKeys": left}

    monkeypatch.setattr(client, "batch_get_item", leave, raising=False)
    with pytest.raises(TryLater, match="1 rows of Posts could not be read"):
        lookup(client).find("post-1", "ada")
    assert BATCH.attempts <= len(batches) <= BATCH.attempts + 1
