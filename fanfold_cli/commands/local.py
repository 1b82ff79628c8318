"""`fanfold local`: the whole stack on this machine, without AWS and without Docker."""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from fanfold.contract import MAX_ID_CHARS
from fanfold.ids import is_id
from fanfold_cli.console import ExpectedError, print_json, print_result, say
from fanfold_cli.local import deploy, engine
from fanfold_cli.local.home import HOME_VARIABLE, EngineState, Home
from fanfold_cli.options import HomeOption, JsonOption
from fanfold_cli.stack import Deployment

app = typer.Typer(
    help="The whole stack on this machine, without AWS and without Docker.", no_args_is_help=True
)


@app.command()
def up(
    home: HomeOption = None,
    lifetime: Annotated[
        float, typer.Option(min=0.001, help="Hours after which the engine ends by itself.")
    ] = deploy.LIFETIME_HOURS,
    port: Annotated[
        int | None,
        typer.Option(
            min=engine.LOWEST_PORT,
            max=engine.HIGHEST_PORT,
            help="Port on loopback. [default: a free one]",
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw the local data away.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Start the local engine, deploy this app on it, and print what to call."""
    chosen = Home.choose(home)
    deployment = deploy.bring_up(chosen, lifetime_hours=lifetime, port=port, fresh=fresh)
    if as_json:
        print_json(_status(chosen))
        return
    print_result(_table(_status(chosen)))
    command = "fanfold local" if not home else f"{HOME_VARIABLE}={chosen.path} fanfold local"
    print_result(
        "\nTo call it:\n"
        f"  TOKEN=$({command} token --user alice)\n"
        f'  curl -H "Authorization: Bearer $TOKEN" {deployment.api_url}/v1/timeline'
    )


@app.command()
def status(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Say whether the engine runs, and what the stack on it gave out; exit code 1 when not."""
    known = _status(Home.choose(home))
    if as_json:
        print_json(known)
    elif known["running"]:
        print_result(_table(known))
    else:
        say(_why_not_running(Home.choose(home)))
    if not known["running"]:
        raise typer.Exit(1)


@app.command()
def down(home: HomeOption = None) -> None:
    """End the engine and all its processes; its data ends with it."""
    chosen = Home.choose(home)
    if deploy.take_down(chosen):
        say("The engine has ended, and its data with it.")
    else:
        say(f"No engine is running in {chosen.path}.")


@app.command()
def token(
    user: Annotated[str, typer.Option("--user", help="Name of the user; made if need be.")],
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print an access token of a user, alone on stdout."""
    if not is_id(user):
        raise ExpectedError(
            f"--user must be 1 to {MAX_ID_CHARS} letters, digits and _ . : | @ + = -, not {user!r}."
        )
    signed = Deployment.local(Home.choose(home)).sign_in(user)
    if as_json:
        print_json(asdict(signed))
    else:
        typer.echo(signed.token)


def _status(home: Home) -> dict[str, Any]:
    state = home.running()
    known: dict[str, Any] = {"running": state is not None, "home": str(home.path)}
    if state is None:
        return known
    return {
        **known,
        "endpoint": state.endpoint,
        "port": state.port,
        "pid": state.pid,
        "started_at": state.started_at,
        "ends_at": state.ends_at,
        "log": str(home.log),
        "outputs": state.outputs,
    }


def _why_not_running(home: Home) -> str:
    state: EngineState | None = home.read_state()
    if state is None:
        return f"No engine is running in {home.path}: start one with `fanfold local up`."
    return (
        f"The engine that was started at {state.started_at} (process {state.pid}) has ended; its "
        f"log is {home.log}. Start another with `fanfold local up`."
    )


def _table(known: dict[str, Any]) -> Table:
    table = Table(show_header=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name in ("endpoint", "pid", "started_at", "ends_at", "log"):
        table.add_row(name, str(known[name]))
    for name, value in sorted(known["outputs"].items()):
        table.add_row(name, value)
    return table
