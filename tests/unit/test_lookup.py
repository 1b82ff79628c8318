"""What a worker reads before it delivers, on the model: the rows, and whose publisher's."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from fanfold import clock, names
from fanfold.aws import batch_get
from fanfold.aws.threads import together
from fanfold.errors import TryLater
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.lookup import Found, Lookup
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.ring_reader import Page
from fanfold.timeline.posts import Posts
from tests.unit import stores
from tests.unit.stores import client_of

ROW = replace(stores.ROW, changed_at=stores.AT)
POST = replace(stores.POST, body='{"text": "Hello"}')
FOLLOWERS = sorted(map(ring.edge, ("bob", "cleo", "dan")))


class Tables:
    """A lookup, what it finds, and the calls that it makes."""

    def __init__(self) -> None:
        self.client = client_of(*names.TABLES)
        self.calls: list[str] = []
        self.hot = ""  # a table of which no row is processed
        self.plain, self.client.call = self.client.call, self.call
        client = self.client
        self.ledger = Ledger(client, names.FANOUTS.name)
        self.posts = Posts(client, names.POSTS.name)
        self.publishers = PublishersTable(client, names.PUBLISHERS.name)
        self.edges = EdgesTable(client, names.FOLLOWERS.name)
        both = partial(together, client, None)
        self.lookup = Lookup(self.ledger, self.posts, self.publishers, self.edges, both)

    def call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(operation)
        answer = self.plain(operation, request)
        if operation == "BatchGetItem" and self.hot:
            answer["Responses"].pop(self.hot, None)
            answer["UnprocessedKeys"] = {self.hot: request["RequestItems"][self.hot]}
        return answer


@pytest.fixture
def tables() -> Tables:
    tables = Tables()
    tables.ledger.open(ROW)
    tables.posts.add(POST, now=1)
    tables.publishers.raise_to("ada", 2, now_ms=1)
    for follower in ("bob", "cleo", "dan"):
        tables.edges.put("ada", follower, version=1, level=0)
    tables.calls.clear()
    return tables


KNOWN = Found(ROW, replace(POST, body=""), 2)


@pytest.mark.parametrize(
    ("publisher", "calls"),
    [
        ("ada", ["BatchGetItem"]),
        ("bea", ["BatchGetItem", "GetItem"]),  # a group that a person gave
        ("", ["BatchGetItem", "GetItem"]),
        ("no id", ["BatchGetItem", "GetItem"]),
    ],
)
def test_the_rows_are_read_in_one_call_if_the_publisher_is_known(
    tables: Tables, publisher: str, calls: list[str]
) -> None:
    assert tables.lookup.find("post-1", publisher) == KNOWN
    assert tables.calls == calls


@pytest.mark.parametrize(("publisher", "is_read"), [("ada", True), ("bea", False), ("", False)])
def test_only_the_publishers_own_followers_are_read_beside_the_rows(
    tables: Tables, publisher: str, is_read: bool
) -> None:
    page = Page(FOLLOWERS, more=False) if is_read else None
    assert tables.lookup.find_with_followers("post-1", publisher) == KNOWN._replace(first_page=page)


def test_a_publisher_without_a_row_is_at_the_lowest_level(tables: Tables) -> None:
    assert tables.lookup.find("post-2", "bea") == Found(None, None, 0)
    tables.ledger.open(replace(ROW, fanout_id="post-2", publisher_id="bea"))
    assert tables.lookup.find("post-2", "bea").level == 0


def test_rows_that_are_never_processed_are_tried_later(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "sleep", lambda _seconds: None)
    tables.hot = names.POSTS.name
    with pytest.raises(TryLater, match="1 rows of Posts could not be read"):
        tables.lookup.find("post-1", "ada")
    assert batch_get.ATTEMPTS <= tables.calls.count("BatchGetItem") <= batch_get.ATTEMPTS + 1
