"""Worlds that are spoiled in who may follow whom: rows, lists, counts, answers and pages."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest.mock import patch

from fanfold import names
from fanfold.follows.follows_table import FollowsTable
from fanfold.follows.publisher.audience import Audience
from fanfold.follows.publisher.privacy import Privacies
from fanfold.follows.relation import Follow, Privacy
from proof.simulation.checks import follows, rows
from proof.simulation.checks.reading import audiences
from proof.simulation.clients import audience_requests, requests
from proof.simulation.oracle.follows import Asked
from proof.simulation.world.world import World
from tests.simulation.spoilings import calm, changed, gone, keyed, number, put, spoil_for, text

STAR = "star"


def decided() -> World:
    """A private publisher has approved ann, lets bob wait, has removed dan, and blocks cy and eve.

    Nevertheless cy asks. And fay blocks the publisher.
    """
    world = calm()
    world.has_audiences = True
    world.history.audience.deciding.add(STAR)
    world.run(lambda each: each.start_client("all", lambda: _live(each)))
    return world


def _live(world: World) -> None:
    decide = partial(audience_requests.decide, world)
    audience_requests.choose(world, STAR, is_private=True)
    world.scheduler.sleep(10)
    for user in ("ann", "bob", "dan", "eve"):
        requests.relate(world, "follow", user, STAR)
    for kind, user in (("approve", "ann"), ("approve", "dan"), ("remove", "dan")):
        decide(kind, STAR, user)
    for user in ("cy", "eve"):
        decide("block", STAR, user)
    requests.relate(world, "follow", "cy", STAR)
    audience_requests.decide(world, "block", "fay", STAR)
    requests.by_http(world, STAR, "of a star")


def _pair(world: World, user: str, **attributes: Any) -> None:
    changed(world, names.FOLLOWING, {"user_id": user, "publisher_id": STAR}, **attributes)


def _waits(world: World, user: str) -> dict[str, str]:
    """The key under which a request of bob's would be listed, or of somebody else at his time."""
    row = world.row(names.FOLLOWING, keyed({"user_id": "bob", "publisher_id": STAR}))
    at = row["requested_at"]["S"]
    return {"user_id": f"{STAR}#requests", "publisher_id": f"{at}#{user}"}


def _lost_item(world: World) -> None:
    gone(world, names.FOLLOWING, _waits(world, "bob"))


def _extra_item(world: World) -> None:
    put(world, names.FOLLOWING, **keyed(_waits(world, "dan")))


def _lost_block(world: World) -> None:
    gone(world, names.FOLLOWING, {"user_id": f"{STAR}#blocks", "publisher_id": "eve"})


def _extra_block(world: World) -> None:
    put(world, names.FOLLOWING, **keyed({"user_id": f"{STAR}#blocks", "publisher_id": "ann"}))


def _public(world: World) -> None:
    key = {"publisher_id": f"{STAR}#privacy"}
    changed(world, names.PUBLISHERS, key, private={"BOOL": False})


def _all_are_public(_world: World) -> AbstractContextManager[object]:
    public = Privacy(is_private=False, version=10**15)
    return patch.object(Privacies, "read", lambda *_: public)


def _nothing(_: FollowsTable, user_id: str, publisher_id: str) -> Follow:
    return Follow(user_id=user_id, publisher_id=publisher_id)


def _choice_is_public(world: World) -> None:
    """A choice that its publisher knows of, and that opened nothing."""
    now_ms = world.clock.now_ms()
    choice = Asked(False, now_ms, now_ms)
    world.history.audience.choices[STAR].append(choice)
    _public(world)


spoil_for(
    audiences.lists_agree_with_relations,
    {
        "lack [('star#requests'": _lost_item,
        "#dan')] too many": _extra_item,
        "lack [('star#blocks', 'eve')]": _lost_block,
        "('star#blocks', 'ann')] too many": _extra_block,
        "star blocks eve by one of their rows alone": partial(_pair, user="eve", shut=None),
        "['bob'] wait for star, who is public": _choice_is_public,
    },
    decided,
)
spoil_for(
    audiences.all_is_shown_to_whom_publishers_let,
    {
        "By a list, bob is to star": _lost_item,
        "By a list, dan is to star": _extra_item,
        "By a list, eve is to star": _lost_block,
        "By a list, ann is to star": _extra_block,
        "By the feed, bob is to star": _all_are_public,
        "By a post, ann is to star": lambda _: patch.object(FollowsTable, "get", _nothing),
        "By the followers, dan is to star": _all_are_public,
        "By an answer, bob is to star": partial(_pair, user="bob", state=text("unfollowed")),
        "By a list, bob is to star one": lambda _: patch.object(
            Audience, "requests", lambda *_, **__: ([], None)
        ),
    },
    decided,
)
spoil_for(
    audiences.publishers_are_told_what_they_chose, {"star is told to be public": _public}, decided
)
spoil_for(
    rows.follows_are_kept,
    {
        "The follow of star by bob is to expire": partial(_pair, user="bob", expires_at=number(1)),
        "The follow of star by eve is to expire": partial(_pair, user="eve", expires_at=number(1)),
    },
    decided,
)


def _reader(user: str, **attributes: Any) -> Any:
    return partial(changed, table=names.READERS, key={"user_id": user}, **attributes)


spoil_for(
    follows.edges_agree_with_the_lists_of_follows,
    {
        "The count of follows of bob is not 1": _reader("bob", follows=number(0)),
        "The count of requests of bob is not 1": _reader("bob", requests=number(0)),
        "The count of blocks of star is not 2": _reader(STAR, blocks=number(3)),
    },
    decided,
)
