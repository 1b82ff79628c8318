"""What feeds a queue to its worker: an event source mapping, which an operator may have disabled.

The mapping itself is asked, so it does not matter who paused it, by which command or console.
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
    """The event source mappings: their ids by the URL of the queue."""

    client: LambdaClient
    mappings: Mapping[str, str]

    def is_paused(self, queue_url: str) -> bool:
        """Whether the queue's messages are held back; one whose mapping is not known is not."""
        mapping = self.mappings.get(queue_url)
        if not mapping:
            return False
        return self.client.get_event_source_mapping(UUID=mapping)["State"] in PAUSED
