"""The `fanfold` command: its sub-commands, and one place where expected failures are answered."""

import secrets
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from fanfold_cli import console, graph, seeding
from fanfold_cli.commands import cost, dlq, doctor, fanout, local, pause, shards
from fanfold_cli.commands import demo as demonstration
from fanfold_cli.local import deploy
from fanfold_cli.local.home import Home
from fanfold_cli.options import HomeOption, JsonOption, StackOption
from fanfold_cli.stack import Deployment

app = typer.Typer(
    name="fanfold",
    help="Operate a Fanfold stack, on AWS or on the local engine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(local.app, name="local")
app.add_typer(fanout.app, name="fanout")
app.add_typer(dlq.app, name="dlq")
app.add_typer(shards.app, name="shards")
app.command()(pause.pause)
app.command()(pause.resume)
app.command()(doctor.doctor)
app.command()(cost.cost)


def _version(is_asked: bool) -> None:
    if is_asked:
        console.print_result(f"fanfold {version('fanfold')}")
        raise typer.Exit


@app.callback()
def fanfold(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Operate a Fanfold stack, on AWS or on the local engine."""


@app.command()
def demo(
    home: HomeOption = None,
    followers: Annotated[
        int, typer.Option(min=1, help="Followers of the largest publisher.")
    ] = demonstration.MOST_FOLLOWERS,
    number: Annotated[
        int, typer.Option("--seed", help="Seed of the follow graph.")
    ] = demonstration.SEED,
) -> None:
    """Show the main job on the local engine: follow, publish, deliver, read, and count."""
    deployment = deploy.bring_up(Home.choose(home))
    usual = (followers, number) == (demonstration.MOST_FOLLOWERS, demonstration.SEED)
    tailed = graph.heavy_tailed(
        publishers=demonstration.PUBLISHERS,
        most=followers,
        seed=number,
        # On one engine two graphs would add up, if they had the same publishers.
        prefix="" if usual else f"{number}x{followers}-",
    )
    tag = f"demo-{secrets.token_hex(3)}"
    if not demonstration.run(deployment, tailed, tag=tag):
        raise typer.Exit(1)


@app.command()
def seed(
    edges: Annotated[
        Path,
        typer.Option(
            "--edges",
            exists=True,
            dir_okay=False,
            help="CSV with the columns publisher and follower; .gz is read too.",
        ),
    ],
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load a follow graph; what is there already stays, so it can be repeated."""
    loaded = graph.read(edges)
    new = seeding.seed(Deployment.choose(stack, home=Home.choose(home)), loaded)
    if as_json:
        console.print_json({"follows": loaded.edges, "new": new})
    else:
        console.print_result(f"{loaded.edges:,} follows are there, {new:,} of them new.")


def main() -> None:
    """Run the command line; an expected failure is a sentence and exit code 1, not a traceback."""
    try:
        app()
    except console.ExpectedError as error:
        console.say(str(error))
        sys.exit(1)
