"""`fanfold seed`: load a follow graph from a file into a stack."""

from pathlib import Path
from typing import Annotated

import typer

from fanfold.follows.relation import Follow
from fanfold_cli.follows import graph, seeding
from fanfold_cli.options import HomeOption, JsonOption, StackOption, YesOption
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ask, counted, interrupted_with, print_json, print_result, say
from fanfold_cli.usage import WrongUsage


def seed(
    edges: Annotated[
        Path,
        typer.Option(
            "--edges",
            exists=True,
            dir_okay=False,
            help="CSV file with the columns publisher and follower, plain or gzipped (.gz).",
        ),
    ],
    backfill: Annotated[
        bool,
        typer.Option(
            "--backfill", help="Also bring each follow of the file its publisher's newest posts."
        ),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PUBLISHER,FOLLOWER",
            help="Continue an interrupted --backfill at this follow.",
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also restore follows that either side has ended.")
    ] = False,
    yes: YesOption = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load a follow graph from a file; the command can be repeated.

    Follows that either side has ended stay ended, unless --again is given. Requests and blocks stay
    as they are; other follows of private publishers count as approved. Unlike a follow through the
    API, it brings no older posts without --backfill.
    """
    if since is not None and not backfill:
        raise WrongUsage("--from continues a --backfill: give both.")
    with interrupted_with("follows that were loaded stay; run it again."):
        with waiting_for(f"{edges} to be read"):
            loaded = graph.read(edges)
            pairs = seeding.in_order(loaded, since) if backfill else []
        deployment = Deployment.to_change(stack, home)
        wanted = seeding.Backfill.of(deployment, len(pairs)) if backfill else None
        if wanted:
            say(wanted.sentence)
            if wanted.price > seeding.UNASKED and not deployment.is_local:
                ask("Bring these older posts?", place=deployment.place, yes=yes)
        left: list[Follow] = []
        new = 0
        if since is None:  # --from means that an earlier run has loaded the follows
            new = seeding.seed(deployment, loaded, again=again, leave=left.append)
        if wanted:
            seeding.order_backfills(deployment, pairs, wanted)
    kept = [row for row in left if row.is_requested or row.is_blocked]
    ended = len(left) - len(kept)
    if as_json:
        ordered = {"backfills": len(pairs)} if wanted else {}
        print_json(
            {"follows": loaded.edges, "new": new, "ended": ended, "kept": len(kept), **ordered}
        )
    elif since is None:
        print_result(f"Loaded {counted(loaded.edges - len(left), 'follow')} ({new:,} new).")
    if kept:
        say(
            f"Left {counted(len(kept), 'follow')} out: a request waits for the publisher's "
            "approval, or one of both blocks the other. --again does not change that."
        )
    if ended:
        say(
            f"Left {counted(ended, 'follow')} ended, by the user or the publisher. "
            "With --again, the same command follows again."
        )
    if wanted:
        ordered_of = counted(len(pairs), "follow")
        say(f"The older posts of {ordered_of} are on their way.")
    elif new:
        say(
            "An import brings no older posts: new followers see what is published from now on. "
            "With --backfill, the same command brings older posts."
        )
