"""The state of a stage as tables, and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fanfold import names, times
from fanfold.channels.head import MOST
from fanfold_cli.deliveries.fanouts import age
from fanfold_cli.health.reading import AUDIT_DAYS
from fanfold_cli.health.verdict import BULK, EXPRESS, PUBLISH, Health, Verdict
from fanfold_cli.terminal import duration, number_table, print_result, print_values, say

UNKNOWN = "not known"
# The ages up to which open deliveries are counted, in seconds; the last column has older ones.
AGES = {"1 min": 60.0, "15 min": 900.0, "1 h": 3_600.0, "older": float("inf")}


def content(health: Health, verdict: Verdict) -> dict[str, Any]:
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


def draw(health: Health, verdict: Verdict) -> None:
    """Print all of it on one screen, the verdict last; what to do goes to stderr."""
    _draw_deliveries(health)
    _draw_queues(health)
    print_values({name: value or UNKNOWN for name, value in _values(health).items()})
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


def _draw_deliveries(health: Health) -> None:
    table = number_table("lane", "open", *AGES, "oldest", "p50", "p99", "in 24 h")
    found, lags = _open(health), health.lags or {}
    for lane in dict.fromkeys((PUBLISH, EXPRESS, BULK, *lags)):
        waits = ["?"] * 6 if found is None else [""] * 6
        if found and lane in found:
            oldest = found[lane]["oldest_seconds"]
            counts = (found[lane]["count"], *found[lane]["by_age"].values())
            waits = [*(f"{each:,}" for each in counts), "" if oldest is None else age(int(oldest))]
        took = ["?"] * 3 if health.lags is None else [""] * 3
        if lag := lags.get(lane):
            took = [duration(lag.p50), duration(lag.p99), f"{lag.posts:,}"]
        table.add_row(lane, *waits, *took)
    print_result(table)


def _draw_queues(health: Health) -> None:
    table = number_table("lane", "waiting", "at work", "delayed", "dead letters", "state")
    for queue in names.QUEUES:
        name, shown = queue.name.lower(), ["?"] * 4
        if health.queues:
            depth = health.queues[name]
            counts = (depth.waiting, depth.at_work, depth.delayed, depth.dead)
            shown = [f"{each:,}" for each in counts]
        state = "?" if health.paused is None else "paused" if name in health.held else "running"
        table.add_row(name, *shown, state if queue in names.PAUSABLE else "")
    print_result(table)


def _values(health: Health) -> dict[str, str]:
    """What is not of one lane; empty if it is not known."""
    shown = ("stalled deliveries", "channels", "throttles", "alarms", "last audit")
    found = dict.fromkeys(shown, "")
    if health.stalled is not None:
        found["stalled deliveries"] = f"{health.stalled:,}"
    if health.channels is not None:
        active, demoted = health.channels
        found["channels"] = f"{active} active and {demoted} demoted, of {MOST}"
    if health.throttles is not None:
        each = (f"{name} {count:,}" for name, count in health.throttles.items())
        found["throttles"] = f"{', '.join(each) or 'none'} in 24 h"
    if health.alarms is not None:
        found["alarms"] = ", ".join(health.alarms) or "none rings"
    if health.throttles is not None:  # other metrics could be read
        found["last audit"] = f"none in {AUDIT_DAYS.days} days"
    if health.audit is not None:
        at = times.to_text(health.audit.at_ms)
        found["last audit"] = f"{at}: {health.audit.missing:,} missing"
    return found
