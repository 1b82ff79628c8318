"""What the functions are told at run time."""

from collections.abc import Mapping
from typing import Any

from fanfold import names
from fanfold.settings import Settings

from .stages import Stage
from .tables import HouseTable
from .work_queue import WorkQueue


def run_time_settings(
    stage: Stage, tables: Mapping[names.Table, HouseTable], queues: Mapping[names.Queue, WorkQueue]
) -> Settings:
    """The settings of every function."""
    physical: dict[str, Any] = {
        table.setting: placed.table_name for table, placed in tables.items()
    }
    for queue, work in queues.items():
        physical[queue.url_setting] = work.queue.queue_url
        physical[queue.dlq_url_setting] = work.dead_letters.queue_url
    budget = stage.budget
    return Settings(
        **physical,
        transport=stage.transport,
        publish_worker_rate=budget.publish.worker_rate,
        publish_slowest_rate=budget.publish.slowest_rate,
        publish_burst=budget.publish_burst,
        express_worker_rate=budget.express.worker_rate,
        express_slowest_rate=budget.express.slowest_rate,
        express_burst=budget.express_burst,
        bulk_worker_rate=budget.bulk.worker_rate,
        bulk_slowest_rate=budget.bulk.slowest_rate,
        relation_worker_rate=budget.relation.worker_rate,
        user_claim=stage.user_claim,
        senders=",".join(stage.senders),
        post_readers=stage.post_readers,
        follower_readers=stage.follower_readers,
        retention_days=stage.retention_days,
        longest_retention_days=stage.longest_retention_days,
        max_follows=stage.max_follows,
        publishes_per_minute=stage.publishes_per_minute,
        follows_per_day=stage.follows_per_day,
        channel_threshold=stage.channel_threshold,
        backfill=stage.backfill,
        max_level=stage.max_level,
    )
