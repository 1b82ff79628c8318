"""`fanfold seed`: load a follow graph from a file into a stack."""

from pathlib import Path
from typing import Annotated

import typer

from fanfold.follows.wishes import Follow
from fanfold_cli import graph, seeding
from fanfold_cli.console import counted, interrupted_with, print_json, print_result, say
from fanfold_cli.options import HomeOption, JsonOption, StackOption
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment


def seed(
    edges: Annotated[
        Path,
        typer.Option(
            "--edges",
            exists=True,
            dir_okay=False,
            help="CSV file with the columns publisher and follower; it may be gzipped (.gz).",
        ),
    ],
    backfill: Annotated[
        bool,
        typer.Option(
            "--backfill", help="Bring each follow of the file its publisher's newest posts, too."
        ),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Follow again what users have unfollowed, too.")
    ] = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load a follow graph. Follows that exist already stay, so the command can be repeated.

    What users have unfollowed stays ended, unless --again is given. Unlike a follow by the API, it
    brings no older posts without --backfill.
    """
    with waiting_for(f"{edges} to be read"):
        loaded = graph.read(edges)
    deployment = Deployment.to_change(stack, home)
    with interrupted_with("follows that were loaded stay; run it again."):
        wanted = seeding.Backfill.of(deployment, loaded.edges) if backfill else None
        if wanted:
            say(wanted.sentence)
        left: list[Follow] = []
        new = seeding.seed(deployment, loaded, again=again, leave=left.append)
        if wanted:
            seeding.order_backfills(deployment, loaded, wanted)
    if as_json:
        ordered = {"backfills": loaded.edges} if wanted else {}
        print_json({"follows": loaded.edges, "new": new, "ended": len(left), **ordered})
    else:
        print_result(f"Loaded {counted(loaded.edges - len(left), 'follow')} ({new:,} new).")
    if left:
        say(
            f"Left {counted(len(left), 'follow')} ended: the user has unfollowed. With --again, "
            "the same command follows again."
        )
    if wanted:
        say("Their older posts are ordered: they come in the next moments.")
    elif new:
        say(
            "An import brings no older posts, and new followers see what is published from now on. "
            "With --backfill, the same command brings them."
        )
