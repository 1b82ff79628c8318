"""The stores of a stage: the only place that says which class uses which table.

A store is made, and its module imported, at its first use: a cold start pays for every import, and
no function uses all stores.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from fanfold.channels.head_table import HeadTable
    from fanfold.channels.known_head import KnownHead
    from fanfold.fanout.ledger import Ledger
    from fanfold.fanout.publishing.post_rate import PostCounts
    from fanfold.follows.edges_table import EdgesTable
    from fanfold.follows.follows_table import FollowsTable
    from fanfold.follows.publisher.privacy import Privacies
    from fanfold.follows.publishers_table import PublishersTable
    from fanfold.rates import Rate
    from fanfold.settings import Settings
    from fanfold.sweep.open_fanouts import OpenFanouts
    from fanfold.timeline.entries import Entries
    from fanfold.timeline.outbox import Outbox
    from fanfold.timeline.posts import Posts
    from fanfold.timeline.readers import Readers


class Stores:
    """All stores of one client. Code whose calls must not retry has its own client and stores."""

    def __init__(self, client: DynamoDBClient, settings: Settings) -> None:
        self.client, self.settings = client, settings

    @cached_property
    def posts(self) -> Posts:
        from fanfold.timeline.posts import Posts

        return Posts(self.client, self.settings.posts_table)

    @cached_property
    def outbox(self) -> Outbox:
        from fanfold.timeline.outbox import Outbox

        return Outbox(self.client, self.settings.posts_table)

    @cached_property
    def entries(self) -> Entries:
        from fanfold.timeline.entries import Entries

        return Entries(self.client, self.settings.timelines_table)

    @cached_property
    def readers(self) -> Readers:
        from fanfold.timeline.readers import Readers

        return Readers(self.client, self.settings.readers_table)

    def follows(self, heads: KnownHead | None = None) -> FollowsTable:
        """The follows; a stage with channels has `heads`."""
        from fanfold.follows.follows_table import FollowsTable

        table, days = self.settings.following_table, self.settings.entry_days
        return FollowsTable(self.client, table, self.readers, days, heads)

    @cached_property
    def edges(self) -> EdgesTable:
        from fanfold.follows.edges_table import EdgesTable

        return EdgesTable(self.client, self.settings.followers_table)

    @cached_property
    def publishers(self) -> PublishersTable:
        from fanfold.follows.publishers_table import PublishersTable

        return PublishersTable(self.client, self.settings.publishers_table)

    @cached_property
    def privacies(self) -> Privacies:
        from fanfold.follows.publisher.privacy import Privacies

        settings = self.settings
        return Privacies(self.client, settings.publishers_table, settings.private_by_default)

    def post_counts(self, rate: Rate) -> PostCounts:
        from fanfold.fanout.publishing.post_rate import PostCounts

        return PostCounts(self.client, self.settings.publishers_table, rate)

    @cached_property
    def heads(self) -> HeadTable:
        from fanfold.channels.head_table import HeadTable

        return HeadTable(self.client, self.settings.publishers_table)

    @cached_property
    def ledger(self) -> Ledger:
        from fanfold.fanout.ledger import Ledger

        return Ledger(self.client, self.settings.fanouts_table)

    @cached_property
    def open_fanouts(self) -> OpenFanouts:
        from fanfold.sweep.open_fanouts import OpenFanouts

        return OpenFanouts(self.client, self.settings.fanouts_table)
