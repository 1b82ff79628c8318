"""Who has paused a queue, since when, until when and why: tags of the queue, one for each person.

A tag is where everybody looks who wonders about the queue, and no restore of a table undoes it. As
each person has their own, two who pause at once overwrite nothing of each other.
"""

from dataclasses import dataclass
from typing import Any

from fanfold import times

PREFIX = "fanfold:paused-by:"
# SQS's limits for a tag, and the characters that it may have beside letters, digits and spaces.
MAX_KEY_CHARS = 128
MAX_VALUE_CHARS = 256
SPECIAL = frozenset(" _.:/=+-@")
NO_END = "-"


@dataclass(frozen=True)
class Pause:
    """Times are texts as `times.to_text` writes them; `until` and `why` may be empty."""

    who: str
    since: str
    until: str
    why: str

    def told(self, now_ms: int) -> str:
        end = ""
        if self.until:
            is_over = times.is_text(self.until) and times.to_ms(self.until) <= now_ms
            end = f" until {self.until}{', which is over' if is_over else ''}"
        why = self.why or "no reason was given"
        return f"by {self.who or 'somebody unknown'} since {self.since}{end}: {why}"


def kept(text: str, most: int) -> str:
    """The text as a tag can keep it."""
    return "".join(char if char.isalnum() or char in SPECIAL else "_" for char in text)[:most]


def who_of(caller: str) -> str:
    """The person as the tag names them; the end of an ARN tells more than its beginning."""
    return kept(caller[-(MAX_KEY_CHARS - len(PREFIX)) :], MAX_KEY_CHARS)


def note(sqs: Any, url: str, pause: Pause) -> None:
    """Note the pause at the queue, in place of an earlier one by the same person."""
    value = kept(f"{pause.since} {pause.until or NO_END} {pause.why}", MAX_VALUE_CHARS).rstrip()
    sqs.tag_queue(QueueUrl=url, Tags={f"{PREFIX}{pause.who}": value})


def noted(sqs: Any, url: str) -> list[Pause]:
    """The pauses that are noted at the queue, the earliest first."""
    tags = sqs.list_queue_tags(QueueUrl=url).get("Tags", {})
    found = [
        _pause(key.removeprefix(PREFIX), value)
        for key, value in tags.items()
        if key.startswith(PREFIX)
    ]
    return sorted(found, key=lambda pause: (pause.since, pause.who))


def forget(sqs: Any, url: str, pauses: list[Pause]) -> None:
    """Take these notes away, but none that was made meanwhile in place of one of them."""
    if pauses and (over := [each for each in noted(sqs, url) if each in pauses]):
        sqs.untag_queue(QueueUrl=url, TagKeys=[f"{PREFIX}{pause.who}" for pause in over])


def _pause(who: str, value: str) -> Pause:
    since, _, rest = value.partition(" ")
    until, _, why = rest.partition(" ")
    return Pause(who, since, "" if until == NO_END else until, why)
