"""`fanfold shards`: over how many write shards followers are spread, and spread them over more."""

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from fanfold import clock
from fanfold.errors import TryLater
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.levels import LEVEL_SECONDS
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.ring_reader import RingRead
from fanfold.follows.sharding import PARTITION_WRITES
from fanfold_cli import event_sources
from fanfold_cli.console import ExpectedError, print_json, print_result, say
from fanfold_cli.options import HomeOption, JsonOption, StackOption, checked_id
from fanfold_cli.shard_report import ShardReport, shards_at
from fanfold_cli.stack import Deployment

app = typer.Typer(
    help="The write shards of publishers: level L is 2^L shards, each for "
    f"{PARTITION_WRITES:,} follows a second.",
    no_args_is_help=True,
)

PublisherArgument = Annotated[
    str, typer.Argument(metavar="PUBLISHER", help="The id of the publisher.")
]
LevelOption = Annotated[
    int,
    typer.Option(
        "--level",
        min=0,
        help="2^LEVEL shards: writes a second x KB of an item, begun ones counted whole, / 1,000, "
        "up to a power of two. An edge is under 1 KB; 5,000 follows a second need 8 shards, "
        "level 3.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@app.command()
def show(
    publisher: PublisherArgument,
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Read a page of each shard only, and estimate the rest."),
    ] = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a publisher's level, how it got there, and how many followers each shard holds."""
    checked_id(publisher)
    deployment = Deployment.choose(stack, home)
    try:
        tables = _publishers(deployment), _followers(deployment)
        report = ShardReport.of(publisher, *tables, estimate=estimate)
    except (ClientError, BotoCoreError) as error:
        raise ExpectedError(f"The shards cannot be read: {error}") from error
    if as_json:
        print_json(report.content())
    else:
        report.draw()


@app.command()
def grow(
    publisher: PublisherArgument,
    level: LevelOption,
    yes: YesOption = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Spread a publisher's new followers over more shards, before they come; never over fewer."""
    checked_id(publisher)
    deployment = Deployment.choose(stack, home)
    try:
        _check_level(deployment, level)
        publishers = _publishers(deployment)
        seen = publishers.shards(publisher)
        was = seen.level
        if level < was:
            raise ExpectedError(_no_lower(publisher, was))
        if level > was:
            say(
                f"With {shards_at(level)} '{publisher}' takes up to "
                f"{2**level * PARTITION_WRITES:,} follows a second, and each delivery reads "
                f"{2 ** (level + 1) - 1} shards instead of {2 ** (was + 1) - 1}. It is never "
                "lowered again."
            )
            if not seen.version and not _is_followed(deployment, publisher):
                say(f"Nobody follows '{publisher}' yet; is the id right?")
            _ask(f"Grow '{publisher}' from level {was} to level {level}?", yes=yes)
            level = publishers.raise_to(publisher, level, now_ms=clock.now_ms())
        static_level = publishers.static_level()
    except (ClientError, BotoCoreError, TryLater) as error:
        raise ExpectedError(f"The shards cannot be grown; run it again: {error}") from error
    if as_json:
        content = {"publisher_id": publisher, "level": level, "was": was, "shards": 2**level}
        print_json({**content, "changed": level > was})
        return
    if level == was:
        print_result(f"'{publisher}' is at level {level} already: {shards_at(level)}.")
        return
    print_result(f"'{publisher}' is at level {level} now: {shards_at(level)}.")
    if static_level is None:
        say(
            "Deliveries look there at once. Follows arrive there as soon as a warm function looks "
            f"again: within {LEVEL_SECONDS} s, or at its first throttle."
        )
    else:
        say(
            f"All publishers are kept at level {static_level}, so its followers are written there "
            "until `fanfold shards dynamic`."
        )


@app.command()
def static(
    level: LevelOption,
    yes: YesOption = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the followers of all publishers at one level, whatever their own; no deploy."""
    deployment = Deployment.choose(stack, home)
    try:
        _check_level(deployment, level)
    except (ClientError, BotoCoreError) as error:
        raise ExpectedError(f"The stage cannot be read: {error}") from error
    meaning = (
        f"The followers of every publisher are then written to {shards_at(level)}, and none grows "
        "by itself. Followers at other levels stay where they are and are read all the same. "
        f"A publisher that is followed meanwhile is at level {level} or higher for good, and each "
        f"of its deliveries reads {_reads(level)} or more, however few its followers are."
    )
    _set(deployment, level, meaning, yes=yes, as_json=as_json)


@app.command()
def dynamic(
    yes: YesOption = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let each publisher go by its own level again, as high as it was, and grow by itself."""
    deployment = Deployment.choose(stack, home)
    meaning = (
        "Each publisher then goes by its own level, as high as it ever was, and grows by itself. "
        "No follower is moved or lost."
    )
    _set(deployment, None, meaning, yes=yes, as_json=as_json)


def _set(
    deployment: Deployment, level: int | None, meaning: str, *, yes: bool, as_json: bool
) -> None:
    try:
        publishers = _publishers(deployment)
        was = publishers.static_level()
        if level != was:
            say(meaning)
            wish = "Go back to dynamic levels?" if level is None else f"Keep all at level {level}?"
            _ask(wish, yes=yes)
            publishers.set_static_level(level)
    except (ClientError, BotoCoreError) as error:
        raise ExpectedError(f"The mode cannot be changed; run it again: {error}") from error
    if as_json:
        print_json({"static_level": level, "was": was, "changed": level != was})
        return
    mode = "dynamic" if level is None else f"static: all publishers at level {level}"
    if level == was:
        print_result(f"The mode is {mode}, and was so already.")
        return
    print_result(f"The mode is {mode}.")
    say(f"All functions that write followers go by it within {LEVEL_SECONDS} s.")


def _check_level(deployment: Deployment, level: int) -> None:
    highest = event_sources.run_time_settings(deployment).max_level
    if level > highest:
        raise ExpectedError(
            f"Level {level} is above the highest of this stage, {highest}; take a lower one, or "
            "deploy the stage with a higher -c max_level= first."
        )


def _reads(level: int) -> str:
    """How many shards a delivery reads, of all levels up to this one, in words."""
    return "1 shard" if level == 0 else f"{2 ** (level + 1) - 1} shards"


def _no_lower(publisher: str, level: int) -> str:
    return (
        f"'{publisher}' is at level {level}, and a level is never lowered: followers are in those "
        "shards, and would not be found any more. `fanfold shards static` writes new ones at a "
        "lower level and loses none."
    )


def _ask(question: str, *, yes: bool) -> None:
    if yes:
        return
    try:
        # The prompt's last blank goes to stdout, whatever `err` says.
        with redirect_stdout(sys.stderr):
            agreed = typer.confirm(question, err=True)
    except (typer.Abort, RuntimeError):  # the standard input is at its end, or closed
        raise ExpectedError("Nothing was changed; --yes answers the question.") from None
    if not agreed:
        raise ExpectedError("Nothing was changed.")


def _is_followed(deployment: Deployment, publisher: str) -> bool:
    """Whether a publisher that has never grown has any edge."""
    first = RingRead(0, ring.START, ring.END)
    return any(_followers(deployment).edges(publisher, first, limit=1))


def _followers(deployment: Deployment) -> EdgesTable:
    return EdgesTable(deployment.client("dynamodb"), deployment.settings().followers_table)


def _publishers(deployment: Deployment) -> PublishersTable:
    return PublishersTable(deployment.client("dynamodb"), deployment.settings().publishers_table)
