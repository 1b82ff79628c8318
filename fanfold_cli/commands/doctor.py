"""`fanfold doctor`: do follows, edges, marks and channels agree, and if not, make them agree."""

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from fanfold.doctor.channels import Channels
from fanfold.doctor.examine import Doctor
from fanfold.doctor.findings import Report
from fanfold.doctor.recheck import Recheck
from fanfold.doctor.repair import Repair
from fanfold.doctor.scan import Records
from fanfold.errors import FanfoldError
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.follows_table import FollowsTable
from fanfold.follows.publishers_table import PublishersTable
from fanfold.timeline.entries import Entries
from fanfold.timeline.posts import Posts
from fanfold.timeline.readers import Readers
from fanfold_cli import doctor_report, event_sources, seeding
from fanfold_cli.console import (
    INTERRUPTED,
    ExpectedError,
    print_json,
    say,
)
from fanfold_cli.options import HomeOption, JsonOption, StackOption, checked_id
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment
from fanfold_cli.usage import WrongUsage

# Calls at a time.
THREADS = 16


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

    In a stage with channels, also posts with the channels that have them.

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
        raise ExpectedError(
            f"{doctor_report.so_far(report, repair=repair)} The reason: {error}"
        ) from error
    except KeyboardInterrupt:
        say(doctor_report.so_far(report, repair=repair))
        raise typer.Exit(INTERRUPTED) from None
    finally:
        threads.shutdown(cancel_futures=True)
    if as_json:
        print_json(doctor_report.content(report))
    else:
        doctor_report.show(report)
        doctor_report.conclude(
            report, repair=repair, scope=f"--publisher {publisher}" if publisher else "--whole"
        )
        if publisher and not report.follows + report.edges:
            say(f"Nobody follows '{publisher}': is the id right?")
    if report.left:
        raise typer.Exit(1)


def _doctor(
    deployment: Deployment, threads: ThreadPoolExecutor, report: Report, *, repair: bool
) -> Doctor:
    # How long marks live depends on the retention of the deployed functions.
    settings = event_sources.run_time_settings(deployment)
    dynamodb = deployment.client("dynamodb")
    heads = seeding.heads(settings, dynamodb)
    records = Records(
        FollowsTable(
            dynamodb,
            settings.following_table,
            Readers(dynamodb, settings.readers_table),
            settings.retention_days,
            heads,
        ),
        EdgesTable(dynamodb, settings.followers_table),
        PublishersTable(dynamodb, settings.publishers_table),
        threads,
    )
    repairer = None
    if repair:
        repairer = Repair(records, seeding.following(deployment, seeding.report_growth))
    channels = None
    if heads:
        channels = Channels(
            records,
            heads.table,
            Entries(dynamodb, settings.timelines_table),
            Posts(dynamodb, settings.posts_table),
            settings.fanouts_table,
        )
    return Doctor(records, repairer, Recheck(records), report, channels)
