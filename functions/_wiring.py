"""What use cases are made of.

A cold start pays for every import, so each function here imports what it composes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions import _clients

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_dynamodb import DynamoDBClient

    from fanfold.aws.threads import Together
    from fanfold.channels.cleanup import OldChannels
    from fanfold.channels.delivery import ChannelDelivery
    from fanfold.channels.known_head import KnownHead
    from fanfold.fanout.lookup import Lookup
    from fanfold.fanout.publish import Publishing
    from fanfold.follows.backfill import Backfilling
    from fanfold.follows.edges import Edges
    from fanfold.senders import Senders
    from fanfold.settings import Settings


def publishing(settings: Settings, dynamodb: DynamoDBClient) -> Publishing:
    from fanfold.fanout.ledger import Ledger
    from fanfold.fanout.post_counts import PostCounts
    from fanfold.fanout.publish import Publishing
    from fanfold.rates import Rate
    from fanfold.timeline.posts import Posts

    rate = Rate.a_minute(settings.publishes_per_minute)
    return Publishing(
        Posts(dynamodb, settings.posts_table),
        Ledger(dynamodb, settings.fanouts_table),
        settings.retention_days,
        PostCounts(dynamodb, settings.publishers_table, rate) if rate.limit else None,
    )


def lookup(settings: Settings, dynamodb: DynamoDBClient, together: Together) -> Lookup:
    from fanfold.fanout.ledger import Ledger
    from fanfold.fanout.lookup import Lookup
    from fanfold.follows.edges_table import EdgesTable
    from fanfold.follows.publishers_table import PublishersTable
    from fanfold.timeline.posts import Posts

    return Lookup(
        Ledger(dynamodb, settings.fanouts_table),
        Posts(dynamodb, settings.posts_table),
        PublishersTable(dynamodb, settings.publishers_table),
        EdgesTable(dynamodb, settings.followers_table),
        together,
    )


def channel_delivery(
    settings: Settings, dynamodb: DynamoDBClient, heads: KnownHead
) -> ChannelDelivery:
    """The use case of posts in channels, for PLAN."""
    from fanfold.channels.delivery import ChannelDelivery
    from fanfold.timeline.entries import Entries
    from functions._reports import report_choice

    return ChannelDelivery(
        heads,
        Entries(dynamodb, settings.timelines_table),
        settings.channel_threshold,
        report_choice,
    )


def known_head(settings: Settings, dynamodb: DynamoDBClient) -> KnownHead:
    """The head as one container knows it, for all that it does. A module asks for it once."""
    from fanfold.channels.head_table import HeadTable
    from fanfold.channels.known_head import KnownHead

    heads = HeadTable(dynamodb, settings.publishers_table)
    return KnownHead(heads, gives=settings.channel_threshold > 0)


def old_channels(
    settings: Settings, dynamodb: DynamoDBClient, report: Callable[[str], None]
) -> OldChannels:
    """The use case that ends channels, for SWEEP."""
    from fanfold.channels.cleanup import OldChannels
    from fanfold.channels.head_table import HeadTable

    return OldChannels(HeadTable(dynamodb, settings.publishers_table), report)


def senders(settings: Settings) -> Senders | None:
    """Whom each sender may act for; None where the stage binds nobody."""
    if not settings.senders:
        return None
    from fanfold.senders import Senders

    return Senders.read(settings.senders)


def backfilling(settings: Settings, dynamodb: DynamoDBClient, heads: KnownHead) -> Backfilling:
    """The use case of backfills, for RELATE."""
    from fanfold.follows.backfill import BackfillChannels, Backfilling, NewestPosts
    from fanfold.timeline.entries import Entries
    from fanfold.timeline.outbox import Outbox

    return Backfilling(
        NewestPosts(
            Outbox(dynamodb, settings.posts_table),
            settings.retention_days,
            settings.backfill,
            BackfillChannels(heads, Entries(dynamodb, settings.timelines_table)),
        ),
        # No retries inside the client: a backfill keeps to its pace, and has to see every throttle.
        Entries(_clients.dynamodb(settings, attempts=1), settings.timelines_table),
    )


def edges(settings: Settings) -> Edges:
    """The edges as the functions write them: growths are logged and counted."""
    from fanfold.follows.edges import Edges
    from fanfold.follows.edges_table import EdgesTable
    from fanfold.follows.levels import Growing, Levels
    from fanfold.follows.publishers_table import PublishersTable
    from functions._reports import report_growth

    # No retries inside the client: `Edges` retries, and has to see every throttle.
    dynamodb = _clients.dynamodb(settings, attempts=1)
    return Edges(
        EdgesTable(dynamodb, settings.followers_table),
        Growing(
            Levels(PublishersTable(dynamodb, settings.publishers_table)),
            settings.max_level,
            settings.growth_cooldown_ms,
            report_growth,
        ),
    )
