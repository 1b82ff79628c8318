"""`fanfold cost`: the lanes' budget and what a publish costs, worked out without any stack."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.table import Table

from fanfold import budgets
from fanfold.budgets import DELIVER_MEMORY_MB, Budget, Lane
from fanfold.fanout.segments import SAMPLE_EDGES, count_for
from fanfold.settings import Settings
from fanfold_cli.console import ExpectedError, print_json, print_result
from fanfold_cli.options import JsonOption

MB_PER_GB = 1024


@dataclass(frozen=True)
class Prices:
    """List prices, on demand and without free tiers, as other people's price guides had them.

    AWS's own pages decide: https://aws.amazon.com/dynamodb/pricing/on-demand/, halved in November
    2024, and https://aws.amazon.com/lambda/pricing/, on Arm, below 7.5 billion GB-seconds a month.
    """

    region: str = "us-east-1"
    as_of: str = "November 2026"
    dollars_per_million_writes: float = 0.625
    dollars_per_million_reads: float = 0.125
    dollars_per_gb_second: float = 0.0000133334
    dollars_per_million_requests: float = 0.20


PRICES = Prices()

# A few followers, one segment, the largest follow graph we test with, and a celebrity.
FOLLOWERS = (100, 1_000, 220_000, 10_000_000)
MAX_FOLLOWERS = 1_000_000_000
# What is less is not worth its digits.
LEAST_DOLLARS = 0.00001

# The post (2 with a body of 1 KB), its place in the outbox, the ledger's row and its place in the
# index of what is open.
ACCEPT_UNITS = 5
# A row without its pending segments, and what each of those adds to it: it is charged by the KB.
LEDGER_ROW_BYTES = 350
PENDING_SEGMENT_BYTES = 3
UNIT_BYTES = 1024
# A consistent read unit is 4 KB, and an edge some 80 bytes.
EDGES_PER_READ = 50
# A segment reads the ledger's row and the post.
READS_PER_SEGMENT = 2
# What a worker does for a segment beside writing it: three or four calls one after the other.
# Estimated, not measured on AWS.
SEGMENT_SECONDS = 0.05


@dataclass(frozen=True)
class Publish:
    """What it takes to deliver one post; all of it is estimated."""

    followers: int
    lane: str
    segments: int
    write_units: int
    read_units: int
    seconds: float  # to the last follower, from when the first worker begins
    gb_seconds: float
    dynamodb_dollars: float
    lambda_dollars: float

    @classmethod
    def to(cls, followers: int, budget: Budget, *, memory_mb: int) -> "Publish":
        """A publish that has its lane to itself, on a table that takes the whole capacity."""
        segments = count_for(followers)
        name, lane = ("express", budget.express) if segments == 1 else ("bulk", budget.bulk)
        each = followers / segments / lane.worker_rate + SEGMENT_SECONDS
        writes, reads = followers + ledger_units(segments), _read_units(followers, segments)
        gb_seconds = segments * each * memory_mb / MB_PER_GB
        return cls(
            followers=followers,
            lane=name,
            segments=segments,
            write_units=writes,
            read_units=reads,
            seconds=math.ceil(segments / lane.max_concurrency) * each,
            gb_seconds=gb_seconds,
            dynamodb_dollars=writes / 1e6 * PRICES.dollars_per_million_writes
            + reads / 1e6 * PRICES.dollars_per_million_reads,
            lambda_dollars=gb_seconds * PRICES.dollars_per_gb_second
            + segments / 1e6 * PRICES.dollars_per_million_requests,
        )


def cost(
    write_units: Annotated[
        int, typer.Option(help="Write capacity of the stage, in units a second.")
    ] = budgets.DEFAULT_WRITE_CAPACITY,
    followers: Annotated[
        list[int] | None,
        typer.Option(help="Followers of a publisher; can be repeated. [default: four sizes]"),
    ] = None,
    transport: Annotated[
        str, typer.Option(help="What DELIVER speaks through: libcurl or boto3.")
    ] = Settings.transport,
    as_json: JsonOption = False,
) -> None:
    """Work out the lanes' budget and the price of a publish; asks nothing of AWS."""
    budget, memory_mb = _budget(write_units), _memory_mb(transport)
    publishes = [
        Publish.to(_checked(count), budget, memory_mb=memory_mb) for count in followers or FOLLOWERS
    ]
    if as_json:
        print_json(_document(budget, publishes, transport=transport, memory_mb=memory_mb))
        return
    print_result(f"A write capacity of {write_units:,} units a second; an entry is one unit.\n")
    print_result(_lanes(budget))
    for warning in _warnings(budget):
        print_result(f"* {warning}")
    print_result("")
    print_result(_publishes(publishes))
    print_result("")
    for note in _notes(transport, memory_mb):
        print_result(f"* {note}")


def ledger_units(segments: int) -> int:
    """Write units of a publish beside its entries, when nothing is sent twice."""
    rows = (
        math.ceil((LEDGER_ROW_BYTES + PENDING_SEGMENT_BYTES * pending) / UNIT_BYTES)
        for pending in range(1, segments + 1)
    )
    planned = math.ceil((LEDGER_ROW_BYTES + PENDING_SEGMENT_BYTES * segments) / UNIT_BYTES)
    # At the end it leaves the index; the last of many segments completes it by one more update.
    completed = 1 if segments == 1 else 2
    return ACCEPT_UNITS + planned + sum(rows) + completed


def _read_units(followers: int, segments: int) -> int:
    edges = followers + min(followers, SAMPLE_EDGES)  # DELIVER's, and those that PLAN estimates by
    return math.ceil(edges / EDGES_PER_READ) + READS_PER_SEGMENT * segments + 1


def _budget(write_units: int) -> Budget:
    try:
        return Budget.of(write_units)
    except ValueError as error:
        raise ExpectedError(f"--write-units: {error}") from None


def _memory_mb(transport: str) -> int:
    if transport not in DELIVER_MEMORY_MB:
        known = " or ".join(DELIVER_MEMORY_MB)
        raise ExpectedError(f"--transport must be {known}, not '{transport}'.")
    return DELIVER_MEMORY_MB[transport]


def _checked(followers: int) -> int:
    if not 1 <= followers <= MAX_FOLLOWERS:
        raise ExpectedError(f"--followers must be from 1 to {MAX_FOLLOWERS:,}, not {followers:,}.")
    return followers


def _document(
    budget: Budget, publishes: list[Publish], *, transport: str, memory_mb: int
) -> dict[str, Any]:
    lanes = {"express": budget.express, "bulk": budget.bulk, "relation": budget.relation}
    return {
        "write_units_per_second": budget.write_units_per_second,
        "lanes": {name: {**asdict(lane), "most": lane.most} for name, lane in lanes.items()},
        "left_for_express": budget.left_for_express,
        "transport": transport,
        "deliver_memory_mb": memory_mb,
        "prices": asdict(PRICES),
        "publishes": [asdict(publish) for publish in publishes],
    }


def _lanes(budget: Budget) -> Table:
    table = _table("lane", "share", "workers", "each, at most")
    table.add_column("how that is worked out")
    for name, share, lane, how in (
        ("express", "the rest", budget.express, _express_sum(budget)),
        ("bulk", f"{budget.bulk.percent} %", budget.bulk, _bulk_sum(budget)),
        ("relation", f"{budget.relation.percent} %", budget.relation, _relation_sum(budget)),
    ):
        table.add_row(name, share, f"{lane.max_concurrency}", f"{lane.worker_rate:,}/s", how)
    return table


def _express_sum(budget: Budget) -> str:
    return (
        f"One worker for each {budgets.UNITS_PER_EXPRESS_WORKER:,} units, from "
        f"{budgets.MIN_EXPRESS_WORKERS} to {budgets.MAX_EXPRESS_WORKERS}; each may write "
        f"{budgets.EXPRESS_WORKER_PERCENT} % of {budget.write_units_per_second:,}. Together they "
        f"take what the others leave: {budget.left_for_express:,}/s at least."
    )


def _bulk_sum(budget: Budget) -> str:
    bulk = budget.bulk
    return (
        f"{_share(budget, bulk)}. Divided by about {budgets.BULK_WORKER_RATE:,}/s: "
        f"{bulk.rate / budgets.BULK_WORKER_RATE:,.1f}, and {bulk.max_concurrency} is the nearest "
        f"power of two from {budgets.MIN_WORKERS} to {budgets.MAX_BULK_WORKERS}. "
        f"{bulk.rate:,} / {bulk.max_concurrency} = {bulk.worker_rate:,}."
    )


def _relation_sum(budget: Budget) -> str:
    relation = budget.relation
    return (
        f"{_share(budget, relation)}. A worker makes single writes, about "
        f"{relation.worker_rate}/s: {relation.rate / relation.worker_rate:,.1f} workers, from "
        f"{budgets.MIN_WORKERS} to {budgets.MAX_RELATION_WORKERS}, rounded down."
    )


def _share(budget: Budget, lane: Lane) -> str:
    return f"{lane.percent} % of {budget.write_units_per_second:,} is {lane.rate:,}/s"


def _warnings(budget: Budget) -> Iterator[str]:
    """Where a capacity is too small to keep the shares."""
    relation, units = budget.relation, budget.write_units_per_second
    if relation.most > relation.rate:
        yield (
            f"Lambda runs {budgets.MIN_WORKERS} workers of a queue at least: relation work may "
            f"write {relation.most:,}/s here, {100 * relation.most / units:,.0f} % of the capacity "
            f"and not {relation.percent} %."
        )
    if not budget.left_for_express:
        yield "With bulk and relation work both at their most, nothing is left for express."


def _publishes(publishes: list[Publish]) -> Table:
    table = _table(
        "followers", "lane", "segments", "write units", "last after", "DynamoDB", "Lambda"
    )
    for publish in publishes:
        table.add_row(
            f"{publish.followers:,}",
            publish.lane,
            f"{publish.segments:,}",
            f"{publish.write_units:,}",
            duration(publish.seconds),
            dollars(publish.dynamodb_dollars),
            dollars(publish.lambda_dollars),
        )
    return table


def _table(*columns: str) -> Table:
    """Numbers to the right, and never cut: a number without its end is another number."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="left" if column == "lane" else "right", no_wrap=True)
    return table


def _notes(transport: str, memory_mb: int) -> Iterator[str]:
    yield (
        "All of it is worked out, nothing is measured: for a lane with nothing else to do, nothing "
        "throttled and nothing sent twice, and a warm table. A new one takes 4,000 writes a second."
    )
    yield (
        "The time begins with the first worker. Lambda adds about 5 workers of a queue each second."
    )
    yield (
        f"List prices of {PRICES.region}, {PRICES.as_of}: ${PRICES.dollars_per_million_writes} and "
        f"${PRICES.dollars_per_million_reads} for a million write and read units on demand, "
        f"${PRICES.dollars_per_gb_second:.10f} for a GB-second (Arm), "
        f"${PRICES.dollars_per_million_requests:.2f} for a million invocations; no free tiers."
    )
    yield (
        f"Lambda is DELIVER alone, with {transport} and {memory_mb:,} MB. Not in it: the other "
        "functions, SQS, the API, logs, storage, backups, and whoever reads."
    )


def duration(seconds: float) -> str:
    """Such as `6.6 s`, `5 min 0 s`, `1 h 3 min`."""
    if round(seconds, 1) < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def dollars(amount: float) -> str:
    """Cents, or the first two digits that are not zero: `$6.28`, `$0.000068`."""
    if amount < LEAST_DOLLARS:
        return f"<${LEAST_DOLLARS:.5f}"
    digits = max(2, 1 - math.floor(math.log10(amount)))
    return f"${amount:,.{digits}f}"
