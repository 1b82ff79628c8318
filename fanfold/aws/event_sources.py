"""Event source mappings, which take a queue's messages to its function; operators disable them.

The state is read from Lambda, so it does not matter with which tool a mapping was disabled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

ENABLED = "Enabled"
DISABLED = "Disabled"
PAUSED = frozenset({"Disabling", DISABLED})


@dataclass(frozen=True)
class EventSourceMappings:
    client: LambdaClient
    mappings: Mapping[str, str]  # ids by the URL of the queue

    def is_paused(self, queue_url: str) -> bool:
        """Whether the queue's mapping is disabled; False if no mapping is known."""
        mapping = self.mappings.get(queue_url)
        if not mapping:
            return False
        return self.client.get_event_source_mapping(UUID=mapping)["State"] in PAUSED
