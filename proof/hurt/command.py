"""Runs `fanfold demo --hurt` from its beginning to its verdict."""

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

# For a page to fetch the last state before the bridge ends, and for its answer to be on its way.
LAST_LOOK_SECONDS = 20.0
DRAW_SECONDS = 2.0
POLL_SECONDS = 0.1


def run(home: Home, graph: Graph, *, seconds: float, port: int, browser: bool) -> Verdict:
    """Play on a stage of its own, which ends with it; `home` is that of the user's engine."""
    server.check_port(port)
    with (
        opening.ended_by_signals(),
        interrupted_with("the engine of this demo has ended, with all its workers."),
        staged(home_beside(home), graph, seconds=seconds) as stage,
        server.serving(server.Doors(stage.shown.content, stage.act), port=port) as bridge,
    ):
        say(
            f"Watch it at {bridge.address}\nThe script plays by itself; any button takes the wheel."
        )
        stage.story.told = say
        with opening.opened(bridge.address, is_wanted=browser):
            return _played(stage)


def _nothing(_: str) -> None:
    """Say nothing."""


def _played(stage: Stage) -> Verdict:
    with failing_with("The demo stopped", Failed, FanfoldError):
        # Whatever is slow in between is slow because it is hurt: nobody needs to hear of each call.
        with waiting_for("the demo to be played", is_said=True):
            script.play(stage)
        stage.story.told = _nothing  # the verdict is the result
        verdict = stage.count()
    _let_pages_see_it(stage)
    return verdict


def _let_pages_see_it(stage: Stage) -> None:
    """Wait until a page has the verdict, if there is one; it may have been closed."""
    end = clock.monotonic() + LAST_LOOK_SECONDS
    while (served := stage.shown.served) and served.verdict is None and clock.monotonic() < end:
        clock.sleep(POLL_SECONDS)
    if served is not None:
        clock.sleep(DRAW_SECONDS)
