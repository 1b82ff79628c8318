"""The states of channels that runs reach, in addition to those of `reached.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from fanfold import names
from fanfold.aws.items import get_number, get_text
from fanfold.channels.head import Channel, Head, head_of
from fanfold.fanout.row import ENDED
from proof.simulation.observed.channels import channel_puts, is_channel, is_of_head

if TYPE_CHECKING:
    from proof.simulation.world.scheduler import Task

# As `STATES` there.
STATES: Mapping[str, int] = {
    "channels: a follow refused for its head": 60,
    "channels: a memo": 1_000,
    "channels: a memo refused": 100,
    "channels: the head read again": 100,
    "channels: a window read": 1_000,
    "channels: a window read again": 700,
    "channels: one added by PLAN": 200,
    "channels: one added by hand": 1_000,
    "channels: one added in mid-publish": 80,
    "channels: one demoted": 700,
    "channels: one demoted between a put and its count": 120,
    "channels: one read beyond its window": 500,
    "channels: one read upwards": 300,
    "channels: one removed": 24,
    "channels: one taken up again": 250,
    "channels: planned by another meanwhile": 200,
    "channels: put again by another": 250,
    "channels: the head is full": 350,
    "channels: the head was changed meanwhile": 800,
}

QUERY = "functions.timeline "


class ReachedChannels:
    """The states of channels that one run has reached; `note` counts one."""

    def __init__(self, note: Callable[[str], None], rows: Mapping[str, Any]) -> None:
        self.note = note
        self._rows = rows  # of the ledger, as each was last seen
        self._head = Head()
        self._seen: dict[str, int] = {}  # by reader, to which version of it the row is complete
        self._putters: dict[str, int] = {}  # by sort key, the first task that put the entry
        self._uncounted: dict[str, set[int]] = {}  # by publisher, tasks that have put
        self._windows: set[tuple[str, str]] = set()  # environments, and channels that they read

    def applied(self, operation: str, request: Mapping[str, Any], answer: Any, task: Task) -> None:
        """A call was applied."""
        match operation, request.get("TableName"):
            case "batch_write_item", _:
                for item in channel_puts(request):
                    self._put(item, task)
            case "update_item", names.PUBLISHERS.name if is_of_head(request):
                self._changed(head_of(answer["Attributes"]), task)
            case "update_item", names.READERS.name if _is_memo(request):
                self.note("channels: a memo")
                self._seen[_reader_of(request)] = get_number(_values(request), ":channels_seen")
            case "query", names.TIMELINES.name:
                channel = request["ExpressionAttributeValues"][":owner"]["S"]
                if is_channel(channel):
                    self._queried(channel, request, task)
            case "get_item", names.PUBLISHERS.name if is_of_head(request):
                if request.get("ConsistentRead") and task.environment.startswith(QUERY):
                    self.note("channels: the head read again")

    def rejected(self, request: Mapping[str, Any], task: Task, error: ClientError) -> None:
        """A call was refused, and had no effect."""
        code = error.response["Error"]["Code"]
        if code == "TransactionCanceledException":
            reasons: Any = error.response.get("CancellationReasons", ())
            for each, reason in zip(request["TransactItems"], reasons, strict=True):
                is_refused = reason.get("Code") == "ConditionalCheckFailed"
                if is_refused and self._is_behind(each.get("Update", {})):
                    self.note("channels: a follow refused for its head")
        elif code == "ConditionalCheckFailedException":
            if request["TableName"] == names.READERS.name and _is_memo(request):
                self.note("channels: a memo refused")
            elif request["TableName"] == names.FANOUTS.name and ":by" in _values(request):
                self.note("channels: planned by another meanwhile")
            elif is_of_head(request):
                self.note("channels: the head was changed meanwhile")

    def _is_behind(self, update: Mapping[str, Any]) -> bool:
        """Whether it counts a follow with an older head than that of the reader's row.

        Counts are also refused because the reader follows too many publishers, or too fast.
        """
        newest = _values(update).get(":newest")
        return newest is not None and int(newest["N"]) < self._seen.get(_reader_of(update), 0)

    def _put(self, item: Mapping[str, Any], task: Task) -> None:
        key, publisher = item["sort_key"]["S"], get_text(item, "publisher_id")
        if self._putters.setdefault(key, task.number) != task.number:
            self.note("channels: put again by another")
        self._uncounted.setdefault(publisher, set()).add(task.number)

    def _changed(self, head: Head, task: Task) -> None:
        """The head has changed."""
        before, self._head = self._head, head
        for key, channel in head.channels.items():
            self._moved(before.channels.get(key), channel, task)
        if before.channels.keys() - head.channels.keys():
            self.note("channels: one removed")
        if head.is_full and not before.is_full:
            self.note("channels: the head is full")

    def _moved(self, before: Channel | None, channel: Channel, task: Task) -> None:
        uncounted = self._uncounted.setdefault(channel.publisher_id, set())
        if before is None:
            by_plan = task.name.startswith(names.PLAN.name)
            self.note(f"channels: one added {'by PLAN' if by_plan else 'by hand'}")
            if self._is_publishing(channel.publisher_id) and not by_plan:
                self.note("channels: one added in mid-publish")
        elif before.is_active and not channel.is_active:
            self.note("channels: one demoted")
            if uncounted:
                self.note("channels: one demoted between a put and its count")
        elif channel.is_active and not before.is_active:
            self.note("channels: one taken up again")
        elif channel.seq > before.seq:
            uncounted.discard(task.number)

    def _is_publishing(self, publisher: str) -> bool:
        return any(
            get_text(row, "publisher_id") == publisher and row["state"]["S"] not in ENDED
            for row in self._rows.values()
        )

    def _queried(self, channel: str, request: Mapping[str, Any], task: Task) -> None:
        if request["ScanIndexForward"]:
            self.note("channels: one read upwards")
        elif "ExclusiveStartKey" in request:
            self.note("channels: one read beyond its window")
        elif task.environment.startswith(QUERY):
            window = task.environment, channel
            again = window in self._windows
            self.note(f"channels: a window read{' again' if again else ''}")
            self._windows.add(window)


def _values(request: Mapping[str, Any]) -> Mapping[str, Any]:
    values: Mapping[str, Any] = request.get("ExpressionAttributeValues", {})
    return values


def _reader_of(request: Mapping[str, Any]) -> str:
    return get_text(request["Key"], "user_id")


def _is_memo(request: Mapping[str, Any]) -> bool:
    """Whether an update of a reader's row notes which channels the reader follows."""
    return ":channels_seen" in _values(request)
