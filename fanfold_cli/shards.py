"""`fanfold shards`: over how many write shards followers are spread, and spread them over more."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.table import Table

from fanfold import clock, ring, times
from fanfold.edges import LEVEL_SECONDS
from fanfold.errors import BadInput
from fanfold.followers import Followers
from fanfold.ids import check_id
from fanfold.publishers import Publishers
from fanfold.ringread import Read
from fanfold.sharding import PARTITION_WRITES, Shards, raised
from fanfold_cli import mappings
from fanfold_cli.console import ExpectedError, print_json, print_result, say
from fanfold_cli.home import Home
from fanfold_cli.options import HomeOption, JsonOption, StackOption
from fanfold_cli.progress import Bar, progress_bar
from fanfold_cli.stack import Deployment

# Shards counted at a time.
THREADS = 8
# A page of a count: what DynamoDB reads at once, 1 MB, is about 10,000 edges.
COUNT_PAGE = 10_000
# Up to so many shards, each has a line of its own; --json has them all.
LISTED_SHARDS = 31
# Only a publisher that grows all the while changes more often than it can be raised.
ATTEMPTS = 5

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


@dataclass(frozen=True)
class Level:
    """How many edges each shard of one level holds."""

    level: int
    counts: Sequence[int]

    @property
    def edges(self) -> int:
        """All of them."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """Edges of a shard."""
        return self.edges / len(self.counts)

    @property
    def skew(self) -> float | None:
        """The largest shard against the mean; None if all are empty."""
        return max(self.counts) / self.mean if self.edges else None


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
    _check(publisher)
    deployment = Deployment.choose(stack, home=Home.choose(home))
    try:
        publishers = _publishers(deployment)
        shards, static_level = publishers.shards(publisher), publishers.static_level()
        levels = _count(deployment, publisher, shards.level, estimate=estimate)
    except (ClientError, BotoCoreError) as error:
        raise ExpectedError(f"The shards cannot be read: {error}") from error
    if as_json:
        print_json(_content(publisher, shards, static_level, levels, is_estimate=estimate))
    else:
        _print(publisher, shards, static_level, levels, is_estimate=estimate)


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
    _check(publisher)
    deployment = Deployment.choose(stack, home=Home.choose(home))
    try:
        _check_level(deployment, level)
        publishers = _publishers(deployment)
        was = publishers.shards(publisher).level
        if level < was:
            raise ExpectedError(_no_lower(publisher, was))
        if level > was:
            say(
                f"With {_shards(level)} '{publisher}' takes up to {2**level * PARTITION_WRITES:,} "
                f"follows a second, and each delivery reads {2 ** (level + 1) - 1} shards instead "
                f"of {2 ** (was + 1) - 1}. It is never lowered again."
            )
            _ask(f"Grow '{publisher}' from level {was} to level {level}?", yes=yes)
            level = _raise(publishers, publisher, level)
        static_level = publishers.static_level()
    except (ClientError, BotoCoreError) as error:
        raise ExpectedError(f"The shards cannot be grown: {error} Run it again.") from error
    if as_json:
        content = {"publisher_id": publisher, "level": level, "was": was, "shards": 2**level}
        print_json({**content, "changed": level > was})
        return
    if level == was:
        print_result(f"'{publisher}' is at level {level} already: {_shards(level)}.")
        return
    print_result(f"'{publisher}' is at level {level} now: {_shards(level)}.")
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
    deployment = Deployment.choose(stack, home=Home.choose(home))
    try:
        _check_level(deployment, level)
    except (ClientError, BotoCoreError) as error:
        raise ExpectedError(f"The stage cannot be read: {error}") from error
    meaning = (
        f"The followers of every publisher are then written to {_shards(level)}, and none grows "
        "by itself. Followers at other levels stay where they are and are read all the same. "
        f"A publisher that is followed meanwhile is at level {level} for good, and each of its "
        f"deliveries reads {2 ** (level + 1) - 1} shards, however few its followers are."
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
    deployment = Deployment.choose(stack, home=Home.choose(home))
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
        raise ExpectedError(f"The mode cannot be changed: {error} Run it again.") from error
    if as_json:
        print_json({"static_level": level, "was": was, "changed": level != was})
        return
    mode = "dynamic" if level is None else f"static: all publishers at level {level}"
    if level == was:
        print_result(f"The mode is {mode}, and was so already.")
        return
    print_result(f"The mode is {mode}.")
    say(f"All functions that write followers go by it within {LEVEL_SECONDS} s.")


def estimated(count: int, reached: str, *, level: int, shard: int) -> int:
    """How many edges a shard holds, if `count` of them lie below the position `reached`."""
    width = ring.RING_SIZE >> level
    return round(count * width / max(1, int(reached, 16) - shard * width))


def _check(publisher: str) -> None:
    try:
        check_id(publisher, field="PUBLISHER")
    except BadInput as error:
        raise ExpectedError(error.sentence) from None


def _check_level(deployment: Deployment, level: int) -> None:
    highest = mappings.run_time_settings(deployment).max_level
    if level > highest:
        raise ExpectedError(
            f"Level {level} is above the highest of this stage, {highest}; deploy it with "
            f"-c max_level={level} first."
        )


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
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        raise ExpectedError("Nothing was changed; --yes answers the question.") from None
    if not agreed:
        raise ExpectedError("Nothing was changed.")


def _raise(publishers: Publishers, publisher: str, level: int) -> int:
    """Raise the publisher's level; returns what it is then, which may be higher by itself."""
    for _ in range(ATTEMPTS):
        seen = publishers.shards(publisher)
        if seen.level >= level:
            return seen.level
        wish = raised(seen, level=level, now_ms=clock.now_ms())
        if publishers.update(publisher, seen=seen, shards=wish):
            return level
    raise ExpectedError(f"'{publisher}' changed too often meanwhile; run it again.")


def _publishers(deployment: Deployment) -> Publishers:
    return Publishers(deployment.client("dynamodb"), deployment.settings().publishers_table)


def _count(deployment: Deployment, publisher: str, highest: int, *, estimate: bool) -> list[Level]:
    """Count the edges of every shard of every level, some shards at a time."""
    followers = Followers(deployment.client("dynamodb"), deployment.settings().followers_table)
    with (
        progress_bar("Counting", total=None, unit="edges") as bar,
        ThreadPoolExecutor(THREADS) as threads,
    ):
        counts = {
            level: [
                threads.submit(_count_shard, followers, publisher, level, shard, bar, estimate)
                for shard in range(2**level)
            ]
            for level in range(highest + 1)
        }
        return [Level(level, [one.result() for one in each]) for level, each in counts.items()]


def _count_shard(
    followers: Followers, publisher: str, level: int, shard: int, bar: Bar, estimate: bool
) -> int:
    read = Read(level, shard, ring.shard_start(shard, level), ring.END)
    request = followers.page_request(publisher, read, COUNT_PAGE)
    del request["ProjectionExpression"]
    # At half the price; who looks at a count does not need the last second's.
    request |= {"Select": "COUNT", "ConsistentRead": False}
    count = 0
    while True:
        answer = followers.client.query(**request)
        count += (found := answer["Count"])
        bar.advance(found)
        last = answer.get("LastEvaluatedKey")
        if last is None:
            return count
        if estimate:
            reached = ring.position_of(last["edge"]["S"])
            return estimated(count, reached, level=level, shard=shard)
        request["ExclusiveStartKey"] = last


def _content(
    publisher: str,
    shards: Shards,
    static_level: int | None,
    levels: Sequence[Level],
    *,
    is_estimate: bool,
) -> dict[str, Any]:
    return {
        "publisher_id": publisher,
        "level": shards.level,
        "shards": 2**shards.level,
        "version": shards.version,
        "last_growth": times.to_text(shards.last_updated) if shards.last_updated else None,
        "static_level": static_level,
        "history": [
            {
                "level": growth.level,
                "at": times.to_text(growth.at),
                "follows_per_second": growth.rate,
            }
            for growth in shards.history
        ],
        "edges": sum(each.edges for each in levels),
        "estimated": is_estimate,
        "levels": [
            {
                "level": each.level,
                "edges": each.edges,
                "mean": each.mean,
                "largest": max(each.counts),
                "skew": each.skew,
                "shards": list(each.counts),
            }
            for each in levels
        ],
    }


def _print(
    publisher: str,
    shards: Shards,
    static_level: int | None,
    levels: Sequence[Level],
    *,
    is_estimate: bool,
) -> None:
    grown = (
        f"grown last at {times.to_text(shards.last_updated)}" if shards.version else "never grown"
    )
    print_result(
        f"'{publisher}' is at level {shards.level}: {_shards(shards.level)}, {grown}, version "
        f"{shards.version}."
    )
    if static_level is not None:
        print_result(f"All publishers are kept at level {static_level} (`fanfold shards dynamic`).")
    if shards.history:
        history = Table("level", "since", "follows/s before")
        for growth in shards.history:
            history.add_row(str(growth.level), times.to_text(growth.at), f"{growth.rate:,}")
        print_result(history)
    table = Table("level", "shards", "edges", "mean", "largest", "largest/mean")
    for each in levels:
        skew = "-" if each.skew is None else f"{each.skew:.2f}"
        numbers = (len(each.counts), each.edges, round(each.mean), max(each.counts))
        table.add_row(str(each.level), *(f"{value:,}" for value in numbers), skew)
    print_result(table)
    _print_shards(levels)
    total = sum(each.edges for each in levels)
    about = "About " if is_estimate else ""
    print_result(f"{about}{total:,} edges.")
    if not total and not shards.version:
        say(f"Nobody follows '{publisher}', and it has never grown: is the id right?")


def _print_shards(levels: Sequence[Level]) -> None:
    if len(levels) == 1:
        return
    if sum(len(each.counts) for each in levels) > LISTED_SHARDS:
        say("These are too many shards to list each; --json has them all.")
        return
    table = Table("shard", "edges")
    for each in levels:
        for shard, count in enumerate(each.counts):
            table.add_row(f"{each.level}.{shard}", f"{count:,}")
    print_result(table)


def _shards(level: int) -> str:
    return "1 write shard" if level == 0 else f"{2**level} write shards"
