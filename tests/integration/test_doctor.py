"""`fanfold doctor`: follows and edges that differ are found, counted once, and settled if asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fanfold import clock as product_clock
from fanfold.doctor import examine
from fanfold.doctor.examine import Difference, Doctor, Look
from fanfold.doctor.scan import READS_OF_A_SAMPLE, Records
from fanfold.follows import ring
from fanfold.follows.edges import Edges
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.follows_table import FOLLOWED, UNFOLLOWED, Follow
from fanfold.follows.growth import Growing
from fanfold.follows.levels import Levels
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.sharding import raised
from fanfold.settings import HIGHEST_LEVEL
from fanfold_cli import aws
from functions import api, plan
from tests.integration.cli import Ran, run
from tests.integration.system import AT, AT_MS, REGION, Clock, System, error
from tests.integration.test_cli_shards import FakeLambda

SOUND = {kind.value: 0 for kind in Difference}


@dataclass
class Ward:
    """Follows of the service, and what may happen to them."""

    system: System

    def __post_init__(self) -> None:
        self.followers = EdgesTable(self.system.dynamodb, self.system.settings.followers_table)
        self.publishers = PublishersTable(
            self.system.dynamodb, self.system.settings.publishers_table
        )

    def follow(self, *users: str, publisher: str = "ada", version: int = 1) -> None:
        """Let users follow, to the end."""
        edges = Edges(self.followers, Growing(Levels(self.publishers), 8, 10_000))
        for user in users:
            self.row(user, publisher=publisher, version=version)
        edges.put_all((publisher, user, version) for user in users)

    def row(
        self, user: str, *, publisher: str = "ada", version: int = 1, state: str = FOLLOWED
    ) -> None:
        """Put a row, whatever its edges are."""
        self.system.dynamodb.put_item(
            TableName=self.system.settings.following_table,
            Item={
                "user_id": {"S": user},
                "publisher_id": {"S": publisher},
                "state": {"S": state},
                "version": {"N": str(version)},
                "followed_at": {"S": AT},
                "asked_at": {"N": str(AT_MS)},
            },
        )

    def edge(self, user: str, version: int, *, level: int = 0, publisher: str = "ada") -> None:
        """Put an edge, whatever its row is."""
        assert not self.followers.put_all([(publisher, user, version, level)])

    def lose_edge(self, user: str, *, level: int = 0, publisher: str = "ada") -> None:
        self.followers.remove(publisher, user, version=1_000_000, level=level)

    def grow(self, level: int, *, publisher: str = "ada") -> None:
        seen = self.publishers.shards(publisher)
        wish = raised(seen, level=level, now_ms=AT_MS)
        assert self.publishers.update(publisher, seen=seen, shards=wish)

    def placements(self, user: str, *, publisher: str = "ada") -> dict[int, int]:
        """The versions of the user's edge, by level."""
        found = {}
        for item in self.system.rows_of("Followers"):
            key, _, shard = item["shard_id"]["S"].partition("#")
            if key == publisher and item["edge"]["S"].endswith(f"#{user}"):
                found[int(shard.partition(".")[0])] = int(item["version"]["N"])
        return found

    def version(self, user: str, *, publisher: str = "ada") -> int:
        return self.system.following.get(user, publisher).version


@dataclass(frozen=True)
class Full:
    """The tables, of which one kind of call is always throttled."""

    call: str
    client: Any = field(default_factory=lambda: aws.client("dynamodb", None, REGION))

    def __getattr__(self, name: str) -> Any:
        if name == self.call:
            raise error("ThrottlingException")
        return getattr(self.client, name)


@pytest.fixture
def ward(system: System) -> Ward:
    return Ward(system)


def examined(*options: str, **clients: Any) -> Ran:
    return run("doctor", *options, "--json", lambda_=FakeLambda(), **clients)


def found(ran: Ran) -> dict[str, int]:
    """What was found, without what was not."""
    return {kind: count for kind, count in ran.json["found"].items() if count}


# The comparison


@pytest.mark.parametrize(
    ("state", "version", "placements", "expected"),
    [
        (FOLLOWED, 3, {0: 3}, None),
        (FOLLOWED, 3, {2: 3}, None),
        (FOLLOWED, 3, {}, Difference.MISSING),
        (FOLLOWED, 3, {0: 1}, Difference.OLDER),
        (FOLLOWED, 3, {0: 1, 1: 2}, Difference.OLDER),
        (FOLLOWED, 3, {0: 5}, Difference.NEWER),
        (FOLLOWED, 3, {0: 3, 1: 5}, Difference.NEWER),
        (FOLLOWED, 3, {0: 3, 1: 3}, Difference.TWICE),
        (FOLLOWED, 3, {0: 1, 1: 3}, Difference.TWICE),
        (UNFOLLOWED, 4, {}, None),
        (UNFOLLOWED, 4, {0: 3}, Difference.ORPHANED),
        (UNFOLLOWED, 0, {1: 5}, Difference.ORPHANED),
    ],
)
def test_a_row_and_its_edges_are_compared(
    state: str, version: int, placements: Mapping[int, int], expected: Difference | None
) -> None:
    row = Follow(user_id="bob", publisher_id="ada", state=state, version=version)
    assert Look(row, dict(placements)).difference == expected


# What is sound


@pytest.mark.parametrize("options", [(), ("--whole",), ("--publisher", "ada"), ("--sample", "99")])
def test_what_the_service_made_itself_is_sound(
    system: System, ward: Ward, clock: Clock, options: tuple[str, ...]
) -> None:
    for user in ("ann", "bob", "cid"):
        assert system.follow(user).status == 200
    ward.grow(2)
    assert system.follow("dan").status == 200
    assert system.unfollow("bob").status == 204
    assert system.unfollow("cid").status == 204
    assert system.follow("cid").status == 200
    began = clock.seconds
    ran = examined(*options)
    assert ran.exit_code == 0
    assert ran.json["found"] == SOUND
    assert (ran.json["follows"], ran.json["edges"], ran.json["left"]) == (3, 3, 0)
    assert ran.json["examples"] == []
    assert clock.seconds == began, "without a difference there is nothing to wait for"


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("options", [(), ("--whole",), ("--publisher", "ada")])
def test_an_empty_stack_is_sound(options: tuple[str, ...]) -> None:
    ran = run("doctor", *options)
    assert (ran.exit_code, ran.stdout.splitlines()[-1].partition(" follows")[0]) == (0, "0")
    assert "nothing is wrong" in ran.stdout


def test_a_sample_of_no_follows_says_that_it_saw_no_edges(ward: Ward) -> None:
    """As after the following table was lost: nothing is wrong with what was seen, and all is."""
    ward.edge("bob", 1)
    ran = run("doctor")
    assert ran.exit_code == 0
    assert "nothing is wrong" in ran.stdout
    assert "no follows to draw from; --whole looks at the edges, too" in ran.said
    assert examined("--whole").exit_code == 1


@pytest.mark.usefixtures("system")
def test_a_publisher_that_nobody_follows_may_be_a_wrong_id() -> None:
    ran = run("doctor", "--publisher", "ada")
    assert ran.exit_code == 0
    assert "Nobody follows 'ada': is the id right?" in ran.said


# What is found and mended


def missing(ward: Ward) -> None:
    ward.follow("bob")
    ward.lose_edge("bob")


def missing_of_a_grown_publisher(ward: Ward) -> None:
    ward.grow(3)
    ward.follow("bob")
    ward.lose_edge("bob", level=3)


def stray_without_a_row(ward: Ward) -> None:
    ward.edge("bob", 7)


def stray_after_an_unfollow(ward: Ward) -> None:
    ward.row("bob", version=2, state=UNFOLLOWED)
    ward.edge("bob", 1)


def stray_at_two_levels(ward: Ward) -> None:
    ward.grow(2)
    ward.row("bob", version=4, state=UNFOLLOWED)
    ward.edge("bob", 1)
    ward.edge("bob", 3, level=2)


def stray_newer_than_the_unfollow(ward: Ward) -> None:
    ward.row("bob", version=2, state=UNFOLLOWED)
    ward.edge("bob", 5)


def older(ward: Ward) -> None:
    ward.row("bob", version=3)
    ward.edge("bob", 1)


def older_at_a_level_below(ward: Ward) -> None:
    ward.grow(1)
    ward.row("bob", version=3)
    ward.edge("bob", 1)


def newer(ward: Ward) -> None:
    ward.row("bob", version=1)
    ward.edge("bob", 5)


def newer_beside_the_right_one(ward: Ward) -> None:
    ward.grow(1)
    ward.follow("bob")
    ward.edge("bob", 5)


FAULTS: list[tuple[Callable[[Ward], None], str]] = [
    (missing, "missing"),
    (missing_of_a_grown_publisher, "missing"),
    (stray_without_a_row, "stray"),
    (stray_after_an_unfollow, "stray"),
    (stray_at_two_levels, "stray"),
    (stray_newer_than_the_unfollow, "stray"),
    (older, "older"),
    (older_at_a_level_below, "older"),
    (newer, "newer"),
    (newer_beside_the_right_one, "newer"),
]


@pytest.mark.parametrize(
    ("damage", "kind", "options"),
    [
        *((*fault, ["--whole"]) for fault in FAULTS),
        *((*fault, ["--publisher", "ada"]) for fault in FAULTS[1::3]),
        *((*fault, []) for fault in FAULTS[1::3]),
    ],
    ids=lambda it: getattr(it, "__name__", None),
)
def test_each_kind_of_fault_is_found_once_mended_and_gone(
    ward: Ward, damage: Callable[[Ward], None], kind: str, options: list[str]
) -> None:
    ward.follow("ann")
    damage(ward)
    before = ward.system.dump()
    ran = examined(*options)
    assert (ran.exit_code, found(ran)) == (1, {kind: 1})
    assert (ran.json["mended"], ran.json["left"]) == (0, 1)
    (example,) = ran.json["examples"]
    assert (example["user_id"], example["publisher_id"], example["what"]) == ("bob", "ada", kind)
    assert ward.system.dump() == before, "looking changes nothing"
    mended = examined(*options, "--repair")
    assert (mended.exit_code, mended.json["left"]) == (0, 0)
    # What was wrong may be a second edge then, which is taken out a moment later.
    assert found(mended) in ({kind: 1}, {kind: 1, "twice": 1})
    assert mended.json["mended"] == sum(found(mended).values())
    after = examined(*options)
    assert after.exit_code == 0
    assert not found(after), "neither at the level where it was wrong"


@pytest.mark.parametrize("damage", [damage for damage, _ in FAULTS], ids=lambda it: it.__name__)
def test_who_was_mended_follows_and_unfollows_like_anybody(
    system: System, ward: Ward, damage: Callable[[Ward], None]
) -> None:
    damage(ward)
    assert examined("--whole", "--repair").exit_code == 0
    row = system.following.get("bob", "ada")
    assert bool(ward.placements("bob")) is row.is_active
    for _ in range(2):
        assert system.follow("bob").status == 200
        assert max(ward.placements("bob").values()) == ward.version("bob")
        assert system.unfollow("bob").status == 204
        assert ward.placements("bob") == {}


def test_an_edge_at_several_levels_is_told_of_as_harmless(ward: Ward) -> None:
    ward.follow("bob")
    ward.grow(1)
    ward.edge("bob", 1, level=1)
    ran = examined("--whole")
    assert (ran.exit_code, found(ran), ran.json["mended"]) == (0, {"twice": 1}, 0)
    assert (ran.json["follows"], ran.json["edges"]) == (1, 2)
    (example,) = ran.json["examples"]
    assert (example["user_id"], example["what"]) == ("bob", "twice")
    told = run("doctor", "--whole")
    assert "harmless" in told.stdout
    assert "nothing is wrong" in told.stdout
    assert "takes second edges out" in told.said
    assert ward.placements("bob") == {0: 1, 1: 1}


@pytest.mark.parametrize("scope", [("--whole",), ("--publisher", "ada"), ("--sample", "10")])
def test_a_repair_leaves_an_edge_at_the_highest_level_where_it_is_right(
    ward: Ward, scope: tuple[str, ...]
) -> None:
    ward.grow(3)
    ward.row("bob", version=5)
    for level, version in ((0, 1), (1, 5), (2, 5), (3, 4)):
        ward.edge("bob", version, level=level)
    ran = examined(*scope, "--repair")
    assert (ran.exit_code, found(ran), ran.json["mended"]) == (0, {"twice": 1}, 1)
    assert ward.placements("bob") == {2: 5}
    assert found(examined("--whole")) == {}


def test_a_second_edge_is_taken_out_when_no_delivery_can_miss_the_other(
    ward: Ward, clock: Clock, meanwhile: Callable[..., None]
) -> None:
    """One that read level 1 before the edge was there would find it at level 0 only."""
    ward.grow(2)
    ward.follow("ann")
    ward.lose_edge("ann", level=2)
    for level in (0, 1):
        ward.edge("ann", 1, level=level)
    meanwhile(lambda: ward.edge("ann", 1, level=2))
    began = clock.seconds
    ran = examined("--whole", "--repair")
    assert (found(ran), ran.json["mended"]) == ({"twice": 1}, 1)
    assert clock.seconds - began == pytest.approx(examine.MOMENT_SECONDS, abs=1)
    assert ward.placements("ann") == {1: 1, 2: 1}, "the newest is too new to stand alone"


def test_what_was_wrong_is_taken_out_a_moment_after_it_was_mended(
    ward: Ward, clock: Clock, meanwhile: Callable[..., None]
) -> None:
    ward.grow(1)
    ward.row("bob", version=5)
    ward.edge("bob", 1, level=0)
    seen: list[dict[int, int]] = []
    meanwhile(lambda: seen.append(ward.placements("bob")))
    assert examined("--whole", "--repair").exit_code == 0
    assert seen == [{0: 1}, {0: 1, 1: 5}]
    assert ward.placements("bob") == {1: 5}


def test_an_edge_of_a_newer_follow_is_not_taken_out(ward: Ward) -> None:
    ward.grow(2)
    row = Follow(user_id="bob", publisher_id="ada", state=FOLLOWED, version=5)
    for level, version in ((0, 6), (1, 5), (2, 5)):
        ward.edge("bob", version, level=level)
    with ThreadPoolExecutor(1) as threads:
        records_of(ward, threads).unite(row, {0: 4, 1: 5, 2: 5})  # as they were a moment ago
    assert ward.placements("bob") == {0: 6, 2: 5}


def test_an_edge_that_nobody_would_see_is_not_the_one_that_stays(ward: Ward) -> None:
    """The publisher's row is lost, and cannot be raised now."""
    ward.row("bob")
    for level in (0, 2):
        ward.edge("bob", 1, level=level)
    ran = examined("--whole", "--repair", dynamodb=Full("update_item"))
    assert (ran.exit_code, found(ran), ran.json["mended"]) == (1, {"hidden": 1, "twice": 1}, 1)
    assert ward.placements("bob") == {0: 1}
    for level in (1, 2):
        ward.edge("carol", 1, level=level)
    ward.row("carol")
    ran = examined("--whole", "--repair", dynamodb=Full("update_item"))
    assert (found(ran), ran.json["mended"]) == ({"hidden": 1, "twice": 1}, 0)
    assert ward.placements("carol") == {1: 1, 2: 1}


def test_edges_that_cannot_be_taken_out_now_do_no_harm(ward: Ward) -> None:
    ward.grow(1)
    ward.row("bob")
    ward.edge("bob", 1, level=0)
    ward.edge("bob", 1, level=1)
    ran = examined("--whole", "--repair", dynamodb=Full("delete_item"))
    assert (ran.exit_code, found(ran), ran.json["mended"]) == (0, {"twice": 1}, 0)


def test_a_row_that_came_while_its_stray_edge_was_mended_keeps_its_follow(
    system: System, ward: Ward
) -> None:
    """The end of a follow is put only where there is no row; so the new follow stays."""
    ward.edge("bob", 7)
    client = aws.client("dynamodb", None, REGION)

    class Racing:
        def __getattr__(self, name: str) -> Any:
            return getattr(client, name)

        def put_item(self, **request: Any) -> Any:
            if request["TableName"] == "Following":
                assert system.follow("bob").status == 200
            return client.put_item(**request)

    ran = examined("--whole", "--repair", dynamodb=Racing())
    assert (ran.exit_code, ran.json["left"]) == (1, 1)
    assert ward.placements("bob") == {0: 7}, "posts go on arriving"
    again = examined("--whole", "--repair")
    assert (again.exit_code, found(again)) == (0, {"newer": 1})
    assert ward.placements("bob") == {0: ward.version("bob")} == {0: 8}


# Levels that the publisher's row does not know


@pytest.fixture
def forgotten(ward: Ward) -> Ward:
    """A publisher at level 2 with edges below and there, whose row is lost."""
    ward.grow(1)
    ward.follow("ann", "bob")
    ward.grow(2)
    ward.follow("cid", "dan")
    ward.edge("eve", 3, level=2)
    ward.system.dynamodb.delete_item(
        TableName=ward.system.settings.publishers_table, Key={"publisher_id": {"S": "ada"}}
    )
    return ward


SCOPES = [["--whole"], ["--publisher", "ada"]]


@pytest.mark.parametrize("scope", SCOPES, ids=" ".join)
def test_edges_above_the_level_of_the_row_are_hidden(forgotten: Ward, scope: list[str]) -> None:
    before = forgotten.system.dump()
    ran = examined(*scope)
    assert (ran.exit_code, found(ran)) == (1, {"hidden": 1, "stray": 1}), "no follow is missing"
    assert ran.json["hidden"] == [{"publisher_id": "ada", "level": 0, "seen": 2}]
    assert (ran.json["follows"], ran.json["edges"]) == (4, 5)
    assert (ran.json["mended"], ran.json["left"]) == (0, 2)
    assert forgotten.system.dump() == before
    told = run("doctor", *scope).stdout
    assert "publishers with edges above the level of their row" in told
    row = next(line for line in told.splitlines() if line.startswith("│ ada"))
    assert [cell.strip() for cell in row.split("│")[1:-1]] == ["ada", "0", "2"]


@pytest.mark.parametrize("waiting", [0, 20_000])
@pytest.mark.parametrize("scope", SCOPES, ids=" ".join)
def test_a_repair_raises_the_row_and_then_settles(
    forgotten: Ward,
    scope: list[str],
    waiting: int,
    paged: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(examine, "MAX_SUSPECTS", waiting)
    paged(1)
    system = forgotten.system
    forgotten.edge("eve", 3, level=1)
    ran = examined(*scope, "--repair")
    assert (ran.exit_code, ran.json["left"]) == (0, 0)
    assert found(ran).keys() == {"hidden", "stray"}
    assert forgotten.publishers.shards("ada").level == 2
    if scope != ["--whole"]:
        assert forgotten.publishers.shards("ada").version == 1, "raised once, to the highest"
    assert found(examined("--whole")) == {}, "no edge was put at a lower level"
    assert forgotten.placements("eve") == {}
    for user in ("ann", "cid"):
        assert system.unfollow(user).status == 204
        assert forgotten.placements(user) == {}
    system.publish()
    system.pump("Publish", "Express")
    assert system.reached() == ["bob", "dan"]


def test_a_stale_row_is_raised_as_well_as_a_lost_one(forgotten: Ward) -> None:
    forgotten.grow(1)
    ran = examined("--whole", "--repair")
    assert ran.json["hidden"] == [{"publisher_id": "ada", "level": 1, "seen": 2}]
    assert (ran.exit_code, forgotten.publishers.shards("ada").level) == (0, 2)


def junk(ward: Ward) -> None:
    """What no service wrote: an edge without a number, at its place and not, and such a row."""
    tables = ward.system.settings
    for user in ("bob", "carol"):
        key = {"shard_id": {"S": "ada#0.0"}, "edge": {"S": ring.edge(user)}}
        version = {"version": {"S": "new"}} if user == "bob" else {}
        ward.system.dynamodb.put_item(TableName=tables.followers_table, Item={**key, **version})
    key = {"user_id": {"S": "dora"}, "publisher_id": {"S": "ada"}}
    for junk_row in (
        {**key, "version": {"S": "new"}, "state": {"S": FOLLOWED}},
        {**key, "user_id": {"S": "emma"}, "version": {"N": "1"}, "state": {"S": "perhaps"}},
        {**key, "user_id": {"S": "fay"}, "state": {"S": FOLLOWED}},
    ):
        ward.system.dynamodb.put_item(TableName=tables.following_table, Item=junk_row)


def test_items_that_nobody_can_read_are_named_and_stop_nothing(ward: Ward) -> None:
    junk(ward)
    ward.follow("erin", "fred")
    ward.lose_edge("erin")
    ward.edge("dora", 1)  # whose row is one of them
    ran = examined("--whole", "--repair")
    assert (ran.exit_code, found(ran)) == (1, {"missing": 1, "unreadable": 5})
    row = {"table": "following", "user_id": "dora", "publisher_id": "ada"}
    assert row in ran.json["unreadable"]
    told = run("doctor", "--whole")
    assert "5 are wrong." in told.stdout
    assert "--repair` mends" not in told.stdout
    ward.lose_edge("fred")
    told = run("doctor", "--whole")
    assert "6 are wrong. `fanfold doctor --whole --repair` mends 1 of them." in told.stdout


@pytest.mark.parametrize("scope", [("--publisher", "ada"), ("--sample", "10")])
def test_what_nobody_can_read_stops_no_smaller_examination(
    ward: Ward, scope: tuple[str, ...]
) -> None:
    junk(ward)
    ward.follow("erin")
    ward.lose_edge("erin")
    ran = examined(*scope, "--repair")
    assert (found(ran), ran.json["mended"]) == ({"missing": 1, "unreadable": 3}, 1), "all rows"
    assert ward.placements("erin") == {0: 1}


def test_a_level_far_above_the_row_is_seen(ward: Ward) -> None:
    """As after all publishers were kept at a level."""
    ward.row("bob")
    ward.edge("bob", 1, level=5)
    assert found(examined("--publisher", "ada")) == {"hidden": 1}


@pytest.mark.parametrize("place", ["its own shard", "another shard"])
def test_items_that_are_no_edges_raise_no_row(ward: Ward, place: str) -> None:
    ward.follow("bob")
    level = HIGHEST_LEVEL
    shard = ring.shard_of(ring.position("bob"), level)
    shard += 0 if place == "its own shard" else 1
    key = {"shard_id": {"S": ring.shard_key("ada", level, shard)}, "edge": {"S": ring.edge("bob")}}
    ward.system.dynamodb.put_item(TableName=ward.system.settings.followers_table, Item=key)
    assert found(examined("--whole", "--repair")) == {"unreadable": 1}
    assert found(examined("--publisher", "ada", "--repair")) == {}
    assert ward.publishers.shards("ada").level == 0


def test_a_row_that_cannot_be_raised_now_leaves_the_publisher_hidden(forgotten: Ward) -> None:
    full = Full("update_item")
    ran = run("doctor", "--whole", "--repair", dynamodb=full, lambda_=FakeLambda())
    assert ran.exit_code == 1
    assert "2 of 2 wrong ones are not mended" in ran.stdout
    assert "Run it again." in ran.said
    assert forgotten.publishers.shards("ada").level == 0
    assert examined("--whole", "--repair").exit_code == 0


# Items that are no edges


@pytest.mark.parametrize(
    ("shard_id", "edge", "version"),
    [
        ("junk", "nohash", "1"),
        ("u1#x.y", ring.edge("bob"), "1"),
        ("ada#0.0", "nohash", "1"),
        ("ada#0.0", f"{ring.START}#bob", "1"),
        ("ada#0.1", ring.edge("bob"), "1"),
        ("ada#-1.0", ring.edge("bob"), "1"),
        ("ada#99.0", ring.edge("bob"), "1"),
        ("ada#11.0", ring.edge("bob"), "1"),
        ("ada#0.0", ring.edge("bob"), None),
        ("#0.0", ring.edge("bob"), "1"),
        ("ada#0.0", ring.edge(""), "1"),
    ],
)
def test_an_item_that_is_no_edge_is_named_and_left_alone(
    ward: Ward, shard_id: str, edge: str, version: str | None
) -> None:
    ward.follow("ann", "cid")
    ward.lose_edge("cid")
    item: Any = {"shard_id": {"S": shard_id}, "edge": {"S": edge}}
    ward.system.dynamodb.put_item(
        TableName=ward.system.settings.followers_table,
        Item={**item, "version": {"N": version}} if version else item,
    )
    ran = examined("--whole", "--repair")
    assert (ran.exit_code, found(ran)) == (1, {"missing": 1, "unreadable": 1})
    assert (ran.json["mended"], ran.json["left"]) == (1, 1)
    assert ran.json["unreadable"] == [{"table": "followers", "shard_id": shard_id, "edge": edge}]
    told = run("doctor", "--whole")
    assert told.exit_code == 1
    assert shard_id in told.stdout
    assert "is not mended: look at these items" in told.said


# What goes on meanwhile


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Callable[..., None]:
    """Let something happen while the doctor waits for its second look."""

    def let(happen: Callable[[], object]) -> None:
        def sleep(seconds: float) -> None:
            clock.advance(seconds)
            if seconds > examine.MOMENT_SECONDS / 2:
                happen()

        monkeypatch.setattr(product_clock, "sleep", sleep)

    return let


def test_a_follow_that_was_on_its_way_is_no_fault(
    ward: Ward, clock: Clock, meanwhile: Callable[..., None]
) -> None:
    ward.row("bob")
    meanwhile(lambda: ward.edge("bob", 1))
    began = clock.seconds
    ran = examined("--whole", "--repair")
    assert (ran.exit_code, ran.json["found"]) == (0, SOUND)
    assert clock.seconds - began == pytest.approx(examine.MOMENT_SECONDS, abs=1)


def test_the_second_look_is_later_than_all_that_may_be_on_its_way() -> None:
    for door in (api, plan):
        assert door.relations.reconcile_after_seconds + 10 < examine.MOMENT_SECONDS


def test_a_row_that_changed_between_the_looks_is_left_to_who_changed_it(
    ward: Ward, meanwhile: Callable[..., None]
) -> None:
    ward.row("bob")
    meanwhile(lambda: ward.row("bob", version=3))
    ran = examined("--whole", "--repair")
    assert (ran.exit_code, ran.json["found"]) == (0, SOUND)
    assert ward.placements("bob") == {}


def test_a_row_that_changes_during_a_look_is_left_to_who_changes_it(ward: Ward) -> None:
    ward.row("bob")
    reads = iter(range(2, 1000))

    def get(user: str, publisher: str) -> Follow:
        return Follow(user_id=user, publisher_id=publisher, state=FOLLOWED, version=next(reads))

    with ThreadPoolExecutor(1) as threads:
        records = records_of(ward, threads)
        restless = replace(records, following=Restless(records.following, get))  # type: ignore[arg-type]
        assert Doctor(restless, None).look(("bob", "ada")) is None


@dataclass
class Restless:
    """The following table, with rows of the test's own."""

    following: Any
    get: Callable[[str, str], Follow]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.following, name)


def test_a_publisher_that_grows_meanwhile_has_no_faults_by_that(ward: Ward) -> None:
    ward.follow("ann")
    with ThreadPoolExecutor(4) as threads:
        records = records_of(ward, threads)
        assert records.level("ada") == 0
        ward.grow(1)
        ward.follow("bob")
        examiner = Doctor(records, None)
        for each in examiner.whole():
            assert sum(each.steps) >= 0
        assert examiner.report.follows == 2
        assert examiner.report.found.total() == 0


def test_with_too_many_suspects_reading_waits_for_the_oldest(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "MAX_SUSPECTS", 3)
    monkeypatch.setattr(examine, "EXAMPLES", 5)
    for number in range(12):
        ward.row(f"user-{number}")
    ran = examined("--whole")
    assert found(ran) == {"missing": 12}
    assert len(ran.json["examples"]) == 5
    assert "The first 5 of 12 are listed" in run("doctor", "--whole").said


@pytest.mark.parametrize("damage", [older, newer, stray_at_two_levels], ids=lambda it: it.__name__)
def test_a_fault_that_is_met_again_later_counts_once(
    ward: Ward,
    damage: Callable[[Ward], None],
    paged: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(examine, "MAX_SUSPECTS", 0)  # so that nothing waits for the end
    paged(1)
    damage(ward)
    assert sum(found(examined("--whole")).values()) == 1


def test_an_interrupted_repair_says_what_is_mended_and_can_be_run_again(
    ward: Ward,
    paged: Callable[[int], None],
    meanwhile: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(examine, "MAX_SUSPECTS", 0)  # so that each page is mended before the next
    paged(1)
    for user in ("bob", "cid", "dan"):
        ward.row(user)
    waits = iter(range(1, 9))

    def press_ctrl_c() -> None:
        if next(waits) == 2:
            raise KeyboardInterrupt

    meanwhile(press_ctrl_c)
    ran = run("doctor", "--whole", "--repair", lambda_=FakeLambda())
    assert (ran.exit_code, ran.stdout) == (130, "")
    assert "Stopped after 2 follows and 0 edges: 1 were found wrong so far" in ran.said
    assert "at least 1 of them are mended, and 1 more were to be looked at again" in ran.said
    assert "run it again" in ran.said
    mended = [user for user in ("bob", "cid", "dan") if ward.placements(user)]
    assert len(mended) == 1
    meanwhile(lambda: None)
    again = examined("--whole", "--repair")
    assert (again.exit_code, again.json["mended"]) == (0, 2)


# How it reads


@dataclass(frozen=True)
class Counting:
    """The tables, and how many pages were asked of them."""

    client: Any = field(default_factory=lambda: aws.client("dynamodb", None, REGION))
    queries: list[Any] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        if name == "query":
            self.queries.append(name)
        return getattr(self.client, name)


def test_a_sample_does_not_read_hundreds_of_shards_for_one_follow(ward: Ward) -> None:
    ward.grow(8)
    ward.follow("bob")
    tables = Counting()
    assert examined(dynamodb=tables).json["follows"] == 1
    assert len(tables.queries) <= 2 * READS_OF_A_SAMPLE


def test_a_sample_reads_all_shards_of_a_publisher_with_few(ward: Ward) -> None:
    ward.grow(3)
    ward.follow("bob")
    for level in range(3):
        ward.edge(f"stray-{level}", 1, level=level)
    assert found(examined()) == {"stray": 3}


def records_of(ward: Ward, threads: ThreadPoolExecutor) -> Records:
    return Records(ward.system.following, ward.followers, ward.publishers, threads)


def test_more_rows_than_a_batch_and_a_page_are_all_compared(
    ward: Ward, paged: Callable[[int], None]
) -> None:
    paged(40)
    ward.grow(2)
    users = [f"user-{number}" for number in range(150)]
    ward.follow(*users)
    ward.lose_edge("user-7", level=2)
    ward.edge("stray", 1, level=1)
    for options in (("--whole",), ("--publisher", "ada")):
        ran = examined(*options)
        assert (ran.json["follows"], ran.json["edges"]) == (150, 150)
        assert found(ran) == {"missing": 1, "stray": 1}


@pytest.fixture
def paged(system: System) -> Iterator[Callable[[int], None]]:
    """Let each page of a Scan hold so many items."""
    limits = [10_000]

    def cut(params: dict[str, Any], **_event: Any) -> None:
        params.setdefault("Limit", limits[0])

    # A client registers what its session knows when it is made, which the command does.
    plain = aws.client

    def client(service: str, *where: Any) -> Any:
        made = plain(service, *where)
        made.meta.events.register("provide-client-params.dynamodb.Scan", cut)
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fanfold_cli.stack.aws.client", client)
        yield lambda limit: limits.__setitem__(0, limit)


def test_keys_that_a_batch_leaves_are_asked_for_again(ward: Ward) -> None:
    ward.follow(*(f"user-{number}" for number in range(20)))
    client = aws.client("dynamodb", None, REGION)
    asked: list[int] = []

    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(client, name)

        def batch_get_item(self, *, RequestItems: Any) -> Any:  # noqa: N803
            ((table, request),) = RequestItems.items()
            asked.append(len(request["Keys"]))
            some, left = request["Keys"][:8], request["Keys"][8:]
            answer = client.batch_get_item(RequestItems={table: {**request, "Keys": some}})
            return {**answer, "UnprocessedKeys": {table: {"Keys": left}} if left else {}}

    assert examined("--whole", dynamodb=Slow()).json["found"] == SOUND
    assert asked[:3] == [20, 12, 4]


def test_only_the_publisher_that_is_named_is_looked_at(ward: Ward) -> None:
    ward.follow("bob", "cid")
    ward.follow("bob", publisher="eve")
    ward.lose_edge("bob", publisher="eve")
    ward.edge("dan", 1, publisher="eve")
    ran = examined("--publisher", "ada")
    assert (ran.json["follows"], ran.json["edges"], found(ran)) == (2, 2, {})
    ran = examined("--publisher", "eve", "--repair")
    assert (ran.json["follows"], ran.json["edges"]) == (1, 1), "dan's edge; bob's was not there yet"
    assert found(ran) == {"missing": 1, "stray": 1}


def test_a_sample_is_of_so_many_follows_and_edges_near_them(ward: Ward) -> None:
    users = [f"user-{number}" for number in range(200)]
    ward.follow(*users)
    ward.follow(*users[:40], publisher="eve")
    ran = examined("--sample", "50")
    assert ran.json["sample"] is True
    assert ran.json["follows"] == 50
    assert 50 <= ran.json["edges"] <= 50 + 2 * examine.SPARE
    assert "a sample (--whole looks at all)" in run("doctor", "--sample", "50").stdout


def test_samples_are_drawn_anew_each_time(ward: Ward) -> None:
    for number in range(100):
        ward.row(f"user-{number}")
    seen: set[str] = set()
    with ThreadPoolExecutor(1) as threads:
        records = records_of(ward, threads)
        for _ in range(10):
            sample = [row.user_id for _, rows, _ in records.some_follows(20) for row in rows]
            assert len(set(sample)) == len(sample) == 20
            seen |= set(sample)
    assert len(seen) > 40


# What it says


def test_the_tables_and_the_sentence_say_what_is_wrong_and_what_to_do(ward: Ward) -> None:
    ward.follow("ann")
    missing(ward)
    ran = run("doctor", "--whole")
    assert ran.exit_code == 1
    assert "follows without an edge: posts do not arrive" in ran.stdout
    assert ran.stdout.splitlines()[-1] == (
        "2 follows and 1 edges were looked at: 1 are wrong. `fanfold doctor --whole --repair` "
        "mends them."
    )
    row = next(line for line in ran.stdout.splitlines() if "followed" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == (
        ["bob", "ada", "missing", "followed 1", "none"]
    )
    mended = run("doctor", "--whole", "--repair", lambda_=FakeLambda())
    assert mended.exit_code == 0
    assert "1 were wrong and are mended" in mended.stdout


def test_what_cannot_be_mended_now_is_said_with_the_reason(ward: Ward, clock: Clock) -> None:
    missing(ward)
    full = Full("put_item")
    ran = run("doctor", "--whole", "--repair", dynamodb=full, lambda_=FakeLambda())
    assert ran.exit_code == 1
    assert "1 of 1 wrong ones are not mended" in ran.stdout
    assert "too slowly" in ran.said
    assert ward.placements("bob") == {}


@pytest.mark.usefixtures("system")
def test_a_table_that_cannot_be_read_is_a_sentence() -> None:
    class Closed:
        def __getattr__(self, name: str) -> Any:
            def refuse(**_request: Any) -> Any:
                raise error("AccessDeniedException")

            return refuse

    ran = run("doctor", dynamodb=Closed())
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "Stopped after 0 follows and 0 edges: 0 were found wrong so far. " in ran.said
    assert "AccessDenied" in ran.said


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ([], "--whole --repair"),
        (["--sample", "9"], "--whole --repair"),
        (["--whole"], "--whole --repair"),
        (["--publisher", "ada"], "--publisher ada --repair"),
    ],
)
def test_the_advice_mends_what_was_found(ward: Ward, options: list[str], advice: str) -> None:
    missing(ward)
    assert f"`fanfold doctor {advice}` mends them." in run("doctor", *options).stdout


def test_follows_that_have_ended_are_not_counted(ward: Ward) -> None:
    ward.follow("ann")
    ward.row("bob", state=UNFOLLOWED)
    assert "1 follows and 1 edges were looked at" in run("doctor", "--whole").stdout


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--whole", "--sample", "5"], "Name one of"),
        (["--whole", "--publisher", "ada"], "Name one of"),
        (["--publisher", "ada", "--sample", "5"], "Name one of"),
        (["--publisher", "a b"], "'a b' is not a valid id"),
    ],
)
def test_options_that_make_no_sense_are_sentences(options: list[str], sentence: str) -> None:
    ran = run("doctor", *options)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert sentence in ran.said
