"""`fanfold pause` and `fanfold resume`: stop deliveries, and start them again."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError

from fanfold import clock, names, times
from fanfold.aws.event_sources import DISABLED, ENABLED, PAUSED
from fanfold_cli.deliveries import pauses
from fanfold_cli.deliveries.pauses import Pause
from fanfold_cli.options import HomeOption, JsonOption, StackOption, YesOption
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import (
    INTERRUPTED,
    ExpectedError,
    ask,
    failing_with,
    print_json,
    print_result,
    say,
)

# AWS takes about a minute to enable or disable a mapping, and refuses other changes meanwhile.
PATIENCE_SECONDS = 180.0
POLL_SECONDS = 1.0
HOUR_MS = 60 * 60 * 1000
# As long as SQS keeps what waits.
MAX_HOURS = 14 * 24.0


class Lane(StrEnum):
    EXPRESS = "express"
    BULK = "bulk"
    ALL = "all"
    PUBLISH = "publish"


LANES = {
    Lane.EXPRESS: (names.EXPRESS,),
    Lane.BULK: (names.BULK,),
    # PLAN delivers to few followers by itself, and sends the rest to the two lanes.
    Lane.PUBLISH: (names.PUBLISH,),
    Lane.ALL: names.PAUSABLE,
}

LaneOption = Annotated[
    Lane,
    typer.Option(
        "--lane",
        help="One queue instead of all: publish, where few followers are delivered to at once, "
        "all other posts are planned, and messages of other services arrive; express, for the "
        "rest of small fan-outs; or bulk, for large ones.",
    ),
]


def pause(
    lane: LaneOption = Lane.ALL,
    why: Annotated[
        str, typer.Option(help="The reason, which `--show` and `resume` tell others.")
    ] = "",
    hours: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=MAX_HOURS,
            help="For how long, as `--show` tells; nothing resumes by itself.",
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Only read: what is paused, by whom and why.")
    ] = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop delivering: PLAN and both lanes.

    Posts are still accepted and wait, for 14 days at most; so do messages of other services.
    """
    if show:
        _show(_read(Deployment.choose(stack, home), lane, DISABLED), as_json=as_json)
        return
    switching = _read(Deployment.to_change(stack, home), lane, DISABLED)
    # What was noted before, and did not keep the lane from running, is over.
    over = [queue for queue in switching.states if switching.runs(queue)]
    now_ms = clock.now_ms()
    until = "" if hours is None else times.to_text(now_ms + round(hours * HOUR_MS))
    mine = Pause(switching.caller, times.to_text(now_ms), until, why)

    def note() -> None:
        for queue, found in switching.noted.items():
            noted = mine
            if queue in over:
                pauses.forget(switching.sqs, switching.url(queue), found)
            else:
                for earlier in (each for each in found if each.who == mine.who):
                    noted = mine.joined(earlier, now_ms)
            pauses.note(switching.sqs, switching.url(queue), noted)

    _switch(switching, lane, noting=note)
    _print(switching, as_json=as_json)
    for queue, found in switching.noted.items():
        for earlier in found if queue not in over else ():
            say(f"{_name(queue)} was paused already {earlier.told(now_ms)}.")


def resume(
    lane: LaneOption = Lane.ALL,
    yes: YesOption = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start delivering again, also what waited; asks if a pause is another's or not over."""
    switching = _agreed(Deployment.to_change(stack, home), lane, yes=yes)

    def forget() -> None:
        for queue, found in switching.noted.items():
            for later in pauses.forget(switching.sqs, switching.url(queue), found):
                say(f"{_name(queue)} was paused meanwhile {later.told(clock.now_ms())}.")

    _switch(switching, lane, ended=forget)
    _print(switching, as_json=as_json)


def _agreed(deployment: Deployment, lane: Lane, *, yes: bool) -> "Switching":
    """What to resume, once the user has agreed to it as it is.

    Others may pause while the question is open; then it is asked again.
    """
    switching = _read(deployment, lane, ENABLED)
    while True:
        paused = switching.paused()
        for queue in paused:
            say(_told(switching, queue))
        if not (doubt := switching.doubt()):
            return switching
        say(
            f"{doubt} Where a table is being restored, posts that are delivered now miss "
            "followers, and nothing tells which."
        )
        names_of = ", ".join(map(_name, paused))
        ask(f"Resume {names_of} all the same?", place=deployment.place, yes=yes)
        if yes:
            return switching
        shown, switching = paused, _read(deployment, lane, ENABLED)
        if switching.paused() == shown:
            return switching
        say("This has changed meanwhile:")


def _read(deployment: Deployment, lane: Lane, wanted: str) -> "Switching":
    with failing_with("The lanes cannot be read, so nothing was switched"):
        return Switching(deployment, LANES[lane], wanted, reads_notes=True)


def _switch(
    switching: "Switching",
    lane: Lane,
    *,
    noting: Callable[[], None] = lambda: None,
    ended: Callable[[], None] = lambda: None,
) -> None:
    """Ask all lanes, then wait for them; on any other end, say how each of them is."""
    again = "Run the command again to keep waiting."
    try:
        with waiting_for(f"Lambda to switch {lane}, which takes a minute"):
            try:
                switching.ask()
            finally:  # some lanes may have been asked
                _tagging("noted", noting)
            switching.wait()
            _tagging("taken away", ended)
    except KeyboardInterrupt:
        say(f"Interrupted: {switching.told()} {again}")
        raise typer.Exit(INTERRUPTED) from None
    except (ClientError, BotoCoreError) as error:
        raise ExpectedError(f"{switching.told()} {again} The error: {error}") from error


def _tagging(done: str, change: Callable[[], None]) -> None:
    """A pause that cannot be noted is a pause all the same: it must not fail for that."""
    try:
        change()
    except (ClientError, BotoCoreError) as error:
        say(f"Who pauses, and why, cannot be {done} at the queues: {error}")


def switch(deployment: Deployment, queues: Sequence[names.Queue], wanted: str) -> None:
    """Bring the event source mappings of the queues to the state `wanted`, and wait for them."""
    switching = Switching(deployment, queues, wanted)
    switching.ask()
    switching.wait()


class Switching:
    """The event source mappings of some queues, on their way to the state `wanted`."""

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
        # Before the states: who notes a pause has asked for it before.
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
        """The queues that are paused, each with who has noted that."""
        return {queue: found for queue, found in self.noted.items() if not self.runs(queue)}

    def doubt(self) -> str:
        """Why the caller should think twice before resuming; empty if nothing speaks against it."""
        paused = self.paused().values()
        mine = {self.caller} if self.caller else set()
        if any({each.who for each in found} != mine for found in paused):
            return "You did not pause all of this, or not alone."
        # Two people in one session of a role have one name.
        notes = (each for found in paused for each in found)
        if any(each.until and not each.is_over(clock.now_ms()) for each in notes):
            return "The time of this pause is not over."
        return ""

    def _noted(self, queue: names.Queue) -> list[Pause]:
        found: list[Pause] = []
        _tagging("read", lambda: found.extend(pauses.noted(self.sqs, self.url(queue))))
        return found

    def ask(self) -> None:
        """Ask for the change of every queue that needs it, whether or not others can be asked."""
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
        """Until all are as wanted; raises `ExpectedError` when the patience is over.

        Or if another command has switched some back, or what was as wanted from the beginning.
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
        """Read the states of the lanes that were not as wanted yet, or `again` of all."""
        for queue, mapping in self.ids.items():
            if again or self.states[queue] != self.wanted:
                self.states[queue] = self.lambda_.get_event_source_mapping(UUID=mapping)["State"]

    def told(self) -> str:
        """How each lane is now, or was when it was last seen."""
        with suppress(ClientError, BotoCoreError):
            self._look()
        each = (f"{_name(queue)} is {_word(state)}" for queue, state in self.states.items())
        return f"{', '.join(each)}."

    def content(self, queue: names.Queue) -> dict[str, Any]:
        return {
            "lane": _name(queue),
            "was": self.before[queue],
            "state": self.states[queue],
            "changed": (self.before[queue] in PAUSED) != (self.states[queue] in PAUSED),
        }


def _name(queue: names.Queue) -> str:
    return queue.name.lower()


def _word(state: str) -> str:
    return {DISABLED: "paused", ENABLED: "running"}.get(state, state)


def _told(switching: Switching, queue: names.Queue) -> str:
    state = _word(switching.states[queue])
    if switching.runs(queue):
        return f"{_name(queue)} is {state}."
    return f"{_name(queue)} is {state}{pauses.told(switching.noted[queue], clock.now_ms())}."


def _show(switching: Switching, *, as_json: bool) -> None:
    if as_json:
        notes = {queue: list(map(asdict, found)) for queue, found in switching.paused().items()}
        lanes = [
            {"lane": _name(queue), "state": state, "pauses": notes.get(queue, [])}
            for queue, state in switching.states.items()
        ]
        print_json({"lanes": lanes})
        return
    for queue in switching.states:
        print_result(_told(switching, queue))


def _print(switching: Switching, *, as_json: bool) -> None:
    done = [switching.content(queue) for queue in switching.states]
    if as_json:
        print_json({"lanes": done})
        return
    verb = "paused" if switching.wanted == DISABLED else "running"
    for each in done:
        was = f"is {verb} now" if each["changed"] else f"was {verb} already"
        print_result(f"{each['lane']} {was}.")


def _request(lambda_: Any, mapping: str, *, enabled: bool) -> bool:
    """Request the change; return False if AWS refuses it because another one is in progress."""
    try:
        lambda_.update_event_source_mapping(UUID=mapping, Enabled=enabled)
    except (
        lambda_.exceptions.ResourceInUseException,
        lambda_.exceptions.ResourceConflictException,
    ):
        return False
    return True
