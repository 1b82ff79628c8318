"""`fanfold warm`: prepare the tables that take bursts for more writes, once and for good."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError

from fanfold import names
from fanfold.budgets import MAX_WRITE_CAPACITY, MIN_WARM_WRITE_UNITS
from fanfold_cli.console import (
    ExpectedError,
    WrongValue,
    ask,
    failing_with,
    print_json,
    print_result,
    say,
)
from fanfold_cli.options import HomeOption, JsonOption, StackOption, YesOption
from fanfold_cli.stack import Deployment

BURSTING = tuple(table for table in names.TABLES if table.takes_bursts)


@dataclass(frozen=True)
class Warmth:
    """What a table takes at once; `status` is UPDATING while DynamoDB prepares it for more."""

    table: str
    write_units: int
    status: str


def warm(
    write_units: Annotated[
        int | None,
        typer.Option(help=r"Write units a second of each table. \[default: show them]"),
    ] = None,
    above_quota: Annotated[
        bool,
        typer.Option("--above-quota", help="Ask DynamoDB even for more than the account's quota."),
    ] = False,
    stack: StackOption = None,
    home: HomeOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the warm throughput of timelines and followers, or raise it, which is billed once."""
    if write_units is not None and not MIN_WARM_WRITE_UNITS <= write_units <= MAX_WRITE_CAPACITY:
        raise WrongValue(
            f"--write-units must be from {MIN_WARM_WRITE_UNITS:,} to {MAX_WRITE_CAPACITY:,}, not "
            f"{write_units:,}."
        )
    deployment = Deployment.choose(stack, home)
    dynamodb = deployment.client("dynamodb")
    tables = _warmths(dynamodb, deployment)
    with failing_with("The quota of the account cannot be read"):
        quota = int(dynamodb.describe_limits()["TableMaxWriteCapacityUnits"])
    colder = [
        table for table in tables if write_units is not None and table.write_units < write_units
    ]
    if write_units is not None and colder:
        if write_units > quota and not above_quota:
            raise ExpectedError(
                f"Nothing was changed: the account's quota is {quota:,} write units a second for "
                f"one table, and {write_units:,} are above it. Ask AWS for a higher quota first. "
                "If you have one that this number does not show, --above-quota tries it."
            )
        what = " and ".join(f"{table.table} (now {table.write_units:,})" for table in colder)
        ask(
            f"Warm {what} for {write_units:,} write units a second? AWS bills it once, and it can "
            "never be lowered.",
            place=deployment.place,
            yes=yes,
        )
        _raise(dynamodb, deployment, colder, write_units)
        tables = _warmths(dynamodb, deployment)
    if as_json:
        raised = [table.table for table in colder]
        print_json({"tables": [asdict(each) for each in tables], "quota": quota, "raised": raised})
        return
    if write_units is None:
        _print(tables, quota)
    elif colder:
        say("DynamoDB prepares them. Until `fanfold warm` shows ACTIVE, do not deploy.")
    else:
        say(f"Nothing to do: all are warm for {write_units:,} write units a second, or for more.")


def _warmths(dynamodb: Any, deployment: Deployment) -> list[Warmth]:
    with failing_with("The tables cannot be read"):
        return [_warmth(dynamodb, deployment, table) for table in BURSTING]


def _warmth(dynamodb: Any, deployment: Deployment, table: names.Table) -> Warmth:
    name = deployment.output(table.output)
    found = dynamodb.describe_table(TableName=name)["Table"].get("WarmThroughput")
    if found is None:
        raise ExpectedError(f"The table {name} has no warm throughput: only AWS's tables have.")
    return Warmth(table.name.lower(), int(found["WriteUnitsPerSecond"]), found["Status"])


def _raise(dynamodb: Any, deployment: Deployment, tables: list[Warmth], write_units: int) -> None:
    outputs = {table.name.lower(): table.output for table in BURSTING}
    done: list[str] = []
    for table in tables:
        try:
            dynamodb.update_table(
                TableName=deployment.output(outputs[table.table]),
                WarmThroughput={"WriteUnitsPerSecond": write_units},
            )
        except (ClientError, BotoCoreError) as error:
            so_far = "".join(f"{each} is being warmed, but " for each in done)
            raise ExpectedError(
                f"{so_far}{table.table} is not: {error} Run it again later; what is warm stays so."
            ) from error
        done.append(table.table)


def _print(tables: list[Warmth], quota: int) -> None:
    from rich.table import Table

    shown = Table("table", "write units a second", "status")
    for table in tables:
        shown.add_row(table.table, f"{table.write_units:,}", table.status)
    print_result(shown)
    say(f"The account's quota is {quota:,} write units a second for one table.")
