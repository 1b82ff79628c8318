"""`fanfold console`: a page on this machine that shows deliveries, queues and readers."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Annotated

import typer

from fanfold_cli.console import opening, server
from fanfold_cli.console.operating import Operator
from fanfold_cli.console.watching import READERS, Refreshing, Watching, first_state
from fanfold_cli.local.home import Home
from fanfold_cli.options import BrowserOption, HomeOption, JsonOption, PortOption, StackOption
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import has_terminal, interrupted_with, print_json, print_result, say
from fanfold_cli.users.acting import checked_user


def console(
    stack: StackOption = None,
    home: HomeOption = None,
    operate: Annotated[
        bool,
        typer.Option(
            "--operate", help="Let the page change a stack on AWS; it confirms each change first."
        ),
    ] = False,
    reader: Annotated[
        list[str] | None,
        typer.Option(
            metavar="USER",
            help=f"Show the timeline of this user, signed in like `token`; up to {READERS} users.",
        ),
    ] = None,
    port: PortOption = 0,
    browser: BrowserOption = True,
    as_json: JsonOption = False,
) -> None:
    """Open a page that shows deliveries, queues and timelines live."""
    for user in reader or ():
        checked_user(user, "--reader")
    deployment = Deployment.choose(stack, home)
    may_change = operate or deployment.is_local
    target = ("--stack", stack) if stack else ("--home", str(Home.choose(home).path))
    watching = Watching(deployment, reader or ())
    shown = Refreshing(
        first_state(deployment, may_operate=may_change), watching.read, watching.look_up
    )
    operator = Operator(deployment.place, target, may_change)
    doors = server.Doors(shown.content, operator.act)
    with (
        opening.ended_by_signals(),
        interrupted_with("the page has ended; the stack goes on."),
        server.serving(doors, port=port) as bridge,
        closing(operator),
    ):
        if as_json:
            print_json({"address": bridge.address})
        else:
            print_result(bridge.address)
        say("Keep the address secret: it opens this page. Ctrl-C ends it.")
        with opening.opened(bridge.address, is_wanted=browser and has_terminal()):
            threading.Event().wait()
