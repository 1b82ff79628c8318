"""Forged cursors, claims and headers at the handlers: nobody reads or writes what is another's.

API Gateway verifies tokens before a function is asked; `tests/e2e/api/test_forgeries.py` has those.
"""

from __future__ import annotations

import base64
import copy
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from fanfold import contract, cursor
from fanfold.contract import ROUTES, Route
from fanfold.cursor import Cursor
from fanfold.follows import ring
from fanfold.follows.publisher.privacy import SECONDS
from fanfold.ids import ref_id_for, sort_key
from tests import service
from tests.doors.service import Answer, Doors, Json
from tests.service import event

# Whose rows are wanted, and who wants them. Mallory follows nobody, so whatever is shown is a leak.
VICTIM, MALLORY = "victim", "mallory"
PUBLISHERS = [f"secret-{number}" for number in range(4)]
AT = "2026-11-20T17:00:00.123Z"
# Routes that read a list of one's own, and how a cursor is given to them; the first goes down.
LISTS: dict[Route, tuple[str, ...]] = {
    contract.LIST_FOLLOWING: ("cursor",),
    contract.LIST_MUTED: ("cursor",),
    contract.LIST_REQUESTS: ("cursor",),
    contract.LIST_BLOCKED: ("cursor",),
    contract.LIST_FOLLOWERS: ("cursor",),
    contract.READ_TIMELINE: ("before", "after"),
    contract.READ_FEED: ("before", "after"),
}
REFUSED = "The cursor is not one that this service wrote"


@dataclass
class Loot:
    """Cursors that the victim was given, by the list that gave them, and what only they may see."""

    cursors: dict[Route, list[str]] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)

    @property
    def every(self) -> list[str]:
        return sorted({each for found in self.cursors.values() for each in found})

    def is_in(self, text: str) -> bool:
        return any(secret in text for secret in self.secrets)


@pytest.fixture(scope="module")
def loot(functions: Doors) -> Loot:
    """The victim follows, mutes, publishes and reads; all cursors of all pages are stolen."""
    loot = Loot(secrets={*PUBLISHERS})
    for publisher in PUBLISHERS:
        for user, followed in ((VICTIM, publisher), (publisher, VICTIM)):
            functions.http(contract.FOLLOW, user, path={"publisher_id": followed})
        path = {"publisher_id": f"{publisher}-muted"}
        assert functions.http(contract.MUTE, VICTIM, path=path).status == 204
        loot.secrets |= {publishes(functions, publisher, "1"), publishes(functions, publisher, "2")}
    for number in range(3):
        publishes(functions, VICTIM, f"{number}")
    assert functions.http(contract.CHOOSE_PRIVACY, VICTIM, body='{"private":true}').status == 200
    functions.account.clock.advance(SECONDS + 1)
    for number in range(4):
        asks, blocked = f"secret-asks-{number}", f"secret-blocked-{number}"
        path = {"publisher_id": VICTIM}
        assert functions.http(contract.FOLLOW, asks, path=path).status == 202
        assert functions.http(contract.BLOCK, VICTIM, path={"user_id": blocked}).status == 204
        loot.secrets |= {asks, blocked}
    functions.settle()
    marker = json.dumps({"published_at": AT, "ref_id": "marked"})
    assert functions.http(contract.MOVE_MARKER, VICTIM, body=marker).status == 200
    for route, directions in LISTS.items():
        loot.cursors[route] = list(stolen(functions, route, directions[0]))
        assert len(loot.cursors[route]) > 2, route
    functions.keep()
    return loot


@pytest.fixture
def doors(functions: Doors, loot: Loot) -> Doors:
    functions.reset()
    return functions


def publishes(doors: Doors, publisher: str, key: str) -> str:
    """The id of a new post."""
    doors.account.clock.advance(1)
    headers = {"idempotency-key": key}
    answer = doors.http(contract.PUBLISH_POST, publisher, headers=headers, body='{"body":{}}')
    assert answer.status == 202
    return ref_id_for(publisher, key)


def stolen(doors: Doors, route: Route, down: str) -> Iterator[str]:
    """The cursors of all pages of one of the victim's lists."""
    query: Json = {"limit": "1"}
    while True:
        page = read(doors, route, VICTIM, query).body
        yield from filter(None, (page["next"], page.get("previous")))
        if page["next"] is None:
            return
        query = {"limit": "1", down: page["next"]}


def read(doors: Doors, route: Route, user: str, query: Json) -> Answer:
    """Read one of the user's own lists."""
    own = {"publisher_id": user} if "{publisher_id}" in route.path else None
    return doors.http(route, user, query=query, path=own)


def give_all(doors: Doors, loot: Loot, cursors: Iterable[str]) -> Counter[int]:
    """Give Mallory's every list each cursor; how often each status was answered."""
    statuses: Counter[int] = Counter()
    before = doors.account.dump()
    for each in cursors:
        for route, directions in LISTS.items():
            for direction in directions:
                answer = read(doors, route, MALLORY, {direction: each})
                statuses[answer.status] += 1
                assert answer.status in (200, 400), (route.key, each, answer.text)
                assert not loot.is_in(answer.text), (route.key, each)
                assert answer.status == 200 or REFUSED in answer.text
    assert doors.account.dump() == before
    assert not doors.faults.found
    return statuses


# Cursors


def test_stolen_cursors_show_their_thief_nothing(doors: Doors, loot: Loot) -> None:
    """They hold places, of every list and in both directions, and no user."""
    statuses = give_all(doors, loot, loot.every)
    assert statuses[200] > 40  # most fit some list of Mallory's


def test_a_stolen_cursor_shows_ones_own_rows_from_its_place_on(doors: Doors, loot: Loot) -> None:
    """Likewise a cursor of another stage: it names neither a user nor a table."""
    doors.http(contract.FOLLOW, MALLORY, path={"publisher_id": "zoe"})
    (first, *_) = loot.cursors[contract.LIST_FOLLOWING]
    page = read(doors, contract.LIST_FOLLOWING, MALLORY, {"cursor": first}).body
    assert [each["publisher_id"] for each in page["following"]] == ["zoe"]
    assert page["count"] == 1


def keys_of_every_table() -> list[str]:
    """Keys as the tables have them, and what would matter if a position could name a row."""
    post, edge = sort_key(AT, "post-1"), ring.edge(VICTIM)
    return [
        *("", VICTIM, f"{VICTIM}#muted", f"{VICTIM}#{post}", f"{VICTIM}\n{post}", "#sweep"),
        *(f"{PUBLISHERS[0]}#0.0", f"{PUBLISHERS[0]}#0.0#{edge}", edge, ring.START, ring.END),
        *(AT, post, sort_key(AT, VICTIM), "2031-01-01T00:00:00.000Z#far", "2001-01-01T00:00:00Z#a"),
        json.dumps({"user_id": {"S": VICTIM}, "sort_key": {"S": post}}),
    ]


def test_cursors_that_are_spliced_show_nothing(doors: Doors, loot: Loot) -> None:
    """Or made of keys of other tables and users."""
    ones = [found[0] for found in loot.cursors.values()]
    spliced = [one[: len(one) // 2] + other[len(other) // 2 :] for one in ones for other in ones]
    everything = Cursor(sort_key(AT, "zz"), "2000-01-01T00:00:00.000Z", (b"\0\0",) * 50)
    keys = keys_of_every_table()
    made = [cursor.encode(each) for each in (everything, *map(Cursor.at, keys))]
    assert give_all(doors, loot, [*spliced, *keys, *made]).keys() == {200, 400}


# Users

# A request for every route, as API Gateway hands it over.
REQUESTS = {route.key: (route, event(name)) for name, route in service.REQUESTS.items()}

PRETENCES = {
    **dict.fromkeys(("x-forwarded-user", "x-remote-user", "x-user-id", "x-amzn-oidc-data"), VICTIM),
    **dict.fromkeys(("x-amzn-oidc-identity", "x-amzn-apigateway-authorizer"), VICTIM),
    **dict.fromkeys(("sub", "username", "user_id"), VICTIM),
    "cookie": f"sub={VICTIM}; user_id={VICTIM}",
    "authorization": f"Basic {base64.b64encode(b'victim:').decode()}",
}


def refuses(doors: Doors, loot: Loot, route: Route, request: Json) -> None:
    """Check that a request is answered 401, tells nothing and changes nothing."""
    before = doors.account.dump(), doors.account.queued()
    answer = doors.ask(route, request)
    assert (answer.status, answer.slug) == (401, "no-user"), answer.text
    assert not loot.is_in(answer.text)
    assert (doors.account.dump(), doors.account.queued()) == before


CLAIM = ("requestContext", "authorizer", "jwt", "claims", "sub")


def with_claim(request: Json, depth: int, value: Any) -> Json:
    """A request that has this value at so many steps on the way to the user."""
    event = inner = copy.deepcopy(request)
    for step in CLAIM[:depth]:
        inner = inner[step]
    inner[CLAIM[depth]] = value
    return event


@pytest.mark.parametrize("depth", range(len(CLAIM)), ids=CLAIM)
def test_without_verified_claims_no_route_does_anything_whatever_headers_pretend(
    doors: Doors, loot: Loot, depth: int
) -> None:
    assert REQUESTS.keys() == {route.key for route in ROUTES}
    others: list[Any] = [{}, [], "victim"] if depth < len(CLAIM) - 1 else []
    for route, request in REQUESTS.values():
        for instead in (None, *others):
            event = with_claim(request, depth, instead)
            event["headers"] |= PRETENCES
            refuses(doors, loot, route, event)
    assert not doors.faults.found


NOT_USERS = [
    *(None, "", " victim", "victim ", "victim\n", "victim\0", "v" * 129, "vi\ud800ctim"),
    *("victim#muted", "victim#", "#victim", "#sweep", "victim/../mallory", "victim%23muted"),
    *(".", ".."),
    # How API Gateway writes a list that a token holds.
    *("[victim]", "[victim mallory]"),
    # A Cyrillic i, a wide v, a space of no width, an accent by itself.
    *("v\u0456ctim", "\uff56ictim", "vic\u200btim", "victim\u0301"),
    *({"S": "victim"}, ["victim"], True, 7),
]


@pytest.mark.parametrize("user", NOT_USERS, ids=ascii)
def test_a_claim_that_only_looks_like_a_user_is_refused(
    doors: Doors, loot: Loot, user: Any
) -> None:
    for route, request in REQUESTS.values():
        refuses(doors, loot, route, with_claim(request, len(CLAIM) - 1, user))


@pytest.mark.parametrize("user", ["Victim", "VICTIM", "-", "victim.", "victim|victim", "sub"])
def test_names_that_differ_in_any_character_are_other_users(
    doors: Doors, loot: Loot, user: str
) -> None:
    for route in LISTS:
        answer = read(doors, route, user, {})
        assert answer.status == 200
        assert not loot.is_in(answer.text)


def rows_of_the_victim(doors: Doors) -> list[str]:
    """All rows of all tables in which the victim, or somebody whom they follow, is named."""
    rows = (row for table in doors.account.dump().values() for row in table)
    return [row for row in rows if VICTIM in row or "secret-" in row]


def test_headers_cannot_change_the_user_of_the_token(doors: Doors, loot: Loot) -> None:
    ours = rows_of_the_victim(doors)
    for route, request in REQUESTS.values():
        event = with_claim(request, len(CLAIM) - 1, MALLORY)
        event["headers"] |= PRETENCES
        answer = doors.ask(route, event)
        assert answer.status in (200, 202, 204, 403, 404), answer.text
        assert not loot.is_in(answer.text)
    doors.settle()
    assert rows_of_the_victim(doors) == ours


@pytest.mark.parametrize("name", ["user_id", "sub", "publisher_id", "as", "username", "token"])
def test_no_parameter_and_no_field_names_another_user(doors: Doors, loot: Loot, name: str) -> None:
    before = doors.account.dump(), doors.account.queued()
    for route in LISTS:
        assert read(doors, route, MALLORY, {name: VICTIM}).status == 400
    for route in (contract.PUBLISH_POST, contract.EDIT_POST, contract.MOVE_MARKER):
        body, path = json.dumps({"body": {}, name: VICTIM}), {"ref_id": "post-1"}
        assert doors.http(route, MALLORY, body=body, path=path).status == 400
    assert (doors.account.dump(), doors.account.queued()) == before


def test_what_is_another_users_is_neither_changed_nor_watched(doors: Doors, loot: Loot) -> None:
    """By its id, which readers know: edit, retract and watch are of one's own posts alone."""
    before = doors.account.dump(), doors.account.queued()
    for ref_id in {each for each in loot.secrets if not each.startswith("secret")} | {
        ref_id_for(VICTIM, "0")
    }:
        for route in (contract.EDIT_POST, contract.RETRACT_POST, contract.SHOW_DELIVERY):
            answer = doors.http(route, MALLORY, path={"ref_id": ref_id}, body='{"body":{}}')
            assert (answer.status, answer.slug) == (404, "no-post")
    for route in (contract.LIST_FOLLOWERS, contract.COUNT_FOLLOWERS):
        answer = doors.http(route, MALLORY, path={"publisher_id": VICTIM})
        assert (answer.status, answer.slug) == (403, "followers-closed")
    assert (doors.account.dump(), doors.account.queued()) == before
