"""What a stage chooses is in the environment of the deployed functions, under the name they read.

The values stand here once more, worked out by hand, so that none can take another's place.
"""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from fanfold import names
from fanfold.settings import StageSettings
from infra.functions import run_time_settings
from infra.settings.context import choose
from tests.infra.recorded import STAGES
from tests.infra.template import Template, setting

SENDER = "AROAEXAMPLEID=news-*"
# By context value: what it is changed to, and the variables that it changes, with their values.
CHANGES: dict[str, tuple[str, dict[str, str]]] = {
    "retention_days": ("7", {"RETENTION_DAYS": "7"}),
    "longest_retention_days": ("9", {"LONGEST_RETENTION_DAYS": "9"}),
    "max_follows": ("11", {"MAX_FOLLOWS": "11"}),
    "follows_per_day": ("13", {"FOLLOWS_PER_DAY": "13"}),
    "publishes_per_minute": ("10", {"PUBLISHES_PER_MINUTE": "10"}),
    "channel_threshold": ("19", {"CHANNEL_THRESHOLD": "19"}),
    "backfill": ("23", {"BACKFILL": "23"}),
    "max_level": ("5", {"MAX_LEVEL": "5"}),
    "post_readers": ("publisher", {"POST_READERS": "publisher"}),
    "follower_readers": ("users", {"FOLLOWER_READERS": "users"}),
    "user_claim": ("username", {"USER_CLAIM": "username"}),
    "transport": ("boto3", {"TRANSPORT": "boto3"}),
    "history": ("true", {"HISTORY": "True"}),
    "private_by_default": ("true", {"PRIVATE_BY_DEFAULT": "True"}),
    "senders": (SENDER, {"SENDERS": SENDER}),
    # Of a stage with ROOM: 20,000 write units a second, and so many workers.
    # A quarter of its second at once, and an eighth of its share while it is throttled.
    "publish_concurrency": ("8", {"PUBLISH_SLOWEST_RATE": "312", "PUBLISH_BURST": "625"}),
    "express_concurrency": ("10", {"EXPRESS_SLOWEST_RATE": "250"}),
    # Of 85 %, in equal parts.
    "bulk_concurrency": ("4", {"BULK_WORKER_RATE": "4250", "BULK_SLOWEST_RATE": "531"}),
    "relation_concurrency": ("20", {"RELATION_WORKER_RATE": "100"}),
}
ROOM = {"warm_write_units": "20000", "concurrency": "200"}
# What follows from the write units alone: a quarter of them, and a twentieth at once.
OF_ROOM = {"PUBLISH_WORKER_RATE": "5000", "EXPRESS_WORKER_RATE": "5000", "EXPRESS_BURST": "1000"}
URL = "url"
# What stands for the names of tables and the addresses of queues.
OF_RESOURCES = {URL, *(table.name for table in names.TABLES)}
OF_SWEEP = "_MAPPING"  # which SWEEP alone is told


def environment(**context: str) -> dict[str, str]:
    """The variables of every function in a stage with this context, in a moment."""
    tables: Any = {table: SimpleNamespace(table_name=table.name) for table in names.TABLES}
    url = SimpleNamespace(queue_url=URL)
    queues: Any = {each: SimpleNamespace(queue=url, dead_letters=url) for each in names.QUEUES}
    return run_time_settings(choose(context), tables, queues).to_env()


def test_every_choice_is_deployed_under_the_name_that_functions_read(chosen: Template) -> None:
    told = environment(**STAGES["chosen"])
    told = {name: told[name] for name in told if not name.endswith(OF_SWEEP)}
    found = {name: setting(chosen, name) for name in told}
    made = {name for name, value in found.items() if isinstance(value, dict)}
    assert made == {name for name, value in told.items() if value in OF_RESOURCES}
    assert {name: found[name] for name in found.keys() - made} == {
        name: told[name] for name in told.keys() - made
    }


def test_rates_follow_from_the_write_units() -> None:
    assert OF_ROOM.items() <= environment(**ROOM).items()


@pytest.mark.parametrize("name", CHANGES)
def test_a_choice_changes_its_own_variables_alone(name: str) -> None:
    before, (value, wanted) = environment(**ROOM), CHANGES[name]
    after = environment(**{**ROOM, name: value})
    assert dict(after.items() - before.items()) == wanted


def test_every_setting_of_a_stage_is_among_them() -> None:
    assert {field.name for field in fields(StageSettings)} <= CHANGES.keys()
