"""`fanfold doctor`: whether follows and edges agree, and let them if they do not."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.table import Table
from rich.text import Text

from fanfold.doctor.examine import EXAMPLES, Difference, Doctor, Look, Report, Round
from fanfold.doctor.scan import Records
from fanfold.errors import FanfoldError
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.follows_table import FollowsTable
from fanfold.follows.publishers_table import PublishersTable
from fanfold.timeline.readers import Readers
from fanfold_cli import seeding
from fanfold_cli.console import ExpectedError, print_json, print_result, say
from fanfold_cli.options import HomeOption, JsonOption, StackOption, checked_id
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment

# Follows of a sample: read within seconds, for a cent.
SAMPLE = 10_000
# Calls at a time.
THREADS = 16
# What a shell gives for a command that Ctrl-C ended.
INTERRUPTED = 130

MEANINGS = {
    Difference.MISSING: "follows without an edge: posts do not arrive",
    Difference.ORPHANED: "edges without a follow: posts arrive that nobody asked for",
    Difference.OLDER: "edges older than their follow: posts arrive all the same",
    Difference.NEWER: "edges newer than their follow: an unfollow would not end them",
    Difference.TWICE: "edges at several levels: harmless, a post arrives once, but read each time",
    Difference.UNREACHABLE: "publishers with edges above the level of their row: never read",
    Difference.UNREADABLE: "items that are no edges or no follows: not mended",
}


def doctor(
    repair: Annotated[
        bool, typer.Option("--repair", help="Let the edges agree with the follows.")
    ] = False,
    sample: Annotated[
        int | None,
        # With the backslash, because what is in brackets is markup else.
        typer.Option(min=1, help=rf"Look at so many follows, at random. \[default: {SAMPLE}]"),
    ] = None,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole",
            help="Look at all of them: minutes, and some $0.30, for each million follows.",
        ),
    ] = False,
    publisher: Annotated[
        str | None, typer.Option(help="Look at all follows and edges of one publisher.")
    ] = None,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare follows with the edges that deliveries go by; exit code 1 if any stay wrong."""
    if (sample is not None) + whole + (publisher is not None) > 1:
        raise ExpectedError("Name one of --sample, --whole and --publisher.")
    if publisher is not None:
        checked_id(publisher)
    deployment = Deployment.choose(stack, home)
    report, threads = Report(), ThreadPoolExecutor(THREADS)
    try:
        examiner = _doctor(deployment, threads, report, repairs=repair)
        if publisher is not None:
            _go(examiner.publisher(publisher))
        elif whole:
            _go(examiner.whole())
        else:
            _go(examiner.sample(sample or SAMPLE))
    except (FanfoldError, ClientError, BotoCoreError) as error:
        raise ExpectedError(f"{_so_far(report, repairs=repair)} The reason: {error}") from error
    except KeyboardInterrupt:
        say(_so_far(report, repairs=repair))
        raise typer.Exit(INTERRUPTED) from None
    finally:
        threads.shutdown(cancel_futures=True)
    is_sample = publisher is None and not whole
    if as_json:
        print_json(_content(report, is_sample=is_sample))
    else:
        _print(report)
        # A sample is not drawn twice: only the whole is sure to have what this one showed.
        scope = "--whole" if publisher is None else f"--publisher {publisher}"
        _conclude(report, is_sample=is_sample, repairs=repair, scope=scope)
        if publisher is not None and not report.follows + report.edges:
            say(f"Nobody follows '{publisher}': is the id right?")
    if report.left:
        raise typer.Exit(1)


def _doctor(
    deployment: Deployment, threads: ThreadPoolExecutor, report: Report, *, repairs: bool
) -> Doctor:
    settings, dynamodb = deployment.settings(), deployment.client("dynamodb")
    records = Records(
        FollowsTable(dynamodb, settings.following_table, Readers(settings.readers_table)),
        EdgesTable(dynamodb, settings.followers_table),
        PublishersTable(dynamodb, settings.publishers_table),
        threads,
    )
    relations = seeding.relations(deployment, seeding.report_growth) if repairs else None
    return Doctor(records, relations, report)


def _go(rounds: Iterator[Round]) -> None:
    for each in rounds:
        if each.note:
            say(each.note)
        with progress_bar(f"Looking at {each.what}", total=each.total, unit=each.what) as bar:
            for count in each.steps:
                bar.advance(count)


def _so_far(report: Report, *, repairs: bool) -> str:
    # At least: a repair whose end was not waited for is done, too.
    mended = f", and at least {report.right_again:,} of them are mended" if repairs else ""
    waiting = f", and {report.suspected:,} more were to be looked at again" * bool(report.suspected)
    return (
        f"Stopped after {report.follows:,} follows and {report.edges:,} edges: {report.wrong:,} "
        f"were found wrong so far{mended}{waiting}. Nothing is done by halves; run it again."
    )


def _print(report: Report) -> None:
    if not report.found.total():
        return
    table = Table("what", "found", "mended", "meaning")
    for kind, meaning in MEANINGS.items():
        if found := report.found[kind]:
            mended = "-" if kind is Difference.UNREADABLE else f"{report.mended[kind]:,}"
            table.add_row(kind.value, f"{found:,}", mended, meaning)
    print_result(table)
    _print_hidden(report)
    _print_unreadable(report)
    if not report.examples:
        return
    listed = Table("user", "publisher", "what", "follow", "edge at level: version")
    for look in report.examples:
        listed.add_row(*(Text(str(value)) for value in _row(look).values()))
    print_result(listed)
    others = report.found[Difference.UNREACHABLE] + report.found[Difference.UNREADABLE]
    _say_if_cut(len(report.examples), report.wrong - others)


def _print_hidden(report: Report) -> None:
    if not report.hidden:
        return
    listed = Table("publisher", "level of its row", "edges up to level")
    for hidden in islice(report.hidden.values(), EXAMPLES):
        listed.add_row(Text(hidden.publisher_id), str(hidden.level), str(hidden.seen))
    print_result(listed)
    _say_if_cut(EXAMPLES, len(report.hidden))


def _print_unreadable(report: Report) -> None:
    if not report.unreadable:
        return
    listed = Table("unreadable in", "partition key", "sort key")
    for table, key in report.unreadable:
        listed.add_row(table.name.lower(), *map(Text, key))
    print_result(listed)
    _say_if_cut(len(report.unreadable), report.found[Difference.UNREADABLE])
    say("What is unreadable is not mended: look at these items, and delete them if they are junk.")


def _say_if_cut(listed: int, found: int) -> None:
    if found > listed:
        say(f"The first {listed:,} of {found:,} are listed.")


def _conclude(report: Report, *, is_sample: bool, repairs: bool, scope: str) -> None:
    looked = f"{report.follows:,} follows and {report.edges:,} edges were looked at"
    if is_sample:
        looked += ", a sample (--whole looks at all)"
    if not report.wrong:
        print_result(f"{looked}: nothing is wrong.")
        if report.found[Difference.TWICE] and not repairs:
            say("A repair takes second edges out, so that deliveries read less.")
        if report.failure:
            say(f"Some second edges are there still; run it again. The reason: {report.failure}")
        if is_sample and not report.follows:
            say("There are no follows to draw from; --whole looks at the edges, too.")
    elif not report.left:
        print_result(f"{looked}: {report.wrong:,} were wrong and are mended.")
    elif not repairs:
        which = "them" if report.mendable == report.left else f"{report.mendable:,} of them"
        advice = f" `fanfold doctor {scope} --repair` mends {which}." if report.mendable else ""
        print_result(f"{looked}: {report.left:,} are wrong.{advice}")
    else:
        print_result(f"{looked}: {report.left:,} of {report.wrong:,} wrong ones are not mended.")
        if report.failure:
            say(f"Run it again. The last of them: {report.failure}")


def _row(look: Look) -> dict[str, Any]:
    row = look.row
    state = f"{row.state} {row.version}" if row.version else "none"
    edges = ", ".join(f"{level}: {version}" for level, version in sorted(look.placements.items()))
    return {
        "user": row.user_id,
        "publisher": row.publisher_id,
        "what": look.difference,
        "follow": state,
        "edge": edges or "none",
    }


def _content(report: Report, *, is_sample: bool) -> dict[str, Any]:
    return {
        "sample": is_sample,
        "follows": report.follows,
        "edges": report.edges,
        "found": {kind.value: report.found[kind] for kind in Difference},
        "mended": report.mended.total(),
        "left": report.left,
        "examples": [_example(look) for look in report.examples],
        "hidden": [asdict(hidden) for hidden in report.hidden.values()],
        "unreadable": [
            {"table": table.name.lower(), table.partition_key: key[0], str(table.sort_key): key[1]}
            for table, key in report.unreadable
        ],
    }


def _example(look: Look) -> dict[str, Any]:
    row = asdict(look.row)
    return {
        **{name: row[name] for name in ("user_id", "publisher_id", "state", "version")},
        "what": look.difference,
        "edges": [
            {"level": level, "version": look.placements[level]} for level in sorted(look.placements)
        ],
    }
