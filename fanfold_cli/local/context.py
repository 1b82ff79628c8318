"""The values of `fanfold local up -c`: those of the engine, merged with those given now."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from fanfold_cli.terminal import WrongValue

Values = Mapping[str, str]


def read(given: Iterable[str], *, example: str) -> dict[str, str]:
    """The values by their names; raises `WrongValue` unless each is NAME=VALUE."""
    values = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise WrongValue(f"-c must be NAME=VALUE, such as {example}, not {text!r}.")
        values[name.strip()] = value.strip()
    return values


def merged(kept: Values, given: Values) -> dict[str, str]:
    """The values of the next deployment; an empty value removes an earlier one."""
    return {name: value for name, value in {**kept, **given}.items() if value}


def words(values: Values) -> list[str]:
    """The values as arguments, sorted."""
    return [f"{name}={value}" for name, value in sorted(values.items())]


def options(values: Values) -> list[str]:
    """The values as quoted options, for a command that a person copies."""
    return [f"-c {shlex.quote(word)}" for word in words(values)]


def check(values: Values, app_directory: Path) -> None:
    """Raise `WrongValue` with the app's own sentence if it refuses these values."""
    if not values:
        return
    judged = subprocess.run(
        [sys.executable, "-P", "-m", "infra.settings.local_context", *words(values)],
        cwd=app_directory,
        # The app in that directory checks them, not an installed one.
        env={**os.environ, "PYTHONPATH": str(app_directory)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if judged.returncode != 0:
        raise WrongValue(f"Nothing was changed. {judged.stderr.strip()}")
