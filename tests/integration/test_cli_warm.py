"""`fanfold warm`: the tables that take bursts are prepared for them, once and for good."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold import names
from tests.integration.cli import Patched, run
from tests.integration.system import System, error

NEW, QUOTA = 4_000, 10_000  # of moto
BURSTING = ("timelines", "followers")

pytestmark = pytest.mark.moto("DynamoDB Local has no warm throughput")


def units(system: System) -> dict[str, int]:
    """The warm write units of every table."""
    found = {}
    for table in names.TABLES:
        name = getattr(system.settings, table.setting)
        described = system.dynamodb.describe_table(TableName=name)["Table"]
        found[table.name.lower()] = described["WarmThroughput"]["WriteUnitsPerSecond"]
    return found


def bursting(system: System) -> dict[str, int]:
    return {table: warm for table, warm in units(system).items() if table in BURSTING}


def test_without_a_number_it_shows_what_the_tables_are_warm_for(system: System) -> None:
    ran = run("warm", "--json")
    rows = [{"table": table, "write_units": NEW, "status": "ACTIVE"} for table in BURSTING]
    assert (ran.exit_code, ran.json) == (0, {"tables": rows, "quota": QUOTA, "raised": []})
    assert "4,000" in run("warm").stdout
    assert set(units(system).values()) == {NEW}


def test_the_tables_that_take_bursts_are_warmed_and_no_other(system: System) -> None:
    ran = run("warm", "--write-units", "9000", "--yes", "--json")
    assert (ran.exit_code, ran.json["raised"]) == (0, list(BURSTING))
    assert [table["write_units"] for table in ran.json["tables"]] == [9_000, 9_000]
    others = dict.fromkeys(units(system), NEW)
    assert units(system) == others | dict.fromkeys(BURSTING, 9_000)


def test_a_second_time_changes_nothing(system: System) -> None:
    run("warm", "--write-units", "9000", "--yes")
    refused = Patched(update_table=lambda **_: pytest.fail("it is warm already"))
    ran = run("warm", "--write-units", "9000", "--yes", "--json", dynamodb=refused)
    assert (ran.exit_code, ran.json["raised"]) == (0, [])
    lower = run("warm", "--write-units", "5000", "--yes", dynamodb=refused)
    assert (lower.exit_code, "are warm for 5,000" in lower.said) == (0, True)
    assert set(bursting(system).values()) == {9_000}


def test_only_the_table_that_is_colder_is_warmed(system: System) -> None:
    system.dynamodb.update_table(
        TableName=system.settings.followers_table, WarmThroughput={"WriteUnitsPerSecond": 9_000}
    )
    ran = run("warm", "--write-units", "6000", "--yes", "--json")
    assert ran.json["raised"] == ["timelines"]
    assert bursting(system) == {"timelines": 6_000, "followers": 9_000}


def test_above_the_quota_of_the_account_it_is_refused_without_an_explicit_word(
    system: System,
) -> None:
    ran = run("warm", "--write-units", "10001", "--yes")
    assert (ran.exit_code, set(bursting(system).values())) == (1, {NEW})
    assert "10,000 write units a second" in ran.said
    assert "--above-quota" in ran.said
    assert run("warm", "--write-units", "10001", "--yes", "--above-quota").exit_code == 0
    assert set(bursting(system).values()) == {10_001}


def test_it_asks_first_and_says_that_there_is_no_way_back(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions: list[str] = []

    def confirm(question: str, **_: Any) -> bool:
        questions.append(question)
        return False

    monkeypatch.setattr("fanfold_cli.console.has_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", confirm)
    ran = run("warm", "--write-units", "9000")
    assert (ran.exit_code, ran.said) == (1, "Nothing was changed.")
    assert "bills it once" in questions[0]
    assert "never be lowered" in questions[0]
    assert set(bursting(system).values()) == {NEW}


def test_what_was_warmed_is_said_when_the_next_table_fails(system: System) -> None:
    def update(**request: Any) -> Any:
        if request["TableName"] == system.settings.followers_table:
            raise error("ResourceInUseException")
        return system.dynamodb.update_table(**request)

    ran = run("warm", "--write-units", "9000", "--yes", dynamodb=Patched(update_table=update))
    assert ran.exit_code == 1
    assert "timelines is being warmed, but followers is not" in ran.said
    assert "Run it again" in ran.said
    assert bursting(system) == {"timelines": 9_000, "followers": NEW}


@pytest.mark.parametrize("given", ["3999", "10000001"])
def test_a_number_that_no_table_takes_is_refused(system: System, given: str) -> None:
    ran = run("warm", "--write-units", given, "--yes", "--above-quota")
    assert (ran.exit_code, set(bursting(system).values())) == (1, {NEW})
    assert "--write-units must be from 4,000 to 10,000,000" in ran.said


def test_an_engine_without_warm_throughput_says_so(system: System) -> None:
    def describe(**request: Any) -> Any:
        answer = system.dynamodb.describe_table(**request)
        del answer["Table"]["WarmThroughput"]
        return answer

    ran = run("warm", dynamodb=Patched(describe_table=describe))
    assert (ran.exit_code, "no warm throughput" in ran.said) == (1, True)
