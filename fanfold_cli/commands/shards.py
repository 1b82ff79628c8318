"""`fanfold shards`: show or add write shards of a publisher, or set one level for all."""

from typing import Annotated

import typer

from fanfold import clock
from fanfold.errors import TryLater
from fanfold.follows import ring
from fanfold.follows.levels import LEVEL_SECONDS
from fanfold.follows.ring_reader import RingRead
from fanfold.follows.sharding import PARTITION_WRITES
from fanfold_cli.options import HomeOption, JsonOption, Publisher, StackOption, YesOption
from fanfold_cli.publishers.shards import ShardReport, shards_at
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import (
    ExpectedError,
    WrongValue,
    ask,
    counted,
    failing_with,
    print_json,
    print_result,
    say,
)

app = typer.Typer(
    help="Show or add write shards of publishers. Level L has 2^L shards, each for "
    f"{PARTITION_WRITES:,} follows per second.",
    no_args_is_help=True,
)

LevelOption = Annotated[
    int,
    typer.Option(
        "--level",
        min=0,
        help=f"Level, for 2^LEVEL shards. Divide the expected follows per second by "
        f"{PARTITION_WRITES:,} and round up to a power of two: 5,000 need 8 shards, level 3.",
    ),
]


@app.command()
def show(
    publisher: Publisher,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Read one page of each shard, and estimate the rest.")
    ] = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the level of a publisher, its growths, and the edges in each shard."""
    deployment = Deployment.choose(stack, home)
    with failing_with("The shards cannot be read"):
        stores = deployment.stores()
        report = ShardReport.of(publisher, stores.publishers, stores.edges, estimate=estimate)
    if as_json:
        print_json(report.content())
    else:
        report.draw()


@app.command()
def grow(
    publisher: Publisher,
    level: LevelOption,
    yes: YesOption = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add write shards for a publisher before a rush of follows; none is ever removed."""
    deployment = Deployment.to_change(stack, home)
    with failing_with("The shards cannot be grown; run it again", TryLater):
        _check_level(deployment, level)
        publishers = deployment.stores().publishers
        seen = publishers.shards(publisher)
        was = seen.level
        if level < was:
            raise ExpectedError(
                f"'{publisher}' is at level {was}, and a level is never lowered: deliveries would "
                "miss the followers in the shards above. `fanfold shards static` writes new "
                "followers at a lower level and loses none."
            )
        if level > was:
            say(
                f"With {shards_at(level)} '{publisher}' takes up to "
                f"{2**level * PARTITION_WRITES:,} follows a second, and each delivery reads "
                f"{_reads(level)} instead of {_reads(was)}. The level is never lowered."
            )
            if not seen.version and not _is_followed(deployment, publisher):
                say(f"Nobody follows '{publisher}' yet; is the id right?")
            question = f"Grow '{publisher}' from level {was} to level {level}?"
            ask(question, place=deployment.place, yes=yes)
            level = publishers.raise_to(publisher, level, now_ms=clock.now_ms())
        static_level = publishers.static_level()
    if as_json:
        content = {"publisher_id": publisher, "level": level, "was": was, "shards": 2**level}
        print_json({**content, "changed": level > was})
        return
    if level == was:
        print_result(f"'{publisher}' is already at level {level}: {shards_at(level)}.")
        return
    print_result(f"'{publisher}' is now at level {level}: {shards_at(level)}.")
    if static_level is None:
        say(
            "Deliveries read the new shards at once. Warm functions write new followers there "
            f"within {LEVEL_SECONDS} s, or after their first throttle."
        )
    else:
        say(
            f"The static level {static_level} is in force: new followers are written at that level "
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
    """Set one level for the new followers of all publishers, without a deploy."""
    deployment = Deployment.to_change(stack, home)
    with failing_with("The settings of the stage cannot be read"):
        _check_level(deployment, level)
    meaning = (
        f"New followers of every publisher are then written to {shards_at(level)}, and no "
        "publisher grows by itself. Followers at other levels stay where they are and still get "
        f"all posts. A publisher that is followed meanwhile stays at level {level} or higher, and "
        f"each of its deliveries reads at least {_reads(level)}, however few its followers are."
    )
    _set(deployment, level, meaning, yes=yes, as_json=as_json)


@app.command()
def dynamic(
    yes: YesOption = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """End the static level: let each publisher grow by itself again."""
    deployment = Deployment.to_change(stack, home)
    meaning = (
        "Each publisher then has its own level again, the highest it ever had, and grows by "
        "itself. No follower is moved or lost."
    )
    _set(deployment, None, meaning, yes=yes, as_json=as_json)


def _set(
    deployment: Deployment, level: int | None, meaning: str, *, yes: bool, as_json: bool
) -> None:
    with failing_with("The mode cannot be changed; run it again"):
        publishers = deployment.stores().publishers
        was = publishers.static_level()
        if level != was:
            say(meaning)
            question = "End the static level?" if level is None else f"Set level {level} for all?"
            ask(question, place=deployment.place, yes=yes)
            publishers.set_static_level(level)
    if as_json:
        print_json({"static_level": level, "was": was, "changed": level != was})
        return
    mode = "dynamic" if level is None else f"static: all publishers at level {level}"
    if level == was:
        print_result(f"Nothing was changed. The mode is {mode}.")
        return
    print_result(f"The mode is {mode}.")
    say(f"All functions that write followers apply it within {LEVEL_SECONDS} s.")


def _check_level(deployment: Deployment, level: int) -> None:
    highest = deployment.run_time_settings().max_level
    if level > highest:
        raise WrongValue(
            f"The highest level of this stage is {highest}. Use a lower --level, or deploy the "
            "stage with a higher -c max_level= first."
        )


def _reads(level: int) -> str:
    """How many shards a delivery reads: those of all levels up to this one."""
    return counted(2 ** (level + 1) - 1, "shard")


def _is_followed(deployment: Deployment, publisher: str) -> bool:
    """Whether a publisher that has never grown has any edge."""
    level_0 = RingRead(0, ring.START, ring.END)
    return any(deployment.stores().edges.edges(publisher, level_0, limit=1))
