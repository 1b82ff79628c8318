"""Requests of publishers about their followers, and of readers about publishers."""

from __future__ import annotations

from fanfold import contract
from proof.simulation.clients import requests
from proof.simulation.clients.audience import Listed, Look
from proof.simulation.clients.history import Operation
from proof.simulation.oracle.follows import (
    FOLLOWED,
    LISTED,
    RELATIONS,
    REQUESTED,
    SHUT,
    Asked,
    Sighting,
    Verb,
)
from proof.simulation.world.world import World

# By kind: its route, its message, and what it asks for, of the user and of the publisher as a user.
_KINDS: dict[str, tuple[contract.Route, str, tuple[Verb, ...]]] = {
    "approve": (contract.APPROVE, contract.FOLLOWER_APPROVED, (Verb.APPROVE,)),
    "remove": (contract.REMOVE, contract.FOLLOWER_REMOVED, (Verb.REMOVE,)),
    "block": (contract.BLOCK, contract.USER_BLOCKED, (Verb.BLOCK, Verb.SHUT_OUT)),
    "unblock": (contract.UNBLOCK, contract.USER_UNBLOCKED, (Verb.UNBLOCK, Verb.LET_IN)),
}
KINDS = tuple(_KINDS)
UNKNOWN, CLOSED = 404, 403
_IS_SHUT = frozenset(each for each in RELATIONS if each & SHUT)


def decide(world: World, kind: str, publisher: str, user: str) -> Operation:
    """Approve, remove, block or unblock a user by HTTP."""
    route, _, verbs = _KINDS[kind]
    asked = list(zip(((user, publisher), (publisher, user)), verbs, strict=False))

    def is_acknowledged(operation: Operation) -> bool:
        status, _, tried = requests.ask(world, asked, publisher, route, {"user_id": user})
        operation.status = status
        if kind == "approve" and status in (200, UNKNOWN):
            among = FOLLOWED if status == 200 else RELATIONS - FOLLOWED - LISTED
            world.history.audience.answers.append(((user, publisher), tried[0], among))
        return tried[0].is_due

    return requests.operate(world, kind, publisher, user, is_acknowledged)


def decide_by_queue(
    world: World, kind: str, publisher: str, user: str, *, first_sent_ms: int | None = None
) -> None:
    """The same by a message, which nobody acknowledges, or by one that is redriven."""
    type_ = _KINDS[kind][1]
    requests.ask_by_queue(world, kind, type_, user, publisher, first_sent_ms=first_sent_ms)


def choose(world: World, publisher: str, *, is_private: bool) -> Operation:
    """Go private, or public."""
    audience = world.history.audience

    def is_acknowledged(operation: Operation) -> bool:
        request = Asked(is_private, world.clock.now_ms())
        audience.choices[publisher].append(request)

        def ended(status: int) -> None:
            now_ms: float = world.clock.now_ms()
            lands_ms = world.scheduler.current.lands_ms
            request.ended = now_ms if status == 200 else max(now_ms, lands_ms)

        operation.status, answer = requests.call(
            world,
            publisher,
            contract.CHOOSE_PRIVACY,
            body={"private": is_private},
            clock=world.door_ms(),
            ended=ended,
        )
        request.is_due = operation.status == 200
        if request.is_due:
            _told(world, publisher, request.begun, answer["private"])
        return request.is_due

    kind = "go private" if is_private else "go public"
    return requests.operate(world, kind, publisher, "", is_acknowledged)


def _told(world: World, publisher: str, begun_ms: float, is_private: bool) -> None:
    said = Sighting(begun_ms, world.clock.now_ms(), is_private, what="the choice")
    world.history.audience.told[publisher].append(said)


def ask_privacy(world: World, publisher: str) -> None:
    """Read one's own choice."""
    begun_ms = world.clock.now_ms()
    status, answer = requests.call(world, publisher, contract.SHOW_PRIVACY)
    if status == 200:
        _told(world, publisher, begun_ms, answer["private"])


def ask_relation(world: World, user: str, publisher: str) -> None:
    """Read one's own follow or request."""
    begun_ms, path = world.clock.now_ms(), {"publisher_id": publisher}
    status, answer = requests.call(world, user, contract.SHOW_FOLLOWING, path=path)
    if status in (200, UNKNOWN):
        among = RELATIONS - FOLLOWED - REQUESTED
        if status == 200:
            among = FOLLOWED if answer["state"] == "followed" else REQUESTED
        said = Sighting(begun_ms, world.clock.now_ms(), False, what="an answer", among=among)
        world.history.audience.seen[user, publisher].append(said)


def look(world: World, user: str, publisher: str, *, limit: int) -> None:
    """Read a publisher's feed, one of its posts, and the list of its followers, as anybody may."""

    def see(what: str, route: contract.Route, ref_id: str = "", **query: str) -> None:
        path = {"ref_id": ref_id} if ref_id else {"publisher_id": publisher}
        begun_ms = world.clock.now_ms()
        status, page = requests.call(world, user, route, path=path, query=query)
        if status in (200, UNKNOWN if ref_id else CLOSED):
            entries = page.get("entries", ()) if status == 200 and not ref_id else ()
            refs = frozenset([ref_id] if ref_id else [each["ref_id"] for each in entries])
            span = begun_ms, world.clock.now_ms()
            found = Look(user, publisher, what, *span, is_open=status == 200, refs=refs)
            world.history.audience.looks.append(found)

    see("the feed", contract.READ_FEED, limit=str(limit))
    posted = [each.subject for each in world.history.of("publish", "send", user=publisher)]
    for ref_id in posted[-1:]:
        see("a post", contract.READ_POST, ref_id)
    for route in (contract.LIST_FOLLOWERS, contract.COUNT_FOLLOWERS):
        see("the followers", route)


def requests_of(world: World, publisher: str, *, limit: int = 100) -> list[str]:
    """List page by page who asks to follow, newest first."""
    lines = _listed(world, publisher, contract.LIST_REQUESTS, "requests", LISTED, limit)
    return [line["user_id"] for line in lines]


def blocked_by(world: World, publisher: str, *, limit: int = 100) -> list[str]:
    """List page by page whom somebody blocks."""
    lines = _listed(world, publisher, contract.LIST_BLOCKED, "blocked", _IS_SHUT, limit)
    return [line["user_id"] for line in lines]


def requested(world: World, user: str, *, limit: int = 100) -> dict[str, str]:
    """List page by page whom a user has asked to follow, and since when."""
    more = {"state": "requested"}
    lines = _listed(world, user, contract.LIST_FOLLOWING, "following", REQUESTED, limit, more=more)
    return {line["publisher_id"]: line["requested_at"] for line in lines}


def _listed(
    world: World,
    owner: str,
    route: contract.Route,
    name: str,
    among: frozenset[int],
    limit: int,
    *,
    more: dict[str, str] | None = None,
) -> list[dict[str, str]]:
    """The lines of all pages, which are noted if they were read to the end."""
    pages = requests.pages_of(world, owner, route, name, "cursor", limit, more=more)
    lines = [line for each in pages for line in each.lines]
    if pages and pages[-1].next is None:
        found = frozenset(
            (line.get("user_id", owner), line.get("publisher_id", owner)) for line in lines
        )
        is_of_user = route is contract.LIST_FOLLOWING
        whole = Listed(owner, pages[0].begun_ms, pages[-1].ended_ms, found, among, is_of_user)
        world.history.audience.lists.append(whole)
    return lines
