"""Where a local engine keeps its things, and the file that says which engine is running."""

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from fanfold_cli import processes

CHECKOUT = Path(__file__).resolve().parent.parent
HOME_VARIABLE = "FANFOLD_HOME"


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """What is known of the engine that was started last, and of the stack on it."""

    pid: int
    pid_mark: str
    supervisor_pid: int
    supervisor_mark: str
    port: int
    endpoint: str
    started_at: str
    ends_at: str
    bootstrapped: bool = False
    source_hash: str | None = None
    assembly_hash: str | None = None
    outputs: dict[str, str] = field(default_factory=dict)

    def is_running(self) -> bool:
        """Say whether this very engine is there, and not another process with its number."""
        return processes.is_alive(self.pid, self.pid_mark)


@dataclass(frozen=True)
class Home:
    """A directory of one local engine; several engines live side by side in several homes."""

    path: Path

    @classmethod
    def choose(cls, chosen: Path | None = None) -> "Home":
        """Take the named directory, or that of the environment, or `.fanfold` of the checkout."""
        named = chosen or os.environ.get(HOME_VARIABLE) or CHECKOUT / ".fanfold"
        return cls(Path(named).expanduser().resolve())

    @property
    def log(self) -> Path:
        """What the engine, its Lambda functions and its supervisor wrote."""
        return self.path / "engine.log"

    @property
    def data(self) -> Path:
        """Every file that the engine itself writes; worth nothing once it has ended."""
        return self.path / "engine"

    @property
    def assembly(self) -> Path:
        """What CDK synthesized last."""
        return self.path / "cdk.out"

    @property
    def deployed(self) -> Path:
        """The templates that were deployed last, to compare the next ones with."""
        return self.path / "deployed"

    @property
    def state_file(self) -> Path:
        """The state as JSON."""
        return self.path / "state.json"

    def read_state(self) -> EngineState | None:
        """Return the engine started last, or None when there was none."""
        try:
            raw: dict[str, Any] = json.loads(self.state_file.read_text())
            # Another version's file still says which engine is to be ended.
            known = {f.name for f in fields(EngineState)}
            return EngineState(**{name: value for name, value in raw.items() if name in known})
        except (OSError, ValueError, TypeError):
            return None

    def write_state(self, state: EngineState) -> None:
        """Replace the state at once, so that no reader sees half of it."""
        draft = self.state_file.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(state), indent=2, sort_keys=True))
        draft.replace(self.state_file)

    def forget_state(self) -> None:
        """Remove the state; nothing is running any more."""
        self.state_file.unlink(missing_ok=True)

    def running(self) -> EngineState | None:
        """Return the state of the engine when it is really there."""
        state = self.read_state()
        return state if state is not None and state.is_running() else None
