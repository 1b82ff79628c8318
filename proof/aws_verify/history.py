"""Judges the history that the stack has logged during a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from fanfold.history.lines import HISTORY, VERSION, hashed
from fanfold_cli.run.record import Record
from fanfold_cli.run.verdict import Reading
from fanfold_cli.stack import Deployment
from proof.history.told import SKEW_MS, Told, read

# CloudWatch finds only these lines then. The local engine finds all, and the judge skips others.
PATTERN = f"{{ $.{HISTORY} = {VERSION} }}"
# A line may be found this much later. One without the next one would accuse the stack.
LOG_SECONDS = 60.0
# The most events of one answer.
PAGE_EVENTS = 10_000


def logged(deployment: Deployment, *, prefix: str = "", **asked: str) -> Iterator[tuple[str, str]]:
    """Each line of the log groups whose names begin so, with its group."""
    logs = deployment.client("logs")
    groups = {"logGroupNamePrefix": prefix} if prefix else {}
    for found in logs.get_paginator("describe_log_groups").paginate(**groups):
        for name in (group["logGroupName"] for group in found["logGroups"]):
            for event in _events(logs, logGroupName=name, **asked):
                yield name, event["message"]


def _events(logs: Any, **asked: str) -> Iterator[Any]:
    """The events of a log group.

    The local engine says the first 10,000 since a time, and gives no token for the next ones.
    """
    since, token = 0, dict[str, str]()
    while True:
        answer = logs.filter_log_events(startTime=since, **token, **asked)
        events = answer["events"]
        token = {"nextToken": answer["nextToken"]} if "nextToken" in answer else {}
        if token or len(events) < PAGE_EVENTS:
            yield from events
            if not token:
                return
        else:
            # Those of the last millisecond come again, with the ones that were left off.
            before, since = since, events[-1]["timestamp"]
            assert since > before, f"{PAGE_EVENTS:,} events of one millisecond"
            yield from (event for event in events if event["timestamp"] < since)


def history_of(deployment: Deployment, stack: str, *, skew_ms: float = SKEW_MS) -> Told:
    """The history in all log groups of a stack, or of the local engine; raises `BadLine`."""
    prefix = "" if deployment.is_local else f"{stack}-"
    lines = (line for _, line in logged(deployment, prefix=prefix, filterPattern=PATTERN))
    return read([("the log", "\n".join(lines))], skew_ms=skew_ms)


def gaps(told: Told, stage: str, record: Record, readings: Iterable[Reading]) -> list[str]:
    """What callers were answered and a history does not tell, so that nobody may judge it.

    `stage` is the name of the timelines table. A line that was lost may have been an excuse.
    """
    due, found = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()

    def hashes(*ids: str) -> Iterator[str]:
        return (hashed(stage, each) for each in ids)

    for what, asked, lines in (
        ("follow", record.follows, told.follows),
        ("mute", record.mutes, told.mutes),
    ):
        for pair, requests in asked.items():
            due.update((what, *hashes(*pair), str(each.wanted)) for each in requests)
        for pair, answered in lines.items():
            found.update((what, *pair, str(each.follows)) for each in answered if each.is_due)
    due.update(("post", *hashes(ref_id)) for ref_id in record.posts)
    found.update(("post", post) for post in told.posts)
    for reading in readings:
        due["page", *hashes(reading.reader)] += reading.pages
    found.update(("page", page.user) for page in told.pages)
    answers = Counter(what for what, *_ in due.elements())
    lost = Counter(what for what, *_ in (due - found).elements())
    return [
        f"The history lacks {count:,} of {answers[what]:,} answers of the kind '{what}'."
        for what, count in lost.items()
    ]
