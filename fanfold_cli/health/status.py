"""`fanfold status`: what a stage owes now, and whether everything is well."""

from collections.abc import Iterator
from dataclasses import asdict, astuple
from typing import Any

import typer

from fanfold import names, times
from fanfold.channels.head import MOST
from fanfold_cli.health.cloudwatch import AUDIT_DAYS
from fanfold_cli.health.reading import Reading
from fanfold_cli.health.verdict import (
    BULK,
    EXPRESS,
    NOT_KNOWN,
    PUBLISH,
    Health,
    Verdict,
    verdict_on,
)
from fanfold_cli.options import HomeOption, JsonOption, StackOption
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import (
    ExpectedError,
    duration,
    number_table,
    print_json,
    print_result,
    print_values,
    say,
)

# The ages up to which open deliveries are counted, in seconds; the last column has older ones.
AGES = {"1 min": 60.0, "15 min": 900.0, "1 h": 3_600.0, "older": float("inf")}


def status(stack: StackOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Say whether everything is well, and show what is owed now.

    Exit code 0: everything is well; 1: it is not; 2: that is not known, as something could not be
    read.
    """
    try:
        deployment = Deployment.choose(stack, home)
    except ExpectedError as error:
        error.exit_code = NOT_KNOWN
        raise
    with waiting_for("the stack"):
        health = Reading(deployment).whole()
    verdict = verdict_on(health)
    if as_json:
        print_json(_content(health, verdict))
    else:
        _draw(health, verdict)
    if verdict.exit_code:
        raise typer.Exit(verdict.exit_code)


def _content(health: Health, verdict: Verdict) -> dict[str, Any]:
    """All that is known, with None for what is not."""
    queues, channels, lags, audit = health.queues, health.channels, health.lags, health.audit
    return {
        "sentence": verdict.sentence,
        "problems": [problem._asdict() for problem in verdict.problems],
        "unread": dict(health.unread),
        "open": _open(health),
        "stalled": health.stalled,
        "queues": queues and {name: asdict(depth) for name, depth in queues.items()},
        "paused": sorted(health.held) if health.paused else None,
        "channels": channels and {"active": channels[0], "demoted": channels[1], "most": MOST},
        "lag_seconds": None if lags is None else {k: lag._asdict() for k, lag in lags.items()},
        "throttles": health.throttles,
        "alarms": health.alarms,
        "last_audit": audit and {"at": times.to_text(audit.at_ms), "missing": audit.missing},
    }


def _draw(health: Health, verdict: Verdict) -> None:
    """Print all of it on one screen, the verdict last; what to do goes to stderr."""
    columns = ("lane", "open", *AGES, "oldest", "p50", "p99", "in 24 h")
    print_result(number_table(columns, _deliveries(health)))
    columns = ("lane", "waiting", "at work", "delayed", "dead letters", "state")
    print_result(number_table(columns, _queues(health)))
    print_values({name: value or "not known" for name, value in _values(health)})
    print_result(verdict.sentence)
    for problem in verdict.problems:
        say(f"{problem.what}: {problem.do}")
    for what, why in health.unread.items():
        say(f"{what} could not be read: {why}")


def _open(health: Health) -> dict[str, Any] | None:
    """The open deliveries of each lane: how many, by age, and the age of the oldest."""
    if health.open is None:
        return None
    found = {}
    for lane in (PUBLISH, EXPRESS, BULK):
        ages = [health.seconds_since(each.accepted_ms) for each in health.open if each.lane == lane]
        counts, below = {}, 0
        for name, most in AGES.items():
            counts[name] = sum(each <= most for each in ages) - below
            below += counts[name]
        oldest = max(ages, default=None)
        found[lane] = {"count": len(ages), "by_age": counts, "oldest_seconds": oldest}
    return found


def _deliveries(health: Health) -> Iterator[list[str]]:
    found, lags = _open(health), health.lags or {}
    for lane in dict.fromkeys((PUBLISH, EXPRESS, BULK, *lags)):
        waits = ["?"] * 6 if found is None else [""] * 6
        if found and lane in found:
            oldest = found[lane]["oldest_seconds"]
            counts = (found[lane]["count"], *found[lane]["by_age"].values())
            waits = [f"{each:,}" for each in counts]
            waits.append("" if oldest is None else duration(int(oldest)))
        took = ["?"] * 3 if health.lags is None else [""] * 3
        if lag := lags.get(lane):
            took = [duration(lag.p50), duration(lag.p99), f"{lag.posts:,}"]
        yield [lane, *waits, *took]


def _queues(health: Health) -> Iterator[list[str]]:
    for queue in names.QUEUES:
        name, shown = queue.lane, ["?"] * 4
        if health.queues:
            shown = [f"{each:,}" for each in astuple(health.queues[name])]
        state = "?" if health.paused is None else "paused" if name in health.held else "running"
        yield [name, *shown, state if queue in names.PAUSABLE else ""]


def _values(health: Health) -> Iterator[tuple[str, str | None]]:
    """What is not of one lane; None if it is not known."""
    channels, throttles, audit = health.channels, health.throttles, health.audit
    yield "stalled deliveries", None if health.stalled is None else f"{health.stalled:,}"
    yield "channels", channels and f"{channels[0]} active and {channels[1]} demoted, of {MOST}"
    each = [f"{name} {count:,}" for name, count in (throttles or {}).items()]
    yield "throttles", None if throttles is None else f"{', '.join(each) or 'none'} in 24 h"
    alarms = health.alarms
    yield "alarms", None if alarms is None else ", ".join(alarms) or "none rings"
    # Without an audit, it is known whether there was one if other metrics could be read.
    none = None if throttles is None else f"none in {AUDIT_DAYS.days} days"
    found = audit and f"{times.to_text(audit.at_ms)}: {audit.missing:,} missing"
    yield "last audit", found or none
