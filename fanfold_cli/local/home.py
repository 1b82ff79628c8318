"""The directory of a local engine, and the file in it that describes the running engine."""

import json
import os
import shlex
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from fanfold_cli import aws
from fanfold_cli.local import processes
from fanfold_cli.terminal import ExpectedError, WrongValue

CHECKOUT = Path(__file__).resolve().parents[2]
# A wheel contains no app; its users have their own.
IS_CHECKOUT = (CHECKOUT / "app.py").is_file()
HOME_VARIABLE = "FANFOLD_HOME"
DEFAULT = (CHECKOUT if IS_CHECKOUT else Path.cwd()) / ".fanfold"
# This file marks a directory as a home. Files in a home are deleted, so no other may be used.
MARKER = "fanfold-home"
# The field of the state file with its directory: a copy of a home must not end the engine.
HOME_FIELD = "home"
MARKER_TEXT = "A home of Fanfold's local engine; `fanfold local up` and `down` delete in it.\n"


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """The engine that was started last, and the stack on it."""

    pid: int
    pid_mark: str
    supervisor_pid: int
    supervisor_mark: str
    port: int
    endpoint: str
    access_key: str
    started_at: str
    ends_at: str
    bootstrapped: bool = False
    source_hash: str | None = None
    assembly_hash: str | None = None
    context: dict[str, str] = field(default_factory=dict)  # what `-c` gave to the last deployment
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def local_endpoint(self) -> aws.LocalEndpoint:
        return aws.LocalEndpoint(self.endpoint, self.access_key)

    def is_running(self) -> bool:
        """Whether this engine runs, rather than another process with the same number."""
        return processes.is_alive(self.pid, self.pid_mark)


@dataclass(frozen=True)
class Home:
    """The directory of one local engine; several engines can run, each in its own home."""

    path: Path

    @classmethod
    def choose(cls, chosen: str | Path | None = None) -> "Home":
        """The named directory, FANFOLD_HOME, or .fanfold in the checkout or working directory."""
        if chosen == "":  # perhaps an unset variable: `down` would delete another engine's data
            raise WrongValue("--home is empty: name a directory, or leave it out.")
        named = chosen or os.environ.get(HOME_VARIABLE) or DEFAULT
        try:
            return cls(Path(named).expanduser().resolve())
        except (OSError, RuntimeError) as error:
            raise ExpectedError(f"The home {named} cannot be used: {error}") from error

    def command(self, words: str) -> str:
        """A command for this home, quoted: "`fanfold local up --home here`"."""
        named = "" if self.path == DEFAULT else f" --home {shlex.quote(str(self.path))}"
        return f"`fanfold local {words}{named}`"

    def is_ours(self) -> bool:
        """Whether this directory is marked as a home, so that files in it may be deleted."""
        return (self.path / MARKER).is_file()

    def check(self) -> None:
        """Raise `ExpectedError` if this directory holds files and is not a home."""
        try:
            if self.is_ours() or not self.path.exists() or not any(self.path.iterdir()):
                return
        except NotADirectoryError:
            raise ExpectedError(
                f"{self.path} is a file: name a directory with --home, or leave it out."
            ) from None
        except OSError as error:
            raise _unusable(self.path, error) from error
        raise ExpectedError(
            f"{self.path} holds files and is not a home of the local engine (it has no file "
            f"{MARKER}), so nothing in it was touched: name an empty or a new directory with "
            "--home, or leave it out."
        )

    def claim(self) -> None:
        """Create and mark this directory, or raise `ExpectedError` and touch nothing."""
        self.check()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / MARKER).write_text(MARKER_TEXT)
        except OSError as error:
            raise _unusable(self.path, error) from error

    @property
    def log(self) -> Path:
        """The output of the engine, its Lambda functions and its supervisor."""
        return self.path / "engine.log"

    @property
    def data(self) -> Path:
        """The files that the engine writes; useless once it has ended."""
        return self.path / "engine"

    @property
    def assembly(self) -> Path:
        """The cloud assembly that CDK synthesized last."""
        return self.path / "cdk.out"

    @property
    def deployed(self) -> Path:
        return self.path / "deployed"

    @property
    def state_file(self) -> Path:
        return self.path / "state.json"

    def read_state(self) -> EngineState | None:
        """Return the engine that was started last; None if there is none or the file is damaged.

        Raises `ExpectedError` if this home is a copy of another, whose engine still runs.
        """
        try:
            raw: Any = json.loads(self.state_file.read_text())
        except (OSError, ValueError, RecursionError):
            return None
        state = _state(raw)
        if state is None:
            return None
        original = raw.get(HOME_FIELD, str(self.path))
        if original == str(self.path):
            return state
        if state.is_running():
            raise ExpectedError(
                f"{self.path} is a copy of {original}, or was moved from there while its engine "
                f"(process {state.pid}) runs, so nothing was touched: name the original with "
                "--home or move it back. The copy may be deleted."
            )
        return None

    def write_state(self, state: EngineState) -> None:
        """Replace the file atomically; no other user may read it, because it holds the key."""
        draft = self.state_file.with_suffix(".draft")
        draft.touch()
        draft.chmod(0o600)
        content = {**asdict(state), HOME_FIELD: str(self.path)}
        draft.write_text(json.dumps(content, indent=2, sort_keys=True))
        draft.replace(self.state_file)

    def running(self) -> EngineState | None:
        state = self.read_state()
        return state if state is not None and state.is_running() else None


def _state(raw: Any) -> EngineState | None:
    """The state in a file; None if it is damaged.

    A file of another version may have other fields, but still names the engine to end.
    """
    if not isinstance(raw, dict):
        return None
    kinds = {field.name: field.type for field in fields(EngineState)}
    known = {name: value for name, value in raw.items() if name in kinds}
    if not all(_is(value, kinds[name]) for name, value in known.items()):
        return None
    try:
        return EngineState(**known)
    except TypeError:  # a field is missing
        return None


def _is(value: Any, kind: Any) -> bool:
    if kind == dict[str, str]:
        return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
    return isinstance(value, kind) and (kind is not int or not isinstance(value, bool))


def _unusable(path: Path, error: OSError) -> ExpectedError:
    return ExpectedError(
        f"The home {path} cannot be used ({error.strerror}): name a directory that you may write "
        "to with --home, or leave it out."
    )
