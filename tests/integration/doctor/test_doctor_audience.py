"""`fanfold doctor` finds and repairs faults of requests, blocks, privacy and counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from fanfold import names
from fanfold.aws.items import expressions, number, text
from fanfold.follows.follows_table import Place, places_of, row_key
from fanfold.timeline.readers import Counts
from tests.commands import FakeLambda, run
from tests.integration.doctor.test_doctor import SCOPES, Tables, examined, found, tables
from tests.integration.follows.test_private import ENFORCED_SECONDS, choose, decide, follow
from tests.service import AT, System

__all__ = ["tables"]
pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture(autouse=True)
def lived(system: System, tables: Tables) -> None:
    """Ada is private: bob has asked her, cid follows her, and she blocks dan."""
    choose(system, private=True)
    for user in ("bob", "cid", "dan"):
        assert follow(system, user).status == 202
    assert decide(system, "approve", "cid").status == 200
    assert decide(system, "block", "dan").status == 204
    assert system.follow("fay", "gus").status == 200
    system.pump()


Spoil = Callable[[Tables], object]


def put(user: str, publisher: str = "ada", **sets: Any) -> Spoil:
    """Change attributes of a row of follows; None takes one away."""

    def spoil(tables: Tables) -> None:
        given = {name: value for name, value in sets.items() if value is not None}
        gone = [name for name, value in sets.items() if value is None]
        tables.system.dynamodb.update_item(
            TableName=names.FOLLOWING.name,
            Key=row_key(user, publisher),
            **expressions(sets=given, removes=gone),
        )

    return spoil


def lose(*key: str) -> Spoil:
    return lambda tables: tables.system.dynamodb.delete_item(
        TableName=names.FOLLOWING.name, Key=row_key(*key)
    )


def unlist(tables: Tables) -> None:
    (place,) = places_of(tables.system.follows.get("bob", "ada"))
    lose(*place)(tables)


def list_who_has_not_asked(tables: Tables) -> None:
    for user in ("cid", "nobody"):
        tables.item(names.FOLLOWING.name, **row_key("ada#requests", f"{AT}#{user}"))


def let_all_expire(tables: Tables) -> None:
    for pair in (("bob", "ada"), ("cid", "ada"), ("dan", "ada"), ("ada", "dan")):
        put(*pair, expires_at=number(2_000_000_000))(tables)


def follow_under_a_block(tables: Tables) -> None:
    put("dan", state=text("followed"), followed_at=text(AT), expires_at=None)(tables)
    tables.edge("dan", tables.system.follows.get("dan", "ada").version)
    tables.count("dan")


def lose_rows_of_a_block(tables: Tables) -> None:
    for pair in (("dan", "ada"), ("ada", "dan")):
        lose(*pair)(tables)


def keep_the_blocked_row(tables: Tables) -> None:
    for key in (("ada", "dan"), ("ada#blocks", "dan")):
        lose(*key)(tables)


def restore_publishers(tables: Tables) -> None:
    """To before Ada chose."""
    key = {"publisher_id": text("ada#privacy")}
    tables.system.dynamodb.delete_item(TableName=names.PUBLISHERS.name, Key=key)


def go_public_untold(tables: Tables) -> None:
    tables.system.dynamodb.update_item(
        TableName=names.PUBLISHERS.name,
        Key={"publisher_id": text("ada#privacy")},
        **expressions(sets={"private": {"BOOL": False}}, adds={"version": number(1)}),
    )


def miscount(tables: Tables) -> None:
    sets = {"follows": number(7), "requests": number(3), "blocks": number(1)}
    tables.system.dynamodb.update_item(
        TableName=names.READERS.name, Key={"user_id": text("bob")}, **expressions(sets=sets)
    )


@dataclass(frozen=True)
class Fault:
    spoil: Spoil
    found: dict[str, int]

    def __str__(self) -> str:
        return str(self.found)


BLOCK = {"block": 1}
FAULTS = [
    Fault(unlist, {"unlisted": 1}),
    Fault(list_who_has_not_asked, {"listed": 2}),
    Fault(follow_under_a_block, {"shut_followed": 1}),
    Fault(put("dan", shut=None), BLOCK),
    Fault(put("ada", "dan", shuts=None), BLOCK | {"places": 1}),
    Fault(lose("ada#blocks", "dan"), BLOCK),
    Fault(lose_rows_of_a_block, BLOCK),
    Fault(lose("ada", "dan"), BLOCK),
    Fault(keep_the_blocked_row, BLOCK),
    Fault(let_all_expire, {"expires": 4}),
    Fault(restore_publishers, {"privacy_behind": 3}),
    Fault(go_public_untold, {"waiting": 1}),
    Fault(miscount, {"places": 1}),
]


def relation(system: System, user: str, publisher: str = "ada") -> tuple[Any, ...]:
    row = system.follows.get(user, publisher)
    return row.state, row.shut, row.shuts


def lists(system: System) -> set[Place]:
    rows = system.rows_of(names.FOLLOWING.name)
    keys = {(row["user_id"]["S"], row["publisher_id"]["S"]) for row in rows}
    return {key for key in keys if "#" in key[0]}


@SCOPES
def test_what_the_service_writes_has_no_difference(scope: list[str]) -> None:
    ran = examined(*scope)
    assert (ran.exit_code, found(ran)) == (0, {})


@pytest.mark.parametrize(
    ("fault", "scope"),
    [
        *((fault, ["--whole"]) for fault in FAULTS),
        *((fault, ["--publisher", "ada"]) for fault in FAULTS[:-1]),
    ],
    ids=str,
)
def test_each_fault_is_found_repaired_and_gone(
    system: System, tables: Tables, fault: Fault, scope: list[str]
) -> None:
    is_whole = "ada" not in scope  # counts are of all publishers
    expected = {kind: fault.found[kind] for kind in fault.found if is_whole or kind != "places"}
    fault.spoil(tables)
    before = system.dump()
    ran = examined(*scope)
    assert (ran.exit_code, found(ran)) == (1, expected)
    assert system.dump() == before, "an examination changes nothing"
    repaired = examined(*scope, "--repair")
    assert repaired.stdout, repaired.said
    assert (repaired.exit_code, repaired.json["left"]) == (0, 0)
    after = system.dump()
    again = examined("--whole", "--repair")
    assert (again.exit_code, found(again)) == (0, {})
    assert system.dump() == after
    asks = relation(system, "bob")
    assert asks == ("followed" if "waiting" in expected else "requested", False, False)
    assert relation(system, "cid") == ("followed", False, False)
    assert relation(system, "dan") == ("unfollowed", True, False)
    assert relation(system, "ada", "dan") == ("unfollowed", False, True)
    rows = [system.follows.get(*pair) for pair in (("bob", "ada"), ("ada", "dan"))]
    assert lists(system) == set().union(*map(places_of, rows))
    assert [bool(tables.placements(user)) for user in ("bob", "cid", "dan")] == [
        "waiting" in expected, True, False,
    ]  # fmt: skip
    told = system.follows.readers.get("bob")
    assert (told.follows, told.requests, told.blocks) == (1, "waiting" not in expected, 0)


def test_a_publisher_whose_choice_was_lost_is_private_until_it_chooses_again(
    system: System, tables: Tables
) -> None:
    restore_publishers(tables)
    assert follow(system, "eve").status == 200, "until then, only who was there before must wait"
    examined("--whole", "--repair")
    assert follow(system, "hal").status == 202
    assert choose(system, private=False)["private"] is False
    system.clock.advance(ENFORCED_SECONDS)
    assert follow(system, "ida").status == 200


def test_a_follow_that_came_while_a_block_was_lost_ends_with_it(
    system: System, tables: Tables
) -> None:
    put("dan", shut=None)(tables)
    assert follow(system, "dan").status == 202
    assert decide(system, "approve", "dan").status == 200
    assert tables.placements("dan")
    ran = examined("--whole", "--repair")
    assert (ran.exit_code, found(ran)) == (0, BLOCK)
    assert relation(system, "dan") == ("unfollowed", True, False)
    assert not tables.placements("dan")
    assert found(examined("--whole")) == {}


def test_wrong_counts_are_shown_beside_the_right_ones(tables: Tables) -> None:
    miscount(tables)
    shown = run("doctor", "--whole", lambda_=FakeLambda()).stdout
    assert ["bob", "7, 3, 1", "1, 1, 0"] in [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()
    ]


def test_a_count_that_changes_during_its_repair_is_left(system: System, tables: Tables) -> None:
    miscount(tables)
    readers, right = system.follows.readers, Counts(1, 1, 0)
    assert not readers.correct("bob", Counts(6, 3, 1), right)
    assert readers.correct("bob", Counts(7, 3, 1), right)
    assert not readers.correct("bob", Counts(7, 3, 1), right), "a call that is repeated adds once"
