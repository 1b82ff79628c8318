"""The functions on the models, for all tests of a module."""

import json
from collections.abc import Iterator

import pytest

from fanfold import contract
from tests.doors.service import Doors, opened


@pytest.fixture(scope="module")
def functions() -> Iterator[Doors]:
    with opened() as doors:
        yield doors


@pytest.fixture(scope="module")
def _life(functions: Doors) -> Doors:
    """A little of everything, by the names that `strategies` knows."""
    for user, publisher in (("ada", "bob"), ("bob", "ada"), ("eve", "ada"), ("ada", "ada")):
        path = {"publisher_id": publisher}
        assert functions.http(contract.FOLLOW, user, path=path).status == 200
    assert functions.http(contract.MUTE, "ada", path={"publisher_id": "eve"}).status == 204
    for publisher, key in (("ada", "key-1"), ("bob", "key-1"), ("ada", "key-2")):
        functions.account.clock.advance(1)
        headers = {"idempotency-key": key}
        posted = functions.http(
            contract.PUBLISH_POST, publisher, headers=headers, body='{"body":{"n":1.10}}'
        )
        assert posted.status == 202
    published = {"version": 1, "type": contract.POST_PUBLISHED, "publisher_id": "ada"}
    for ref_id in ("post-1", "post-2", "gone-1"):
        functions.send("Publish", json.dumps({**published, "ref_id": ref_id}))
    functions.settle()
    gone = {**published, "type": contract.POST_DELETED, "ref_id": "gone-1"}
    functions.send("Publish", json.dumps(gone))
    functions.settle()
    assert not functions.faults.found
    functions.keep()
    return functions


@pytest.fixture
def seeded(_life: Doors) -> Doors:
    """The functions on an account where some follow, publish, mute and have retracted."""
    _life.reset()
    return _life
