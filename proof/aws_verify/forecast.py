"""What a run costs: the estimates of `fanfold cost` for its publishes, and all other costs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fanfold.budgets import DEFAULT_WRITE_CAPACITY, WRITER_MEMORY_MB, Budget
from fanfold.names import LIBCURL
from fanfold_cli.cost.month import ALARM_METRICS
from fanfold_cli.cost.prices import (
    DOLLARS_PER_ACTIVE_USER,
    DOLLARS_PER_ALARM_METRIC_MONTH,
    DOLLARS_PER_LOG_GB,
    DOLLARS_PER_METRIC_MONTH,
    DOLLARS_PER_MILLION_API_REQUESTS,
    DOLLARS_PER_MILLION_SQS_REQUESTS,
    DOLLARS_PER_THOUSAND_METRICS_READ,
    PRICES,
)
from fanfold_cli.cost.publish import Publish
from proof.aws_verify.script import DOORS, READERS, Script

HOURS_PER_MONTH = 730

# A message may be received twice, and everything is then written again.
MARGIN = 2

# docs/data-model.md: a transaction of two rows, and an edge; then what PLAN and RELATE read.
FOLLOW_WRITES = 5
FOLLOW_READS = 6
# Sent, received and deleted, by PLAN and again by RELATE; sending is by ten at a time.
FOLLOW_SQS_REQUESTS = 3
# For PLAN and RELATE, in GB-seconds: each handles about 55 follows a second in 512 MB.
FOLLOW_GB_SECONDS = 2 * 0.5 / 55
# Post, ledger, lanes, dead letters and polls, besides its segments.
PUBLISH_SQS_REQUESTS = 20
# Rows that a check reads: a read unit is 4 KB, and each row has at most 200 bytes.
ROWS_PER_READ = 20
# The edges are counted every few seconds while follows arrive.
EDGE_CHECKS = 150
# The entries of a sample of followers are looked up several times a second.
SAMPLE_READS = 50_000
HTTP_REQUESTS = 5_000
LOG_BYTES_PER_REQUEST = 1_000
# Our own metrics.
METRICS = 15
METRICS_READ = 5_000
# The longest lifetime of the stage: every wait of a run is bounded.
HOURS = 4
SWEEP_GB_SECONDS_PER_HOUR = 60 * 2 * 1.77


@dataclass(frozen=True)
class Line:
    what: str
    dollars: float


@dataclass(frozen=True)
class Forecast:
    """What the run writes and costs without duplicates; `at_most` is twice that."""

    entries: int
    follows: int
    posts: int
    write_units: int
    dynamodb_dollars: float
    lambda_dollars: float
    lines: tuple[Line, ...]

    @property
    def dollars(self) -> float:
        return sum(line.dollars for line in self.lines)

    @property
    def at_most(self) -> float:
        """In whole cents."""
        return math.ceil(MARGIN * self.dollars * 100) / 100


def forecast(script: Script, *, troubles: int) -> Forecast:
    """The forecast of a run with this number of troubles."""
    budget, memory_mb = Budget.of(DEFAULT_WRITE_CAPACITY), WRITER_MEMORY_MB[LIBCURL]
    audiences = [*script.sizes] * len(DOORS) + script.troubled * troubles
    posts = [Publish.to(size, budget, memory_mb=memory_mb) for size in audiences]
    follows = sum(script.sizes)
    writes = sum(post.write_units for post in posts) + FOLLOW_WRITES * follows
    reads = (
        sum(post.read_units for post in posts) + FOLLOW_READS * follows + _checks(posts, follows)
    )
    dynamodb = PRICES.dynamodb(writes=writes, reads=reads)
    functions = sum(post.lambda_dollars for post in posts) + PRICES.functions(
        gb_seconds=FOLLOW_GB_SECONDS * follows + HOURS * SWEEP_GB_SECONDS_PER_HOUR,
        invocations=2 * follows,
    )
    messages = FOLLOW_SQS_REQUESTS * follows + sum(
        PUBLISH_SQS_REQUESTS + 3 * post.segments for post in posts
    )
    sqs_and_api = (
        messages / 1e6 * DOLLARS_PER_MILLION_SQS_REQUESTS
        + HTTP_REQUESTS / 1e6 * DOLLARS_PER_MILLION_API_REQUESTS
    )
    months = HOURS / HOURS_PER_MONTH
    watching = (
        months * ALARM_METRICS * DOLLARS_PER_ALARM_METRIC_MONTH
        + months * METRICS * DOLLARS_PER_METRIC_MONTH
        + METRICS_READ / 1e3 * DOLLARS_PER_THOUSAND_METRICS_READ
        + (messages + HTTP_REQUESTS) * LOG_BYTES_PER_REQUEST / 1e9 * DOLLARS_PER_LOG_GB
    )
    return Forecast(
        entries=sum(audiences),
        follows=follows,
        posts=len(posts),
        write_units=writes,
        dynamodb_dollars=dynamodb,
        lambda_dollars=functions,
        lines=(
            Line("DynamoDB", dynamodb),
            Line("Lambda", functions),
            Line("SQS and the HTTP API", sqs_and_api),
            Line("CloudWatch: alarms, metrics, logs", watching),
            Line("Cognito", (READERS + len(script.sizes)) * DOLLARS_PER_ACTIVE_USER),
        ),
    )


def _checks(posts: Sequence[Publish], follows: int) -> int:
    rows = sum(post.followers for post in posts) + EDGE_CHECKS * follows
    return rows // ROWS_PER_READ + len(posts) * SAMPLE_READS
