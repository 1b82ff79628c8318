"""Watches deliveries: one until it ends, or many until nothing arrives for a time."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fanfold import clock, names
from fanfold.fanout.row import COMPLETE, ENDED, STALLED
from fanfold.sweep.silence import SILENCE_SECONDS
from fanfold_cli.progress import progress_bar
from fanfold_cli.terminal import say

POLL_SECONDS = 0.5
# A message is received again this long after a failed run, in the slowest queue.
AGAIN_SECONDS = max(queue.visibility_seconds for queue in names.QUEUES)
# SWEEP resends a fan-out that was silent for `SILENCE_SECONDS`, which is longer than
# `AGAIN_SECONDS`. Its next run begins within a minute and ends within another; then DELIVER runs.
DELIVERY_SECONDS = SILENCE_SECONDS + 2 * 60.0 + names.DELIVER.seconds
# People wonder about a longer pause.
QUIET_SECONDS = 15.0

T = TypeVar("T")


def until_ended(
    read: Callable[[], T], as_told: Callable[[T], Mapping[str, Any]], *, seconds: float = math.inf
) -> T:
    """Show a progress bar until the delivery ends or stalls, or the `seconds` are over.

    `as_told` returns the delivery as the API answers it.
    """
    end = clock.monotonic() + seconds
    with progress_bar("Delivering", total=None, unit="entries") as bar:
        while True:
            told = as_told(found := read())
            # Until it is complete, the total is an estimate; then the bar must be full.
            which = "delivered" if told["state"] == COMPLETE else "followers_estimated"
            bar.reach(told["delivered"], total=told[which])
            left = end - clock.monotonic()
            if told["state"] in (*ENDED, STALLED) or left <= 0:
                return found
            clock.sleep(min(POLL_SECONDS, left))


@dataclass
class IdleTimeout:
    """The time since the last progress; in each long pause, says once why it waits."""

    seconds: float  # without progress, until it is over
    since: float = field(default_factory=lambda: clock.monotonic())
    is_said: bool = False

    def progressed(self) -> None:
        self.since, self.is_said = clock.monotonic(), False

    def is_over(self) -> bool:
        quiet = clock.monotonic() - self.since
        if quiet >= QUIET_SECONDS and not self.is_said:
            self.is_said = True
            say(
                f"Nothing has arrived for {quiet:.0f} s. A message whose run failed is received "
                f"again after {AGAIN_SECONDS} s, and SWEEP resends what was lost, so this waits "
                f"for up to {self.seconds:,.0f} s."
            )
        return quiet > self.seconds
