"""What the functions are told at run time."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from fanfold import names
from fanfold.settings import Settings, StageSettings

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
    chosen = {field.name: getattr(stage, field.name) for field in fields(StageSettings)}
    budget = stage.budget
    return Settings(
        **physical,
        **chosen,
        senders=",".join(stage.senders),
        publish_worker_rate=budget.publish.worker_rate,
        publish_slowest_rate=budget.publish.slowest_rate,
        publish_burst=budget.publish_burst,
        express_worker_rate=budget.express.worker_rate,
        express_slowest_rate=budget.express.slowest_rate,
        express_burst=budget.express_burst,
        bulk_worker_rate=budget.bulk.worker_rate,
        bulk_slowest_rate=budget.bulk.slowest_rate,
        relation_worker_rate=budget.relation.worker_rate,
    )
