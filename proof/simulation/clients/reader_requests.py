"""Requests of readers other than pages; each attempt is noted as the reader knows it."""

from __future__ import annotations

from typing import Any

from fanfold import contract
from fanfold.errors import MuteOvertaken
from fanfold.ids import sort_key, split_sort_key
from proof.simulation.clients import requests
from proof.simulation.clients.history import Operation
from proof.simulation.clients.readers import MUTED, Marking, UnreadAnswer
from proof.simulation.oracle.follows import Asked
from proof.simulation.world.world import World

TOO_MANY = 409  # or overtaken, as the answer says


def is_overtaken(mute: Operation) -> bool:
    """Whether it was refused because a later request of the user was answered meanwhile."""
    return bool(mute.answer) and mute.answer["type"].endswith(f"#{MuteOvertaken.slug}")


def mute(world: World, kind: str, user: str, publisher: str) -> Operation:
    """Mute or unmute; a refusal for too many mutes or a later request is an answer, too."""
    route = contract.MUTE if kind == "mute" else contract.UNMUTE

    def is_acknowledged(operation: Operation) -> bool:
        request = Asked(kind == "mute", world.clock.now_ms())
        world.history.readers.mutes[user, publisher].append(request)
        path = {"publisher_id": publisher}

        def ended(_status: int) -> None:
            request.ended = world.clock.now_ms()

        called = requests.call(world, user, route, path=path, ended=ended)
        operation.status, operation.answer = called
        request.is_due = operation.status in (200, 204)
        return request.is_due or operation.status == TOO_MANY

    return requests.operate(world, kind, user, publisher, is_acknowledged)


def muted(world: World, user: str, *, limit: int) -> set[str]:
    """List page by page whom a user has muted."""
    pages = requests.pages_of(world, user, contract.LIST_MUTED, "muted", "cursor", limit)
    requests.note_listing(world, user, MUTED, pages)
    return {line["publisher_id"] for each in pages for line in each.lines}


def move_marker(world: World, user: str, asked: str) -> None:
    """Move the marker to a sort key."""
    published_at, ref_id = split_sort_key(asked)
    body = {"published_at": published_at, "ref_id": ref_id}
    _marking(world, user, contract.MOVE_MARKER, asked, body=body)


def marker(world: World, user: str) -> str | None:
    """Read the marker; None without an answer."""
    return _marking(world, user, contract.READ_MARKER, "")


def _marking(world: World, user: str, route: contract.Route, asked: str, **more: Any) -> str | None:
    tried = Marking(user, world.clock.now_ms(), asked)
    world.history.readers.markings.append(tried)

    def ended(_status: int) -> None:
        tried.ended_ms = world.clock.now_ms()

    clock = world.door_ms()
    status, answer = requests.call(world, user, route, clock=clock, ended=ended, **more)
    if status == 200:
        is_set = answer["ref_id"] is not None
        tried.told = sort_key(answer["published_at"], answer["ref_id"]) if is_set else ""
    return tried.told


def unread(world: World, user: str) -> UnreadAnswer | None:
    """Read the count of unread entries; None without an answer."""
    begun_ms = world.clock.now_ms()
    status, answer = requests.call(world, user, contract.COUNT_UNREAD)
    if status != 200:
        return None
    found = UnreadAnswer(user, begun_ms, world.clock.now_ms(), answer["unread"], answer["more"])
    world.history.readers.unread.append(found)
    return found
