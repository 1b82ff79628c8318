"""Enable or disable the event source mappings of queues, and wait until that is done."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import clock, names
from fanfold.aws.event_sources import DISABLED, ENABLED, PAUSED
from fanfold_cli.deliveries import pauses
from fanfold_cli.deliveries.pauses import Pause
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError, say

# AWS takes about a minute to enable or disable a mapping, and refuses other changes meanwhile.
PATIENCE_SECONDS = 180.0
POLL_SECONDS = 1.0


def switch(deployment: Deployment, queues: Sequence[names.Queue], wanted: str) -> None:
    """Bring the mappings of the queues to the state `wanted`, and wait."""
    switching = Switching(deployment, queues, wanted)
    switching.ask()
    switching.wait()


class Switching:
    """Brings the event source mappings of some queues to the state `wanted`."""

    def __init__(
        self,
        deployment: Deployment,
        queues: Sequence[names.Queue],
        wanted: str,
        *,
        reads_notes: bool = False,
    ) -> None:
        self.deployment, self.wanted = deployment, wanted
        self.sqs, self.lambda_ = deployment.client("sqs"), deployment.client("lambda")
        self.caller = pauses.who_of(deployment.caller()) if reads_notes else ""
        # Read before the states: a pause is noted after the lane was switched.
        self.noted = {queue: self._noted(queue) for queue in queues if reads_notes}
        mappings = {queue: deployment.event_source_mapping(queue) for queue in queues}
        self.ids = {queue: mapping["UUID"] for queue, mapping in mappings.items()}
        self.before = {queue: mapping["State"] for queue, mapping in mappings.items()}
        self.states = dict(self.before)
        self.unasked = {queue for queue, state in self.before.items() if state != wanted}

    def url(self, queue: names.Queue) -> str:
        return self.deployment.output(queue.url_output)

    def runs(self, queue: names.Queue) -> bool:
        return self.before[queue] not in PAUSED

    def paused(self) -> dict[names.Queue, list[Pause]]:
        """The paused queues with their notes."""
        return {queue: found for queue, found in self.noted.items() if not self.runs(queue)}

    def doubt(self) -> str:
        """Why the caller should think twice before resuming; empty if there is no reason."""
        paused = self.paused().values()
        mine = {self.caller} if self.caller else set()
        if any({each.who for each in found} != mine for found in paused):
            return "Others have paused some of this, or it is not known who has."
        # Two people in one session of a role have one name.
        notes = (each for found in paused for each in found)
        if any(each.until and not each.is_over(clock.now_ms()) for each in notes):
            return "The time of this pause is not over."
        return ""

    def _noted(self, queue: names.Queue) -> list[Pause]:
        found: list[Pause] = []
        tagging("read", lambda: found.extend(pauses.noted(self.sqs, self.url(queue))))
        return found

    def ask(self) -> None:
        """Request the change of every queue that needs it, even if some requests fail."""
        failures: list[ClientError | BotoCoreError] = []
        for queue in [each for each in self.ids if each in self.unasked]:
            try:
                if _request(self.lambda_, self.ids[queue], enabled=self.wanted == ENABLED):
                    self.unasked.discard(queue)
            except (ClientError, BotoCoreError) as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def wait(self) -> None:
        """Wait until all are as wanted.

        Raises `ExpectedError` after `PATIENCE_SECONDS`, or if another command has undone it.
        """
        end, is_pause = time.monotonic() + PATIENCE_SECONDS, self.wanted in PAUSED
        undone = (
            "Another command has resumed meanwhile; run this one again to pause."
            if is_pause
            else "Another command has paused meanwhile: `fanfold pause --show` says who."
        )
        while True:
            self._look()
            if self._is_done():
                self._look(again=True)
                if self._is_done():
                    return
                if any((state in PAUSED) != is_pause for state in self.states.values()):
                    raise ExpectedError(f"{self.told()} {undone}")
            if time.monotonic() > end:
                raise ExpectedError(
                    f"{self.told()} Lambda was waited for {PATIENCE_SECONDS:.0f} s; run the "
                    "command again to keep waiting."
                )
            time.sleep(POLL_SECONDS)
            self.ask()

    def _is_done(self) -> bool:
        return all(state == self.wanted for state in self.states.values())

    def _look(self, *, again: bool = False) -> None:
        """Read the states of the lanes that are not as wanted yet, or `again` of all."""
        for queue, mapping in self.ids.items():
            if again or self.states[queue] != self.wanted:
                self.states[queue] = self.lambda_.get_event_source_mapping(UUID=mapping)["State"]

    def told(self) -> str:
        """The state of each lane, now or when it was last read."""
        with suppress(ClientError, BotoCoreError):
            self._look()
        each = (f"{queue.lane} is {word_for(state)}" for queue, state in self.states.items())
        return f"{', '.join(each)}."

    def content(self, queue: names.Queue) -> dict[str, Any]:
        return {
            "lane": queue.lane,
            "was": self.before[queue],
            "state": self.states[queue],
            "changed": (self.before[queue] in PAUSED) != (self.states[queue] in PAUSED),
        }


def tagging(done: str, change: Callable[[], None]) -> None:
    """Report an error instead of raising it: a lane is switched even if that cannot be noted."""
    try:
        change()
    except (ClientError, BotoCoreError) as error:
        say(f"The notes about pauses cannot be {done} at the queues: {error}")


def word_for(state: str) -> str:
    return {DISABLED: "paused", ENABLED: "running"}.get(state, state)


def _request(lambda_: Any, mapping: str, *, enabled: bool) -> bool:
    """Request the change; return False if AWS refuses because another change is in progress."""
    try:
        lambda_.update_event_source_mapping(UUID=mapping, Enabled=enabled)
    except (
        lambda_.exceptions.ResourceInUseException,
        lambda_.exceptions.ResourceConflictException,
    ):
        return False
    return True
