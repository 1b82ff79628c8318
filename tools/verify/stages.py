"""The stages of `make verify`: what each runs, and which files it reads."""

from __future__ import annotations

import sys
from dataclasses import dataclass

# New worlds in each run: twenty minutes of CPU.
SEEDS = 4_000
# A stage that takes longer hangs. The slowest, `slow`, takes a third of it.
LIMIT_SECONDS = 5_400.0

# What runs in a simulated world, with all imports, and the files that determine their libraries.
WORLD = (
    *("fanfold", "fanfold_cli", "fanfold_client", "functions"),
    *("proof/model", "proof/simulation"),
)
LOCKS = ("requirements-dev.txt", "pyproject.toml")
# Documents, whose links, examples and tables `make test` and `make thorough` check, and files that
# only run targets of the Makefile.
PROSE = (".ci", ".github", "*.md")
# What only some tests use.
MUTANTS = "proof/mutants"
UNIT, BENCHES = ("tests/unit", MUTANTS), ("tests/bench", "proof/bench")
# What only simulated worlds use, and neither benches nor other tests.
SEEDS_ALONE = (
    "tests/simulation",
    *(f"proof/simulation/{each}" for each in ("actors", "checks", "kinds")),
)


@dataclass(frozen=True)
class Stage:
    """A command that proves something, and the files and folders that it reads; none means all.

    Files that it `leaves_out` (such as `*.md`) do not affect it. The command may contain `{seeds}`
    and `{start}` if it draws new worlds each day, and `{folder}`, where it may store progress.
    """

    name: str
    command: tuple[str, ...]
    reads: tuple[str, ...] = ()
    leaves_out: tuple[str, ...] = ()
    alone: bool = False  # it measures speed, so nothing runs beside it

    def is_about(self, path: str) -> bool:
        """Whether it reads this file."""
        return (not self.reads or _is_in(path, self.reads)) and not _is_in(path, self.leaves_out)

    @property
    def draws(self) -> bool:
        """Whether it draws new worlds each day."""
        return any("{start}" in word for word in self.command)


def _is_in(path: str, folders: tuple[str, ...]) -> bool:
    return any(
        path.endswith(each[1:]) if each.startswith("*") else f"{path}/".startswith(f"{each}/")
        for each in folders
    )


def _tests(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/{name}" for name in names)


def _make(target: str) -> tuple[str, ...]:
    return "make", "--no-print-directory", target


def _python(*arguments: str) -> tuple[str, ...]:
    return sys.executable, "-P", "-m", *arguments


_DRAWN = ("--seeds", "{seeds}", "--start", "{start}")
_KEPT = ("--keep", "{folder}", "--sums", "{folder}/sums.json")

# Lint and types come first, then the longest stages, so that no long one runs alone at the end. The
# stage that measures speed has the machine to itself.
STAGES = (
    Stage("static", _make("static")),
    Stage("test", _make("test")),
    Stage("thorough", _make("thorough")),
    # Half an hour: nothing that it does not read shall have it run again.
    Stage(
        "slow",
        _make("slow"),
        leaves_out=(
            *(*PROSE, *SEEDS_ALONE, MUTANTS),
            *_tests("aws_model", "doors", "infra", "integration", "unit/aws", "unit/audit"),
            *_tests(
                "unit/channels", "unit/client", "unit/fanout", "unit/follows", "unit/functions"
            ),
            *_tests("unit/ground", "unit/house/test_architecture.py", "unit/proof", "unit/sweep"),
            *_tests("unit/timeline", "unit/tools"),
        ),
    ),
    Stage(
        "simulation", _python("proof.simulation", "--sometimes", *_DRAWN, *_KEPT), (*WORLD, *LOCKS)
    ),
    Stage(
        "doors",
        _make("doors"),
        leaves_out=(
            *(*PROSE, *UNIT, *BENCHES, *SEEDS_ALONE, "clients", "examples"),
            *_tests("compat", "e2e", "infra", "integration", "wheel", "wire"),
        ),
    ),
    Stage(
        "mutations",
        _python("proof.mutants", "--guards", "--resume", "{folder}/results.jsonl"),
        (*WORLD, *LOCKS, MUTANTS),
    ),
    Stage(
        "mutants",
        _python("proof.mutants", "--others", "--resume", "{folder}/results.jsonl"),
        leaves_out=(*PROSE, *BENCHES, "clients", "examples", *_tests("doors", "wheel")),
    ),
    Stage(
        "judges",
        _make("judges"),
        leaves_out=(
            *(*UNIT, *BENCHES, *SEEDS_ALONE, "clients", "README.md", "CHANGELOG.md", "docs/api.md"),
            *_tests("doors", "e2e", "wheel"),
        ),
    ),
    Stage("runtime", _make("runtime")),
    Stage(
        "demo",
        _make("demo-alone"),
        leaves_out=(
            *(*PROSE, *SEEDS_ALONE, "docs", "tests"),
            *(MUTANTS, "proof/bench", "examples", "clients"),
        ),
    ),
    Stage(
        "speed",
        _make("speed"),
        leaves_out=(*PROSE, *SEEDS_ALONE, MUTANTS, *_tests("doors", "integration", "wheel")),
        alone=True,
    ),
)


def named(name: str) -> Stage:
    """The stage of this name; raises `KeyError` if there is none."""
    return {stage.name: stage for stage in STAGES}[name]
