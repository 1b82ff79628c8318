"""Judges the history that the stack has logged during a run."""

from __future__ import annotations

from typing import Any

from fanfold.history.lines import HISTORY, VERSION
from fanfold_cli.stack import Deployment
from proof.history.judge import Judged, judge
from proof.history.told import read

# CloudWatch finds only these lines then. The local engine finds all, and the judge skips others.
PATTERN = f"{{ $.{HISTORY} = {VERSION} }}"
# A line may be found this much later. One without the next one would accuse the stack.
LOG_SECONDS = 60.0


def judge_history(deployment: Deployment, stack: str) -> Judged:
    """Judge the lines in all log groups of a stack, or of the local engine; raises `BadLine`."""
    logs = deployment.client("logs")
    groups: dict[str, Any] = {"logGroupNamePrefix": f"{stack}-"}
    events: dict[str, Any] = {"filterPattern": PATTERN}
    if deployment.is_local:
        groups = events = {}
    lines = [
        event["message"]
        for found in logs.get_paginator("describe_log_groups").paginate(**groups)
        for group in found["logGroups"]
        for page in logs.get_paginator("filter_log_events").paginate(
            logGroupName=group["logGroupName"], **events
        )
        for event in page["events"]
    ]
    # A stack of this run has nothing from before; the local engine's may have.
    return judge(read([("the log", "\n".join(lines))]), is_whole=not deployment.is_local)
