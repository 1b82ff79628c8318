"""The settings of simulated stages: tables and queues have the names of their constructs."""

from __future__ import annotations

from typing import Any

from fanfold import names
from fanfold.settings import Settings
from fanfold.stores import Stores


def settings(queues_url: str = "", **changed: Any) -> Settings:
    """Settings with queues below this URL; those that are not `changed` have their defaults."""
    tables = {table.setting: table.name for table in names.TABLES}
    queues = {queue.url_setting: f"{queues_url}/{queue.name}" for queue in names.QUEUES}
    dlqs = {queue.dlq_url_setting: f"{queues_url}/{queue.name}Dlq" for queue in names.QUEUES}
    return Settings(**{**tables, **queues, **dlqs, **changed})


def stores(client: Any) -> Stores:
    return Stores(client, settings())
