"""`fanfold doctor`: check that follows, edges, marks and channels agree, and repair them."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from fanfold.doctor.examine import Doctor, Phase
from fanfold.doctor.findings import Report
from fanfold.doctor.recheck import Recheck
from fanfold.doctor.repair import MOST_TAKEN, Repair, takes_too_much
from fanfold.doctor.scan import Records
from fanfold.doctor.scan_channels import ChannelRecords
from fanfold.errors import FanfoldError
from fanfold_cli import kept_file
from fanfold_cli.follows import doctor_report, seeding, taken_away
from fanfold_cli.options import HomeOption, JsonOption, StackOption, checked_id
from fanfold_cli.progress import go_through
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import (
    INTERRUPTED,
    ExpectedError,
    counted,
    failing_with,
    interrupted_with,
    print_json,
    print_result,
    say,
)
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
    expect: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=r"Remove at most this many. \[default: "
            f"{MOST_TAKEN:.0%} of the edges read]",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            help="New file to save what --repair removes. "
            r"\[default: taken-follows-TIME.jsonl]"
        ),
    ] = None,
    put_back: Annotated[
        Path | None,
        typer.Option(
            "--put-back", metavar="FILE", help="Only restore what a repair saved in this file."
        ),
    ] = None,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that follows, edges and marks agree; with --repair, make them agree.

    On a stage with channels, also check that posts and channels agree.

    A repair first saves what it removes to a file. Exit code 1 if a difference remains.
    """
    if put_back is not None:
        if whole or repair or (publisher, expect, to) != (None, None, None):
            raise WrongUsage("--put-back cannot be combined with other options.")
        _put_back(Deployment.to_change(stack, home), put_back, as_json=as_json)
        return
    if whole == (publisher is not None):
        raise WrongUsage(
            "Choose what to examine: --publisher PUBLISHER for one publisher, or --whole for all."
        )
    if publisher is not None:
        checked_id(publisher)
    if not repair and (expect, to) != (None, None):
        raise WrongUsage("--expect and --to need --repair.")
    deployment = (Deployment.to_change if repair else Deployment.choose)(stack, home)
    scope = f"--publisher {publisher}" if publisher else "--whole"
    file = to or kept_file.default_path("taken-follows")
    report, threads = Report(), ThreadPoolExecutor(THREADS)
    try:
        examining = _doctor(deployment, threads, report, repair=repair)
        if repair:
            with kept_file.writing(file, place=deployment.place) as write_line:
                noting = replace(examining, set_aside=partial(taken_away.write, write_line))
                _go_through(noting.examine(publisher))
                if takes_too_much(report, expect):
                    _show(report, as_json=as_json)
                    raise ExpectedError(doctor_report.refusal(report, scope))
            if report.taken_away:
                say(doctor_report.kept(report, file))
                _go_through([examining.take_away(taken_away.aside(file))])
        else:
            _go_through(examining.examine(publisher))
    except (FanfoldError, ClientError, BotoCoreError) as error:
        raise ExpectedError(
            f"{doctor_report.so_far(report, repair=repair)} The reason: {error}"
        ) from error
    except KeyboardInterrupt:
        say(doctor_report.so_far(report, repair=repair))
        raise typer.Exit(INTERRUPTED) from None
    finally:
        threads.shutdown(cancel_futures=True)
    _show(report, as_json=as_json)
    if not as_json:
        doctor_report.conclude(report, repair=repair, scope=scope)
        if publisher and not report.follows + report.edges:
            say(f"Nobody follows '{publisher}': is the id right?")
    if report.left:
        raise typer.Exit(1)


def _go_through(phases: Iterable[Phase]) -> None:
    for phase in phases:
        go_through(phase.steps, phase.what, total=phase.total, unit=phase.unit)


def _show(report: Report, *, as_json: bool) -> None:
    if as_json:
        print_json(doctor_report.content(report))
    else:
        doctor_report.show(report)


def _put_back(deployment: Deployment, file: Path, *, as_json: bool) -> None:
    with failing_with("The settings of the stage cannot be read, so nothing was put back"):
        following = seeding.following(deployment, seeding.report_growth)
    with (
        interrupted_with("run it again; a follow that is back already stays as it is."),
        ThreadPoolExecutor(THREADS) as threads,
    ):
        done, beyond = taken_away.put_back(following, file, place=deployment.place, threads=threads)
    back, ended = done[taken_away.BACK], done[taken_away.ENDED]
    unfollowed, followed = done[taken_away.UNFOLLOWED], done[taken_away.FOLLOWED]
    if as_json:
        unfollows = {"unfollows_put_back": unfollowed, "followed": followed}
        print_json({"put_back": back, "ended": ended, **unfollows, "at_their_limit": beyond})
    else:
        # Put back by this run or an earlier one.
        for count, noun in ((back, "follow"), (unfollowed, "unfollow")):
            if count or noun == "follow":
                print_result(f"{counted(count, noun)} {'is' if count == 1 else 'are'} back.")
    if ended:
        say(f"Left {counted(ended, 'follow')} ended, by the user or the publisher.")
    if followed:
        say(f"Left {counted(followed, 'follow')} in effect: the user has followed again.")
    if beyond:
        raise ExpectedError(
            f"{counted(done[taken_away.BEYOND], 'follow')} could not be put back: by their "
            f"counts, these users follow {following.max_follows:,} publishers, as many as one "
            "may. Let them unfollow, or deploy with a higher -c max_follows=; then run it again. "
            f"The users: {', '.join(beyond)}."
        )


def _doctor(
    deployment: Deployment, threads: ThreadPoolExecutor, report: Report, *, repair: bool
) -> Doctor:
    # The lifetime of marks depends on the retention of the deployed functions.
    settings = deployment.run_time_settings()
    stores = deployment.stores(settings)
    heads = seeding.heads(stores)
    records = Records(
        stores.follows(heads), stores.edges, stores.publishers, stores.privacies, threads
    )
    repairer = None
    if repair:
        repairer = Repair(records, seeding.following(deployment, seeding.report_growth))
    channels = None
    # A stage that has never had a channel needs no reads for them.
    if settings.channel_threshold or heads.get().revision:
        channels = ChannelRecords(
            records, heads.table, stores.entries, stores.posts, settings.fanouts_table
        )
    return Doctor(records, repairer, Recheck(records), report, channels)
