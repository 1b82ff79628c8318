"""Runs the CDK command line against the local engine."""

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from fanfold_cli import aws
from fanfold_cli.local import context
from fanfold_cli.local.home import CHECKOUT, Home
from fanfold_cli.terminal import ExpectedError

# Names a CDK executable to use instead of the one in node_modules.
CDK_VARIABLE = "FANFOLD_CDK"
STAGE = {"stage": "local"}
# CDK asks for no newer version, and sends no telemetry.
QUIET = {"CDK_DISABLE_VERSION_CHECK": "1", "CDK_DISABLE_CLI_TELEMETRY": "true"}
# Tells a timeline in another app that the functions run here (infra/embedding/properties.py).
EMBEDDED = {"fanfold:local": "true"}

# A deployment takes less than a minute. After ten minutes, it has hung.
TIMEOUT_SECONDS = 600
OUTPUT_TAIL_LINES = 30


@dataclass(frozen=True)
class Cdk:
    home: Home
    app_directory: Path
    endpoint: aws.LocalEndpoint  # of the engine to deploy to
    values: context.Values = field(default_factory=dict)  # given by -c
    is_ours: bool = True  # the app of this checkout, not one that embeds a timeline

    def bootstrap(self) -> None:
        """Create the bucket and the roles that `cdk deploy` needs."""
        target = f"aws://{aws.LOCAL_ACCOUNT}/{aws.LOCAL_REGION}"
        # Not in the app's directory: bootstrapping a named environment needs no app.
        self._run("bootstrap", "--no-version-reporting", target, cwd=self.home.path)

    def synthesize(self) -> None:
        """Synthesize the app for this machine into the home's assembly."""
        # The Python that runs this module has the CDK library. The cdk.json of another app says how
        # to run it.
        app = ("--app", shlex.join([sys.executable, "app.py"])) if self.is_ours else ()
        fixed = STAGE if self.is_ours else EMBEDDED
        given = [word for pair in context.words({**self.values, **fixed}) for word in ("-c", pair)]
        what = ("--quiet", *given, *app, "--output", str(self.home.assembly))
        self._run("synth", *what, cwd=self.app_directory)

    def deploy(self) -> None:
        """Deploy the synthesized assembly; the engine rolls a failed update back."""
        assembly, outputs = str(self.home.assembly), str(self.home.path / "outputs.json")
        # A change set would take longer, and nobody reads it.
        how = ("--method", "direct", "--require-approval", "never", "--progress", "events")
        where = ("--app", assembly, "--outputs-file", outputs)
        self._run("deploy", "--all", *how, *where, cwd=self.home.path)

    def _run(self, command: str, *arguments: str, cwd: Path) -> None:
        executable = find_executable(self.app_directory)
        with self._log(command).open("wb") as out:
            try:
                done = subprocess.run(
                    [executable, command, "--no-notices", "--no-color", *arguments],
                    cwd=cwd,
                    env=environment(self.endpoint),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    timeout=TIMEOUT_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise self._failure(command, f"did not end within {TIMEOUT_SECONDS} s") from None
        if done.returncode != 0:
            raise self._failure(command, f"failed with exit code {done.returncode}")

    def _failure(self, command: str, what: str) -> ExpectedError:
        log = self._log(command)
        up = self.home.command(" ".join(["up", *context.options(self.values)]))
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-OUTPUT_TAIL_LINES:])
        return ExpectedError(
            f"{tail}\n\n`cdk {command}` {what}; its log is {log}. Remove the cause and run {up} "
            "again: the engine keeps running and keeps its data.".lstrip()
        )

    def _log(self, command: str) -> Path:
        return self.home.path / f"cdk-{command}.log"


def find_executable(app_directory: Path) -> str:
    """Return the path of the CDK command line; raises `ExpectedError` that says how to get it."""
    if shutil.which("node") is None:
        raise ExpectedError(
            "Node.js is not installed, and the CDK command line needs it: install Node.js 22 or "
            "newer, then run `make setup`."
        )
    chosen = os.environ.get(CDK_VARIABLE)
    places = (Path(base, "node_modules/.bin/cdk") for base in (app_directory, CHECKOUT))
    near = next((str(place) for place in places if place.exists()), None)
    executable = chosen or near or shutil.which("cdk")
    if executable is None or not Path(executable).exists():
        missing = executable or app_directory / "node_modules/.bin/cdk"
        raise ExpectedError(
            f"There is no CDK command line at {missing}: run `make setup` in {app_directory}, or "
            "in an app of your own `npm install aws-cdk@2`."
        )
    return executable


def environment(endpoint: aws.LocalEndpoint) -> dict[str, str]:
    """The endpoint and credentials of the engine."""
    return {**aws.local_environment(endpoint), **QUIET}
