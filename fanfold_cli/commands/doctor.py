"""`fanfold doctor`: do follows, edges and marks agree, and if not, make them agree."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError

from fanfold.doctor.examine import Doctor
from fanfold.doctor.findings import EXAMPLES, Difference, Report, Snapshot
from fanfold.doctor.recheck import Recheck
from fanfold.doctor.repair import Repair
from fanfold.doctor.scan import Records
from fanfold.errors import FanfoldError
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.follows_table import FollowsTable
from fanfold.follows.publishers_table import PublishersTable
from fanfold.timeline.readers import Readers
from fanfold_cli import event_sources, seeding
from fanfold_cli.console import (
    INTERRUPTED,
    ExpectedError,
    counted,
    print_json,
    print_result,
    say,
)
from fanfold_cli.options import HomeOption, JsonOption, StackOption, checked_id
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment
from fanfold_cli.usage import WrongUsage

# Calls at a time.
THREADS = 16

MEANINGS = {
    Difference.MISSING: "follows without an edge: the publisher's posts do not arrive",
    Difference.ORPHANED: "edges without a follow: posts arrive that nobody asked for",
    Difference.OLDER: "edges older than their follow: posts arrive all the same",
    Difference.NEWER: "edges newer than their follow: an unfollow would not delete them",
    Difference.HIDDEN: "follows that are marked as ended: the publisher's posts are not shown",
    Difference.SHOWN: "ended follows without a mark: the publisher's older posts are shown",
    Difference.UNREACHABLE: "publishers with edges above the level of their row: not delivered to",
    Difference.UNREADABLE: "items that are neither edges nor follows: never repaired",
}


def doctor(
    repair: Annotated[
        bool, typer.Option("--repair", help="Make edges and marks agree with the follows.")
    ] = False,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole",
            help="Examine all follows and edges: minutes, and about $0.30, per million follows.",
        ),
    ] = False,
    publisher: Annotated[
        str | None,
        typer.Option(help="Examine the follows and edges of one publisher; scans both tables."),
    ] = None,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare follows with the edges that deliveries read, and the marks that readers have.

    Exit code 1 if a difference is left.
    """
    if whole == (publisher is not None):
        raise WrongUsage(
            "Choose what to examine: --publisher PUBLISHER for one publisher, or --whole for all."
        )
    if publisher is not None:
        checked_id(publisher)
    deployment = Deployment.choose(stack, home)
    report, threads = Report(), ThreadPoolExecutor(THREADS)
    try:
        for phase in _doctor(deployment, threads, report, repair=repair).examine(publisher):
            with progress_bar(phase.what, total=phase.total, unit=phase.unit) as bar:
                for count in phase.steps:
                    bar.advance(count)
    except (FanfoldError, ClientError, BotoCoreError) as error:
        raise ExpectedError(f"{_so_far(report, repair=repair)} The reason: {error}") from error
    except KeyboardInterrupt:
        say(_so_far(report, repair=repair))
        raise typer.Exit(INTERRUPTED) from None
    finally:
        threads.shutdown(cancel_futures=True)
    if as_json:
        print_json(_content(report))
    else:
        _print(report)
        _conclude(
            report, repair=repair, scope=f"--publisher {publisher}" if publisher else "--whole"
        )
        if publisher and not report.follows + report.edges:
            say(f"Nobody follows '{publisher}': is the id right?")
    if report.left:
        raise typer.Exit(1)


def _doctor(
    deployment: Deployment, threads: ThreadPoolExecutor, report: Report, *, repair: bool
) -> Doctor:
    settings, dynamodb = deployment.settings(), deployment.client("dynamodb")
    # How long marks live depends on the retention of the deployed functions.
    retention_days = event_sources.run_time_settings(deployment).retention_days
    records = Records(
        FollowsTable(
            dynamodb,
            settings.following_table,
            Readers(dynamodb, settings.readers_table),
            retention_days,
        ),
        EdgesTable(dynamodb, settings.followers_table),
        PublishersTable(dynamodb, settings.publishers_table),
        threads,
    )
    repairer = None
    if repair:
        repairer = Repair(records, seeding.following(deployment, seeding.report_growth))
    return Doctor(records, repairer, Recheck(records), report)


def _so_far(report: Report, *, repair: bool) -> str:
    # At least, because an interrupt does not wait for the repairs that are under way.
    repaired = f"; at least {report.repaired.total():,} repaired" if repair else ""
    awaiting = f"; {report.awaiting:,} more awaiting their second read" if report.awaiting else ""
    return (
        f"Stopped after {_examined(report)}: {counted(report.found.total(), 'difference')} found"
        f"{repaired}{awaiting}. It is safe to run it again."
    )


def _examined(report: Report) -> str:
    return f"{counted(report.follows, 'follow')} and {counted(report.edges, 'edge')}"


def _print(report: Report) -> None:
    if not report.found.total():
        return
    from rich.table import Table

    table = Table("what", "found", "repaired", "meaning")
    for kind, meaning in MEANINGS.items():
        if found := report.found[kind]:
            table.add_row(kind.value, f"{found:,}", f"{report.repaired[kind]:,}", meaning)
    print_result(table)
    _print_examples(
        ("publisher", "level of its row", "edges up to level"),
        [
            (each.publisher_id, each.level, each.seen)
            for each in islice(report.unreachable.values(), EXAMPLES)
        ],
        report.found[Difference.UNREACHABLE],
    )
    _print_examples(
        ("unreadable in", "partition key", "sort key"),
        [(table.name.lower(), *key) for table, key in report.unreadable],
        report.found[Difference.UNREADABLE],
    )
    if report.unreadable:
        say("Unreadable items are not repaired: inspect them, and delete them if they are junk.")
    others = report.found[Difference.UNREACHABLE] + report.found[Difference.UNREADABLE]
    _print_examples(
        ("user", "publisher", "what", "follow", "edge at level: version"),
        [_row(snapshot) for snapshot in report.examples],
        report.found.total() - others,
    )


def _print_examples(header: tuple[str, ...], rows: list[tuple[Any, ...]], found: int) -> None:
    if not rows:
        return
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row))
    print_result(table)
    if found > len(rows):
        say(f"The first {len(rows):,} of {found:,} are listed.")


def _row(snapshot: Snapshot) -> tuple[str, ...]:
    row, placements = snapshot.row, sorted(snapshot.placements.items())
    follow = f"{row.state} {row.version}" if row.version else "none"
    edges = ", ".join(f"{level}: {version}" for level, version in placements) or "none"
    return row.user_id, row.publisher_id, str(snapshot.difference), follow, edges


def _conclude(report: Report, *, repair: bool, scope: str) -> None:
    found, left = report.found.total(), report.left
    conclusion = f"{_examined(report)} were examined: {counted(found, 'difference')} found"
    if not found:
        print_result(f"{_examined(report)} were examined: no difference found.")
    elif repair:
        print_result(f"{conclusion}, {found - left:,} repaired, {left:,} left.")
        if report.failure:
            say(f"Run it again. The last repair that failed: {report.failure}")
    else:
        print_result(f"{conclusion}, {report.repairable:,} of which can be repaired.")
        if report.repairable:
            say(f"Run `fanfold doctor {scope} --repair` to repair them.")


def _content(report: Report) -> dict[str, Any]:
    return {
        "follows": report.follows,
        "edges": report.edges,
        "found": {kind.value: report.found[kind] for kind in Difference},
        "repaired": report.repaired.total(),
        "left": report.left,
        "examples": [_example(snapshot) for snapshot in report.examples],
        "unreachable": [asdict(publisher) for publisher in report.unreachable.values()],
        "unreadable": [
            {"table": table.name.lower(), table.partition_key: key[0], str(table.sort_key): key[1]}
            for table, key in report.unreadable
        ],
    }


def _example(snapshot: Snapshot) -> dict[str, Any]:
    row = asdict(snapshot.row)
    return {
        **{name: row[name] for name in ("user_id", "publisher_id", "state", "version")},
        "what": snapshot.difference,
        "edges": [
            {"level": level, "version": version}
            for level, version in sorted(snapshot.placements.items())
        ],
    }
