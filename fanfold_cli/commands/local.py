"""`fanfold local`: the whole stack on this machine, without AWS and without Docker."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from fanfold import names
from fanfold_cli import aws
from fanfold_cli.local import context, deploy, engine
from fanfold_cli.local.home import HOME_VARIABLE, Home
from fanfold_cli.options import ContextOption, HomeOption, JsonOption
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import print_json, print_result, print_values, say

# Without AWS_CONFIG_FILE and the like: a shell serves other purposes too.
SHELL_VARIABLES = (
    "AWS_ENDPOINT_URL",
    "AWS_DEFAULT_REGION",
    "AWS_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
)

app = typer.Typer(
    help="Run the whole stack on this machine, without AWS or Docker.", no_args_is_help=True
)


@app.command()
def up(
    home: HomeOption = None,
    lifetime: Annotated[
        float, typer.Option(min=0.001, help="Hours until the engine ends by itself.")
    ] = deploy.LIFETIME_HOURS,
    port: Annotated[
        int | None,
        typer.Option(
            min=engine.LOWEST_PORT,
            max=engine.HIGHEST_PORT,
            help=r"Loopback port. \[default: a free one]",
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="First delete local data and earlier -c values.")
    ] = False,
    app_directory: Annotated[
        Path | None,
        typer.Option(
            "--app",
            file_okay=False,
            exists=True,
            resolve_path=True,
            help="Directory of a CDK app with a FollowTimeline, to deploy instead of this one.",
        ),
    ] = None,
    values: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start the local engine, deploy this app to it, and print how to call it.

    Values of -c last until the engine ends; -c NAME= removes one.
    """
    given = context.read(values or (), example="backfill=10")
    chosen = Home.choose(home)
    deployment = deploy.bring_up(
        chosen, lifetime_hours=lifetime, port=port, fresh=fresh, given=given, foreign=app_directory
    )
    _print(_status(chosen), as_json=as_json)
    if as_json:
        return
    command = "fanfold" if not home else f"{HOME_VARIABLE}={shlex.quote(str(chosen.path))} fanfold"
    print_result(
        "\nTo call it:\n"
        f"  TOKEN=$({command} token --user alice)\n"
        f'  curl -H "Authorization: Bearer $TOKEN" {deployment.api_url}/v1/timeline'
    )


@app.command()
def status(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show the engine and the outputs of its stack; exit code 1 if no engine is running."""
    chosen = Home.choose(home)
    known = _status(chosen)
    if known["running"] or as_json:
        _print(known, as_json=as_json)
    else:
        say(_why_not_running(chosen))
    if not known["running"]:
        raise typer.Exit(1)


@app.command()
def down(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Stop the engine and delete its data."""
    chosen = Home.choose(home)
    has_ended = deploy.take_down(chosen)
    if as_json:
        print_json({"ended": has_ended, "home": str(chosen.path)})
    elif has_ended:
        say("The engine has ended, and its data is deleted.")
    else:
        say(f"No engine is running in {chosen.path}.")


@app.command()
def env(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Print shell variables for calling the engine: `eval "$(fanfold local env)"`."""
    variables = _environment(Deployment.local(Home.choose(home)))
    if as_json:
        print_json(variables)
        return
    for name, value in variables.items():
        print_result(f"export {name}={shlex.quote(value)}")


def _environment(deployment: Deployment) -> dict[str, str]:
    """Addresses of the stack for clients and senders, and variables for the AWS CLI and SDKs."""
    assert deployment.endpoint is not None
    known = aws.local_environment(deployment.endpoint)
    return {
        "API": deployment.api_url,
        "PUBLISH_QUEUE_URL": deployment.output(names.PUBLISH.url_output),
        **{name: known[name] for name in SHELL_VARIABLES},
    }


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
        "context": state.context,
        "log": str(home.log),
        "outputs": state.outputs,
    }


def _why_not_running(home: Home) -> str:
    state = home.read_state()
    if state is None:
        return f"No engine is running in {home.path}: start one with {home.command('up')}."
    return (
        f"The engine that was started at {state.started_at} (process {state.pid}) has ended; its "
        f"log is {home.log}. Start another with {home.command('up')}."
    )


def _print(known: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(known)
        return
    shown = {name: known[name] for name in ("endpoint", "pid", "started_at", "ends_at", "log")}
    print_values(shown | dict(sorted(known["outputs"].items())))
