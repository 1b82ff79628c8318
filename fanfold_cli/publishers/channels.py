"""The channels of a stack: their state, followers and cost, and their table."""

from collections.abc import Iterable
from typing import Any

from fanfold import names, times
from fanfold.budgets import DEFAULT_WRITE_CAPACITY, WRITER_MEMORY_MB, Budget
from fanfold.channels.head import MOST, Channel, Head
from fanfold.follows.follower_estimate import Estimate, sample
from fanfold.follows.publisher.followers import COUNT_READS
from fanfold_cli.cost.publish import Publish
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError, counted, print_result, text_table

# As docs/operations.md advises: nobody has that many followers, so PLAN adds no channel.
BY_HAND = "-c channel_threshold=1000000000"
ACTIVE, DEMOTED, NONE = "active", "demoted", "none"


def threshold_of(deployment: Deployment) -> int:
    """How many followers bring a publisher a channel; 0 if PLAN adds none."""
    return int(deployment.outputs.get(names.CHANNEL_THRESHOLD_OUTPUT, 0))


def check_gives(deployment: Deployment) -> None:
    """Raise `ExpectedError` if channels are switched off on this stage."""
    if not threshold_of(deployment):
        raise ExpectedError(
            "This stage gives no channels. Deploy with -c channel_threshold=FOLLOWERS to switch "
            f"them on; with {BY_HAND}, only those that you add exist."
        )


def followers_of(deployment: Deployment, publisher: str) -> Estimate:
    """An estimate of the publisher's followers now."""
    stores = deployment.stores()
    level = stores.publishers.shards(publisher).level
    with waiting_for("an estimate of the followers"):
        return sample(stores.edges, publisher, level, max_reads=COUNT_READS).estimate


def pushed_to(found: Estimate) -> Publish:
    budget = Budget.of(DEFAULT_WRITE_CAPACITY)
    return Publish.to(max(1, found.followers), budget, memory_mb=WRITER_MEMORY_MB[names.LIBCURL])


def state_of(head: Head, publisher: str) -> str:
    channel = head.of(publisher)
    return NONE if channel is None else ACTIVE if channel.is_active else DEMOTED


def until_of(channel: Channel) -> str:
    return times.to_text(channel.until * 1000)


def sum_of(head: Head) -> str:
    return f"{counted(len(head.channels), 'channel')} of {MOST}"


def content_of(channel: Channel) -> dict[str, Any]:
    return {
        "publisher_id": channel.publisher_id,
        "state": ACTIVE if channel.is_active else DEMOTED,
        "readable_until": None if channel.is_active else until_of(channel),
        "posts_put": channel.seq,
        "followers_estimated": channel.followers,
    }


def draw(channels: Iterable[Channel]) -> None:
    columns = ("publisher", "state", "posts put", "followers when added")
    rows = (
        (
            each.publisher_id,
            ACTIVE if each.is_active else f"demoted, readable until {until_of(each)}",
            f"{each.seq:,}",
            f"{each.followers:,}",
        )
        for each in channels
    )
    print_result(text_table(columns, rows, folded=columns[:1]))
