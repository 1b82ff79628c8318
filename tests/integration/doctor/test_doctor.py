"""`fanfold doctor` finds differences between follows and edges, and repairs them if asked."""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock
from typing import Any
from unittest.mock import Mock, patch

import pytest

from fanfold import clock as product_clock
from fanfold import names
from fanfold.aws.items import expressions, number
from fanfold.doctor import examine, findings, scan
from fanfold.doctor.audience import counts_of
from fanfold.doctor.examine import Doctor
from fanfold.doctor.findings import Difference, Report, Snapshot
from fanfold.doctor.recheck import MOMENT_SECONDS, Recheck
from fanfold.doctor.repair import Repair
from fanfold.doctor.scan import Records
from fanfold.follows import ring
from fanfold.follows.edges import Edges
from fanfold.follows.levels import Growing, Levels
from fanfold.follows.publisher.privacy import Privacies
from fanfold.follows.relation import FOLLOWED, UNFOLLOWED
from fanfold.settings import HIGHEST_LEVEL, Settings
from fanfold.timeline import marks
from fanfold_cli.follows import taken_away
from functions import api, plan
from tests.commands import (
    PLACE,
    FakeLambda,
    Patched,
    Ran,
    Stack,
    run,
    run_on,
    stack_with,
    throttled,
)
from tests.service import AT, AT_MS, Clock, System, error

pytestmark = pytest.mark.usefixtures("folder")

NOTHING = {kind.value: 0 for kind in Difference}
SCOPES = pytest.mark.parametrize("scope", [["--whole"], ["--publisher", "ada"]], ids=" ".join)

Meanwhile = Callable[..., None]


@dataclass
class Tables:
    """Follows and edges, written directly."""

    system: System

    def follow(self, *users: str, publisher: str = "ada") -> None:
        """Write the row and the edge of each of these followers."""
        growing = Growing(Levels(self.system.publishers), 8, 10_000)
        edges = Edges(self.system.edges_table, growing)
        for user in users:
            self.row(user, publisher=publisher)
        edges.put_all((publisher, user, 1) for user in users)

    def row(
        self,
        user: str,
        *,
        publisher: str = "ada",
        version: int = 1,
        state: str = FOLLOWED,
        **more: Any,
    ) -> None:
        self.item(
            "Following",
            user_id={"S": user},
            publisher_id={"S": publisher},
            state={"S": state},
            version={"N": str(version)},
            followed_at={"S": AT},
            asked_at={"N": str(AT_MS)},
            **more,
        )
        self.count(user)

    def count(self, user: str) -> None:
        """Let the user's row count what the user follows, has asked to, and blocks."""
        counts = counts_of(self.system.follows.rows_of(user))._asdict()
        self.system.dynamodb.update_item(
            TableName="Readers",
            Key={"user_id": {"S": user}},
            **expressions(sets={name: number(each) for name, each in counts.items()}),
        )

    def item(self, table: str, **item: Any) -> None:
        self.system.dynamodb.put_item(TableName=table, Item=item)

    def edge(self, user: str, version: int, *, level: int = 0, publisher: str = "ada") -> None:
        assert not self.system.edges_table.put_all([(publisher, user, version, level)])

    def lose_edge(self, user: str, *, level: int = 0, publisher: str = "ada") -> None:
        self.system.edges_table.remove(publisher, user, version=1_000_000, level=level)

    def grow(self, level: int, *, publisher: str = "ada") -> None:
        self.system.publishers.raise_to(publisher, level, now_ms=AT_MS)

    def level(self) -> int:
        return self.system.publishers.shards("ada").level

    def placements(self, user: str) -> dict[int, int]:
        """The version of the user's edge to ada, by level."""
        return {
            level: int(item["version"]["N"])
            for item in self.system.rows_of("Followers")
            for level in range(HIGHEST_LEVEL + 1)
            if item["shard_id"]["S"].startswith(f"ada#{level}.")
            and item["edge"]["S"].endswith(f"#{user}")
        }


@pytest.fixture
def tables(system: System) -> Tables:
    return Tables(system)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Meanwhile:
    """Let something happen while the doctor waits for its second read."""

    def let(happen: Callable[[], object]) -> None:
        def sleep(seconds: float) -> None:
            clock.advance(seconds)
            if seconds > MOMENT_SECONDS / 2:
                happen()

        monkeypatch.setattr(product_clock, "sleep", sleep)

    return let


def paged(limit: int) -> Patched:
    """DynamoDB whose Scans give pages of at most this many items."""
    pages: Patched = Patched(
        scan=lambda **request: pages.client.scan(**{"Limit": limit, **request})
    )
    return pages


def examined(*options: str, **clients: Any) -> Ran:
    """Run the doctor, who may take away what there is: a stack of two edges soon has 5 %."""
    expect = ("--expect", "9") if "--repair" in options else ()
    return run("doctor", *options, *expect, "--json", lambda_=FakeLambda(), **clients)


def found(ran: Ran) -> dict[str, int]:
    return {kind: count for kind, count in ran.json["found"].items() if count}


# Nothing to find


@SCOPES
def test_follows_made_by_the_service_have_no_difference(
    system: System, tables: Tables, clock: Clock, scope: list[str]
) -> None:
    for user in ("ann", "bob", "cid"):
        assert system.follow(user).status == 200
    tables.grow(2)
    assert system.follow("dan").status == 200
    assert system.unfollow("bob").status == 204
    assert system.unfollow("cid").status == 204
    assert system.follow("cid").status == 200
    began = clock.seconds
    ran = examined(*scope)
    assert (ran.exit_code, ran.json["found"]) == (0, NOTHING)
    assert (ran.json["follows"], ran.json["edges"], ran.json["left"]) == (3, 3, 0)
    assert ran.json["examples"] == []
    assert clock.seconds == began, "without a difference there is nothing to wait for"


@pytest.mark.usefixtures("system")
@SCOPES
def test_an_empty_stack_has_no_difference(scope: list[str]) -> None:
    ran = run("doctor", *scope, lambda_=FakeLambda())
    assert ran.exit_code == 0
    assert ran.stdout == "0 follows and 0 edges were examined: no difference found.\n"
    assert ("Nobody follows 'ada': is the id right?" in ran.said) is ("ada" in scope)


def test_copies_of_an_edge_at_other_levels_are_left_alone(tables: Tables) -> None:
    tables.grow(3)
    tables.row("bob", version=5)
    for level, version in ((0, 1), (1, 5), (2, 5), (3, 4)):
        tables.edge("bob", version, level=level)
    ran = examined("--whole", "--repair")
    assert (ran.exit_code, ran.json["found"], ran.json["edges"]) == (0, NOTHING, 4)
    assert tables.placements("bob") == {0: 1, 1: 5, 2: 5, 3: 4}


# Found and repaired


@dataclass(frozen=True)
class Fault:
    """Bob's row (state and version) and edges (version by level), at ada's level."""

    kind: str
    level: int
    row: tuple[str, int] | None
    edges: Mapping[int, int]

    def make(self, tables: Tables) -> None:
        tables.grow(self.level)
        if self.row:
            tables.row("bob", state=self.row[0], version=self.row[1])
        for level, version in self.edges.items():
            tables.edge("bob", version, level=level)


MISSING = Fault("missing", 0, (FOLLOWED, 1), {})
FAULTS = [
    MISSING,
    Fault("missing", 3, (FOLLOWED, 1), {}),
    Fault("orphaned", 0, None, {0: 7}),
    Fault("orphaned", 2, None, {0: 3, 2: 7}),
    Fault("orphaned", 0, (UNFOLLOWED, 2), {0: 1}),
    Fault("orphaned", 2, (UNFOLLOWED, 4), {0: 1, 2: 3}),
    Fault("orphaned", 0, (UNFOLLOWED, 2), {0: 5}),
    Fault("older", 0, (FOLLOWED, 3), {0: 1}),
    Fault("older", 1, (FOLLOWED, 3), {0: 1}),
    Fault("newer", 0, (FOLLOWED, 1), {0: 5}),
    Fault("newer", 1, (FOLLOWED, 1), {0: 5, 1: 1}),
]


@pytest.mark.parametrize(
    ("fault", "scope"),
    [
        *((fault, ["--whole"]) for fault in FAULTS),
        *((fault, ["--publisher", "ada"]) for fault in FAULTS[1::4]),
    ],
    ids=str,
)
def test_each_fault_is_found_repaired_and_gone(
    tables: Tables, fault: Fault, scope: list[str]
) -> None:
    system = tables.system
    tables.follow("ann")
    fault.make(tables)
    before = system.dump()
    ran = examined(*scope)
    assert (ran.exit_code, found(ran)) == (1, {fault.kind: 1})
    assert (ran.json["repaired"], ran.json["left"]) == (0, 1)
    (example,) = ran.json["examples"]
    assert (example["user_id"], example["what"]) == ("bob", fault.kind)
    assert example["publisher_id"] == "ada"
    assert system.dump() == before, "an examination changes nothing"
    ran = examined(*scope, "--repair")
    assert (ran.exit_code, found(ran)) == (0, {fault.kind: 1})
    assert (ran.json["repaired"], ran.json["left"]) == (1, 0)
    ran = examined(*scope)
    assert (ran.exit_code, found(ran)) == (0, {})
    assert bool(tables.placements("bob")) is system.follows.get("bob", "ada").is_active
    for _ in range(2):
        assert system.follow("bob").status == 200
        version = system.follows.get("bob", "ada").version
        assert max(tables.placements("bob").values()) == version
        assert system.unfollow("bob").status == 204
        assert tables.placements("bob") == {}


# Marks

WEEK = marks.week_of(AT_MS)


@dataclass(frozen=True)
class Mark:
    """Bob's row, which has its edge if it is a follow, and his row among the readers."""

    kind: str | None
    state: str
    ended_at: int = 0
    reader: Mapping[str, Any] = field(default_factory=dict)

    def make(self, tables: Tables) -> None:
        extra: Any = {"ended_at": {"N": str(self.ended_at)}} if self.ended_at else {}
        tables.row("bob", state=self.state, **extra)
        if self.state == FOLLOWED:
            tables.edge("bob", 1)
        if self.reader:
            tables.item("Readers", user_id={"S": "bob"}, **self.reader)
            tables.count("bob")


HIDES = {"BS": [marks.hash_of("ada"), marks.hash_of("eve")]}
AGO = AT_MS - 29 * 86_400_000
MARKS = [
    Mark("hidden", FOLLOWED, reader={f"hidden_{WEEK}": HIDES}),
    Mark("hidden", FOLLOWED, reader={f"hidden_{WEEK - 5}": HIDES, f"hidden_{WEEK}": HIDES}),
    Mark("shown", UNFOLLOWED, AT_MS - 1),
    Mark("shown", UNFOLLOWED, AGO, {f"hidden_{WEEK}": {"BS": [marks.hash_of("eve")]}}),
    Mark("shown", UNFOLLOWED, AGO, {"verify_until": {"N": str(AT_MS // 1000)}}),
    Mark(None, FOLLOWED, reader={f"hidden_{WEEK - 9}": HIDES}),
    Mark(None, FOLLOWED, reader={"muted": HIDES}),
    Mark(None, UNFOLLOWED, 0),
    Mark(None, UNFOLLOWED, AT_MS - 31 * 86_400_000),
    Mark(None, UNFOLLOWED, AGO, {f"hidden_{marks.week_of(AGO)}": HIDES}),
    Mark(None, UNFOLLOWED, AGO, {"verify_until": {"N": str(AT_MS // 1000 + 2 * 86_400)}}),
]


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: f"{mark.kind} {mark.state}")
@SCOPES
def test_marks_that_differ_from_the_row_are_found_repaired_and_gone(
    tables: Tables, mark: Mark, scope: list[str]
) -> None:
    mark.make(tables)
    expected = {mark.kind: 1} if mark.kind else {}
    before = tables.system.dump()
    ran = examined(*scope)
    assert (ran.exit_code, found(ran)) == (1 if mark.kind else 0, expected)
    assert tables.system.dump() == before, "an examination changes nothing"
    repaired = examined(*scope, "--repair")
    assert (repaired.exit_code, found(repaired), repaired.json["left"]) == (0, expected, 0)
    assert found(examined(*scope)) == {}
    row = tables.system.follows.get("bob", "ada")
    reader = tables.system.follows.readers.get("bob")
    assert (row.version, reader.follows) == (1, row.is_active), "only marks change"
    if mark.kind == "shown":
        assert marks.weeks_of(reader, "ada") == [marks.week_of(row.ended_at)], "as it ended"
    if mark.kind == "hidden":
        assert all(marks.weeks_of(reader, "eve") for _ in mark.reader), "others are left alone"


def test_an_unfollow_that_comes_during_the_repair_of_its_mark_wins(tables: Tables) -> None:
    system = tables.system
    MARKS[0].make(tables)

    def transact_write_items(**request: Any) -> Any:
        if "ConditionCheck" in request["TransactItems"][0]:
            assert system.unfollow("bob").status == 204
        return racing.client.transact_write_items(**request)

    racing = Patched(transact_write_items=transact_write_items)
    ran = examined("--whole", "--repair", dynamodb=racing)
    assert (ran.exit_code, ran.json["left"]) == (1, 1)
    assert marks.weeks_of(system.follows.readers.get("bob"), "ada")
    assert found(examined("--whole")) == {}


@pytest.mark.parametrize("fault", [FAULTS[3], FAULTS[5], FAULTS[8], FAULTS[10]], ids=str)
def test_a_fault_that_is_read_on_several_pages_counts_once(
    tables: Tables, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "MAX_SUSPECTS", 0)  # each page waits for its second reads
    monkeypatch.setattr(scan, "MAX_LEVELS", 0)  # and reads the levels again
    fault.make(tables)
    assert found(examined("--whole", dynamodb=paged(1))) == {fault.kind: 1}


def test_a_follow_that_comes_during_the_repair_of_an_orphaned_edge_is_kept(
    system: System, tables: Tables
) -> None:
    tables.edge("bob", 7)

    def update_item(**request: Any) -> Any:
        assert request["TableName"] == "Following"
        assert system.follow("bob").status == 200
        return racing.client.update_item(**request)

    racing = Patched(update_item=update_item)
    ran = examined("--whole", "--repair", dynamodb=racing)
    assert (ran.exit_code, ran.json["left"]) == (1, 1)
    assert tables.placements("bob") == {0: 7}, "the tombstone replaces no row; posts still arrive"
    again = examined("--whole", "--repair")
    assert (again.exit_code, found(again)) == (0, {"newer": 1})
    assert system.follows.get("bob", "ada").version == 8
    assert tables.placements("bob") == {0: 8}


def test_one_publisher_is_examined_without_the_others(tables: Tables) -> None:
    tables.follow("bob", "cid")
    tables.follow("bob", publisher="eve")
    tables.lose_edge("bob", publisher="eve")
    tables.edge("dan", 1, publisher="eve")
    ran = examined("--publisher", "ada")
    assert (ran.json["follows"], ran.json["edges"], found(ran)) == (2, 2, {})
    ran = examined("--publisher", "eve", "--repair")
    assert (ran.json["follows"], ran.json["edges"]) == (1, 1)
    assert found(ran) == {"missing": 1, "orphaned": 1}


# Edges above the level of the publisher's row


@pytest.fixture
def restored(tables: Tables) -> Tables:
    """Ada has edges at levels 1 and 2, one of them orphaned, and her row is lost."""
    tables.grow(1)
    tables.follow("ann", "bob")
    tables.grow(2)
    tables.follow("cid", "dan")
    tables.edge("eve", 3, level=2)
    tables.system.dynamodb.delete_item(TableName="Publishers", Key={"publisher_id": {"S": "ada"}})
    return tables


@pytest.mark.parametrize(("waiting", "level"), [(0, 0), (20_000, 1)])
@SCOPES
def test_edges_above_the_level_of_the_row_are_unreachable_until_a_repair_raises_it(
    restored: Tables, scope: list[str], waiting: int, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "MAX_SUSPECTS", waiting)
    system = restored.system
    if level:  # the row is not lost, and stale
        restored.grow(level)
    restored.edge("eve", 3, level=1)
    before, wrong = system.dump(), {"unreachable": 1, "orphaned": 1}
    ran = examined(*scope)
    assert (ran.exit_code, found(ran)) == (1, wrong), "none is missing"
    assert ran.json["unreachable"] == [{"publisher_id": "ada", "level": level, "seen": 2}]
    assert (ran.json["follows"], ran.json["edges"]) == (4, 6)
    assert (ran.json["repaired"], ran.json["left"]) == (0, 2)
    shown = run("doctor", *scope, lambda_=FakeLambda()).stdout
    assert "publishers with edges above the level of their row" in shown
    row = next(line for line in shown.splitlines() if line.startswith("│ ada"))
    assert [cell.strip() for cell in row.split("│")[1:-1]] == ["ada", str(level), "2"]
    assert system.dump() == before
    ran = examined(*scope, "--repair", dynamodb=paged(1))
    assert (ran.exit_code, ran.json["left"], found(ran)) == (0, 0, wrong)
    assert restored.level() == 2
    assert found(examined("--whole")) == {}
    assert restored.placements("eve") == {}
    assert restored.placements("ann") == {1: 1}, "no edge was put at another level"
    for user in ("ann", "cid"):
        assert system.unfollow(user).status == 204
        assert restored.placements(user) == {}
    system.publish()
    system.pump("Publish", "Express")
    assert system.reached() == ["bob", "dan"]


def test_a_level_that_cannot_be_raised_stops_the_repair(restored: Tables) -> None:
    before = restored.system.dump()
    dynamodb = Patched(update_item=throttled)
    ran = run("doctor", "--whole", "--repair", dynamodb=dynamodb, lambda_=FakeLambda())
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "1 difference found; at least 0 repaired" in ran.said
    assert "It is safe to run it again. The reason: " in ran.said
    assert restored.system.dump() == before
    assert examined("--whole", "--repair").exit_code == 0


def test_a_publisher_that_grows_during_the_examination_is_no_difference(tables: Tables) -> None:
    tables.follow("ann")
    with ThreadPoolExecutor(4) as threads:
        records = records_of(tables.system, threads)
        assert records.levels([("ann", "ada")]) == {("ann", "ada"): 0}
        tables.grow(1)
        tables.follow("bob")
        report = Report()
        for phase in Doctor(records, None, Recheck(records), report).examine():
            assert sum(phase.steps) >= 0
    assert (report.follows, report.found.total()) == (2, 0)


# Items that are neither edges nor rows


BOB = ring.edge("bob")
HIGHEST = HIGHEST_LEVEL, ring.shard_of(ring.position("bob"), HIGHEST_LEVEL)


NO_EDGES: list[tuple[str, str, Any]] = [
    ("junk", "nohash", {"N": "1"}),
    ("u1#x.y", BOB, {"N": "1"}),
    ("ada#0.0", "nohash", {"N": "1"}),
    ("ada#0.0", f"{ring.START}#bob", {"N": "1"}),
    ("ada#0.1", BOB, {"N": "1"}),
    ("ada#-1.0", BOB, {"N": "1"}),
    ("ada#11.0", BOB, {"N": "1"}),
    ("ada#0.0", BOB, None),
    ("ada#0.0", ring.edge("eve"), {"S": "new"}),
    (f"ada#{HIGHEST[0]}.{HIGHEST[1]}", BOB, None),
    (f"ada#{HIGHEST[0]}.{HIGHEST[1] + 1}", BOB, {"N": "1"}),
    ("#0.0", BOB, {"N": "1"}),
    ("ada#0.0", ring.edge(""), {"N": "1"}),
]


def test_items_that_are_no_edges_are_listed_but_not_changed(tables: Tables) -> None:
    tables.follow("ann", "cid")
    tables.lose_edge("cid")
    for shard_id, edge, version in NO_EDGES:
        attributes = {"version": version} if version else {}
        tables.item("Followers", shard_id={"S": shard_id}, edge={"S": edge}, **attributes)
    ran = examined("--whole", "--repair")
    assert (ran.exit_code, found(ran)) == (1, {"missing": 1, "unreadable": len(NO_EDGES)})
    assert (ran.json["repaired"], ran.json["left"], tables.level()) == (1, len(NO_EDGES), 0)
    listed = {(each["shard_id"], each["edge"]) for each in ran.json["unreadable"]}
    assert listed == {(shard_id, edge) for shard_id, edge, _ in NO_EDGES}
    assert {each["table"] for each in ran.json["unreadable"]} == {"followers"}
    shown = run("doctor", "--whole", lambda_=FakeLambda())
    assert shown.exit_code == 1
    assert all(shard_id in shown.stdout for shard_id, *_ in NO_EDGES)
    assert "Unreadable items are not repaired: inspect them" in shown.said
    assert "0 of which can be repaired" in shown.stdout
    assert "--repair`" not in shown.said


@SCOPES
def test_rows_that_are_no_follows_are_listed_and_stop_nothing(
    tables: Tables, scope: list[str]
) -> None:
    rows: dict[str, Any] = {
        "dora": {"version": {"S": "new"}, "state": {"S": FOLLOWED}},
        "emma": {"version": {"N": "1"}, "state": {"S": "perhaps"}},
        "fay": {"state": {"S": FOLLOWED}},
    }
    for user, attributes in rows.items():
        tables.item("Following", user_id={"S": user}, publisher_id={"S": "ada"}, **attributes)
        tables.edge(user, 1)
    tables.follow("erin", "fred")
    tables.lose_edge("erin")
    ran = examined(*scope, "--repair")
    assert (ran.exit_code, found(ran)) == (1, {"missing": 1, "unreadable": 3})
    assert (ran.json["repaired"], ran.json["left"]) == (1, 3)
    assert all(tables.placements(user) == {0: 1} for user in ("erin", *rows))
    row = {"table": "following", "user_id": "dora", "publisher_id": "ada"}
    assert row in ran.json["unreadable"]
    tables.lose_edge("fred")
    assert (
        "4 differences found, 1 of which can be repaired."
        in run("doctor", *scope, lambda_=FakeLambda()).stdout
    )


# Meanwhile


def test_the_second_read_comes_after_all_open_requests_must_have_ended() -> None:
    for door in (api, plan):
        assert door.following.reconcile_after_seconds + 10 < MOMENT_SECONDS


@pytest.mark.parametrize(
    ("state", "edge", "then", "kind", "left"),
    [
        (FOLLOWED, 0, "edge", "", {0: 1}),
        (FOLLOWED, 0, "row", "", {}),
        # Neither the writer of the row nor RELATE touches an edge of a newer version.
        (FOLLOWED, 5, "row", "newer", {0: 6}),
        (UNFOLLOWED, 5, "row", "orphaned", {}),
    ],
)
def test_what_is_under_way_at_the_first_read_is_left_to_its_writer_unless_the_edge_is_newer(
    tables: Tables,
    clock: Clock,
    meanwhile: Meanwhile,
    state: str,
    edge: int,
    then: str,
    kind: str,
    left: dict[int, int],
) -> None:
    tables.row("bob", state=state)
    if edge:
        tables.edge("bob", edge)
    is_edge = then == "edge"
    meanwhile(
        lambda: tables.edge("bob", 1) if is_edge else tables.row("bob", state=state, version=3)
    )
    began = clock.seconds
    ran = examined("--whole", "--repair")
    assert (ran.exit_code, found(ran)) == (0, {kind: 1} if kind else {})
    assert ran.json["repaired"] == bool(kind)
    assert tables.placements("bob") == left
    assert clock.seconds - began == pytest.approx(MOMENT_SECONDS, abs=1)


def test_a_row_that_changes_during_a_read_gives_no_snapshot(tables: Tables) -> None:
    tables.row("bob")

    def batch_get_item(**request: Any) -> Any:
        if "Followers" in request["RequestItems"]:
            tables.row("bob", version=2)
        return tables.system.dynamodb.batch_get_item(**request)

    with ThreadPoolExecutor(1) as threads:
        records = records_of(tables.system, threads, Patched(batch_get_item=batch_get_item))
        assert records.snapshot(("bob", "ada")) is None


def test_with_too_many_suspects_scanning_waits_for_their_second_reads(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "MAX_SUSPECTS", 3)
    monkeypatch.setattr(findings, "EXAMPLES", 5)
    for user in range(12):
        tables.row(f"user-{user}")
    awaiting: list[int] = []
    plain = Recheck.due

    def due(recheck: Recheck, *, wait: bool) -> Any:
        awaiting.append(len(recheck))
        return plain(recheck, wait=wait)

    monkeypatch.setattr(Recheck, "due", due)
    ran = examined("--whole", dynamodb=paged(1))
    assert found(ran) == {"missing": 12}
    assert max(awaiting) == 4
    assert len(ran.json["examples"]) == 5
    assert "The first 5 of 12 are listed." in run("doctor", "--whole", lambda_=FakeLambda()).said


def test_an_interrupted_repair_says_what_it_has_done_and_can_be_run_again(
    tables: Tables, meanwhile: Meanwhile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "MAX_SUSPECTS", 0)  # each page is repaired before the next
    for user in ("bob", "cid", "dan"):
        tables.row(user)
    waits = iter(range(1, 9))

    def press_ctrl_c() -> None:
        if next(waits) == 2:
            raise KeyboardInterrupt

    meanwhile(press_ctrl_c)
    ran = run("doctor", "--whole", "--repair", dynamodb=paged(1), lambda_=FakeLambda())
    assert (ran.exit_code, ran.stdout) == (130, "")
    assert "Stopped after 2 follows and 0 edges: 1 difference found; " in ran.said
    assert "at least 1 repaired; 1 more awaiting their second read" in ran.said
    assert "run it again" in ran.said
    assert sum(bool(tables.placements(user)) for user in ("bob", "cid", "dan")) == 1
    meanwhile(lambda: None)
    again = examined("--whole", "--repair")
    assert (again.exit_code, again.json["repaired"]) == (0, 2)


# What a repair takes away


def repair(*options: str, stack: Stack | None = None, **clients: Any) -> Ran:
    stack = stack or stack_with(lambda_=FakeLambda(), **clients)
    with patch("fanfold_cli.commands.doctor.THREADS", 1):  # moto's transactions want it
        return run_on(stack, "doctor", *options)


def orphans(tables: Tables, *users: str) -> None:
    """Edges whose follows are lost."""
    for user in users:
        tables.edge(user, 1)


def kept(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "taken").read_text().splitlines()]


def restored_follows(tables: Tables, *users: str) -> None:
    """Users follow ada and unfollow, and then `following` is what it was before that."""
    system = tables.system
    assert all(system.follow(user).status == 200 for user in users)
    then = system.rows_of("Following")
    system.clock.advance(86_400)
    assert all(system.unfollow(user).status == 204 for user in users)
    for item in then:
        tables.item("Following", **item)
    for user in users:
        tables.count(user)


def marked(tables: Tables, user: str) -> bool:
    return bool(marks.weeks_of(tables.system.follows.readers.get(user), "ada"))


@pytest.mark.parametrize(
    ("lose", "what", "doubt"),
    [
        (orphans, "follows", "The table of follows has none here: is a restore of it still going"),
        (restored_follows, "unfollows", "older than the unfollows in these marks?"),
    ],
)
@SCOPES
def test_a_repair_beside_an_empty_or_older_table_of_follows_takes_nothing_away(
    tables: Tables, folder: Path, scope: list[str], lose: Callable[..., None], what: str, doubt: str
) -> None:
    lose(tables, *(f"user-{number}" for number in range(30)))
    before = tables.system.dump()
    ran = repair(*scope, "--repair")
    assert ran.exit_code == 1
    assert f"Nothing was taken away: a repair would take 30 {what} away from users" in ran.said
    assert doubt in ran.said
    assert f"`fanfold doctor {' '.join(scope)} --repair --expect 30`" in ran.said
    assert repair(*scope, "--repair", "--expect", "29").exit_code == 1
    assert tables.system.dump() == before
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("behind", "is_refused"), [(1, False), (2, True)])
def test_a_repair_takes_away_five_percent_of_the_edges_that_it_read_and_no_more(
    tables: Tables, behind: int, is_refused: bool
) -> None:
    users = [f"user-{number:02d}" for number in range(20)]
    orphans(tables, *users[:behind])
    tables.follow(*users[behind:])
    tables.row("missing")
    ran = repair("--whole", "--repair")
    assert ran.exit_code == int(is_refused)
    edges = len(tables.system.rows_of("Followers"))
    assert edges == (21 if is_refused else 20), "what lacks is put"
    assert ("is a restore of it still going on" in ran.said) is is_refused
    assert ("1 other difference is repaired." in ran.said) is is_refused


def test_what_a_repair_takes_away_is_in_a_private_file_first_and_can_be_put_back(
    tables: Tables, folder: Path
) -> None:
    """But an unfollow of a user after the repair stays."""
    users = ["amy", "bob"]
    orphans(tables, *users)
    ran = repair("--whole", "--repair", "--expect", "2", "--to", "taken")
    assert (ran.exit_code, tables.system.rows_of("Followers")) == (0, [])
    assert "taken keeps 2 follows that this takes away from users" in ran.said
    assert stat.S_IMODE((folder / "taken").stat().st_mode) == 0o600
    assert {(line["user_id"], line["stack"]) for line in kept(folder)} == {
        (user, PLACE) for user in users
    }

    tables.system.clock.advance(1)
    assert tables.system.follow("bob").status == 200
    assert tables.system.unfollow("bob").status == 204
    for _ in range(2):  # twice does no harm
        ran = repair("--put-back", "taken")
        assert (ran.exit_code, ran.stdout) == (0, "1 follow is back.\n")
        assert "Left 1 follow ended, by the user or the publisher." in ran.said
    assert [bool(tables.placements(user)) for user in users] == [True, False]
    assert tables.system.follows.get("amy", "ada").is_active
    tables.system.pump()
    assert found(examined("--whole")) == {}


@SCOPES
def test_an_edge_that_its_user_has_ended_is_deleted_without_a_question(
    tables: Tables, folder: Path, scope: list[str]
) -> None:
    """As after a restore of `followers`: the row is later than the edge, and takes nothing away."""
    users = ["amy", "bob", "cid"]
    tables.follow(*users)
    for user in users:
        tables.row(user, state=UNFOLLOWED, version=2)
    tables.edge("bob", 2)
    ran = repair(*scope, "--repair")
    assert (ran.exit_code, "takes away" in ran.said) == (0, False)
    assert tables.system.rows_of("Followers") == []
    assert list(folder.iterdir()) == []


def test_a_user_at_the_limit_keeps_no_other_follow_from_being_put_back(tables: Tables) -> None:
    """The repair has lowered no count, and putting back raises it again."""
    users = ["amy", "bob", "cid"]
    orphans(tables, *users)
    repair("--whole", "--repair", "--expect", "3", "--to", "taken")
    tables.item("Readers", user_id={"S": "amy"}, follows={"N": str(Settings.max_follows)})
    for _ in range(2):
        ran = repair("--put-back", "taken")
        assert (ran.exit_code, ran.stdout) == (1, "2 follows are back.\n")
        assert "1 follow could not be put back" in ran.said
        assert ran.said.endswith("The users: amy.")
        assert [bool(tables.placements(user)) for user in users] == [False, True, True]
    ran = repair("--put-back", "taken", "--json")
    assert (ran.exit_code, ran.json["at_their_limit"]) == (1, ["amy"])


def test_an_unfollow_between_a_restore_and_the_repair_does_not_survive_a_put_back(
    tables: Tables,
) -> None:
    """The restored row said that already, so the edge is of a later version than the unfollow."""
    tables.edge("amy", 4)
    tables.row("amy", state=UNFOLLOWED, version=2)  # restored
    assert tables.system.unfollow("amy").status == 204
    repair("--whole", "--repair", "--expect", "1", "--to", "taken")
    tables.system.clock.advance(1)
    assert repair("--put-back", "taken").stdout == "1 follow is back.\n"
    assert tables.placements("amy")


def test_a_repair_that_stops_has_written_what_it_took_away(
    tables: Tables, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [f"user-{number}" for number in range(5)]
    orphans(tables, *users)
    monkeypatch.setattr(examine, "TAKEN_AT_ONCE", 2)
    plain, calls = Repair.reconcile, list[int]()

    def reconcile(repairing: Repair, seen: Snapshot) -> None:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        plain(repairing, seen)

    with monkeypatch.context() as broken:
        broken.setattr(Repair, "reconcile", reconcile)
        ran = repair("--whole", "--repair", "--expect", "5", "--to", "taken")
    assert ran.exit_code == 130
    assert "taken keeps 5 follows" in ran.said
    assert "at least 3 repaired" in ran.said
    assert len(kept(folder)) == 5
    assert len(tables.system.rows_of("Followers")) == 2
    assert repair("--put-back", "taken").exit_code == 0
    assert all(tables.placements(user) for user in users)


def test_a_follow_that_comes_before_its_edge_is_taken_away_is_kept(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphans(tables, "bob")
    plain = taken_away.aside

    def restored(path: Path) -> Any:
        tables.row("bob")  # the restore goes on
        return plain(path)

    monkeypatch.setattr(taken_away, "aside", restored)
    ran = repair("--whole", "--repair", "--expect", "1")
    assert (ran.exit_code, "1 repaired, 0 left" in ran.stdout) == (0, True)
    assert tables.placements("bob") == {0: 1}


@pytest.mark.parametrize("what", ["missing", "hidden"])
def test_an_unfollow_that_a_repair_undoes_is_in_the_file_first_and_can_be_put_back(
    tables: Tables, folder: Path, what: str
) -> None:
    """But a follow of a user after the repair stays."""
    users = ["amy", "bob"]
    restored_follows(tables, *users)
    if what == "hidden":  # the edges were restored as well
        for user in users:
            tables.edge(user, 1)
    tables.follow("cid")
    ran = repair("--whole", "--repair", "--expect", "2", "--to", "taken")
    assert (ran.exit_code, [marked(tables, user) for user in users]) == (0, [False, False])
    assert "taken keeps 2 unfollows that this takes away from users" in ran.said
    assert sorted((line["user_id"], line["what"]) for line in kept(folder)) == [
        (user, what) for user in users
    ]

    tables.system.clock.advance(2)
    assert tables.system.follow("bob").status == 200
    for _ in range(2):  # twice does no harm
        ran = repair("--put-back", "taken")
        assert (ran.exit_code, ran.stdout) == (0, "0 follows are back.\n1 unfollow is back.\n")
        assert "Left 1 follow in effect: the user has followed again." in ran.said
    assert [bool(tables.placements(user)) for user in (*users, "cid")] == [False, True, True]
    assert [marked(tables, user) for user in users] == [True, False]
    ran = repair("--put-back", "taken", "--json")
    assert (ran.json["unfollows_put_back"], ran.json["followed"]) == (1, 1)
    tables.system.pump()
    assert found(examined("--whole")) == {}


@pytest.mark.parametrize(
    ("lost", "holder", "step"),
    # What the file calls a follow is no unfollow that it keeps; what lacks is in no file.
    [("row", taken_away, "aside"), ("edge", Repair, "reconcile")],
)
def test_a_mark_that_comes_before_its_follow_is_repaired_or_meanwhile_is_kept(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, lost: str, holder: Any, step: str
) -> None:
    if lost == "row":
        orphans(tables, "bob")
    else:
        tables.row("bob")
    plain = getattr(holder, step)

    def go_on(*given: Any) -> Any:
        restored_follows(tables, "bob")  # the restore
        return plain(*given)

    monkeypatch.setattr(holder, step, go_on)
    ran = repair("--whole", "--repair", *(("--expect", "1") if lost == "row" else ()))
    assert (ran.exit_code, "0 repaired, 1 left" in ran.stdout) == (1, True)
    assert marked(tables, "bob")


def test_no_two_follows_of_one_user_are_put_back_at_once(tables: Tables) -> None:
    """Each writes the one row of its reader: DynamoDB would refuse one of them."""
    users, publishers = ["amy", "bob"], [f"publisher-{number}" for number in range(6)]
    for publisher in publishers:
        for user in users:
            tables.edge(user, 1, publisher=publisher)
    repair("--whole", "--repair", "--expect", "12", "--to", "taken")
    busy, at_once = Counter[str](), list[int]()
    alone, pause = Lock(), Event()

    def transact_write_items(**request: Any) -> Any:
        key = request["TransactItems"][0]["Update"]["Key"]["user_id"]["S"]
        busy[key] += 1
        at_once.append(busy[key])
        pause.wait(0.01)
        try:
            with alone:  # moto's transactions want it
                return slow.client.transact_write_items(**request)
        finally:
            busy[key] -= 1

    slow = Patched(transact_write_items=transact_write_items)
    ran = run("doctor", "--put-back", "taken", lambda_=FakeLambda(), dynamodb=slow)
    assert (ran.exit_code, ran.stdout) == (0, "12 follows are back.\n")
    assert set(at_once) == {1}


def test_a_file_of_another_stack_or_no_such_file_puts_nothing_back(
    tables: Tables, folder: Path
) -> None:
    orphans(tables, "bob")
    repair("--whole", "--repair", "--expect", "1", "--to", "taken")
    other = replace(stack_with(lambda_=FakeLambda()), stack="Fanfold-prod")
    ran = repair("--put-back", "taken", stack=other)
    assert ran.exit_code == 1
    assert f"taken, line 1: it was written of {PLACE}, and this is Fanfold-prod" in ran.said
    whole = (folder / "taken").read_text()
    for odd in ("{", "[]", "{}", whole.replace('"bob"', "1"), "\xff"):
        (folder / "odd").write_text(f"{whole}{odd}\n", encoding="latin-1")
        ran = repair("--put-back", "odd")
        assert (
            ran.exit_code,
            "odd, line 2: `fanfold doctor --repair` writes no such line" in ran.said,
        ) == (1, True)
    assert "cannot be read" in repair("--put-back", "nothing").said
    assert repair("--whole", "--repair", "--to", "taken").said.startswith("taken exists already")
    assert tables.placements("bob") == {}


# The reads


def records_of(system: System, threads: ThreadPoolExecutor, client: Any = None) -> Records:
    rows = replace(system.follows, client=client or system.dynamodb)
    privacies = Privacies(system.dynamodb, names.PUBLISHERS.name)
    return Records(rows, system.edges_table, system.publishers, privacies, threads)


@SCOPES
def test_more_rows_than_a_batch_and_a_page_are_all_compared(
    tables: Tables, scope: list[str]
) -> None:
    tables.grow(2)
    tables.follow(*(f"user-{number}" for number in range(150)))
    tables.lose_edge("user-7", level=2)
    tables.edge("orphan", 1, level=1)
    ran = examined(*scope, dynamodb=paged(40))
    assert (ran.json["follows"], ran.json["edges"]) == (150, 150)
    assert found(ran) == {"missing": 1, "orphaned": 1}


def test_reads_that_stay_throttled_are_reported(tables: Tables) -> None:
    tables.follow("ann")

    def leave(*, RequestItems: Any) -> Any:  # noqa: N803
        return {"Responses": {}, "UnprocessedKeys": RequestItems}

    ran = run("doctor", "--whole", dynamodb=Patched(batch_get_item=leave), lambda_=FakeLambda())
    assert ran.exit_code == 1
    assert "The reason: DynamoDB is throttling these reads; run it again." in ran.said


# What it says


@SCOPES
def test_the_tables_and_the_sentence_say_what_differs_and_what_to_do(
    tables: Tables, scope: list[str]
) -> None:
    tables.follow("ann")
    MISSING.make(tables)
    ran = run("doctor", *scope, lambda_=FakeLambda())
    assert ran.exit_code == 1
    assert f"Run `fanfold doctor {' '.join(scope)} --repair`" in ran.said
    assert "follows without an edge: the publisher's posts do not arrive" in ran.stdout
    assert ran.stdout.splitlines()[-1] == (
        "2 follows and 1 edge were examined: 1 difference found, 1 of which can be repaired."
    )
    row = next(line for line in ran.stdout.splitlines() if "followed" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == (
        ["bob", "ada", "missing", "followed 1", "none"]
    )
    repaired = run("doctor", *scope, "--repair", lambda_=FakeLambda())
    assert repaired.exit_code == 0
    assert "1 difference found, 1 repaired, 0 left." in repaired.stdout


@pytest.mark.parametrize(
    ("fault", "calls", "reason"),
    [
        (MISSING, {"put_item": throttled}, "too slowly"),
        (FAULTS[4], {"delete_item": lambda **_: {}}, "is still orphaned after its repair"),
    ],
    ids=["throttled", "without effect"],
)
def test_a_repair_that_fails_is_reported_with_the_reason(
    tables: Tables, fault: Fault, calls: dict[str, Any], reason: str
) -> None:
    fault.make(tables)
    ran = repair("--whole", "--repair", "--expect", "1", dynamodb=Patched(**calls))
    assert ran.exit_code == 1
    assert "1 difference found, 0 repaired, 1 left." in ran.stdout
    assert reason in ran.said
    assert tables.placements("bob") == fault.edges


@pytest.mark.usefixtures("system")
def test_tables_that_cannot_be_read_are_reported() -> None:
    refuse = Mock(side_effect=error("AccessDeniedException"))
    unreadable = Patched(scan=refuse, describe_table=refuse)
    ran = run("doctor", "--whole", dynamodb=unreadable, lambda_=FakeLambda())
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "Stopped after 0 follows and 0 edges: 0 differences found. " in ran.said
    assert "AccessDenied" in ran.said


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize(
    ("options", "exit_code", "sentence"),
    [
        ([], 2, "Choose what to examine: --publisher PUBLISHER for one publisher, or --whole"),
        (["--whole", "--expect", "1"], 2, "--expect and --to need --repair"),
        (["--whole", "--to", "file"], 2, "--expect and --to need --repair"),
        (["--whole", "--put-back", "file"], 2, "cannot be combined"),
        (["--to", "other", "--put-back", "file"], 2, "cannot be combined"),
        (["--whole", "--publisher", "ada"], 2, "Choose what to examine"),
        (["--publisher", "a b"], 1, "'a b' is not a valid id"),
    ],
)
def test_options_without_one_valid_scope_are_refused(
    options: list[str], exit_code: int, sentence: str
) -> None:
    ran = run("doctor", *options, lambda_=FakeLambda())
    assert (ran.exit_code, ran.stdout) == (exit_code, "")
    assert sentence in ran.said
