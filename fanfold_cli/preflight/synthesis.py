"""Synthesizes the app as `cdk deploy` would, without bundling, credentials or the network."""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from fanfold_cli import aws
from fanfold_cli.local import assembly
from fanfold_cli.local.cdk import QUIET, find_executable
from fanfold_cli.local.home import CHECKOUT
from fanfold_cli.terminal import ExpectedError

# It takes about ten seconds.
TIMEOUT_SECONDS: Final = 120
OLD_NODE: Final = {"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20"}


def synthesize(context: list[str]) -> assembly.SynthesizedStack:
    """The stack of the app with these `name=value`; raises `ExpectedError` if it is refused."""
    given = [argument for value in context for argument in ("--context", value)]
    app = shlex.join([sys.executable, "app.py"])
    with tempfile.TemporaryDirectory(prefix="fanfold-preflight-") as directory:
        # Unlike `synth`, `list` does not bundle the code of the functions.
        command = ["list", "--no-notices", "--no-color", *given, "--app", app]
        try:
            done = subprocess.run(
                [find_executable(CHECKOUT), *command, "--output", directory],
                cwd=CHECKOUT,
                # The app names no account, so CDK needs no credentials.
                env={**aws.environment_without_aws(), **QUIET, **OLD_NODE},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ExpectedError(
                f"The app was not synthesized within {TIMEOUT_SECONDS} s: try `npx cdk list`."
            ) from None
        if done.returncode != 0:
            raise ExpectedError(f"The app refuses these values.\n{_reason(done.stderr)}")
        (stack,) = assembly.read_stacks(Path(directory))
        return stack


def _reason(stderr: str) -> str:
    """The app's own output, without CDK's line after it."""
    lines = [line for line in stderr.splitlines() if "Subprocess exited with error" not in line]
    return "\n".join(lines).strip()
