"""`fanfold audit`: check that readers have the posts that they are owed."""

from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from fanfold import clock, names, times
from fanfold.audit import sampling
from fanfold.audit.audit import Audit
from fanfold.audit.meter import DEFAULT_RATE, Meter, Metered
from fanfold.audit.reads import Reads
from fanfold.audit.repair import Repair
from fanfold.errors import BadInput, FanfoldError
from fanfold.fanout.row import CHANNEL, COMPLETE, Fanout
from fanfold.fanout.transport.boto3_transport import Boto3Transport
from fanfold.stores import Stores
from fanfold_cli.audit import report as reports
from fanfold_cli.deliveries import fanouts, pauses
from fanfold_cli.options import HomeOption, JsonOption, StackOption, checked_id
from fanfold_cli.progress import go_through
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import (
    ExpectedError,
    WrongValue,
    failing_with,
    interrupted_with,
    print_json,
    say,
)
from fanfold_cli.usage import WrongUsage

# The exit code of an audit that has read less than it was to read.
NOT_ENOUGH = 2
HOURS = 24


def audit(
    sample: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000, help="Check this many pairs of a post and a reader."),
    ] = None,
    largest: Annotated[
        int | None,
        typer.Option(min=1, max=1_000, help="Check each segment of so many of the largest posts."),
    ] = None,
    post: Annotated[
        str | None, typer.Option(metavar="REF_ID", help="Check every follower of one post.")
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(metavar="USER", help="Check one reader: each follow's newest posts."),
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option(min=0, help=rf"Sample posts of the last hours. \[default: {HOURS}]"),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Leave out posts before this time, as after a restore."),
    ] = None,
    rate: Annotated[float, typer.Option(min=1, help="Maximum read units a second.")] = DEFAULT_RATE,
    repair: Annotated[
        bool, typer.Option("--repair", help="With --post: write the entries that are missing.")
    ] = False,
    metric: Annotated[
        bool, typer.Option("--metric", help=f"Put the metric {names.AUDIT_MISSING}.")
    ] = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that readers have the posts they are owed.

    Exit code 1 if something is missing, 2 if too little could be read.
    """
    alone = (post is not None) + (reader is not None)
    if alone + (sample is not None or largest is not None) != 1:
        raise WrongUsage("Choose what to audit: --sample N, --largest N, --post or --reader.")
    if repair and post is None:
        raise WrongUsage("--repair needs --post.")
    if since is not None and post is not None:
        raise WrongUsage("--since leaves out posts; --post names one: leave out one of the two.")
    if hours is not None and alone:
        raise WrongUsage("--hours is for --sample and --largest: leave it out.")
    for given in (post, reader):
        if given is not None:
            checked_id(given)
    since_ms = _ms_of(since) if since is not None else 0
    last_hours = HOURS if hours is None else hours
    deployment = (Deployment.to_change if repair else Deployment.choose)(stack, home)
    meter = Meter(rate)
    with failing_with("The settings of the stage cannot be read"):
        stores = deployment.stores(deployment.run_time_settings())
    metered = Stores(Metered(stores.client, meter), stores.settings)  # type: ignore[arg-type]
    auditing = Audit(
        Reads(metered), clock.chance, since_ms=since_ms, updated_ms=deployment.updated_ms
    )
    fanout = None if post is None else _fanout(stores, post)
    if repair:
        auditing.repair = _repair(deployment, stores).write
    failure = ""
    with interrupted_with("run it again; an audit changes nothing but what it repairs."):
        try:
            if fanout is not None:
                followers = fanout.followers if fanout.by == CHANNEL else fanout.delivered
                reports.say_forecast(sampling.units_of_post(followers))
                go_through(auditing.post(fanout), "Auditing", total=followers, unit="followers")
            if reader is not None:
                go_through(auditing.reader(reader), "Auditing", total=None, unit="follows")
            if largest is not None:
                pairs = auditing.largest(largest, hours=last_hours)
                go_through(pairs, "Auditing", total=None, unit="pairs")
            if sample is not None:
                reports.say_forecast(auditing.units(sample))
                pairs = auditing.sample(sample, hours=last_hours)
                go_through(pairs, "Auditing", total=sample, unit="pairs")
        except (FanfoldError, ClientError, BotoCoreError) as error:
            failure = str(error)
    found = auditing.report
    if as_json:
        print_json(reports.content(found, meter.units))
    else:
        reports.show(found, meter.units, repair=repair, post=post)
        if told := pauses.read(deployment).told(clock.now_ms()):
            say(told)
    if metric:
        fanouts.put_count(deployment, names.AUDIT_MISSING, found.left)
    if failure or found.pairs < found.wanted:
        reports.say_not_enough(found, failure)
        raise typer.Exit(1 if found.left else NOT_ENOUGH)
    if found.left:
        raise typer.Exit(1)


def _ms_of(since: str) -> int:
    try:
        return times.to_ms(times.from_date_or_time(since, field="--since"), field="--since")
    except BadInput as error:
        raise WrongValue(error.sentence) from None


def _fanout(stores: Stores, ref_id: str) -> Fanout:
    """The row of a complete fan-out; raises `ExpectedError` if nobody can be owed the post yet."""
    found = fanouts.row_of(stores.ledger, ref_id)
    if found.state != COMPLETE:
        raise ExpectedError(
            f"The delivery of '{ref_id}' is {found.state}, so an audit can claim nothing of it yet."
            f" `fanfold fanout show {ref_id}` says how far it is, and `fanfold fanout resend "
            f"{ref_id}` sends again what is pending."
        )
    return found


def _repair(deployment: Deployment, stores: Stores) -> Repair:
    # As in a worker, the policy of the delivery repeats calls, and no client does.
    once = deployment.stores(stores.settings, attempts=1)
    transport = Boto3Transport(once.edges, once.entries)
    return Repair(stores.ledger, stores.entries, stores.heads, transport)
