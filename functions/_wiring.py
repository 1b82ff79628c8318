"""Makes the use cases of the functions.

A cold start pays for every import, so each function here imports what it composes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanfold.stores import Stores
from functions import _clients

if TYPE_CHECKING:
    from fanfold.aws.senders import Senders
    from fanfold.aws.threads import Together
    from fanfold.channels.delivery import ChannelDelivery
    from fanfold.channels.known_head import KnownHead
    from fanfold.fanout.lookup import Lookup
    from fanfold.fanout.publishing.publish import Publishing
    from fanfold.follows.backfill import Backfilling
    from fanfold.follows.edges import Edges
    from fanfold.history.doors import History
    from fanfold.settings import Settings


def publishing(stores: Stores) -> Publishing:
    from fanfold.fanout.publishing.publish import Publishing
    from fanfold.rates import Rate

    rate = Rate.a_minute(stores.settings.publishes_per_minute)
    counts = stores.post_counts(rate) if rate.limit else None
    return Publishing(stores.posts, stores.ledger, stores.settings.retention_days, counts)


def lookup(stores: Stores, together: Together) -> Lookup:
    from fanfold.fanout.lookup import Lookup

    return Lookup(stores.ledger, stores.posts, stores.publishers, stores.edges, together)


def channel_delivery(stores: Stores, heads: KnownHead) -> ChannelDelivery:
    """The use case of posts in channels, for PLAN."""
    from fanfold.channels.delivery import ChannelDelivery
    from functions._reports import report_choice

    threshold = stores.settings.channel_threshold
    return ChannelDelivery(heads, stores.entries, threshold, report_choice)


def known_head(stores: Stores) -> KnownHead:
    """The head as one container knows it. A module asks for it once."""
    from fanfold.channels.known_head import KnownHead

    return KnownHead(stores.heads, gives=stores.settings.channel_threshold > 0)


def history(settings: Settings) -> History | None:
    """What writes the stage's history; None if the stage has none."""
    if not settings.history:
        return None
    from fanfold.history.doors import History
    from functions._logs import print_line

    return History(settings, print_line)


def senders(settings: Settings) -> Senders | None:
    """Whom each sender may act for; None if the stage binds nobody."""
    if not settings.senders:
        return None
    from fanfold.aws.senders import Senders

    return Senders.read(settings.senders)


def backfilling(stores: Stores, heads: KnownHead) -> Backfilling:
    """The use case of backfills, for RELATE."""
    from fanfold.follows.backfill import BackfillChannels, Backfilling, NewestPosts

    settings = stores.settings
    channels = BackfillChannels(heads, stores.entries)
    newest = NewestPosts(stores.outbox, settings.retention_days, settings.backfill, channels)
    return Backfilling(newest, _without_retries(settings).entries)


def edges(settings: Settings) -> Edges:
    """The edges as the functions write them: growths are logged and counted."""
    from fanfold.follows.edges import Edges
    from fanfold.follows.levels import Growing, Levels
    from functions._reports import report_growth

    stores, most = _without_retries(settings), settings.max_level
    growing = Growing(Levels(stores.publishers), most, settings.growth_cooldown_ms, report_growth)
    return Edges(stores.edges, growing)


def _without_retries(settings: Settings) -> Stores:
    """Stores for code that retries at its own pace, and so must see every throttle."""
    return Stores(_clients.dynamodb(settings, attempts=1), settings)
