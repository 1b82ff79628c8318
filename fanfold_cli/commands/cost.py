"""`fanfold cost`: estimate the budget of each lane and the cost of a publish, without a stack."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated

import typer

from fanfold import budgets
from fanfold.budgets import (
    MIN_CONCURRENCY,
    WRITER_MEMORY_MB,
    Budget,
    LaneBudget,
    executions_for,
    in_words,
    room_of,
)
from fanfold.channels.head import MOST
from fanfold.follows.backfill import POSTS_WHEN_LATE
from fanfold.settings import MOST_BACKFILL, Settings
from fanfold_cli.cost.channel import ChannelUse
from fanfold_cli.cost.follow import APPROVAL, REQUEST, FirstFollow, Rush
from fanfold_cli.cost.prices import PRICES
from fanfold_cli.cost.publish import Publish, one_hop_followers
from fanfold_cli.options import JsonOption
from fanfold_cli.terminal import (
    WrongValue,
    dollars,
    duration,
    number_table,
    print_json,
    print_result,
)

# A few followers, one segment, the largest follow graph of our tests, and a celebrity.
FOLLOWERS = (100, 1_000, 220_000, 10_000_000)
MAX_FOLLOWERS = 1_000_000_000


def cost(
    write_units: Annotated[
        int, typer.Option(help="Write capacity of the stage, in units per second.")
    ] = budgets.DEFAULT_WRITE_CAPACITY,
    concurrency: Annotated[
        int | None,
        typer.Option(
            help="Concurrent executions available to the stage. "
            r"\[default: as many as the write capacity can use]"
        ),
    ] = None,
    followers: Annotated[
        list[int] | None,
        typer.Option(
            help=r"Number of followers of a publisher; can be repeated. \[default: four sizes]"
        ),
    ] = None,
    backfill: Annotated[
        int, typer.Option(help="Number of newest posts that a new follow brings.")
    ] = Settings.backfill,
    transport: Annotated[
        str, typer.Option(help="Library that DELIVER calls DynamoDB with: libcurl or boto3.")
    ] = Settings.transport,
    channels: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, metavar="N", help="Also price posts in N channels."),
    ] = None,
    active: Annotated[
        float | None,
        typer.Option(
            min=0, max=100, help=r"Percentage of followers who read each day. \[default: 10]"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate the write budget of each lane, and the cost of a post and of a follow.

    Needs no stack and calls no service.
    """
    try:
        budget = Budget.of(write_units, concurrency=concurrency)
    except budgets.NoRoom as error:
        raise WrongValue(f"--concurrency: {error} Give {error.executions} or more.") from None
    except ValueError as error:
        raise WrongValue(f"--write-units: {error}") from None
    if transport not in WRITER_MEMORY_MB:
        known = " or ".join(WRITER_MEMORY_MB)
        raise WrongValue(f"--transport must be {known}, not '{transport}'.")
    if not 0 <= backfill <= MOST_BACKFILL:
        raise WrongValue(f"--backfill must be from 0 to {MOST_BACKFILL}, not {backfill}.")
    if active is not None and channels is None:
        raise WrongValue("--active needs --channels.")
    memory_mb, follow = WRITER_MEMORY_MB[transport], FirstFollow.bringing(backfill)
    publishes = [
        Publish.to(_checked(count), budget, memory_mb=memory_mb) for count in followers or FOLLOWERS
    ]
    channel_use = channels and ChannelUse.of(publishes, channels, active)
    lanes = {
        "publish": budget.publish,
        "express": budget.express,
        "bulk": budget.bulk,
        "relation": budget.relation,
    }
    if as_json:
        content = {
            "write_units_per_second": budget.write_units_per_second,
            "concurrency": concurrency,
            "publish_workers": budget.publish.max_concurrency,
            "lanes": {name: {**asdict(lane), "most": lane.most} for name, lane in lanes.items()},
            "left_for_express": budget.left_for_express,
            "transport": transport,
            "deliver_memory_mb": memory_mb,
            "prices": asdict(PRICES),
            "publishes": [asdict(publish) for publish in publishes],
            "first_follow": {
                **asdict(follow),
                "follows_per_second": Rush.of(follow, budget.relation).follows_per_second,
            },
            "request": REQUEST,
            "approval": APPROVAL,
        }
        if channel_use:
            content["channels"] = asdict(channel_use)
        print_json(content)
        return
    print_result(f"The write capacity is {write_units:,} units a second; an entry takes one.\n")
    _print_lanes(lanes)
    _print_notes(_calculation(budget, concurrency))
    print_result("")
    _print_publishes(publishes)
    _print_notes(_assumptions(transport, memory_mb))
    print_result(f"\n{_in_a_sentence(follow, budget)}")
    print_result(f"\n{_of_requests()}")
    if channel_use:
        print_result(f"\n{channel_use.title}\n")
        print_result(channel_use.table())
        _print_notes(channel_use.notes())


def _checked(followers: int) -> int:
    if not 1 <= followers <= MAX_FOLLOWERS:
        raise WrongValue(f"--followers must be from 1 to {MAX_FOLLOWERS:,}, not {followers:,}.")
    return followers


def _print_notes(notes: Iterator[str]) -> None:
    print_result("\n" + "\n".join(f"* {note}" for note in notes))


def _print_lanes(lanes: dict[str, LaneBudget]) -> None:
    rows = []
    for name, lane in lanes.items():
        share = "the rest" if lane.percent == 100 else f"{lane.percent} %"
        rows.append((name, share, f"{lane.max_concurrency}", f"{lane.worker_rate:,}"))
    print_result(number_table(("lane", "share", "workers", "entries/s of each"), rows))


def _calculation(budget: Budget, concurrency: int | None) -> Iterator[str]:
    """How the numbers of the lanes follow from the capacity, and where it is too small."""
    units, bulk, relation = budget.write_units_per_second, budget.bulk, budget.relation
    most = Budget.of(units)
    yield (
        f"Publish: PLAN itself delivers to up to {one_hop_followers(budget):,} followers, from "
        "what is left for express. After a rest, each worker may write "
        f"{budget.publish_burst:,} entries at once."
    )
    yield (
        f"Express: one worker for each {budgets.UNITS_PER_EXPRESS_WORKER:,} units, from "
        f"{budgets.MIN_EXPRESS_WORKERS} to {budgets.MAX_EXPRESS_WORKERS}. Each may write "
        f"{budgets.EXPRESS_WORKER_PERCENT} % of {units:,} units, and after a rest "
        f"{budget.express_burst:,} entries at once; together they get what the other lanes leave, "
        f"at least {budget.left_for_express:,}/s."
    )
    yield (
        f"Bulk: {bulk.percent} % of {units:,} is {bulk.rate:,}/s. Divided by about "
        f"{budgets.BULK_WORKER_RATE:,}/s, that is {bulk.rate / budgets.BULK_WORKER_RATE:,.1f} "
        f"workers, and {most.bulk.max_concurrency} is the nearest power of two from "
        f"{budgets.MIN_WORKERS} to {budgets.MAX_BULK_WORKERS}. "
        f"{bulk.rate:,} / {bulk.max_concurrency} = {bulk.worker_rate:,}."
    )
    yield (
        f"Relation: {relation.percent} % of {units:,} is {relation.rate:,}/s. Divided by "
        f"{budgets.RELATION_WORKER_RATE}/s, that is "
        f"{relation.rate / budgets.RELATION_WORKER_RATE:,.1f} workers, rounded down, from "
        f"{budgets.MIN_WORKERS} to {budgets.MAX_RELATION_WORKERS}. "
        f"{relation.rate:,} / {relation.max_concurrency} = {relation.worker_rate:,}."
    )
    yield _executions(budget, most, concurrency)
    if relation.most > relation.rate:
        yield (
            f"Lambda runs at least {budgets.MIN_WORKERS} workers of a queue, and each may write "
            f"{budgets.MIN_WORKER_RATE}/s. At this capacity relation work may write "
            f"{relation.most:,}/s, {100 * relation.most / units:,.0f} % of it and not "
            f"{relation.percent} %."
        )
    if not budget.left_for_express:
        yield "While bulk and relation work write at their limits, nothing is left for express."


def _executions(budget: Budget, most: Budget, concurrency: int | None) -> str:
    """How many workers run at once."""
    if budget == most:
        return (
            f"{most.all_workers} workers: {in_words(most.workers)}. With requests and SWEEP, they "
            f"need {executions_for(most.all_workers)} concurrent executions; a new account has "
            f"{MIN_CONCURRENCY}: --concurrency {MIN_CONCURRENCY}."
        )
    assert concurrency is not None
    return (
        f"Of {concurrency} concurrent executions, {concurrency - room_of(concurrency)} are for "
        f"requests and SWEEP. The others run {budget.all_workers} workers: "
        f"{in_words(budget.workers)}. There is work for {most.all_workers}."
    )


def _print_publishes(publishes: list[Publish]) -> None:
    columns = ("followers", "lane", "segments", "write units", "duration", "DynamoDB", "Lambda")
    rows = (
        (
            f"{publish.followers:,}",
            publish.lane,
            f"{publish.segments:,}",
            f"{publish.write_units:,}",
            duration(publish.seconds),
            dollars(publish.dynamodb_dollars),
            dollars(publish.lambda_dollars),
        )
        for publish in publishes
    )
    print_result(number_table(columns, rows))


def _in_a_sentence(follow: FirstFollow, budget: Budget) -> str:
    units = f"{follow.write_units} write and {follow.read_units:.0f} read units"
    price = f"{units}, {dollars(follow.dynamodb_dollars)}"
    if not follow.posts:
        return f"A first follow, which brings no posts: {price}."
    rush, workers = Rush.of(follow, budget.relation), budget.relation.max_concurrency
    is_by_share = rush.by_share <= rush.by_cpu
    bound = "its share of the capacity" if is_by_share else f"the CPU of its {workers} workers"
    return (
        f"A first follow, with the {follow.posts} posts that it brings: {price}. RELATE keeps up "
        f"with {rush.follows_per_second:,.0f} follows a second, as {bound} allows (an estimate); "
        f"in a longer rush, follows wait and bring {min(follow.posts, POSTS_WHEN_LATE)} posts each."
    )


def _of_requests() -> str:
    """What private publishers add."""

    def priced(units: Mapping[str, int]) -> str:
        price = dollars(1e6 * PRICES.dynamodb(**units))
        return f"{units['writes']} write and {units['reads']} read units, {price} a million"

    return (
        f"A request to a private publisher: {priced(REQUEST)}. "
        f"Its approval, without the posts: {priced(APPROVAL)}."
    )


def _assumptions(transport: str, memory_mb: int) -> Iterator[str]:
    yield (
        "These are estimates; nothing is measured. They assume a lane without other work, no "
        "throttles, no message sent twice, and a warm table: a new one takes 4,000 writes a second."
    )
    yield (
        "The duration begins when the first worker starts. Lambda adds about 5 workers of a queue "
        "a second."
    )
    yield (
        f"List prices of {PRICES.region}, {PRICES.as_of}: ${PRICES.dollars_per_million_writes} and "
        f"${PRICES.dollars_per_million_reads} for a million write and read units on demand, "
        f"${PRICES.dollars_per_gb_second:.10f} for a GB-second (Arm), "
        f"${PRICES.dollars_per_million_requests:.2f} for a million invocations; no free tiers."
    )
    yield (
        f"Lambda means DELIVER only, with {transport} and {memory_mb:,} MB. Not included: the "
        "other functions, SQS, the API, logs, storage, backups, and reads of timelines."
    )
