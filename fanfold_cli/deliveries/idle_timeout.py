"""An idle timeout: a wait for deliveries ends once nothing has progressed for so long."""

from dataclasses import dataclass, field

from fanfold import clock, names
from fanfold.sweep.silence import SILENCE_SECONDS
from fanfold_cli.terminal import say

# When a message comes again whose run failed or met no answer: the longest of all queues.
AGAIN_SECONDS = max(queue.visibility_seconds for queue in names.QUEUES)
# SWEEP asks about a fan-out that was silent for so long, which is longer than `AGAIN_SECONDS`. Its
# next run begins within a minute and ends within another, and the order that it sends takes one.
DELIVERY_SECONDS = SILENCE_SECONDS + 2 * 60.0 + names.DELIVER.seconds
# A pause that people wonder about.
QUIET_SECONDS = 15.0


@dataclass
class IdleTimeout:
    """Since when nothing has progressed; says once in each long pause what is waited for."""

    seconds: float  # after so many without progress, it is over
    since: float = field(default_factory=lambda: clock.monotonic())
    is_said: bool = False

    def progressed(self) -> None:
        self.since, self.is_said = clock.monotonic(), False

    def is_over(self) -> bool:
        quiet = clock.monotonic() - self.since
        if quiet >= QUIET_SECONDS and not self.is_said:
            self.is_said = True
            say(
                f"Nothing has come for {quiet:.0f} s. A message whose run failed comes again "
                f"{AGAIN_SECONDS} s after it was received, and SWEEP looks for what was lost, so "
                f"this waits for up to {self.seconds:,.0f} s."
            )
        return quiet > self.seconds
