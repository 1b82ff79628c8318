"""Find the benches, and run one alone in a fresh process."""

from __future__ import annotations

import importlib
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from proof.bench.figures import BenchResult

HERE = Path(__file__).parent


def names() -> list[str]:
    """The names of all benches: every folder with a `bench.py`, hyphens for underscores."""
    return sorted(path.parent.name.replace("_", "-") for path in HERE.glob("*/bench.py"))


def folder(name: str) -> Path:
    return HERE / name.replace("-", "_")


def run(name: str, *, short: bool) -> BenchResult:
    """Run one bench in a process that inherits no memory, imports or environment of another."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        return alone.submit(run_here, name, short=short).result()


def run_here(name: str, *, short: bool) -> BenchResult:
    module = importlib.import_module(f"proof.bench.{folder(name).name}.bench")
    result: BenchResult = module.run(short=short)
    return result
