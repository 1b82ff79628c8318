"""Runs `fanfold demo --hurt`, from the start to the verdict."""

from __future__ import annotations

from fanfold import clock
from fanfold.errors import FanfoldError
from fanfold_cli.console import opening, server
from fanfold_cli.console.views import Verdict
from fanfold_cli.follows.graph import Graph
from fanfold_cli.local.home import Home
from fanfold_cli.progress import waiting_for
from fanfold_cli.terminal import failing_with, interrupted_with, say
from fanfold_client import Failed
from proof.hurt import script
from proof.hurt.building import home_beside, staged
from proof.hurt.stage import Stage

# For a page to get the last state before the bridge ends.
LAST_LOOK_SECONDS = 20.0
DRAW_SECONDS = 2.0
POLL_SECONDS = 0.1


def run(home: Home, graph: Graph, *, seconds: float, port: int, browser: bool) -> Verdict:
    """Run the demo on a separate stage, which it removes; `home` is the user's engine's."""
    server.check_port(port)
    with (
        opening.ended_by_signals(),
        interrupted_with("the engine of this demo has ended, with all its workers."),
        staged(home_beside(home), graph, seconds=seconds) as stage,
        server.serving(server.Doors(stage.shown.content, stage.act), port=port) as bridge,
    ):
        say(f"Watch it at {bridge.address}\nThe script runs by itself; any button takes over.")
        stage.story.told = say
        with opening.opened(bridge.address, is_wanted=browser):
            return _played(stage)


def _played(stage: Stage) -> Verdict:
    with failing_with("The demo stopped", Failed, FanfoldError):
        # Calls are slow because of the faults, so their notices are silenced.
        with waiting_for("the demo to be played", is_said=True):
            script.play(stage)
        stage.story.told = lambda _: None  # the verdict is the result
        verdict = stage.count()
    _let_pages_see_it(stage)
    return verdict


def _let_pages_see_it(stage: Stage) -> None:
    """Wait until a page has got the verdict, or a while if it was closed."""
    end = clock.monotonic() + LAST_LOOK_SECONDS
    while (served := stage.shown.served) and served.verdict is None and clock.monotonic() < end:
        clock.sleep(POLL_SECONDS)
    if served is not None:
        clock.sleep(DRAW_SECONDS)
