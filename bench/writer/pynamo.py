"""The timelines table as a PynamoDB model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

from bench import clients, stub_data


def writer(items: Sequence[dict[str, Any]]) -> Callable[[], None]:
    """Write the items by PynamoDB's `batch_write`."""

    class Timeline(Model):
        class Meta:
            table_name = stub_data.SETTINGS.timelines_table
            region = stub_data.REGION
            host = os.environ["AWS_ENDPOINT_URL_DYNAMODB"]

        user_id = UnicodeAttribute(hash_key=True)
        sort_key = UnicodeAttribute(range_key=True)
        publisher_id = UnicodeAttribute()
        expires_at = NumberAttribute()

    values = clients.plain(items)

    def write() -> None:
        with Timeline.batch_write() as batch:
            for item in values:
                batch.save(Timeline(**item))

    return write
