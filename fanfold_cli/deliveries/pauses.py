"""Which lanes are paused, by whom, since when, until when and why, as tags of their queues.

Everybody who examines a queue sees its tags, and no restore of a table undoes them. Each person has
their own tag, so two who pause at once do not overwrite each other.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import names, times
from fanfold.aws.event_sources import PAUSED
from fanfold_cli.stack import Deployment

PREFIX = "fanfold:paused-by:"
# SQS's limits of a tag: its lengths, and its characters besides letters and digits.
MAX_KEY_CHARS = 128
MAX_VALUE_CHARS = 256
SPECIAL = frozenset(" _.:/=+-@")
NO_END = "-"
AND = " + "  # between the reasons of one person
WHAT_TO_DO = (
    "Run `fanfold pause --show` to see this again, and `fanfold resume` only if the pause is yours "
    "or its time is over."
)


@dataclass(frozen=True)
class Pause:
    """Times are texts as `times.to_text` writes them; `until` and `why` may be empty."""

    who: str
    since: str
    until: str
    why: str

    def is_over(self, now_ms: int) -> bool:
        return times.is_text(self.until) and times.to_ms(self.until) <= now_ms

    def told(self, now_ms: int) -> str:
        is_over = ", which is over" if self.is_over(now_ms) else ""
        end = f" until {self.until}{is_over}" if self.until else ""
        why = self.why or "no reason was given"
        return f"by {self.who or 'somebody unknown'} since {self.since}{end}: {why}"

    def joined(self, earlier: "Pause", now_ms: int) -> "Pause":
        """Join an earlier pause to this one, unless it is over: all reasons, and the later end.

        A name has one note, and all people in one session of a role have the same name.
        """
        if earlier.is_over(now_ms):
            return self
        whys = [*earlier.why.split(AND), kept(self.why, MAX_VALUE_CHARS).strip()]
        why = AND.join(dict.fromkeys(filter(None, whys)))
        return replace(self, until=max(earlier.until, self.until), why=why)


@dataclass(frozen=True)
class PausedLane:
    lane: str
    pauses: tuple[Pause, ...] | None  # None if the notes could not be read


@dataclass(frozen=True)
class Paused:
    """The paused lanes, or why they could not be read."""

    lanes: tuple[PausedLane, ...] = ()
    failure: str = ""

    def told(self, now_ms: int) -> str:
        """All pauses, and what to do; empty if nothing is paused."""
        if self.failure:
            whom = "ask somebody who may run `fanfold pause --show`"
            return f"Whether lanes are paused could not be read; {whom}: {self.failure}"
        lanes: dict[tuple[Pause, ...] | None, list[str]] = {}
        for each in self.lanes:
            lanes.setdefault(each.pauses, []).append(each.lane)
        said = [
            f"{', '.join(paused)} {'are' if paused[1:] else 'is'} paused{told(found, now_ms)}."
            for found, paused in lanes.items()
        ]
        return " ".join((*said, WHAT_TO_DO)) if said else ""


def read(deployment: Deployment) -> Paused:
    """Read the paused lanes; errors of AWS, such as a missing permission, become a `failure`.

    Takes one call, and one for each paused lane.
    """
    queues = {queue: deployment.output(queue.url_output) for queue in names.PAUSABLE}
    sqs = deployment.client("sqs")
    try:
        states = _states(deployment.client("lambda"), set(map(_place, queues.values())))
    except (ClientError, BotoCoreError) as error:
        return Paused(failure=str(error))
    paused = ((queue, url) for queue, url in queues.items() if states.get(_place(url)) in PAUSED)
    return Paused(tuple(PausedLane(queue.lane, _noted_or_none(sqs, url)) for queue, url in paused))


def _states(lambda_: Any, wanted: set[str]) -> dict[str, str]:
    """The states of these queues' mappings, from the pages of all mappings of the account."""
    found: dict[str, str] = {}
    page: dict[str, str] | None = {}
    while page is not None and len(found) < len(wanted):
        answer = lambda_.list_event_source_mappings(**page)
        for each in answer["EventSourceMappings"]:
            if (place := _place(each.get("EventSourceArn", ""))) in wanted:
                found[place] = each["State"]
        page = {"Marker": answer["NextMarker"]} if answer.get("NextMarker") else None
    return found


def _place(name: str) -> str:
    """Account and name of a queue: both its URL and its ARN end with them."""
    return ":".join(re.split("[/:]", name)[-2:])


def _noted_or_none(sqs: Any, url: str) -> tuple[Pause, ...] | None:
    try:
        return tuple(noted(sqs, url))
    except (ClientError, BotoCoreError):
        return None


def told(found: Sequence[Pause] | None, now_ms: int) -> str:
    """The notes about a pause, as the end of a sentence about what is paused."""
    if found is None:
        return "; who paused, when and why could not be read"
    if not found:
        return "; nobody has noted who paused, when and why"
    return f" {'; and '.join(each.told(now_ms) for each in found)}"


def kept(text: str, most: int) -> str:
    """The text as a tag can store it, `most` characters long."""
    return "".join(char if char.isalnum() or char in SPECIAL else "_" for char in text)[:most]


def who_of(caller: str) -> str:
    """The person's name in the tag: the end of an ARN says more than its beginning."""
    return kept(caller[-(MAX_KEY_CHARS - len(PREFIX)) :], MAX_KEY_CHARS)


def note(sqs: Any, url: str, pause: Pause) -> None:
    """Note the pause at the queue; it replaces an earlier note of the same person (`joined`)."""
    value = kept(f"{pause.since} {pause.until or NO_END} {pause.why}", MAX_VALUE_CHARS).rstrip()
    sqs.tag_queue(QueueUrl=url, Tags={f"{PREFIX}{pause.who}": value})


def noted(sqs: Any, url: str) -> list[Pause]:
    """The pauses noted at the queue, earliest first."""
    tags = sqs.list_queue_tags(QueueUrl=url).get("Tags", {})
    ours = {key: value for key, value in tags.items() if key.startswith(PREFIX)}
    found = [_pause(key.removeprefix(PREFIX), value) for key, value in ours.items()]
    return sorted(found, key=lambda pause: (pause.since, pause.who))


def forget(sqs: Any, url: str, pauses: list[Pause]) -> list[Pause]:
    """Remove these notes; return the others, such as those that were made meanwhile."""
    found = noted(sqs, url)
    if over := [each for each in found if each in pauses]:
        sqs.untag_queue(QueueUrl=url, TagKeys=[f"{PREFIX}{pause.who}" for pause in over])
    return [each for each in found if each not in pauses]


def _pause(who: str, value: str) -> Pause:
    since, _, rest = value.partition(" ")
    until, _, why = rest.partition(" ")
    return Pause(who, since, "" if until == NO_END else until, why)
