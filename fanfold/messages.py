"""Queue messages, and the commands that our functions send each other.

`functions/_intake.py` has the messages of other services.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self

from fanfold import contract, json_text, names
from fanfold.errors import BadInput
from fanfold.ids import check_id

# An older first time is not believed, because no record tells what was requested since then. SQS
# keeps a message in its queue, and again as long in the dead-letter queue if a worker rejects it.
MAX_FIRST_SENT_MS = 2 * names.QUEUE_DAYS * 24 * 60 * 60 * 1000


def first_sent_at(attribute: str, *, sent_at: int) -> int:
    """When a message was first sent, by its attribute if that can be believed, else `sent_at`."""
    if not (attribute.isascii() and attribute.isdecimal() and len(attribute) <= len(str(sent_at))):
        return sent_at
    first = int(attribute)
    return first if 0 <= sent_at - first <= MAX_FIRST_SENT_MS else sent_at


def first_message_id(attribute: str, *, message_id: str) -> str:
    """A message's first id: its attribute if that can be an id, else its own id."""
    return attribute if re.fullmatch(contract.MESSAGE_ID_PATTERN, attribute) else message_id


def sha256(body: str) -> str:
    """SHA-256 of a body in UTF-8, in hex digits. Half a surrogate pair counts as three bytes."""
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def parse(raw: str) -> dict[str, Any]:
    """Read a message's JSON object, whose version must be known; raises `BadInput`."""
    content = json_text.read(raw, what="The message")
    version = content.get("version")
    if type(version) is not int or version != contract.VERSION:
        raise BadInput(
            "The message's version is not one that is read here; "
            f"send 'version': {contract.VERSION}."
        )
    return content


class Message(NamedTuple):
    content: Mapping[str, Any]
    group: str  # SQS is fair between groups, which are publishers or users
    delay_seconds: int = 0


@dataclass(frozen=True, kw_only=True)
class Command:
    """A message to one of our own workers."""

    type: ClassVar[str]

    def message(self, *, group: str, delay_seconds: int = 0) -> Message:
        content = {"version": contract.VERSION, "type": self.type, **asdict(self)}
        return Message(content, group, delay_seconds)

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        """Read a parsed message; raises `BadInput` if it has another type or other fields."""
        if content.get("type") != cls.type:
            raise BadInput(f"The message is not a '{cls.type}'; send it to the queue of its type.")
        values = {name: value for name, value in content.items() if name not in ("version", "type")}
        wanted = {field.name: field.type for field in fields(cls)}
        if values.keys() != wanted.keys():
            # The sender's text, short and as ASCII: SQS would refuse some characters in a reason.
            odd = ", ".join(ascii(name[:40]) for name in sorted(values.keys() ^ wanted.keys()))
            raise BadInput(
                f"A '{cls.type}' has other fields; missing or unknown: {odd}.", quoted=odd
            )
        for name, kind in wanted.items():
            if kind == "int":
                if type(values[name]) is not int or values[name] < 0:
                    raise BadInput(f"'{name}' is not a whole number of 0 or more.")
            elif not isinstance(values[name], str):
                raise BadInput(f"'{name}' is not a string.")
            elif name.endswith("_id"):
                check_id(values[name], field=name)
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class PlanFanout(Command):
    """Cut an accepted fan-out into segments and send them."""

    type = contract.FANOUT_PLAN
    fanout_id: str


@dataclass(frozen=True, kw_only=True)
class DeliverSegment(Command):
    """Deliver what the ledger says is missing of one segment."""

    type = contract.SEGMENT_DELIVER
    fanout_id: str
    segment: int
    segments: int
    position: str = ""  # tells which of two messages is behind; the ledger says where to begin
    hops: int = 0  # hand-backs without progress


@dataclass(frozen=True, kw_only=True)
class BackfillRelation(Command):
    """Put a publisher's newest posts into the timeline of a user who has just followed it."""

    type = contract.RELATION_BACKFILL
    user_id: str
    publisher_id: str


@dataclass(frozen=True, kw_only=True)
class ReconcileRelation(Command):
    """Make the edges of a user and a publisher agree with the follow's row, and backfill again."""

    type = contract.RELATION_SETTLE
    user_id: str
    publisher_id: str


@dataclass(frozen=True, kw_only=True)
class OpenRequests(Command):
    """Turn the requests that wait for a publisher who went public into follows."""

    type = contract.RELATION_OPEN
    publisher_id: str
    after: str = ""  # the place of the last one in their list that was handled, as `audience` reads
