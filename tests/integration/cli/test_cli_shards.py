"""`fanfold shards`: write shards are shown, added, and kept at one level for all publishers."""

from __future__ import annotations

import threading
from typing import Any
from unittest.mock import Mock

import pytest

from fanfold import times
from fanfold.follows.edges import Edges
from fanfold.follows.levels import Growing, Levels
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.sharding import WINDOW_SECONDS, Shards
from fanfold_cli.publishers import shards
from tests.commands import PLACE, FakeLambda, Patched, Ran, run
from tests.service import AT, AT_MS, Clock, System, error

NOBODY = "Nobody follows 'ada' yet; is the id right?"


@pytest.fixture
def publishers(system: System) -> PublishersTable:
    return system.publishers


def shards_of(*arguments: str, max_level: int = 8, **clients: Any) -> Ran:
    return run("shards", *arguments, lambda_=FakeLambda(max_level), **clients)


def put(system: System, user: str) -> None:
    """Put an edge to ada as a cold container does."""
    growing = Growing(Levels(system.publishers), 8, 10_000)
    Edges(system.edges_table, growing).put("ada", user, version=1)


# show


def test_show_counts_every_shard_of_every_level(system: System) -> None:
    system.publishers.raise_to("ada", 2, now_ms=AT_MS)
    users = [f"user-{number}" for number in range(60)]
    assert not system.edges_table.put_all(
        ("ada", user, 1, level) for level, user in zip([0, 1, 2] * 20, users, strict=True)
    )
    shown = shards_of("show", "ada", "--json").json
    assert (shown["level"], shown["shards"], shown["edges"]) == (2, 4, 60)
    assert (shown["version"], shown["last_growth"], shown["estimated"]) == (1, AT, False)
    assert [len(level["shards"]) for level in shown["levels"]] == [1, 2, 4]
    for level in shown["levels"]:
        assert sum(level["shards"]) == level["edges"] == 20
        assert level["largest"] == max(level["shards"])
        assert level["skew"] == pytest.approx(level["largest"] / (20 / len(level["shards"])))


def test_show_counts_all_pages_of_a_shard_and_estimates_it_from_the_first(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "COUNT_PAGE", 250)
    system.give_followers(1_000)
    assert shards_of("show", "ada", "--json").json["edges"] == 1_000
    shown = shards_of("show", "ada", "--estimate", "--json").json
    assert shown["estimated"] is True
    assert shown["edges"] == pytest.approx(1_000, rel=0.2)
    assert shown["edges"] != 1_000
    assert "About" in shards_of("show", "ada", "--estimate").stdout


def test_show_prints_the_growths_and_the_shards_as_tables(system: System, clock: Clock) -> None:
    system.edges_table.put("ada", "bob", version=1, level=0)
    before = AT_MS - WINDOW_SECONDS * 1000
    system.publishers.count("ada", 3_000 * WINDOW_SECONDS, now_ms=before)
    assert shards_of("grow", "ada", "--level", "1", "--yes").exit_code == 0
    clock.advance(600)
    assert shards_of("grow", "ada", "--level", "2", "--yes").exit_code == 0
    shown = shards_of("show", "ada").stdout
    assert f"'ada' is at level 2: 4 write shards, last grown at {times.to_text(clock.ms)}" in shown
    first, second = (line.split() for line in shown.splitlines() if "T18:" in line and "│" in line)
    rate = int(first[5].replace(",", ""))
    assert first[1:4] == ["1", "│", AT]
    assert 2_000 < rate <= 3_000, "most of the window before lies within the last five seconds"
    assert second[1:6:2] == ["2", times.to_text(clock.ms), "0"]
    assert [line.split()[1] for line in shown.splitlines() if "│ " in line][-7:] == (
        ["0.0", "1.0", "1.1", "2.0", "2.1", "2.2", "2.3"]
    )
    assert shown.endswith("\n1 edge.\n")


def test_show_doubts_an_id_without_followers_names_a_static_level_and_lists_many_shards_in_json(
    publishers: PublishersTable,
) -> None:
    shown = shards_of("show", "ada")
    assert shown.exit_code == 0
    assert "'ada' is at level 0: 1 write shard, never grown" in shown.stdout
    assert "is the id right?" in shown.said
    publishers.set_static_level(3)
    publishers.raise_to("ada", 5, now_ms=AT_MS)
    shown = shards_of("show", "ada")
    assert "The static level 3 is in force" in shown.stdout
    assert "--json has all of them" in shown.said
    assert "5.31" not in shown.stdout
    shown = shards_of("show", "ada", "--json")
    assert (shown.json["static_level"], len(shown.json["levels"][5]["shards"])) == (3, 32)


def test_a_count_that_is_interrupted_ends_at_the_next_page(
    publishers: PublishersTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    publishers.raise_to("ada", 3, now_ms=AT_MS)
    stop, counted = threading.Event(), list[str]()
    monkeypatch.setattr(shards, "threading", Mock(Event=lambda: stop))

    def query(**request: Any) -> Any:
        shard = request["ExpressionAttributeValues"][":shard"]["S"]
        counted.append(shard)
        assert len(counted) < 100, "the count goes on"
        if shard == "ada#0.0":
            raise KeyboardInterrupt
        assert stop.wait(60)
        return {"Count": 1, "LastEvaluatedKey": {"edge": {"S": "0"}}}

    ran = shards_of("show", "ada", dynamodb=Patched(query=query))
    assert (ran.exit_code, ran.stdout) == (130, "")
    assert len(counted) == len(set(counted)), "no second page"


# Stacks and tables that cannot be used


@pytest.mark.parametrize("command", ["shards grow ada --level 1 --yes", "doctor --whole --repair"])
def test_functions_without_a_publishers_table_are_reported(
    command: str, publishers: PublishersTable
) -> None:
    functions = FakeLambda()
    del functions.variables["PUBLISHERS_TABLE"]
    ran = run(*command.split(), lambda_=functions)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "lacks PUBLISHERS_TABLE" in ran.said
    assert "Deploy the stack again." in ran.said
    assert publishers.shards("ada") == Shards()


@pytest.mark.usefixtures("system")
def test_a_table_that_cannot_be_read_is_reported() -> None:
    refuse = Mock(side_effect=error("AccessDeniedException"))
    ran = shards_of("show", "ada", dynamodb=Patched(get_item=refuse))
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "The shards cannot be read: " in ran.said


# grow


def test_grow_raises_the_level_and_says_what_it_means(publishers: PublishersTable) -> None:
    ran = shards_of("grow", "ada", "--level", "3", "--yes")
    assert ran.exit_code == 0
    assert "8,000 follows a second" in ran.said
    assert "reads 15 shards instead of 1 shard" in ran.said
    assert "within 60 s, or after their first throttle" in ran.said
    assert "'ada' is now at level 3: 8 write shards." in ran.stdout
    grown = publishers.shards("ada")
    assert (grown.level, grown.version, grown.last_updated) == (3, 1, AT_MS)
    assert [growth.level for growth in grown.history] == [3]


def test_grow_never_lowers_and_can_be_repeated(publishers: PublishersTable) -> None:
    """Both without a question, which nobody could answer here."""
    publishers.raise_to("ada", 3, now_ms=AT_MS)
    lower = shards_of("grow", "ada", "--level", "2")
    assert (lower.exit_code, lower.stdout) == (1, "")
    assert "is at level 3, and a level is never lowered" in lower.said
    same = shards_of("grow", "ada", "--level", "3")
    assert (same.exit_code, same.stdout) == (0, "'ada' is already at level 3: 8 write shards.\n")
    content = shards_of("grow", "ada", "--level", "3", "--json").json
    assert (content["was"], content["level"], content["changed"]) == (3, 3, False)
    assert publishers.shards("ada").version == 1


def test_grow_of_a_publisher_that_nobody_follows_says_so_once_before_it_asks(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def confirm(question: str, *, err: bool) -> bool:
        said.append(question)
        return err

    with monkeypatch.context() as asking:
        asking.setattr("fanfold_cli.commands.shards.say", said.append)
        asking.setattr("fanfold_cli.terminal.has_terminal", lambda: True)
        asking.setattr("fanfold_cli.commands.shards.typer.confirm", confirm)
        assert shards_of("grow", "ada", "--level", "1").exit_code == 0
    assert said.index(NOBODY) < said.index(f"{PLACE}: Grow 'ada' from level 0 to level 1?")
    assert system.publishers.shards("ada").level == 1
    assert NOBODY not in shards_of("grow", "ada", "--level", "2", "--yes").said
    system.edges_table.put("eve", "bob", version=1, level=0)
    assert "Nobody follows" not in shards_of("grow", "eve", "--level", "1", "--yes").said


@pytest.mark.parametrize("command", [["grow", "ada"], ["static"]], ids=" ".join)
def test_no_level_above_the_highest_of_the_stage_is_set(
    publishers: PublishersTable, command: list[str]
) -> None:
    refused = shards_of(*command, "--level", "5", "--yes", max_level=4)
    assert refused.exit_code == 1
    assert "The highest level of this stage is 4." in refused.said
    assert "a higher -c max_level=" in refused.said
    assert (publishers.shards("ada"), publishers.static_level()) == (Shards(), None)
    assert shards_of(*command, "--level", "4", "--yes", max_level=4).exit_code == 0


@pytest.mark.parametrize(
    ("races", "wanted", "expected", "said"),
    [
        (2, 3, Shards(level=3, version=3), "'ada' is now at level 3"),
        (2, 1, Shards(level=1, version=1), "'ada' is now at level 1"),
        (100, 8, None, "changed too often"),
    ],
)
def test_grow_goes_on_from_growths_that_come_between_unless_there_are_too_many(
    publishers: PublishersTable, races: int, wanted: int, expected: Shards | None, said: str
) -> None:
    raised: list[int] = []

    def update_item(**request: Any) -> Any:
        if len(raised) < races:
            raised.append(publishers.shards("ada").level + 1)
            publishers.raise_to("ada", raised[-1], now_ms=AT_MS)
        return racing.client.update_item(**request)

    racing = Patched(update_item=update_item)
    ran = shards_of("grow", "ada", "--level", str(wanted), "--yes", dynamodb=racing)
    assert said in ran.stdout + ran.said
    assert ran.exit_code == (0 if expected else 1)
    if expected:
        grown = publishers.shards("ada")
        assert (grown.level, grown.version) == (expected.level, expected.version)


def test_grow_with_a_static_level_says_where_followers_go(publishers: PublishersTable) -> None:
    publishers.set_static_level(1)
    ran = shards_of("grow", "ada", "--level", "3", "--yes")
    assert "The static level 1 is in force" in ran.said
    assert "within 60 s" not in ran.said


# static and dynamic


def test_static_keeps_all_publishers_at_a_level_until_dynamic(
    system: System, publishers: PublishersTable
) -> None:
    ran = shards_of("static", "--level", "2", "--yes")
    assert (ran.exit_code, ran.stdout) == (0, "The mode is static: all publishers at level 2.\n")
    assert "within 60 s" in ran.said
    assert "stays at level 2 or higher" in ran.said
    assert "each of its deliveries reads at least 7 shards, however" in ran.said
    put(system, "bob")
    assert system.placements() == [(2, "bob")]
    assert publishers.shards("ada").level == 2, "raised before anything is written there"
    assert "Nothing was changed." in shards_of("static", "--level", "2").stdout
    assert shards_of("dynamic", "--yes", "--json").json == (
        {"static_level": None, "was": 2, "changed": True}
    )
    assert publishers.static_level() is None
    assert "Nothing was changed." in shards_of("dynamic").stdout
