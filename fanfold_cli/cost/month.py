"""Estimates the monthly cost of a service, for the table in docs/cost.md."""

from dataclasses import dataclass, fields

from fanfold.budgets import DEFAULT_WRITE_CAPACITY, WRITER_MEMORY_MB, Budget
from fanfold.names import LIBCURL
from fanfold_cli.cost.follow import COMMANDS, ORDERS_PER_WORKER, FirstFollow
from fanfold_cli.cost.prices import (
    DOLLARS_PER_ALARM_METRIC_MONTH,
    DOLLARS_PER_GB_OUT,
    DOLLARS_PER_GB_STORED,
    DOLLARS_PER_LOG_GB,
    DOLLARS_PER_METRIC_MONTH,
    DOLLARS_PER_MILLION_API_REQUESTS,
    DOLLARS_PER_MILLION_SQS_REQUESTS,
    PRICES,
)
from fanfold_cli.cost.publish import MB_PER_GB, REQUEST_SECONDS, Publish

ALARM_METRICS, METRICS = 70, 8  # of alarms, rounded up; our own

DAYS = 30
RETENTION_DAYS = 30
# Posts that a follow brings: fewer than the limit, since few publishers post daily.
OLDER_POSTS = 10
GB = 1e9
# An entry, with DynamoDB's 100 bytes for each item; a post of 1 KB, with its item in the index; a
# follow, which is an edge and a row.
ENTRY_BYTES, POST_BYTES, FOLLOW_BYTES = 280, 1_600, 500
# A page of 20 entries: the reader's row, the range, and each post, without a cache.
PAGE_ENTRIES = 20
PAGE_READS = 1 + 1 + PAGE_ENTRIES
PAGE_BYTES = PAGE_ENTRIES * 1_250
# The access log, the function's own report, and its lines.
LOG_BYTES_PER_REQUEST = 1_000
# With `history=true`: the line of a page of 20 entries, and one of the two of a follow or a post.
# CloudWatch adds some bytes to each line.
LOG_EVENT_BYTES = 26
HISTORY_PAGE_BYTES, HISTORY_LINE_BYTES = 600, 200
# A message is sent, received and deleted. Lambda polls idle queues, too: four queues, 15 times a
# minute each.
SQS_REQUESTS_PER_MESSAGE = 3
MINUTES = DAYS * 24 * 60
IDLE_SQS_REQUESTS = 4 * 15 * MINUTES
# SWEEP with nothing open: two reads and one write a minute, for a tenth of a second of 1,769 MB.
SWEEP_READS, SWEEP_WRITES, SWEEP_GB_SECONDS = 2, 1, 0.177


@dataclass(frozen=True, kw_only=True)
class Traffic:
    users: int
    follows_per_user: int
    posts_per_day: int
    mean_followers: int  # of a post's publisher
    pages_per_day: int

    @property
    def new_follows_per_day(self) -> float:
        """One user in ten follows somebody on a day."""
        return self.users / 10


@dataclass(frozen=True, kw_only=True)
class Month:
    """Dollars for each part of the bill."""

    entries: float  # all writes and reads of publishes
    pages: float
    follows: float
    storage: float
    functions: float
    queues: float
    api: float
    transfer: float
    watching: float  # alarms, metrics, logs

    @property
    def total(self) -> float:
        return sum(float(getattr(self, field.name)) for field in fields(self))


SMALL = Traffic(
    users=10_000, follows_per_user=30, posts_per_day=500, mean_followers=60, pages_per_day=30_000
)
MEDIUM = Traffic(
    users=1_000_000,
    follows_per_user=50,
    posts_per_day=50_000,
    mean_followers=200,
    pages_per_day=3_000_000,
)
LARGE = Traffic(
    users=10_000_000,
    follows_per_user=100,
    posts_per_day=500_000,
    mean_followers=500,
    pages_per_day=30_000_000,
)


def of(service: Traffic) -> Month:
    """Assume a steady state, no duplicate messages and no throttles."""
    memory_mb = WRITER_MEMORY_MB[LIBCURL]
    budget = Budget.of(DEFAULT_WRITE_CAPACITY)
    publish = Publish.to(service.mean_followers, budget, memory_mb=memory_mb)
    follow = FirstFollow.bringing(OLDER_POSTS)
    posts, pages = service.posts_per_day * DAYS, service.pages_per_day * DAYS
    follows = service.new_follows_per_day * DAYS
    entries = service.posts_per_day * RETENTION_DAYS * service.mean_followers
    requests = posts + pages + follows
    gb_seconds = requests * REQUEST_SECONDS + follows * COMMANDS / ORDERS_PER_WORKER
    gb_seconds = gb_seconds * memory_mb / MB_PER_GB + SWEEP_GB_SECONDS * MINUTES
    runs = requests + COMMANDS * follows + MINUTES
    messages = posts * (1 + publish.orders) + COMMANDS * follows
    stored = (
        entries * ENTRY_BYTES
        + service.posts_per_day * (RETENTION_DAYS + 14) * POST_BYTES
        + service.users * service.follows_per_user * FOLLOW_BYTES
    )
    return Month(
        entries=posts * publish.dynamodb_dollars,
        pages=PRICES.dynamodb(reads=pages * PAGE_READS),
        follows=follows * follow.dynamodb_dollars,
        storage=stored / GB * DOLLARS_PER_GB_STORED,
        functions=posts * publish.lambda_dollars
        + PRICES.functions(gb_seconds=gb_seconds, invocations=runs)
        + PRICES.dynamodb(writes=SWEEP_WRITES * MINUTES, reads=SWEEP_READS * MINUTES),
        queues=(messages * SQS_REQUESTS_PER_MESSAGE + IDLE_SQS_REQUESTS)
        / 1e6
        * DOLLARS_PER_MILLION_SQS_REQUESTS,
        api=requests / 1e6 * DOLLARS_PER_MILLION_API_REQUESTS,
        transfer=pages * PAGE_BYTES / GB * DOLLARS_PER_GB_OUT,
        watching=ALARM_METRICS * DOLLARS_PER_ALARM_METRIC_MONTH
        + METRICS * DOLLARS_PER_METRIC_MONTH
        + requests * LOG_BYTES_PER_REQUEST / GB * DOLLARS_PER_LOG_GB,
    )


def history(service: Traffic) -> float:
    """Dollars that `history=true` adds."""
    posts, follows = service.posts_per_day * DAYS, service.new_follows_per_day * DAYS
    logged: float = service.pages_per_day * DAYS * HISTORY_PAGE_BYTES
    logged += 2 * (posts + follows) * HISTORY_LINE_BYTES
    return logged / GB * DOLLARS_PER_LOG_GB


def table() -> str:
    """The table of docs/cost.md, in Markdown."""
    services = (SMALL, MEDIUM, LARGE)
    months = [of(service) for service in services]
    rows = [
        ("", "small", "medium", "large"),
        ("---", "---:", "---:", "---:"),
        ("users, and follows per user", *(f"{s.users:,}, {s.follows_per_user}" for s in services)),
        ("posts a day", *(f"{s.posts_per_day:,}" for s in services)),
        ("followers of a post's publisher, mean", *(f"{s.mean_followers:,}" for s in services)),
        ("timeline pages a day", *(f"{s.pages_per_day:,}" for s in services)),
    ]
    labels = {
        "writing entries": "entries",
        "reading pages": "pages",
        "follows, each with 10 older posts": "follows",
        "storage, with point-in-time recovery": "storage",
        "Lambda, SWEEP's reads and writes included": "functions",
        "SQS": "queues",
        "API Gateway": "api",
        "transfer to the internet": "transfer",
        "alarms, metrics, logs": "watching",
    }
    for label, name in labels.items():
        rows.append((label, *(_dollars(getattr(month, name)) for month in months)))
    rows.append(("**a month**", *(f"**{_dollars(month.total)}**" for month in months)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount < 10 else f"${amount:,.0f}"
