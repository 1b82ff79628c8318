"""`fanfold pause` and `fanfold resume`: stop deliveries, and start them again."""

from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from fanfold import clock, names, times
from fanfold.aws.event_sources import DISABLED, ENABLED
from fanfold_cli.deliveries import pauses
from fanfold_cli.deliveries.pauses import Pause
from fanfold_cli.deliveries.switching import Switching, tagging, word_for
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

HOUR_MS = 60 * 60 * 1000
# SQS keeps waiting messages this long.
MAX_HOURS = 14 * 24.0


class Lane(StrEnum):
    EXPRESS = "express"
    BULK = "bulk"
    ALL = "all"
    PUBLISH = "publish"


LANES = {Lane.ALL: names.PAUSABLE, **{Lane(each.lane): (each,) for each in names.PAUSABLE}}

LaneOption = Annotated[
    Lane,
    typer.Option(
        "--lane",
        help="All, or only this queue: publish (deliveries to few followers, planning of all "
        "others, messages from other services), express (small fan-outs) or bulk (large ones).",
    ),
]


def pause(
    lane: LaneOption = Lane.ALL,
    why: Annotated[str, typer.Option(help="Reason, shown by `--show` and `resume`.")] = "",
    hours: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=MAX_HOURS,
            help="Expected duration, shown by `--show`; nothing resumes by itself.",
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Only show what is paused, by whom and why.")
    ] = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pause deliveries: PLAN and both lanes.

    Posts and messages from other services are still accepted, and wait for at most 14 days.
    """
    if show:
        _show(_read(Deployment.choose(stack, home), lane, DISABLED), as_json=as_json)
        return
    switching = _read(Deployment.to_change(stack, home), lane, DISABLED)
    # A lane that runs is not paused, so earlier notes about it are over.
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
            say(f"{queue.lane} was paused already {earlier.told(now_ms)}.")


def resume(
    lane: LaneOption = Lane.ALL,
    yes: YesOption = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume deliveries; asks if somebody else paused them or the pause is not over."""
    switching = _agreed(Deployment.to_change(stack, home), lane, yes=yes)

    def forget() -> None:
        for queue, found in switching.noted.items():
            for later in pauses.forget(switching.sqs, switching.url(queue), found):
                say(f"{queue.lane} was paused meanwhile {later.told(clock.now_ms())}.")

    _switch(switching, lane, ended=forget)
    _print(switching, as_json=as_json)


def _agreed(deployment: Deployment, lane: Lane, *, yes: bool) -> Switching:
    """What to resume, after the user has agreed.

    If another user pauses while the question is open, it is asked again.
    """
    switching = _read(deployment, lane, ENABLED)
    while True:
        paused = switching.paused()
        for queue in paused:
            say(_told(switching, queue))
        if not (doubt := switching.doubt()):
            return switching
        say(
            f"{doubt} If a table is being restored, posts that are delivered now miss followers, "
            "and nothing records which."
        )
        lanes = ", ".join(queue.lane for queue in paused)
        ask(f"Resume {lanes} anyway?", place=deployment.place, yes=yes)
        if yes:
            return switching
        shown, switching = paused, _read(deployment, lane, ENABLED)
        if switching.paused() == shown:
            return switching
        say("This has changed meanwhile:")


def _read(deployment: Deployment, lane: Lane, wanted: str) -> Switching:
    with failing_with("The lanes cannot be read, so nothing was switched"):
        return Switching(deployment, LANES[lane], wanted, reads_notes=True)


def _switch(
    switching: Switching,
    lane: Lane,
    *,
    noting: Callable[[], None] = lambda: None,
    ended: Callable[[], None] = lambda: None,
) -> None:
    """Switch all lanes and wait for them; after an error or Ctrl-C, say the state of each."""
    again = "Run the command again to keep waiting."
    try:
        with waiting_for(f"Lambda to switch {lane}, which takes a minute"):
            try:
                switching.ask()
            finally:  # some lanes may have been asked
                tagging("noted", noting)
            switching.wait()
            tagging("removed", ended)
    except KeyboardInterrupt:
        say(f"Interrupted: {switching.told()} {again}")
        raise typer.Exit(INTERRUPTED) from None
    except (ClientError, BotoCoreError) as error:
        raise ExpectedError(f"{switching.told()} {again} The error: {error}") from error


def _told(switching: Switching, queue: names.Queue) -> str:
    state = word_for(switching.states[queue])
    if switching.runs(queue):
        return f"{queue.lane} is {state}."
    return f"{queue.lane} is {state}{pauses.told(switching.noted[queue], clock.now_ms())}."


def _show(switching: Switching, *, as_json: bool) -> None:
    if as_json:
        notes = {queue: list(map(asdict, found)) for queue, found in switching.paused().items()}
        lanes = [
            {"lane": queue.lane, "state": state, "pauses": notes.get(queue, [])}
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
